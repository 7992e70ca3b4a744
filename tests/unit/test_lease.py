"""The lease of an index: one holder at a time, whichever process or host; on a disk and on a real S3 server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from graphrag_assets.storage import lease as leases
from graphrag_assets.storage.filesystem import FileSystem, open_filesystem
from graphrag_assets.storage.lease import BusyError, Lease, LeaseLostError, check, confirm, exclusive, holder

TERM = 60.0

#: Holds the lease: says so, then waits for a line; says how it went.
HOLD = """
import sys
from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.lease import LeaseLostError, confirm, exclusive
base, endpoint, seconds = sys.argv[1], sys.argv[2] or None, float(sys.argv[3])
storage = open_filesystem(base, endpoint, "us-east-1")
with exclusive(storage, "a test", seconds, wait=True):
    print("held", flush=True)
    sys.stdin.readline()
    try:
        confirm(storage)
        print("confirmed", flush=True)
    except LeaseLostError as error:
        print("lost:", error, flush=True)
"""


@dataclass(frozen=True)
class Place:
    base: str
    endpoint: str | None = None

    def open(self) -> FileSystem:
        return open_filesystem(self.base, self.endpoint, "us-east-1")


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        return Place(str(tmp_path / "output"))
    server, bucket = request.getfixturevalue("s3_server"), request.getfixturevalue("bucket")
    return Place(f"s3://{bucket}/index", server.endpoint_url)


@contextmanager
def process(place: Place, seconds: float = TERM) -> Iterator[subprocess.Popen[str]]:
    """A process that wants the lease, and holds it once it has said so."""
    arguments = [sys.executable, "-c", HOLD, place.base, place.endpoint or "", str(seconds)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def line(of: subprocess.Popen[str]) -> str:
    assert of.stdout is not None
    return of.stdout.readline().strip()


def tell(to: subprocess.Popen[str]) -> None:
    assert to.stdin is not None
    to.stdin.write("\n")
    to.stdin.flush()


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process look like one of another host, which cannot see whether a holder lives."""
    monkeypatch.setattr(leases, "_place", lambda: "another host")


def test_one_at_a_time(place: Place) -> None:
    storage = place.open()
    assert holder(storage) is None
    with process(place) as first:
        assert line(first) == "held"
        with pytest.raises(BusyError, match=rf"a test \(process {first.pid} on .*claimed until .*--wait"):
            Lease(storage, "this", TERM).acquire()
        found = holder(storage)
        assert found is not None
        assert found.pid == first.pid
        with process(place) as second:
            time.sleep(1.5)
            tell(first)
            assert line(first) == "confirmed"
            assert line(second) == "held", "the one that waits gets it when it is released"
            tell(second)
            assert line(second) == "confirmed"
            second.wait(30)
    assert holder(storage) is None


def test_a_killed_holder_of_this_host_is_replaced_at_once(place: Place) -> None:
    with process(place, 3600) as first:
        assert line(first) == "held"
        first.send_signal(signal.SIGKILL)
        with process(place) as second:  # the killed one is not even collected by its parent
            started = time.monotonic()
            assert line(second) == "held"
            assert time.monotonic() - started < 30


def test_a_killed_holder_of_another_host_is_replaced_after_its_term(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with process(place, 4) as first:
        assert line(first) == "held"
        first.kill()
    elsewhere(monkeypatch)
    found = holder(place.open())
    assert found is not None
    with pytest.raises(BusyError):
        Lease(place.open(), "this", TERM).acquire()
    with exclusive(place.open(), "this", TERM, wait=True):
        assert time.time() >= found.expires


def test_a_holder_that_lives_keeps_it_beyond_its_term(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with process(place, 2) as first:
        assert line(first) == "held"
        elsewhere(monkeypatch)
        deadline = time.monotonic() + 6
        while time.monotonic() < deadline:
            with pytest.raises(BusyError):
                Lease(place.open(), "this", TERM).acquire()
            time.sleep(0.3)
        tell(first)
        assert line(first) == "confirmed"


def test_a_holder_that_slept_learns_that_it_lost(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that was suspended: the other one works on, and what this one made is not published."""
    with process(place, 2) as first:
        assert line(first) == "held"
        os.kill(first.pid, signal.SIGSTOP)
        elsewhere(monkeypatch)
        with exclusive(place.open(), "the other host", TERM, wait=True):
            confirm(place.open())
            os.kill(first.pid, signal.SIGCONT)
            tell(first)
            told = line(first)
            assert told.startswith("lost: ")
            assert "taken over by the other host" in told
            assert "nothing is published" in told
            first.wait(30)
            confirm(place.open())


def test_a_holder_far_behind_does_not_reuse_a_number(place: Place) -> None:
    """Entries of the numbers that it would write next were made, and removed again, while it slept."""
    storage = place.open()
    slept = Lease(storage, "slept", TERM)
    slept._keep = lambda: None  # type: ignore[method-assign]
    slept.acquire()
    number, entry = leases._newest(storage)
    assert entry is not None
    for ahead in range(1, 4):
        assert leases._append(storage, number + ahead, leases.replace(entry, holder="other", what="the other"))
    with pytest.raises(LeaseLostError, match="the other"):
        slept.renew()
    with pytest.raises(LeaseLostError):
        slept.check()
    slept.release()
    found = holder(storage)
    assert found is not None
    assert found.holder == "other"


def test_of_many_takers_one_gets_it(place: Place) -> None:
    barrier = threading.Barrier(8)

    def take(_: int) -> bool:
        lease = Lease(place.open(), "a thread", TERM)
        barrier.wait()
        try:
            lease.acquire()
        except BusyError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take, range(8))) == 1


def test_what_a_process_does_inside_is_one_work(tmp_path: Path) -> None:
    storage = open_filesystem(str(tmp_path))
    with exclusive(storage, "outer", TERM):
        with exclusive(storage, "inner", TERM):
            confirm(storage)
        confirm(storage)
        assert holder(storage) is not None
    assert holder(storage) is None
    check(storage)
    with pytest.raises(LeaseLostError, match="does not hold"):
        confirm(storage)


def test_a_lost_answer_is_not_a_lost_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client repeats a request whose answer did not arrive, and then finds what it wrote itself."""
    storage = open_filesystem(str(tmp_path))
    create = storage.create

    def repeated(path: str, data: bytes) -> None:
        create(path, data)
        raise FileExistsError(path)

    monkeypatch.setattr(storage, "create", repeated)
    with exclusive(storage, "this", TERM):
        confirm(storage)


def test_few_files_stay(tmp_path: Path) -> None:
    storage = open_filesystem(str(tmp_path))
    for _ in range(5):
        with exclusive(storage, "this", TERM):
            confirm(storage)
    (file,) = (tmp_path / "lease").iterdir()
    assert json.loads(file.read_text())["released"] is True
