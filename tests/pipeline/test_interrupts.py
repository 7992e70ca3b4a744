"""Ctrl-C and requests to terminate, sent to real processes while a model lets them wait."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    Run,
    arguments,
    assert_equal_indexes,
    demo_texts,
    environment,
    fresh_process,
    index,
    log_entries,
    make_workspace,
    simulated,
)

pytestmark = pytest.mark.storage

KEPT = "Interrupted; what is finished is kept, run the same command again to go on"
TEXTS = ("minutes/railway-board-2032-08-11.md", "notes/interview-edda-lindrow.md")


def workspace(root: Path, llmsim: LlmSim) -> Path:
    settings = simulated(llmsim, chunking={"size": 100, "overlap": 0}, concurrent_requests=4)
    return make_workspace(root, demo_texts(*TEXTS), **settings)


def interrupted(ready: Callable[[], bool], *parts: object, signals: tuple[signal.Signals, ...]) -> tuple[Run, float]:
    """Start a command, send signals to its whole group as a terminal does once it is ready; seconds it took to end."""
    process = subprocess.Popen(
        arguments(*parts),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        deadline = time.monotonic() + 120
        while not ready():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        started = time.monotonic()
        for number in signals:
            os.killpg(process.pid, number)
            time.sleep(0.8)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return Run(process.returncode, out, err), time.monotonic() - started


def run_statuses(root: Path) -> list[str]:
    from graphrag_assets.automation.instance import open_instance
    from graphrag_assets.settings_file import load_workspace

    with fresh_process(), open_instance(load_workspace(root)) as instance:
        return [run.status.value for run in instance.get_runs()]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_index(number: signal.Signals, code: int, tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset(latency=0.5)
    root = workspace(tmp_path / "work", llmsim)
    run, seconds = interrupted(lambda: llmsim.requests > 12, "index", "--root", root, "--json", signals=(number,))
    assert run.code == code
    assert seconds < 60
    assert run.err.splitlines()[-1] == KEPT
    assert "Traceback" not in run.err
    assert "rror" not in run.err
    assert json.loads(run.out) == {"error": {"message": KEPT, "type": "interrupted"}}
    assert sorted(run_statuses(root)) == ["FAILURE", "SUCCESS"]
    assert not log_entries(root)

    llmsim.config(latency=0.0)
    assert index(root)["llm"]["cached"] > 0
    whole = workspace(tmp_path / "whole", llmsim)
    index(whole)
    assert_equal_indexes(whole, root)


@pytest.mark.timeout(600)
def test_a_second_one_ends_it_at_once(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset(latency=3)
    root = workspace(tmp_path, llmsim)
    both = (signal.SIGINT, signal.SIGINT)
    run, seconds = interrupted(lambda: llmsim.requests > 0, "index", "--root", root, signals=both)
    assert run.code in (130, -signal.SIGINT)
    assert seconds < 60
    assert "Traceback" not in run.err
    llmsim.reset()
    index(root)
    assert "STARTED" not in run_statuses(root)


@pytest.mark.timeout(600)
def test_query(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim)
    index(root)
    llmsim.reset(latency=3)
    question = ("query", "What was decided about the railway?", "--root", root, "--method", "local")
    run, seconds = interrupted(lambda: llmsim.requests > 0, *question, signals=(signal.SIGINT,))
    assert (run.code, run.out, run.err) == (130, "", "Interrupted\n")
    assert seconds < 60
