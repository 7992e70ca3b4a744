"""graphrag-assets index: reconcile and publish."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from graphrag_assets.assets.refreshing import check_stages
from graphrag_assets.automation.instance import has_history
from graphrag_assets.automation.plan import last_inventory, nothing_to_do
from graphrag_assets.automation.wish import Wish
from graphrag_assets.cli.day import day_of
from graphrag_assets.cli.notes import notes, rejections
from graphrag_assets.cli.output import Waiting, fail, print_json, table
from graphrag_assets.cli.showing import progress_on_terminal
from graphrag_assets.input.folder import require_input
from graphrag_assets.llm.batching.records import Flight, Records, records_path
from graphrag_assets.llm.batching.waiting import waiting_for_batches
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import BuildArea
from graphrag_assets.storage.filesystem import INPUT_BASE, FileSystem, StorageError, open_filesystem, require_writable
from graphrag_assets.storage.snapshots import Manifest, SnapshotStore, is_kept, kept_message

if TYPE_CHECKING:
    from graphrag_assets.automation.reconcile import Reconciled


#: What a run that reached its budget leaves behind.
_GO_ON = (
    "All answers so far are kept, and what is published stays as it is: run the command again, with a budget that allows "
    "more, to go on from there"
)

_GO_ON_DAY = (
    "All answers so far are kept, and what is published stays as it is: run the command again on another day, or with a "
    "larger budget of the day, to go on from there"
)


#: What a run that waits for a provider leaves behind.
_COME_BACK = (
    "What is published stays as it is: run the command again to go on with the answers (with --wait-for-batches it waits "
    "for them), or let the sensor watch_batches do so"
)


def flights_of(workspace: Workspace) -> list[Flight]:
    """Batches of an index that are under way at providers."""
    place = workspace.uri(workspace.settings.storage.base)
    return [flight for flight in Records(records_path(workspace)).flights(place) if flight.state != "collected"]


def flight_json(flight: Flight) -> dict[str, Any]:
    """A batch that is under way, as JSON has it."""
    sent = datetime.fromtimestamp(flight.created, UTC).isoformat(timespec="seconds")
    return {
        "batch": flight.provider_id,
        "entry": flight.entry,
        "stages": flight.stages.split(", "),
        "questions": flight.requests,
        "done": flight.done,
        "status": flight.status or flight.state,
        "sent": sent,
    }


def open_places(workspace: Workspace) -> tuple[FileSystem, FileSystem]:
    """The input and the storage base of a workspace; ends the command when an address cannot be used."""
    settings = workspace.settings
    source, storage = settings.input_storage, settings.storage
    try:
        return (
            open_filesystem(workspace.uri(source.base_dir), source.endpoint_url, source.region, INPUT_BASE),
            open_filesystem(workspace.uri(storage.base), storage.endpoint_url, storage.region),
        )
    except StorageError as error:
        fail(str(error), "storage")


def index_command(
    workspace: Workspace,
    wish: Wish,
    *,
    as_json: bool,
    usd: float | None = None,
    tokens: int | None = None,
    wait_for_batches: bool = False,
) -> None:
    """Reconcile, then print what was done.

    Args:
        workspace: Root and settings.
        wish: What is asked for beside bringing the index up to date.
        as_json: Print one JSON object.
        usd: Most USD to spend; None: as set.
        tokens: Most tokens to spend; None: as set.
        wait_for_batches: Wait for batches of providers instead of ending.
    """
    started = time.monotonic()
    source, storage = open_places(workspace)
    _require_no_import(storage, wish.replace)
    require_input(source)
    _require_pipeline(workspace)
    check_stages(wish.refresh, workspace.settings)
    whole = wish.recluster or wish.refresh
    if not whole and nothing_to_do(workspace, source, storage, retry_failed=wish.retry_failed):
        if not has_history(workspace):
            _restore_history(workspace)
        manifest = SnapshotStore(storage).current()
        area = BuildArea(storage)
        before = last_inventory(workspace, area)
        changes = asdict(before.changes) if before else {}
        reports = {"written": 0, "reused": _reports(manifest)}
        report = summary(manifest, changes, 0, {}, reports, storage, started) | {"up_to_date": True}
    else:
        require_writable(storage)
        with progress_on_terminal(), waiting_for_batches(wait_for_batches):
            reconciled, usage = _reconcile(workspace, wish, usd, tokens)
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
    report["rejected"] = _rejected(workspace, storage)
    report["notes"] = notes(workspace, source, storage, SnapshotStore(storage).current())
    if as_json:
        print_json(report)
    else:
        click.echo(describe(report))


def _require_no_import(storage: FileSystem, replace: bool) -> None:
    """End the command where an imported snapshot is published, which the documents of the input would replace."""
    published = SnapshotStore(storage).current()
    if published is not None and is_kept(published, replace):
        fail(kept_message(published), "snapshot")


def _require_pipeline(workspace: Workspace) -> None:
    """End the command where the fast method is to read with a pipeline that is not installed."""
    from graphrag_assets.indexing.noun_phrases import require_pipeline

    if workspace.settings.effective_method == "fast":
        require_pipeline(workspace.settings.extract_graph_nlp.text_analyzer.model_name)


def _rejected(workspace: Workspace, storage: FileSystem) -> list[dict[str, Any]]:
    """Rows of rejected_inputs as the last look at the input left them."""
    seen = last_inventory(workspace, BuildArea(storage))
    rows: list[dict[str, Any]] = seen.rejected.to_pylist() if seen else []
    return rows


def _reports(manifest: Manifest | None) -> int:
    return manifest.tables["community_reports"].rows if manifest else 0


def _reconcile(
    workspace: Workspace, wish: Wish, usd: float | None, tokens: int | None
) -> tuple[Reconciled, dict[str, Any]]:
    """Run the reconcile in this process, within a budget."""
    from graphrag_assets.assets.build import build_definitions
    from graphrag_assets.assets.memory import spare_memory
    from graphrag_assets.assets.models import DAY_REACHED, RUN_USAGE, settings_budget
    from graphrag_assets.assets.resources import Index
    from graphrag_assets.automation.instance import open_instance
    from graphrag_assets.automation.reconcile import RunFailedError, WaitingError, reconcile
    from graphrag_assets.llm.limiting.budget import limited_by

    spare_memory()
    budget = settings_budget(workspace, usd, tokens)
    with limited_by(budget), open_instance(workspace) as instance:
        try:
            index = Index(root=str(workspace.root))
            done = reconcile(build_definitions(workspace), index, instance, wish)
        except WaitingError as error:
            under_way = [flight_json(flight) for flight in flights_of(workspace)]
            raise Waiting(f"{error}. {_COME_BACK}", "waiting", run_id=error.run_id, batches=under_way) from None
        except RunFailedError as error:
            of_day = error.run_id in DAY_REACHED
            if budget.reached or of_day:
                spent = {"spent_usd": round(budget.spent_usd, 8), "spent_tokens": budget.spent_tokens}
                details = spent | {"day": day_of(workspace)} if of_day else spent
                fail(f"{error}. {_GO_ON_DAY if of_day else _GO_ON}", "budget", run_id=error.run_id, **details)
            root = shlex.quote(str(workspace.root))
            log = f"Log of run {error.run_id}: graphrag-assets ui --root {root} (page /runs/{error.run_id})"
            fail(f"{error}\n{log}", "run", run_id=error.run_id)
    return done, dict(RUN_USAGE)


def _restore_history(workspace: Workspace) -> None:
    """Tell a new Dagster instance of the tables that are there."""
    from graphrag_assets.assets.resources import Index
    from graphrag_assets.automation.history import restore_history
    from graphrag_assets.automation.instance import open_instance

    with open_instance(workspace) as instance:
        restore_history(Index(root=str(workspace.root)), instance)


def usage_json(usage: dict[str, Any]) -> dict[str, Any]:
    """LLM usage as the JSON contract has it: totals, and the same by stage."""
    names = ("calls", "cached", "prompt_tokens", "completion_tokens", "usd")
    by_stage = {
        stage: {name: getattr(used, name) for name in names}
        | {"unpriced_calls": used.unpriced_calls, "failed": used.failed, "ladder": used.ladder}
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


def text_unit_line(counts: dict[str, int]) -> str:
    """The counts of text units in words: an empty one was read, and names nothing."""
    return f"Text units: {counts['ok']} ok, {counts['empty']} without entities, {counts['failed']} failed"


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
        text_unit_line(report["text_units"]),
        f"Model calls: {llm['calls']} ({llm['cached']} answered from the cache), {llm['prompt_tokens']} + "
        f"{llm['completion_tokens']} tokens, {llm['usd']:.4f} USD"
        + (f" ({llm['unpriced_calls']} calls of unknown price not counted)" if llm["unpriced_calls"] else ""),
        "",
        table([{"table": name, "rows": rows} for name, rows in report["tables"].items()], ["table", "rows"]),
        "",
        *pruned_line(report["pruned"]),
        *rejections(report["rejected"]),
        *(f"Note: {note}." for note in report["notes"]),
        _outcome(report),
    ]
    return "\n".join(lines)
