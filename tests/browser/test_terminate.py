"""The button "Terminate" of a run in the Dagster UI, while a model lets the run wait."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.lease import holder
from tests.browser.test_ui import start, wait_for
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import assert_equal_indexes, demo_texts, index, make_workspace, simulated

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TEXTS = ("minutes/railway-board-2032-08-11.md", "notes/interview-edda-lindrow.md")
LAUNCH = """
    mutation($p: ExecutionParams!) {launchRun(executionParams: $p)
    {__typename ... on LaunchRunSuccess {run {runId}}}}"""
TERMINATE = """
    mutation($run: String!) {terminateRun(runId: $run, terminatePolicy: SAFE_TERMINATE) {__typename}}"""


def test_what_is_finished_is_kept(tmp_path: Path, llmsim: LlmSim) -> None:
    pytest.importorskip("dagster_webserver", reason="the extra ui is not installed")

    def workspace(name: str) -> Path:
        settings = simulated(llmsim, chunking={"size": 100, "overlap": 0}, concurrent_requests=2)
        return make_workspace(tmp_path / name, demo_texts(*TEXTS), **settings)

    llmsim.reset(latency=1.0)
    root = workspace("work")
    ui = start(root, tmp_path)
    try:

        def launch(job: str, **tags: str) -> str:
            selector = {"repositoryName": "__repository__", "repositoryLocationName": "graphrag", "jobName": job}
            metadata = {"tags": [{"key": key, "value": value} for key, value in tags.items()]}
            launched = ui.ask(LAUNCH, p={"selector": selector, "executionMetadata": metadata})["launchRun"]
            assert launched["__typename"] == "LaunchRunSuccess", launched
            return str(launched["run"]["runId"])

        def status(run: str) -> str:
            query = "query($r: ID!) {runOrError(runId: $r) {... on Run {status}}}"
            return str(ui.ask(query, r=run)["runOrError"]["status"])

        def ended(run: str) -> str | None:
            state = status(run)
            return state if state in ("SUCCESS", "FAILURE", "CANCELED") else None

        inventory = launch("take_inventory")
        assert wait_for(lambda: ended(inventory), 120, ui.log) == "SUCCESS"

        def terminated(run: str) -> None:
            before = llmsim.requests
            wait_for(lambda: llmsim.requests > before + 6, 120, ui.log)
            asked = time.monotonic()
            answer = ui.ask(TERMINATE, run=run)["terminateRun"]
            assert answer["__typename"] == "TerminateRunSuccess", answer
            assert wait_for(lambda: ended(run), 60, ui.log) == "CANCELED"
            assert time.monotonic() - asked < 20
            sent = llmsim.requests
            time.sleep(3)
            assert llmsim.requests == sent, "the run went on asking the model"
            assert holder(storage) is None, "others may work on the index"

        storage = open_filesystem(str(root / "output"))
        terminated(launch("index_batches", **{"dagster/partition": "batch-000001"}))
        terminated(launch("reconcile"))
        found = ui.ask("{runsOrError {... on Runs {results {status}}}}")["runsOrError"]["results"]
        assert {run["status"] for run in found} <= {"SUCCESS", "CANCELED", "FAILURE"}, "the runs inside ended as well"
    finally:
        ui.stop()
    llmsim.config(latency=0.0)
    report = index(root)
    assert report["llm"]["cached"] > 0
    whole = workspace("whole")
    index(whole)
    assert_equal_indexes(whole, root)
