"""The Dagster UI of an indexed workspace, as ``graphrag-assets ui`` (``make ui``) opens it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.assets.snapshot import SNAPSHOT, TABLES_CHECK
from graphrag_assets.automation.alerts import FAILED, FRESH
from graphrag_assets.indexing.validation import CHECKS
from tests.pipeline.workspaces import arguments, command, demo_texts, environment, make_workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LETTERS = (
    "letters/2031-10-23-castellan-to-maske.txt",
    "letters/2032-04-03-hask-to-quayle.txt",
    "reports/water-board-statement.txt",
)
BATCHES = ["batch-000001", "batch-000002"]
PARTITIONED = {
    "documents",
    "text_units",
    "extracted_entities",
    "extracted_relationships",
    "extracted_claims",
    "extraction_status",
    "text_unit_embeddings",
}
CORPUS = {
    "input_files",
    "input_inventory",
    "rejected_inputs",
    "entity_aliases",
    "entities",
    "relationships",
    "covariates",
    "communities",
    "community_reports",
    "entity_embeddings",
    "community_report_embeddings",
    "index_snapshot",
}


@dataclass
class Ui:
    """A running UI.

    Args:
        root: The workspace.
        port: Port of the web server.
        process: The command.
        log: What it printed.
    """

    root: Path
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.loads(response.read())
        assert "errors" not in answer, answer["errors"]
        data: dict[str, Any] = answer["data"]
        return data

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(90)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def wait_for(what: Callable[[], Any], seconds: float, log: Path) -> Any:
    """Wait for something true; the log of the UI says why it did not come."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.5)
    raise AssertionError(f"not within {seconds} s:\n{log.read_text(errors='replace')[-3000:]}")


def start(root: Path, folder: Path) -> Ui:
    port, log = free_port(), folder / "ui.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            arguments("ui", "--root", root, "--port", port), stdout=out, stderr=out, env=environment()
        )
    ui = Ui(root, port, process, log)

    def answers() -> bool:
        assert process.poll() is None, log.read_text(errors="replace")
        try:
            with urllib.request.urlopen(f"{ui.url}/server_info", timeout=5) as response:
                return "dagster_webserver_version" in json.loads(response.read())
        except OSError:
            return False

    try:
        wait_for(answers, 180, log)
    except BaseException:
        ui.stop(signal.SIGTERM)
        raise
    return ui


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """The UI on three documents in two batches."""
    pytest.importorskip("dagster_webserver", reason="the extra ui is not installed")
    folder = tmp_path_factory.mktemp("ui")
    root = make_workspace(folder / "workspace", demo_texts(*LETTERS), batches={"max_documents": 2})
    indexed = command("index", "--root", root)
    assert indexed.code == 0, indexed.err[-3000:]
    assert "Warning" not in indexed.err
    opened = start(root, folder)
    yield opened
    if opened.process.poll() is None:
        opened.stop()


def test_the_code_location_loads(ui: Ui) -> None:
    entries = ui.ask(
        "{workspaceOrError {... on Workspace {locationEntries {name loadStatus locationOrLoadError {__typename}}}}}"
    )["workspaceOrError"]["locationEntries"]
    assert entries == [
        {"name": "graphrag", "loadStatus": "LOADED", "locationOrLoadError": {"__typename": "RepositoryLocation"}}
    ]


def test_every_asset_is_materialized(ui: Ui) -> None:
    nodes = ui.ask(
        "{assetNodes {assetKey {path} description groupName partitionStats {numMaterialized numPartitions} "
        "partitionKeys assetMaterializations(limit: 5) "
        "{partition metadataEntries {label ... on IntMetadataEntry {intValue}}}}}"
    )["assetNodes"]
    by_name = {node["assetKey"]["path"][-1]: node for node in nodes}
    assert by_name.keys() == PARTITIONED | CORPUS
    for name, node in by_name.items():
        assert node["description"], name
        assert node["groupName"] != "default", name
        labels = {entry["label"] for entry in node["assetMaterializations"][0]["metadataEntries"]}
        assert {"dagster/row_count", "dagster/uri"} <= labels or name == "index_snapshot", (name, labels)
        if name in PARTITIONED:
            assert node["partitionKeys"] == BATCHES, name
            assert node["partitionStats"] == {"numMaterialized": 2, "numPartitions": 2}, name
    counts = {
        event["partition"]: {entry["label"]: entry.get("intValue") for entry in event["metadataEntries"]}
        for event in by_name["documents"]["assetMaterializations"]
    }
    assert {key: figures["dagster/row_count"] for key, figures in counts.items()} == {BATCHES[0]: 2, BATCHES[1]: 1}


def test_every_check_passed(ui: Ui) -> None:
    """On the page of the asset that they are about."""
    nodes = ui.ask(
        "query {assetNodes {assetKey {path} assetChecksOrError "
        "{... on AssetChecks {checks {name blocking executionForLatestMaterialization {status}}}}}}"
    )["assetNodes"]
    states = {
        (node["assetKey"]["path"][-1], check["name"]): (
            check["blocking"],
            check["executionForLatestMaterialization"]["status"],
        )
        for node in nodes
        for check in node["assetChecksOrError"]["checks"]
    }
    expected = {(check.asset or SNAPSHOT, check.name): (check.blocking, "SUCCEEDED") for check in CHECKS}
    alerts = {(SNAPSHOT, name): (False, "SUCCEEDED") for name in (FRESH, FAILED)}
    assert states == expected | {(SNAPSHOT, TABLES_CHECK): (True, "SUCCEEDED")} | alerts


def test_the_daemon_runs(ui: Ui) -> None:
    def healthy() -> bool:
        states = ui.ask("{instance {daemonHealth {allDaemonStatuses {daemonType required healthy}}}}")
        daemons = states["instance"]["daemonHealth"]["allDaemonStatuses"]
        return bool(daemons) and all(daemon["healthy"] for daemon in daemons if daemon["required"])

    wait_for(healthy, 90, ui.log)


def test_one_batch_from_the_ui(ui: Ui) -> None:
    """What the button Materialize sends, for one batch; then there is nothing left to do for the command line."""
    selector = {
        "repositoryName": "__repository__",
        "repositoryLocationName": "graphrag",
        "jobName": "index_batches",
    }
    launched = ui.ask(
        "mutation($p: ExecutionParams!) {launchRun(executionParams: $p) "
        "{__typename ... on LaunchRunSuccess {run {runId}}}}",
        p={"selector": selector, "executionMetadata": {"tags": [{"key": "dagster/partition", "value": BATCHES[1]}]}},
    )["launchRun"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    run = launched["run"]["runId"]

    def ended() -> str | None:
        status = ui.ask("query($r: ID!) {runOrError(runId: $r) {... on Run {status}}}", r=run)["runOrError"]["status"]
        return status if status in ("SUCCESS", "FAILURE", "CANCELED") else None

    assert wait_for(ended, 240, ui.log) == "SUCCESS"
    report = command("index", "--root", ui.root, "--json").json
    assert report["batches"] == 0
    assert report["documents"]["unchanged"] == 3


def test_a_port_in_use_is_named(ui: Ui) -> None:
    second = command("ui", "--root", ui.root, "--port", ui.port)
    assert second.code == 1
    assert f"cannot listen on 127.0.0.1:{ui.port}: Address already in use" in second.err
    assert "--port" in second.err


def test_the_lineage_page_shows_the_assets(ui: Ui, tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium to render the page with; on Debian: apt install chromium")
    page = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=1600,1000",
            "--virtual-time-budget=30000",
            "--dump-dom",
            f"{ui.url}/locations/graphrag/asset-groups/graph/lineage",
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=os.environ | {"HOME": str(tmp_path)},
    ).stdout
    for name in ("entity_aliases", "entities", "relationships", "covariates", "index_snapshot"):
        assert name in page, f"{name} is not on the page of {len(page)} characters"


def processes_of(ui: Ui) -> dict[int, str]:
    """Dagster processes that serve this workspace: they know it by their environment, whatever their command line."""
    marked = f"GRAPHRAG_ROOT={ui.root}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command_line = (folder / "cmdline").read_bytes()
            if b"dagster" in command_line and marked in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = command_line.replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended while we looked
            continue
    return found


def test_it_ends_on_ctrl_c(ui: Ui) -> None:
    """Runs last: every process is gone, and the log holds no error."""
    started = processes_of(ui)
    assert len(started) >= 3, started  # code server, web server, daemon
    assert ui.stop() == 0
    assert processes_of(ui) == {}
    log = ui.log.read_text(errors="replace")
    for word in ("ERROR", "Traceback", "DeprecationWarning", "BetaWarning", "SupersessionWarning"):
        assert word not in log, log[-3000:]
