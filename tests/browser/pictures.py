"""Takes the pictures of docs/dagster.md: ``python -m tests.browser.pictures`` (``make pictures``).

A copy of the demo is indexed by the daemon alone: the sensor is on from the start, then files are dropped, edited and
deleted, and the pages of the Dagster UI are rendered after each step. For the failed check, a second workspace asks a
simulated model that declines to answer now and then. Needs Chromium; nothing else leaves this machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.snapshots import SnapshotStore
from tests.browser.page import look
from tests.browser.test_ui import Ui, start, wait_for
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    DEMO,
    FIVE_DOCUMENTS,
    REPOSITORY,
    demo_texts,
    index,
    make_workspace,
    simulated,
    write_document,
)

#: How often a page is rendered before giving up.
ATTEMPTS = 4

IMAGES = REPOSITORY / "docs" / "images"
SENSOR = {"repositoryName": "__repository__", "repositoryLocationName": "graphrag", "sensorName": "watch_input"}
TICKS = """
    query($s: SensorSelector!) {sensorOrError(sensorSelector: $s) {... on Sensor
    {sensorState {ticks(limit: 1) {skipReason}}}}}"""
RUNS = "{runsOrError(limit: 50) {... on Runs {results {runId jobName status tags {key value}}}}}"

ADDED = """A note of the bridge warden, 3 November 2032

Amaranth Quill inspected the Lantern Bridge with Ottokar Bram of the Water Board. She found that the eastern pier has
settled by two fingers, and asks the Railway Board for a new survey before the winter flood.
"""
EDITED = "notes/2032-09-06-notice-weight-limit.txt"
DELETED = "news/2032-06-08-quarry-strike.txt"


def browser() -> str:
    """The program that renders pages."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    return found or sys.exit("no Chromium to render the pages with; on Debian: apt install chromium")


def picture(ui: Ui, path: str, name: str, width: int = 1500, height: int = 950) -> None:
    """Render a page of the UI into docs/images; a browser that hangs is started again."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _render(ui.url + path, IMAGES / name, width, height)
            break
        except subprocess.TimeoutExpired:
            if attempt == ATTEMPTS:
                raise
    print(f"docs/images/{name}", flush=True)


def _render(url: str, target: Path, width: int, height: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        arguments = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic"]
        arguments += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        arguments += [f"--user-data-dir={folder}/profile", f"--window-size={width},{height}", "--hide-scrollbars"]
        arguments += ["--virtual-time-budget=40000", f"--screenshot={target}", url]
        subprocess.run(arguments, check=True, capture_output=True, timeout=90, env=os.environ | {"HOME": folder})


def published(ui: Ui) -> str | None:
    return SnapshotStore(open_filesystem(str(ui.root / "output"))).head()[1]


def runs(ui: Ui) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ui.ask(RUNS)["runsOrError"]["results"]
    return found


def settled(ui: Ui, before: str | None) -> None:
    """Wait until a change was indexed and the sensor has nothing to do."""

    def done() -> bool:
        ticks = ui.ask(TICKS, s=SENSOR)["sensorOrError"]["sensorState"]["ticks"]
        rests = bool(ticks) and "index is up to date" in (ticks[0]["skipReason"] or "")
        return published(ui) != before and rests

    wait_for(done, 600, ui.log)


def story(folder: Path) -> None:
    """A file is dropped, one edited, one deleted, and nobody does anything further."""
    folder.mkdir()
    root = folder / "demo"
    shutil.copytree(DEMO, root, ignore=shutil.ignore_patterns("output", ".cache", ".dagster"))
    settings = yaml.safe_load((DEMO / "settings.yaml").read_text())
    settings["automation"] = {"watch_input": True, "watch_seconds": 10, "settle_seconds": 10}
    (root / "settings.yaml").write_text(yaml.safe_dump(settings))
    ui = start(root, folder)
    try:
        settled(ui, None)
        graph = "/assets/index_snapshot?view=lineage&lineageScope=upstream&lineageDepth=10"
        picture(ui, graph, "asset-graph.png", 1700, 1000)
        picture(ui, "/assets/entities?view=overview", "asset-metadata.png", 1500, 2000)
        picture(ui, "/assets/text_units?view=partitions&partition=batch-000002", "partitions.png", 1500, 700)
        before = published(ui)
        (root / "input" / "notes" / "bridge-warden.txt").write_text(ADDED)
        wait_for(lambda: any(run["status"] == "STARTED" for run in runs(ui)), 300, ui.log)
        picture(ui, "/runs", "story-1-dropped.png", 1500, 700)
        settled(ui, before)
        picture(ui, "/locations/graphrag/sensors/watch_input", "story-2-sensor.png")
        reconcile = next(run for run in runs(ui) if run["jobName"] == "reconcile")
        picture(ui, f"/runs/{reconcile['runId']}", "story-3-reconcile.png")
        inner = [r for r in runs(ui) if {"key": "graphrag/reconcile", "value": reconcile["runId"]} in r["tags"]]
        picture(ui, f"/runs/{inner[0]['runId']}", "story-4-corpus.png")
        before = published(ui)
        with (root / "input" / EDITED).open("a") as file:
            file.write("\nBy order of Amaranth Quill the limit holds until the eastern pier was surveyed.\n")
        (root / "input" / DELETED).unlink()
        settled(ui, before)
        picture(ui, "/assets/documents?view=events", "story-5-batches.png")
        picture(ui, "/assets/index_snapshot?view=events", "story-6-snapshots.png")
        lineage = "/assets/text_units?view=lineage&lineageScope=downstream&lineageDepth=6"
        picture(ui, lineage, "story-7-lineage.png", 1700, 1000)
        picture(ui, "/automation", "automation.png", 1500, 500)
    finally:
        ui.stop()


def failure(folder: Path) -> None:
    """A model declines to answer for some text units, of which none may fail: nothing is published, and one sees why."""
    sim = LlmSim()
    folder.mkdir()
    try:
        sim.config(poison="whistle at Skarne Edge blew", poison_fault="refusal")  # words of one of the texts
        automation = {"watch_input": True, "watch_seconds": 10, "settle_seconds": 10, "retries": 1, "retry_seconds": 20}
        root = make_workspace(
            folder / "demo",
            demo_texts(*FIVE_DOCUMENTS),
            **simulated(sim, checks={"max_failed_share": 0.0}, automation=automation),
        )
        ui = start(root, folder)
        try:

            def failed() -> str | None:
                found = [r["runId"] for r in runs(ui) if r["jobName"] == "reconcile" and r["status"] == "FAILURE"]
                return found[0] if found else None

            wait_for(failed, 300, ui.log)
            picture(ui, "/assets/index_snapshot?view=checks&checkDetail=failed_text_units", "checks.png")
            picture(ui, "/runs", "story-8-failed-run.png", 1500, 620)
        finally:
            ui.stop()
    finally:
        sim.stop()


def usage(folder: Path) -> None:
    """What a simulated model took over four runs, of which three have little to do."""
    sim = LlmSim()
    folder.mkdir()
    try:
        root = priced_runs(folder / "demo", sim)
        ui = start(root, folder)
        try:
            page = f"{ui.url}/assets/index_snapshot?view=overview"
            look(page, ["Plots"], IMAGES / "usage-plots.png", at="usage/total/calls", height=1100)
            print("docs/images/usage-plots.png", flush=True)
        finally:
            ui.stop()
    finally:
        sim.stop()


def priced_runs(root: Path, sim: LlmSim) -> Path:
    """A workspace of which a first run, an edit, a new document and a deletion were indexed, at a price."""
    settings = simulated(sim, batches={"max_documents": 2})
    for entry in (*settings["completion_models"].values(), *settings["embedding_models"].values()):
        entry["prices"] = {"input_per_million": 1.0, "output_per_million": 4.0}
    make_workspace(root, demo_texts(*FIVE_DOCUMENTS), **settings)
    index(root)
    write_document(root, FIVE_DOCUMENTS[2], ADDED)
    index(root)
    write_document(root, "notes/bridge-warden.txt", ADDED.replace("two fingers", "three fingers"))
    index(root)
    (root / "input" / FIVE_DOCUMENTS[0]).unlink()
    index(root)
    return root


#: What can be taken by itself.
PARTS = {"story": story, "failure": failure, "usage": usage}


def main() -> None:
    """Take all pictures, or those of one part."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=["all", *PARTS], nargs="?", default="all")
    part = parser.parse_args().part
    with tempfile.TemporaryDirectory(prefix="pictures-") as name:
        for chosen in PARTS if part == "all" else [part]:
            PARTS[chosen](Path(name) / chosen)


if __name__ == "__main__":
    main()
