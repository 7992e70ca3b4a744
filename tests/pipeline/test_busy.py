"""Two processes that index the same workspace: one works, the other is told or waits, whatever becomes of the first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.lease import holder
from graphrag_assets.storage.snapshots import SnapshotStore
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    arguments,
    assert_equal_indexes,
    command,
    demo_texts,
    environment,
    index,
    make_workspace,
    simulated,
)
from tests.s3_server import S3Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TEXTS = ("minutes/railway-board-2032-08-11.md", "notes/interview-edda-lindrow.md")

#: The command line as on another host: this process cannot see whether one of the first host lives.
ELSEWHERE = """
from graphrag_assets.storage import lease
lease._place = lambda: "another host"
from graphrag_assets.cli.main import main
main()
"""


def workspace(root: Path, llmsim: LlmSim, **sections: object) -> Path:
    settings = simulated(llmsim, chunking={"size": 100, "overlap": 0}, concurrent_requests=2, **sections)
    return make_workspace(root, demo_texts(*TEXTS), **settings)


@contextmanager
def started(line: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(line, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for_calls(process: subprocess.Popen[str], llmsim: LlmSim) -> None:
    """Wait until a process is in the middle of its work."""
    deadline = time.monotonic() + 240
    while llmsim.requests < 4:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_second_is_told_or_waits(tmp_path: Path, llmsim: LlmSim) -> None:
    root = workspace(tmp_path / "work", llmsim)
    llmsim.reset(latency=1.0)
    with started(arguments("index", "--root", root, "--json")) as first:
        wait_for_calls(first, llmsim)
        second = command("index", "--root", root, "--json")
        assert second.code == 1
        assert '"type": "busy"' in second.out
        assert f"is being worked on by graphrag-assets index (process {first.pid} on " in second.err
        assert "--wait" in second.err
        pruned = command("snapshots", "prune", "--keep", "1", "--root", root)
        assert pruned.code == 1
        assert "is being worked on" in pruned.err
        assert first.poll() is None
        with started(arguments("index", "--root", root, "--wait", "--json")) as waiting:
            time.sleep(5)
            assert waiting.poll() is None
            llmsim.config(latency=0.0)
            _, err = first.communicate(timeout=240)
            assert first.returncode == 0, err
            sent = llmsim.requests
            _, err = waiting.communicate(timeout=240)
            assert waiting.returncode == 0, err
            assert llmsim.requests == sent, "there was nothing left to do"
    assert len(SnapshotStore(open_filesystem(str(root / "output"))).all()) == 1


def test_the_first_is_killed(tmp_path: Path, llmsim: LlmSim) -> None:
    """The next one need not wait for the term of a process that it can see to be dead."""
    root = workspace(tmp_path / "work", llmsim, automation={"lease_seconds": 3600})
    llmsim.reset(latency=1.0)
    with started(arguments("index", "--root", root)) as first:
        wait_for_calls(first, llmsim)
        first.send_signal(signal.SIGKILL)
    llmsim.config(latency=0.0)
    done = command("index", "--root", root, "--json")
    assert done.json["llm"]["cached"] > 0
    whole = workspace(tmp_path / "whole", llmsim)
    index(whole)
    assert_equal_indexes(whole, root)


@pytest.mark.parametrize("where", ["local", "s3"])
def test_the_first_sleeps_and_loses_the_index(
    where: str, tmp_path: Path, llmsim: LlmSim, request: pytest.FixtureRequest
) -> None:
    """A suspended machine: the other host takes over and publishes; the first one wakes and must not."""
    place: dict[str, str] = {"base": "output"}
    if where == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        bucket = request.getfixturevalue("bucket")
        place = {"base": f"s3://{bucket}/index", "endpoint_url": server.endpoint_url, "region": "us-east-1"}
    root = workspace(tmp_path / "work", llmsim, automation={"lease_seconds": 4}, storage=place)
    base = str(root / "output") if where == "local" else place["base"]
    storage = open_filesystem(base, place.get("endpoint_url"), place.get("region"))
    llmsim.reset(latency=1.0)
    with started(arguments("index", "--root", root)) as first:
        wait_for_calls(first, llmsim)
        os.kill(first.pid, signal.SIGSTOP)
        llmsim.config(latency=0.0)
        # Another host has its own Dagster history.
        other = [sys.executable, "-c", ELSEWHERE, "index", "--root", str(root), "--wait"]
        home = environment(DAGSTER_HOME=str(tmp_path / "home"))
        (tmp_path / "home").mkdir()
        taken = subprocess.run(other, env=home, capture_output=True, text=True, timeout=400, check=False)
        assert taken.returncode == 0, taken.stderr
        (published,) = [manifest.id for manifest in SnapshotStore(storage).all()]
        os.kill(first.pid, signal.SIGCONT)
        _, err = first.communicate(timeout=240)
        assert first.returncode == 1, err
        assert "was taken over by" in err
        assert "nothing is published" in err
    assert [manifest.id for manifest in SnapshotStore(storage).all()] == [published]
    assert holder(storage) is None
    assert index(root)["snapshot"] == published, "and the index is whole"
