"""Index runs that store on S3 while the server fails, or while they are killed: nothing is lost, nothing is mixed."""

from __future__ import annotations

import hashlib
import random
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from graphrag_assets import object_store
from graphrag_assets.assets import documents, graph
from graphrag_assets.storage import failures
from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.snapshots import SnapshotStore
from graphrag_assets.storage.vectors import open_vectors
from tests.llmsim_server import LlmSim
from tests.pipeline.test_s3_end_to_end import content
from tests.pipeline.workspaces import arguments, demo_texts, environment, index, invoke, make_workspace, simulated
from tests.s3_proxy import Fault, Request, S3Proxy
from tests.s3_server import S3Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TEXTS = demo_texts("letters/2032-05-08-verrall-to-courant.txt", "news/2032-06-08-quarry-strike.txt")
ADDED = {"added.txt": demo_texts("notes/2032-09-06-notice-weight-limit.txt").popitem()[1]}

IN_FLIGHT = 4


class Place:
    """A workspace that stores on S3, and what it has published.

    Args:
        root: Its folder.
        address: s3:// address.
        server: Where the address is; behind it the server that is looked at.
        llmsim: Models.
    """

    def __init__(self, root: Path, address: str, server: S3Server | S3Proxy, direct: str, llmsim: LlmSim) -> None:
        settings = simulated(llmsim, chunking={"size": 100, "overlap": 0}, concurrent_requests=IN_FLIGHT)
        settings["storage"] = {"base": address, "endpoint_url": server.endpoint_url, "region": "us-east-1"}
        self.root = make_workspace(root, TEXTS, **settings)
        self.storage = open_filesystem(address, direct)

    def add(self) -> None:
        """Add a document."""
        make = self.root / "input" / "added.txt"
        make.write_text(ADDED["added.txt"], encoding="utf-8")

    def published(self) -> str | None:
        """The published snapshot, of which every byte is as its manifest says."""
        current = SnapshotStore(self.storage).current()
        if current is None:
            return None
        for file in current.tables.values():
            assert hashlib.sha256(self.storage.read(file.path)).hexdigest() == file.sha256
        for vectors in current.vectors.values():
            assert open_vectors(self.storage, vectors).count_rows() == vectors.rows
        return current.id


@pytest.fixture
def undisturbed(tmp_path: Path, s3_server: S3Server, bucket: str, llmsim: LlmSim) -> tuple[dict[str, str], int]:
    """What an index that nothing disturbed holds after a first run and one that adds a document, and its calls."""
    place = Place(tmp_path / "undisturbed", f"s3://{bucket}/undisturbed", s3_server, s3_server.endpoint_url, llmsim)
    calls = index(place.root)["llm"]["calls"]
    place.add()
    calls += index(place.root)["llm"]["calls"]
    found = content(place.storage)
    llmsim.reset()
    return found, calls


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not pass is given up soon."""
    monkeypatch.setattr(object_store, "MAX_RETRIES", 1)
    at_once = dg.RetryPolicy(max_retries=1, delay=0)
    for module in (failures, documents, graph):
        monkeypatch.setattr(module, "NETWORK_RETRIES", at_once, raising=False)


def test_a_server_that_fails_now_and_then_is_not_noticed(
    tmp_path: Path, s3_proxy: S3Proxy, bucket: str, llmsim: LlmSim, undisturbed: tuple[dict[str, str], int]
) -> None:
    chosen = random.Random(7)
    lock = threading.Lock()
    kinds = [
        Fault("status", 500),
        Fault("status", 503, "SlowDown"),
        Fault("reset"),
        Fault("lost"),
        Fault("slow", seconds=2.0),
    ]
    befallen: list[str] = []

    def sometimes(request: Request) -> Fault | None:
        with lock:
            if chosen.random() > 0.05:
                return None
            fault = chosen.choice(kinds)
            befallen.append(fault.kind)
            return fault

    place = Place(tmp_path / "root", f"s3://{bucket}/index", s3_proxy, f"http://{s3_proxy.target.netloc}", llmsim)
    s3_proxy.fault = sometimes
    calls = index(place.root)["llm"]["calls"]
    place.add()
    calls += index(place.root)["llm"]["calls"]
    s3_proxy.fault = lambda _: None
    assert len(set(befallen)) >= 3
    assert len(befallen) > 10
    assert (content(place.storage), calls) == undisturbed
    assert place.published()


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Fault("status", 500), "the server does not answer as it should; run again when it does"),
        (Fault("status", 403, "AccessDenied"), "the server refuses access; give the credentials of the environment"),
        (Fault("reset"), "the server cannot be reached; check storage.endpoint_url"),
    ],
    ids=lambda value: f"{value.kind}-{value.status}" if isinstance(value, Fault) else "",
)
def test_a_server_that_is_gone_amid_a_run(
    tmp_path: Path,
    s3_proxy: S3Proxy,
    bucket: str,
    llmsim: LlmSim,
    undisturbed: tuple[dict[str, str], int],
    no_waiting: None,
    fault: Fault,
    told: str,
) -> None:
    """The run ends with an error that names setting, cause and mend; the next one pays for nothing again."""
    place = Place(tmp_path / "root", f"s3://{bucket}/index", s3_proxy, f"http://{s3_proxy.target.netloc}", llmsim)
    index(place.root)
    first = place.published()
    place.add()
    for wanted in (after_puts(6), after_puts(16), publishing):
        s3_proxy.fault = failing(wanted, fault)
        failed = invoke("index", "--root", place.root)
        s3_proxy.fault = lambda _: None
        assert failed.code != 0
        assert f"storage.base: {place.storage.base}" in failed.err
        assert told in failed.err
        assert "Traceback" not in failed.err
        assert place.published() == first
    index(place.root)
    assert place.published() != first
    assert (content(place.storage), llmsim.requests) == undisturbed


def after_puts(count: int) -> Callable[[Request], bool]:
    """Everything from the so many-th file that is written on."""
    lock, left = threading.Lock(), [count]

    def wanted(request: Request) -> bool:
        with lock:
            left[0] -= request.method == "PUT"
            return left[0] < 0

    return wanted


def publishing(request: Request) -> bool:
    """The entry of the log that makes a snapshot the published one."""
    return request.method == "PUT" and "/snapshots/log/" in request.path


def failing(wanted: Callable[[Request], bool], fault: Fault) -> Callable[[Request], Fault | None]:
    return lambda request: fault if wanted(request) else None


def test_runs_that_are_killed(
    tmp_path: Path, s3_server: S3Server, bucket: str, llmsim: LlmSim, undisturbed: tuple[dict[str, str], int]
) -> None:
    """Killed up to ten times, later and later: readers always see a whole snapshot, and what was paid for is kept."""
    place = Place(tmp_path / "root", f"s3://{bucket}/index", s3_server, s3_server.endpoint_url, llmsim)
    chosen = random.Random(11)
    kills, finished, before, latest = 0, 0, place.published(), 4.0
    while kills < 10:
        if finished == 1:
            place.add()
            latest = 4.0
        llmsim.config(latency=0.2)
        with open(tmp_path / "log", "wb") as log:
            process = subprocess.Popen(
                arguments("index", "--root", place.root), env=environment(), stdout=log, stderr=log
            )
            try:
                process.wait(timeout=chosen.uniform(1, latest))
                assert process.returncode == 0, (tmp_path / "log").read_text()[-3000:]
                finished += 1
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
                latest *= 1.5
        now = place.published()
        assert before is None or now is not None
        before = now
        if finished > 1:
            break
    time.sleep(0.5)  # the simulator finishes what it began
    llmsim.config(latency=0.0)
    index(place.root)
    place.add()
    index(place.root)
    found, calls = undisturbed
    assert content(place.storage) == found
    assert kills >= 3
    assert llmsim.requests <= calls + kills * IN_FLIGHT
