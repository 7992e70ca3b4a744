"""Runs of killed processes: they are ended, and what they held is free again; runs that go on are left alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from graphrag_assets.automation.processes import PROCESS_TAG, end_dead_runs, running

HOLD = """
import sys, time
from pathlib import Path
from graphrag_assets.automation.processes import running
with running(Path(sys.argv[1])) as name:
    print(name, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def instance(tmp_path: Path) -> dg.DagsterInstance:
    return dg.DagsterInstance.local_temp(str(tmp_path))


def started(instance: dg.DagsterInstance, process: str | None) -> str:
    """A run that began and holds the only place of a pool."""

    @dg.op
    def work() -> None: ...

    @dg.job
    def a_job() -> None:
        work()

    run = instance.create_run_for_job(a_job, tags={PROCESS_TAG: process} if process else {})
    instance.report_dagster_event(
        dg.DagsterEvent(event_type_value=dg.DagsterEventType.RUN_START.value, job_name="a_job"), run.run_id
    )
    assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.STARTED  # type: ignore[union-attr]
    return run.run_id


def claims(instance: dg.DagsterInstance, run: str) -> bool:
    """Whether a run gets the only place of the pool."""
    instance.event_log_storage.set_concurrency_slots("llm", 1)
    return instance.event_log_storage.claim_concurrency_slot("llm", run, "step").is_claimed


def status(instance: dg.DagsterInstance, run: str) -> dg.DagsterRunStatus:
    found = instance.get_run_by_id(run)
    assert found is not None
    return found.status


def test_a_killed_process(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        run = started(instance, name)
        assert claims(instance, run)
        assert end_dead_runs(instance, tmp_path) == [], "it is alive"
        assert not claims(instance, "next")
        process.send_signal(signal.SIGKILL)
    assert end_dead_runs(instance, tmp_path) == [run]
    assert status(instance, run) == dg.DagsterRunStatus.FAILURE
    assert claims(instance, "next")
    assert end_dead_runs(instance, tmp_path) == []


def test_runs_of_others_are_left_alone(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    """Runs without the tag are Dagster's own, and those of another host have no lock file here."""
    own, foreign = started(instance, None), started(instance, "on-another-host")
    with running(tmp_path) as name:
        mine = started(instance, name)
        assert end_dead_runs(instance, tmp_path) == []
    assert [status(instance, run) for run in (own, foreign, mine)] == [dg.DagsterRunStatus.STARTED] * 3
    assert end_dead_runs(instance, tmp_path) == [mine]
