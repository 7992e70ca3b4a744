"""graphrag-assets index: reconcile and publish."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from graphrag_assets.automation.plan import last_inventory, nothing_to_do
from graphrag_assets.cli.output import fail, print_json, table
from graphrag_assets.cli.showing import progress_on_terminal
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import BuildArea
from graphrag_assets.storage.filesystem import FileSystem, LocalFileSystem, StorageError, open_filesystem
from graphrag_assets.storage.snapshots import Manifest, SnapshotStore

if TYPE_CHECKING:
    from graphrag_assets.automation.reconcile import Reconciled


def open_places(workspace: Workspace) -> tuple[FileSystem, FileSystem]:
    """The input and the storage base of a workspace; ends the command when an address cannot be used."""
    settings = workspace.settings
    source, storage = settings.input_storage, settings.storage
    try:
        return (
            open_filesystem(workspace.uri(source.base_dir), source.endpoint_url, source.region),
            open_filesystem(workspace.uri(storage.base), storage.endpoint_url, storage.region),
        )
    except StorageError as error:
        fail(str(error), "storage")


def index_command(workspace: Workspace, *, as_json: bool) -> None:
    """Reconcile, then print what was done."""
    started = time.monotonic()
    source, storage = open_places(workspace)
    if isinstance(source, LocalFileSystem) and not source.root.is_dir():
        fail(
            f"the input folder {source.root} does not exist; make it, or set input_storage.base_dir in settings.yaml",
            "input",
        )
    if nothing_to_do(workspace, source, storage):
        manifest = SnapshotStore(storage).current()
        area = BuildArea(storage)
        before = last_inventory(workspace, area)
        changes = asdict(before.changes) if before else {}
        reports = {"written": 0, "reused": _reports(manifest)}
        report = summary(manifest, changes, 0, {}, reports, storage, started) | {"up_to_date": True}
    else:
        with progress_on_terminal():
            reconciled, usage = _reconcile(workspace)
        written = int(reconciled.metadata.get("community_reports", {}).get("reports_written", 0))
        reports = {"written": written, "reused": _reports(reconciled.snapshot) - written}
        report = summary(
            reconciled.snapshot,
            dict(reconciled.changes),
            len(reconciled.work.batches),
            usage,
            reports,
            storage,
            started,
        ) | {"new_snapshot": reconciled.new}
    if as_json:
        print_json(report)
    else:
        click.echo(describe(report))


def _reports(manifest: Manifest | None) -> int:
    return manifest.tables["community_reports"].rows if manifest else 0


def _reconcile(workspace: Workspace) -> tuple[Reconciled, dict[str, Any]]:
    """Run the reconcile in this process."""
    from graphrag_assets.assets.build import build_definitions
    from graphrag_assets.assets.memory import spare_memory
    from graphrag_assets.assets.models import RUN_USAGE
    from graphrag_assets.assets.resources import Index
    from graphrag_assets.automation.instance import open_instance
    from graphrag_assets.automation.reconcile import RunFailedError, reconcile

    spare_memory()
    with open_instance(workspace) as instance:
        try:
            done = reconcile(build_definitions(workspace), Index(root=str(workspace.root)), instance)
        except RunFailedError as error:
            root = shlex.quote(str(workspace.root))
            log = f"Log of run {error.run_id}: graphrag-assets ui --root {root} (page /runs/{error.run_id})"
            fail(f"{error}\n{log}", "run", run_id=error.run_id)
    return done, dict(RUN_USAGE)


def usage_json(usage: dict[str, Any]) -> dict[str, Any]:
    """LLM usage as the JSON contract has it: totals, and the same by stage."""
    names = ("calls", "cached", "prompt_tokens", "completion_tokens", "usd")
    by_stage = {
        stage: {name: getattr(used, name) for name in names} | {"unpriced_calls": used.unpriced_calls}
        for stage, used in sorted(usage.items())
    }
    totals: dict[str, Any] = {name: sum(stage[name] or 0 for stage in by_stage.values()) for name in names}
    return totals | {"unpriced_calls": sum(s["unpriced_calls"] for s in by_stage.values()), "by_stage": by_stage}


def summary(
    manifest: Manifest | None,
    changes: dict[str, int],
    batches: int,
    usage: dict[str, Any],
    reports: dict[str, int],
    storage: FileSystem,
    started: float,
) -> dict[str, Any]:
    """The object of ``index --json``."""
    return {
        "snapshot": manifest.id if manifest else None,
        "up_to_date": False,
        "new_snapshot": False,
        "documents": changes,
        "batches": batches,
        "llm": usage_json(usage),
        "tables": {name: file.rows for name, file in sorted(manifest.tables.items())} if manifest else {},
        "text_units": text_unit_counts(storage, manifest),
        "pruned": pruned(manifest),
        "reports": reports,
        "seconds": round(time.monotonic() - started, 3),
    }


def pruned(manifest: Manifest | None) -> dict[str, int]:
    """Entities and relationships that pruning took out of the graph; empty for a method that does not prune."""
    return dict(manifest.info.get("pruned") or {}) if manifest else {}


def pruned_line(counts: dict[str, int]) -> list[str]:
    """The same in words, as a line of its own where there is something to say."""
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    return [f"Pruned as noise: {told} (prune_graph in settings.yaml)"] if any(counts.values()) else []


def text_unit_counts(storage: FileSystem, manifest: Manifest | None) -> dict[str, int]:
    """Text units of the published snapshot by how their extraction went."""
    from graphrag_assets.storage.parquet import read_table

    counts = {"ok": 0, "empty": 0, "failed": 0}
    if manifest:
        for status in read_table(storage, manifest.tables["text_units"].path, ["status"])["status"].to_pylist():
            counts[status if status in ("ok", "empty") else "failed"] += 1
    return counts


def _outcome(report: dict[str, Any]) -> str:
    """What became of the published snapshot, in one sentence."""
    snapshot, seconds = report["snapshot"], f"{report['seconds']:.1f} s"
    if report["up_to_date"]:
        return f"Nothing to do: the index is up to date with the input and the settings (snapshot {snapshot})."
    if not report["new_snapshot"]:
        return f"The content of the index did not change: snapshot {snapshot} stays published ({seconds})."
    return f"Published snapshot {snapshot} in {seconds}."


def describe(report: dict[str, Any]) -> str:
    """The report as text."""
    documents, llm = report["documents"], report["llm"]
    lines = [
        "Documents: " + ", ".join(f"{count} {name}" for name, count in documents.items()),
        "Text units: " + ", ".join(f"{count} {name}" for name, count in report["text_units"].items()),
        f"Model calls: {llm['calls']} ({llm['cached']} answered from the cache), {llm['prompt_tokens']} + "
        f"{llm['completion_tokens']} tokens, {llm['usd']:.4f} USD"
        + (f" ({llm['unpriced_calls']} calls of unknown price not counted)" if llm["unpriced_calls"] else ""),
        "",
        table([{"table": name, "rows": rows} for name, rows in report["tables"].items()], ["table", "rows"]),
        "",
        *pruned_line(report["pruned"]),
        _outcome(report),
    ]
    return "\n".join(lines)
