"""Files are dropped, edited and deleted while the daemon runs with the sensor on: nobody does anything further."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from graphrag_assets.automation.sensors import HEALTH_SECONDS
from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.lease import holder
from graphrag_assets.storage.snapshots import SnapshotStore
from tests.browser.test_ui import Ui, start, wait_for
from tests.pipeline.workspaces import FIVE_DOCUMENTS, command, demo_texts, make_workspace, rows, write_document

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

BATCHES = ["batch-000001", "batch-000002"]
RUNS = "{runsOrError(limit: 100) {... on Runs {results {runId jobName status tags {key value}}}}}"
EVENTS = """
    query($key: AssetKeyInput!) {assetNodeOrError(assetKey: $key) {... on AssetNode
    {assetMaterializations(limit: 100) {partition runId}}}}"""
CHECKS = """
    {assetNodeOrError(assetKey: {path: ["index_snapshot"]}) {... on AssetNode {assetChecksOrError {... on AssetChecks
    {checks {name executionForLatestMaterialization {status evaluation {description}}}}}}}}"""
SENSOR = {"repositoryName": "__repository__", "repositoryLocationName": "graphrag", "sensorName": "watch_input"}
TICKS = """
    query($s: SensorSelector!) {sensorOrError(sensorSelector: $s) {... on Sensor
    {sensorState {status ticks(limit: 200) {status skipReason error {message} runIds}}}}}"""


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """The UI on three documents that nobody has indexed."""
    pytest.importorskip("dagster_webserver", reason="the extra ui is not installed")
    folder = tmp_path_factory.mktemp("automation")
    root = make_workspace(
        folder / "workspace",
        demo_texts(*FIVE_DOCUMENTS[:3]),
        method="fast",
        extract_graph_nlp={"processes": 1},
        batches={"max_documents": 2},
        automation={"watch_input": True, "watch_seconds": 5, "settle_seconds": 3},
    )
    opened = start(root, folder)
    yield opened
    if opened.process.poll() is None:
        opened.stop()


def published(ui: Ui) -> str | None:
    return SnapshotStore(open_filesystem(str(ui.root / "output"))).head()[1]


def runs(ui: Ui, job: str = "reconcile") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ui.ask(RUNS)["runsOrError"]["results"]
    return [run for run in found if run["jobName"] == job]


def at_rest(ui: Ui) -> bool:
    """Whether every run ended, and the last look of the sensor found nothing to do."""
    ticks = ui.ask(TICKS, s=SENSOR)["sensorOrError"]["sensorState"]["ticks"]
    assert not [tick["error"] for tick in ticks if tick["error"]]
    ended = all(run["status"] in ("SUCCESS", "FAILURE", "CANCELED") for run in runs(ui))
    return ended and bool(ticks) and "index is up to date" in (ticks[0]["skipReason"] or "")


def settled(ui: Ui, before: str | None) -> str:
    """The snapshot that is published once a change was indexed."""
    wait_for(lambda: published(ui) != before and at_rest(ui), 240, ui.log)
    now = published(ui)
    assert now is not None
    return now


def materialized(ui: Ui, asset: str) -> list[str]:
    """Batches of all materializations of an asset, the newest first."""
    node = ui.ask(EVENTS, key={"path": [asset]})["assetNodeOrError"]
    return [event["partition"] for event in node["assetMaterializations"]]


def titles(ui: Ui) -> set[str]:
    return {row["path"] for row in rows(ui.root, "documents")}


def test_what_is_there_is_indexed(ui: Ui) -> None:
    settled(ui, None)
    assert titles(ui) == set(FIVE_DOCUMENTS[:3])
    assert sorted(materialized(ui, "documents")) == BATCHES
    (run,) = runs(ui)
    assert run["status"] == "SUCCESS"
    inner = [r for r in runs(ui, "__ASSET_JOB") if {"key": "graphrag/reconcile", "value": run["runId"]} in r["tags"]]
    assert len(inner) == 3, "the inventory, the batches, the corpus"


def test_a_dropped_file(ui: Ui) -> None:
    before = published(ui)
    write_document(ui.root, FIVE_DOCUMENTS[3], demo_texts(FIVE_DOCUMENTS[3])[FIVE_DOCUMENTS[3]])
    settled(ui, before)
    assert titles(ui) == set(FIVE_DOCUMENTS[:4])
    assert materialized(ui, "documents")[0] == BATCHES[1], "it joined the batch that had room"
    assert len(materialized(ui, "documents")) == 3


def test_an_edited_file(ui: Ui) -> None:
    before = published(ui)
    write_document(ui.root, FIVE_DOCUMENTS[0], "Miss Amaranth Quill built the Lantern Bridge in 2040.")
    settled(ui, before)
    (text,) = [row["text"] for row in rows(ui.root, "documents") if row["path"] == FIVE_DOCUMENTS[0]]
    assert "Amaranth Quill" in text
    assert materialized(ui, "documents")[0] == BATCHES[0]
    assert len(materialized(ui, "documents")) == 4


def test_a_deleted_file(ui: Ui) -> None:
    before = published(ui)
    (ui.root / "input" / FIVE_DOCUMENTS[1]).unlink()
    settled(ui, before)
    assert titles(ui) == {FIVE_DOCUMENTS[0], *FIVE_DOCUMENTS[2:4]}
    assert not [
        row for row in rows(ui.root, "text_units") if row["document_id"] not in {d["id"] for d in _documents(ui)}
    ]


def _documents(ui: Ui) -> list[dict[str, Any]]:
    return rows(ui.root, "documents")


def test_a_file_that_is_being_written_waits(ui: Ui) -> None:
    before, made = published(ui), len(runs(ui))
    file = ui.root / "input" / "log.txt"
    with file.open("w") as written:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            written.write("The Lantern Bridge carried Amaranth Quill. ")
            written.flush()
            time.sleep(0.5)
        assert published(ui) == before
        assert len(runs(ui)) == made
        written.write("Then came the Ferryman Ottokar.")
    settled(ui, before)
    assert len(runs(ui)) == made + 1
    (text,) = [row["text"] for row in rows(ui.root, "documents") if row["path"] == "log.txt"]
    assert text.endswith("the Ferryman Ottokar.")


def test_double_triggers_are_harmless(ui: Ui) -> None:
    """A person starts the job and a shell the command while the sensor is at it: they wait or are told; one snapshot."""
    before, made = published(ui), len(SnapshotStore(open_filesystem(str(ui.root / "output"))).all())
    write_document(ui.root, "twice.txt", "The Ferryman Ottokar met Amaranth Quill at the Lantern Bridge.")
    selector = {"repositoryName": "__repository__", "repositoryLocationName": "graphrag", "jobName": "reconcile"}
    launched = ui.ask(
        "mutation($p: ExecutionParams!) {launchRun(executionParams: $p) {__typename}}", p={"selector": selector}
    )
    assert launched["launchRun"]["__typename"] == "LaunchRunSuccess"
    waited = command("index", "--root", ui.root, "--wait", "--json")
    assert waited.code == 0, waited.err[-2000:]
    settled(ui, before)
    assert len(SnapshotStore(open_filesystem(str(ui.root / "output"))).all()) == made + 1
    assert {run["status"] for run in runs(ui)} == {"SUCCESS"}


def test_a_killed_run_is_made_again(ui: Ui) -> None:
    """The process of the run dies in the middle: nobody has to do anything."""
    storage, before = open_filesystem(str(ui.root / "output")), published(ui)
    write_document(ui.root, "killed.txt", "Amaranth Quill sold the Lantern Bridge to the Ferryman Ottokar.")
    working = wait_for(lambda: holder(storage), 120, ui.log)
    time.sleep(3)
    os.kill(working.pid, signal.SIGKILL)
    settled(ui, before)
    assert "killed.txt" in titles(ui)
    assert "FAILURE" in {run["status"] for run in runs(ui)}


def test_the_alerts_pass(ui: Ui) -> None:
    """Also where the killed run had published before it died: then the sensor says them, at its next look."""

    def all_pass() -> bool:
        checks = ui.ask(CHECKS)["assetNodeOrError"]["assetChecksOrError"]["checks"]
        states = {c["name"]: (c["executionForLatestMaterialization"] or {}).get("status") for c in checks}
        return states["input_is_published"] == states["nothing_failed"] == "SUCCEEDED"

    wait_for(all_pass, 2 * HEALTH_SECONDS, ui.log)


def test_it_ends_without_an_error(ui: Ui) -> None:
    assert ui.stop() == 0
    log = ui.log.read_text(errors="replace")
    for word in ("ERROR", "Traceback", "BetaWarning"):
        assert word not in log, log[-3000:]
