"""Steps that fail: tried again by Dagster where that may help, failed at once where it cannot."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from graphrag_assets.storage import failures
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import demo_texts, fresh_process, index, invoke, make_workspace, simulated

pytestmark = pytest.mark.storage

DOCUMENTS = ("letters/2031-10-23-castellan-to-maske.txt", "reports/cold-rigg-data-sheet.txt")


def make(root: Path, llmsim: LlmSim, **sections: Any) -> Path:
    return make_workspace(root, demo_texts(*DOCUMENTS), **simulated(llmsim, **sections))


def steps(root: Path, event: dg.DagsterEventType) -> list[str]:
    """Steps with an event of this type, over all runs of a workspace."""
    from graphrag_assets.automation.instance import open_instance
    from graphrag_assets.settings_file import load_workspace

    with fresh_process(), open_instance(load_workspace(root)) as instance:
        return [
            str(record.dagster_event.step_key)
            for run in instance.get_runs()
            for record in instance.all_logs(run.run_id, of_type=event)
            if record.dagster_event
        ]


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy with a second between the tries."""
    quick = failures.NETWORK_RETRIES._replace(delay=1, jitter=None, backoff=None)
    monkeypatch.setattr(failures, "NETWORK_RETRIES", quick)


@pytest.mark.usefixtures("quick_retries")
def test_an_endpoint_that_fails_for_a_while(tmp_path: Path, llmsim: LlmSim) -> None:
    """The embedding endpoint fails past all repeats of the calls; the step goes on where it was when it is back."""
    settings = simulated(llmsim)
    for entry in settings["embedding_models"].values():
        entry["retry"] = {"max_retries": 0}
    root = make_workspace(tmp_path, demo_texts(*DOCUMENTS), **settings)
    llmsim.config(faults={"error500": 1.0}, fault_kinds=["embedding"])
    finished = threading.Event()

    def mend() -> None:
        while not llmsim.stats()["embedding_requests"] and not finished.is_set():
            time.sleep(0.02)
        time.sleep(0.3)
        llmsim.config(faults={})

    mending = threading.Thread(target=mend)
    mending.start()
    try:
        report = index(root)
    finally:
        finished.set()
        mending.join()
    assert report["tables"]["entities"] > 0
    assert steps(root, dg.DagsterEventType.STEP_UP_FOR_RETRY) == ["text_unit_embeddings"]
    assert steps(root, dg.DagsterEventType.STEP_FAILURE) == []


def test_a_wrong_key_fails_at_once(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.config(api_key="the right one")
    failed = invoke("index", "--root", make(tmp_path, llmsim))
    assert failed.code == 1
    assert "check api_key of this entry" in failed.err
    assert steps(tmp_path, dg.DagsterEventType.STEP_FAILURE) == ["extraction", "text_unit_embeddings"]
    assert steps(tmp_path, dg.DagsterEventType.STEP_UP_FOR_RETRY) == []


def test_a_wrong_setting_fails_at_once(tmp_path: Path, llmsim: LlmSim) -> None:
    """The file of overrides cannot be read as such: the graph's step says so, although it has a retry policy."""
    (tmp_path / "overrides.yaml").write_text("merge: 7\n", encoding="utf-8")
    root = make(tmp_path, llmsim, entity_resolution={"overrides": "overrides.yaml"})
    failed = invoke("index", "--root", root)
    assert failed.code == 1
    assert "graph: " in failed.err
    assert "merge" in failed.err
    assert steps(root, dg.DagsterEventType.STEP_FAILURE) == ["graph"]
    assert steps(root, dg.DagsterEventType.STEP_UP_FOR_RETRY) == []


def test_a_full_disk_fails_at_once(tmp_path: Path, llmsim: LlmSim, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails in writing a table is told and not retried either."""
    from graphrag_assets.storage.build import BuildArea

    write = BuildArea.write

    def full(area: BuildArea, name: str, built: Any, partition: str | None = None) -> int:
        if name == "extraction_status":
            raise OSError(28, "No space left on device")
        return write(area, name, built, partition)

    monkeypatch.setattr(BuildArea, "write", full)
    failed = invoke("index", "--root", make(tmp_path, llmsim))
    assert failed.code == 1
    assert "No space left on device" in failed.err
    assert steps(tmp_path, dg.DagsterEventType.STEP_UP_FOR_RETRY) == []
