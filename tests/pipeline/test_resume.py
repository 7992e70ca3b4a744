"""A run that is killed costs at most the calls in flight."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    arguments,
    assert_equal_indexes,
    demo_texts,
    environment,
    index,
    log_entries,
    make_workspace,
    simulated,
)

pytestmark = pytest.mark.storage

IN_FLIGHT = 4


@pytest.mark.timeout(900)
def test_kill_in_the_middle_of_extraction(tmp_path: Path, llmsim: LlmSim) -> None:
    texts = demo_texts("minutes/railway-board-2032-08-11.md", "notes/interview-edda-lindrow.md")
    settings = simulated(llmsim, chunking={"size": 100, "overlap": 0}, concurrent_requests=IN_FLIGHT)
    undisturbed = make_workspace(tmp_path / "undisturbed", texts, **settings)
    whole = index(undisturbed)["llm"]["calls"]

    llmsim.reset(latency=0.3)
    root = make_workspace(tmp_path / "killed", texts, **settings)
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(arguments("index", "--root", root), env=environment(), stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 600
            while llmsim.requests < 12:
                assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]
                assert time.monotonic() < deadline, "the run did not come to its calls"
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()
    assert not log_entries(root), "the run must die before it publishes"
    time.sleep(0.5)  # the simulator finishes what it began
    before = llmsim.requests
    assert before < whole

    llmsim.config(latency=0.0)
    report = index(root)
    assert report["llm"]["cached"] >= before - IN_FLIGHT
    assert report["llm"]["calls"] == llmsim.requests - before
    assert llmsim.requests <= whole + IN_FLIGHT
    assert_equal_indexes(undisturbed, root)
