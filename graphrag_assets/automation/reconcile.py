"""Reconcile: bring the index to the state of the input.

One look compares what the input holds with what the build area holds; runs compute what is missing. The command line and
a person in the UI end at the same assets.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa
from dagster._core.execution.plan.objects import ErrorSource

from graphrag_assets import interrupts
from graphrag_assets.assets.fingerprints import STAGE_ASSETS, Fingerprints
from graphrag_assets.assets.models import WAITING
from graphrag_assets.assets.partitions import BATCHES_NAME
from graphrag_assets.assets.refreshing import begin_refresh, end_refresh, refreshing
from graphrag_assets.assets.resources import Index
from graphrag_assets.automation.alerts import restate
from graphrag_assets.automation.history import restore_history
from graphrag_assets.automation.plan import Work, contiguous, last_inventory, missing_work
from graphrag_assets.automation.processes import PROCESS_TAG, end_dead_runs, end_runs, running
from graphrag_assets.automation.wish import Wish
from graphrag_assets.input.folder import InputError, require_input
from graphrag_assets.input.inventory import Inventory, compare, count_unusable, take_inventory, versions
from graphrag_assets.llm.limiting.budget import current_budgets
from graphrag_assets.progress import begin_telling
from graphrag_assets.storage.lease import BusyError, exclusive
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.snapshots import is_kept
from graphrag_assets.telemetry import present, telemetry_of

if TYPE_CHECKING:
    from graphrag_assets.storage.snapshots import Manifest

log = logging.getLogger(__name__)

#: Tag by which Dagster's daemon would start a failed run again; a run of this process is the caller's to repeat.
MAX_RETRIES_TAG = "dagster/max_retries"

#: Most batches in one run: a run is all or nothing for Dagster, and its tables are in memory at once.
MOST_BATCHES_IN_A_RUN = 20


#: Errors of Dagster that stand around what failed.
_WRAPPERS = ("Dagster", "RetryRequested")

#: The class of an error in front of its message.
_CLASS = re.compile(r"^[\w.]+(?:Error|Exception|Failure): ")

#: A failed step is told by one message; its stack trace is in the run's log, which the UI shows.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def look_at_input(
    index: Index,
    instance: dg.DagsterInstance,
    *,
    allow_empty: bool = False,
    replace: bool = False,
    settle_seconds: float = 0.0,
) -> Inventory:
    """Take the inventory and make the partitions of the instance those of the inventory.

    Args:
        index: The workspace.
        instance: Dagster instance whose partitions are brought in line; a fresh one learns all batches.
        allow_empty: Whether an input that lost all its documents, or a folder of them, may empty the index.
        replace: Whether the index takes the place of an imported snapshot, which an empty one must not.
        settle_seconds: Leave files that were changed in the last seconds as they were seen last.

    Raises:
        InputError: The input does not exist, or what is published would be lost with it.
    """
    require_input(index.input)
    before = last_inventory(index.workspace, index.build)
    found = take_inventory(index.input, index.workspace.settings, before, settle_seconds)
    if not allow_empty and (refused := mass_deletion(index, found, replace)):
        raise InputError(refused)
    register_batches(instance, sorted(set(found.documents["batch"].to_pylist())))
    return found


def mass_deletion(index: Index, found: Inventory, replace: bool = False) -> str:
    """Why an inventory looks like a loss of the input rather than like an edit of it; empty where it does not.

    A disk that is not mounted, a wrong setting or a folder without rights looks like a folder whose files were deleted.
    """
    published = index.snapshots.current()
    before = published.tables["documents"].rows if published else 0
    if published is None or not before or is_kept(published, replace):
        return ""
    where = f"the input {index.input.base} ({index.input.setting})"
    mend = "mend the input, or run graphrag-assets index --allow-empty (in Dagster: allow_empty: true in the config)"
    if not found.documents.num_rows:
        files = found.files.num_rows
        what = f"none of the {files} files in {where} could be used" if files else f"{where} holds no files"
        return f"{what}, while the published snapshot holds {before} documents, all of which would be deleted; {mend}"
    closed = [f"{row['file']}/" for row in found.rejected.to_pylist() if row["reason"] == "unreadable_folder"]
    if not closed:
        return ""
    paths = read_table(index.storage, published.tables["documents"].path, ["path"])["path"].to_pylist()
    lost = sum(path.startswith(tuple(closed)) for path in paths)
    what = f"{lost} of the {before} published documents lie in folders of {where} that cannot be read"
    return f"{what} ({', '.join(closed)}), and would be deleted; {mend}" if lost else ""


def register_batches(instance: dg.DagsterInstance, batches: list[str]) -> None:
    """Add missing partition keys, in order, and remove those of batches that hold no document any more."""
    known = set(instance.get_dynamic_partitions(BATCHES_NAME))
    missing = [key for key in batches if key not in known]
    if missing:
        instance.add_dynamic_partitions(BATCHES_NAME, missing)
    for key in sorted(known - set(batches)):
        instance.delete_dynamic_partition(BATCHES_NAME, key)


class RunFailedError(Exception):
    """A run of the index failed; the message is that of the step that failed.

    Args:
        message: What failed.
        run_id: Dagster's id of the run.
    """

    def __init__(self, message: str, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class WaitingError(RunFailedError):
    """A run ended, since a provider has questions of it as a batch; a later one goes on with the answers."""


@dataclass
class Reconciled:
    """What a reconcile did.

    Args:
        changes: Documents by what happened to them.
        work: What was missing.
        snapshot: The published snapshot.
        new: Whether it is a new one.
    """

    changes: Mapping[str, int]
    work: Work
    snapshot: Manifest | None
    new: bool = False
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)


def reconcile(
    defs: dg.Definitions,
    index: Index,
    instance: dg.DagsterInstance,
    wish: Wish | None = None,
    *,
    what: str = "graphrag-assets index",
    tags: Mapping[str, str] | None = None,
) -> Reconciled:
    """Look at the input, compute what is missing and publish, in runs of this process.

    The command line, the job that the sensor and the schedules start, and a person who starts that job all call this
    function. It holds the lease of the index from its beginning to its end. Runs of earlier processes that were killed
    are ended first: Dagster would wait for them.

    Args:
        defs: The project's definitions.
        index: The workspace.
        instance: Where runs and materializations are recorded.
        wish: What else is asked for.
        what: Who reconciles, for others who find the index busy.
        tags: Further tags of all runs.

    Raises:
        RunFailedError: A run failed; what was published stays.
        BusyError: Another process, of this host or another one, works on the index.
    """
    wish = wish or Wish()
    begin_telling()
    home = Path(instance.root_directory)
    end_dead_runs(instance, home)
    seconds = index.workspace.settings.automation.lease_seconds
    telemetry = telemetry_of(index.workspace.settings.telemetry)
    with exclusive(index.storage, what, seconds, wait=wish.wait, waiting=_tell_wait), running(home) as process:
        own = {PROCESS_TAG: process, MAX_RETRIES_TAG: "0"}
        try:
            with telemetry.span("index", {"graphrag.started_by": what}) as span:
                done = _reconcile(defs, index, instance, {**(tags or {}), **own}, wish)
                span.set_attributes(_told(done))
            restate(instance, index.workspace)
            return done
        except RunFailedError:
            restate(instance, index.workspace)
            raise
        except BaseException:
            end_runs(instance, [process], "interrupted before the run began its first step")
            raise
        finally:
            telemetry.send()


def _told(done: Reconciled) -> dict[str, Any]:
    """What a reconcile did, as attributes of its span."""
    figures = {
        **{f"graphrag.documents.{name}": count for name, count in done.changes.items()},
        "graphrag.batches": len(done.work.batches),
        "graphrag.snapshot": done.snapshot.id if done.snapshot else "",
        "graphrag.snapshot.new": done.new,
    }
    return present(figures)


def _tell_wait(busy: BusyError) -> None:
    log.warning("waiting, since the index is being worked on by %s", busy.holder.told())


def _reconcile(
    defs: dg.Definitions, index: Index, instance: dg.DagsterInstance, tags: Mapping[str, str], wish: Wish
) -> Reconciled:
    """The reconcile itself.

    Args:
        defs: The project's definitions.
        index: The workspace.
        instance: Where runs and materializations are recorded.
        tags: Tags of all runs.
        wish: What else is asked for.
    """
    restore_history(index, instance)
    config = _config(
        "inventory",
        allow_empty=wish.allow_empty,
        replace_imported=wish.replace,
        settle_seconds=wish.settle_seconds,
    )
    _run(defs, instance, tags, ["input_inventory", "input_files", "rejected_inputs"], [], config)
    inventory = index.build.read("input_inventory")
    prints = Fingerprints(index.workspace, inventory)
    published = index.snapshots.current()
    changes = changes_since(index, published, inventory)
    fingerprint = str(published.info.get("fingerprint")) if published else None
    begin_refresh(index.storage, wish.refresh)
    again = frozenset({"communities"} if wish.recluster else ())
    work = missing_work(index.workspace, index.storage, prints, fingerprint, again, retry_failed=wish.retry_failed)
    if not work.nothing:
        _expect(index, prints, work, wish)
    order = list(instance.get_dynamic_partitions(BATCHES_NAME))
    batch_assets = [asset for stage in work.stages for asset in STAGE_ASSETS[stage]]
    waiting: WaitingError | None = None
    for group in contiguous(work.batches, order, MOST_BATCHES_IN_A_RUN):
        try:
            _run(defs, instance, tags, batch_assets, group)
        except WaitingError as error:  # the provider may as well have the questions of the next documents
            waiting = waiting or error
    if waiting is not None:
        raise waiting
    metadata: dict[str, dict[str, Any]] = {}
    if work.publish:
        corpus_assets = [asset for stage in work.corpus_stages for asset in STAGE_ASSETS[stage]]
        config = _config("index_snapshot", replace_imported=wish.replace)
        if wish.recluster:
            config["ops"] |= _config("communities", recluster=True)["ops"]
        metadata = _run(defs, instance, tags, [*corpus_assets, "index_snapshot"], [], config)
    end_refresh(index.storage)
    current = index.snapshots.current()
    new = current is not None and (published is None or current.id != published.id)
    return Reconciled(changes, work, current, new, metadata)


def _wants_plan(index: Index) -> bool | None:
    """Whether a run begins with a whole plan (True) or with a cheap estimate (False); None: with none of them."""
    settings = index.workspace.settings
    limits = settings.budget
    if settings.effective_method != "standard" and not settings.embedding_models:
        return None
    if limits.estimate_runs is not None:
        return limits.estimate_runs or None
    limited = limits.usd_per_run is not None or limits.tokens_per_run is not None
    return limited or any(budget.limited for budget in current_budgets())


def _expect(index: Index, prints: Fingerprints, work: Work, wish: Wish) -> None:
    """Keep what the run is expected to take, so that its end can be compared with it; a help, never a reason to fail."""
    from graphrag_assets.assets.expected import keep_expectation
    from graphrag_assets.plan import plan_for
    from graphrag_assets.plan.estimating import estimate

    inventory, planned = last_inventory(index.workspace, index.build), _wants_plan(index)
    if inventory is None or planned is None:
        return
    try:
        if planned:
            found = plan_for(index, inventory, recluster=wish.recluster, retry_failed=wish.retry_failed).to_dict()
        else:
            found = estimate(index, inventory, work, refreshing(index.storage))
        keep_expectation(index, prints.whole_input(), found, by="plan" if planned else "estimate")
    except Exception as error:
        log.warning("what the run will take could not be estimated: %s: %s", type(error).__name__, error)


def _config(op: str, **values: bool | float) -> dict[str, Any]:
    """Run configuration of one asset."""
    return {"ops": {op: {"config": values}}}


def changes_since(index: Index, published: Manifest | None, inventory: pa.Table) -> dict[str, int]:
    """Documents by what happened to them since the published snapshot: what people asked to be brought up to date."""
    rejected = count_unusable(index.build.read("rejected_inputs", columns=["reason"])["reason"].to_pylist())
    before = {}
    if published and not is_kept(published, replace=False):
        file = published.tables["documents"].path
        before = versions(read_table(index.storage, file, ["id", "content_hash"]), "id")
    return asdict(compare(before, versions(inventory), rejected))


def _run(
    defs: dg.Definitions,
    instance: dg.DagsterInstance,
    tags: Mapping[str, str],
    assets: list[str],
    batches: list[str],
    config: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    """Materialize assets in this process; returns the metadata values of each."""
    span = (
        {"dagster/asset_partition_range_start": batches[0], "dagster/asset_partition_range_end": batches[-1]}
        if batches
        else {}
    )
    job = defs.resolve_implicit_global_asset_job_def()
    run_id = str(uuid.uuid4())
    log.info("run %s: %s%s", run_id, ", ".join(assets), f" of {batches[0]} to {batches[-1]}" if batches else "")
    instance.add_event_listener(run_id, _log_step)
    result = job.execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(name) for name in assets],
        tags={**tags, **span},
        run_config={**QUIET, **(config or {})},
        raise_on_error=False,
        run_id=run_id,
    )
    if any(e.is_step_failure and e.step_failure_data.error_source is ErrorSource.INTERRUPT for e in result.all_events):
        raise KeyboardInterrupt
    interrupts.check()
    if not result.success:
        failures = [event.step_failure_data for event in result.all_events if event.is_step_failure]
        waits = [bool(data.user_failure_data and WAITING in data.user_failure_data.metadata) for data in failures]
        # Where something else failed too, that is what is told.
        first = waits.index(False) if False in waits else 0
        raise (WaitingError if waits and all(waits) else RunFailedError)(_reason(result, first), run_id)
    return {
        event.asset_key.path[-1]: {name: value.value for name, value in event.materialization.metadata.items()}
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None
    }


def _log_step(event: dg.EventLogEntry) -> None:
    """Log what a run is at."""
    told = event.dagster_event
    if told is None or told.step_key is None:
        return
    if told.is_step_start:
        log.info("%s: begins", told.step_key)
    elif told.is_step_success:
        log.info("%s: done in %.1f s", told.step_key, told.step_success_data.duration_ms / 1000)
    elif told.is_step_failure and told.step_failure_data.error_source is not ErrorSource.INTERRUPT:
        error = told.step_failure_data.error
        log.info("%s: failed\n%s", told.step_key, error.to_string() if error else "")


def _reason(result: dg.ExecuteInProcessResult, number: int = 0) -> str:
    """The message of a step that failed, by number, or of a blocking check."""
    failed = [event for event in result.all_events if event.is_step_failure]
    if failed:
        event = failed[number]
        error = event.step_failure_data.error
        # Dagster's wrappers say where, what they wrap says what; our own errors say it better than their causes.
        # A step that was tried as often as its policy says ends with an error that names only the number.
        while error is not None and error.cause is not None and (error.cls_name or "").startswith(_WRAPPERS):
            error = error.cause
        data = event.step_failure_data.user_failure_data
        text = data.description if data and data.description else (error.message if error else "")
        return f"{event.step_key}: {_CLASS.sub('', (text or '').strip())}"
    return json.dumps([event.message for event in result.all_events if event.is_failure])
