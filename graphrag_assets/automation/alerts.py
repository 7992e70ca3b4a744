"""Alerts about the published index: checks that warn, on the page of index_snapshot, and block nothing.

They are evaluated after every publication, by the sensor ``watch_health`` between publications, and by the button
*Execute* of the page. A freshness policy of Dagster would be wrong here: it takes an asset for stale that was not
materialized for some time, while a snapshot stays true for as long as its input does not change.
"""

import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

import dagster as dg
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)

from graphrag_assets.assets.resources import open_input, open_storage
from graphrag_assets.assets.snapshot import SNAPSHOT
from graphrag_assets.automation.watching import Look, look
from graphrag_assets.input.folder import InputError
from graphrag_assets.settings import Workspace
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.filesystem import FileSystem, StorageError
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.snapshots import Manifest, SnapshotStore

log = logging.getLogger(__name__)

FRESH, FAILED = "input_is_published", "nothing_failed"

DESCRIPTIONS = {
    FRESH: "No change of the input waits longer than automation.stale_hours for being published.",
    FAILED: "The share of text units and reports that failed is at most automation.alert_failed_share.",
}

#: Reasons of failures that an alert names.
SHOWN = 3


@dataclass(frozen=True)
class Alert:
    """What an alert says.

    Args:
        passed: Whether all is well.
        told: What is the matter, in words, and how to mend it.
        figures: Numbers behind it.
    """

    passed: bool
    told: str = ""
    figures: dict[str, float] = field(default_factory=dict)

    def result(self, name: str) -> dg.AssetCheckResult:
        """As the result of a check."""
        return dg.AssetCheckResult(
            passed=self.passed,
            check_name=name,
            asset_key=SNAPSHOT,
            severity=dg.AssetCheckSeverity.WARN,
            description=self.told or None,
            metadata=self.figures,
        )

    def evaluation(self, name: str) -> dg.AssetCheckEvaluation:
        """As an event that no run made."""
        return dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(SNAPSHOT),
            check_name=name,
            passed=self.passed,
            severity=dg.AssetCheckSeverity.WARN,
            description=self.told or None,
            metadata={key: dg.MetadataValue.float(float(value)) for key, value in self.figures.items()},
        )


def stale(seen: Look, published: Manifest | None, hours: float, now: float, first: float | None = None) -> Alert:
    """Whether a change of the input waits too long for being published.

    Args:
        seen: A look at the input.
        published: The published snapshot.
        hours: How long it may wait.
        now: The present time.
        first: Time at which something was first seen to be missing; None: reckoned from the times of what changed after
            the snapshot was published; where those tell nothing, as of files that are gone, it is taken to be missing
            since now.
    """
    if not seen.missing:
        return Alert(True, figures={"hours_waiting": 0.0})
    if first is None:
        created = datetime.fromisoformat(published.created).timestamp() if published else 0.0
        first = min((at for at in (*seen.modified, *seen.since) if at > created), default=now)
    waiting = max(0.0, (now - first) / 3600)
    figures = {"hours_waiting": round(waiting, 2)}
    if waiting <= hours:
        return Alert(True, figures=figures)
    at = datetime.fromtimestamp(first, UTC).isoformat(timespec="minutes")
    answers = (
        f"answers come from snapshot {published.id} of {published.created}" if published else "nothing is published"
    )
    told = (
        f"{seen.told}, since {at}, while {answers}. Run graphrag-assets index or the job reconcile; or switch on the "
    )
    return Alert(False, told + "sensor watch_input or the schedule nightly", figures)


def failures(storage: FileSystem, published: Manifest | None, most: float) -> Alert:
    """Whether too many rows of the published snapshot failed."""
    if published is None:
        return Alert(True)
    lines: list[str] = []
    figures: dict[str, float] = {}
    passed = True
    for name in ("text_units", "community_reports"):
        rows = read_table(storage, published.tables[name].path, ["status", "reason"])
        reasons = Counter(
            reason or status
            for status, reason in zip(rows["status"].to_pylist(), rows["reason"].to_pylist(), strict=True)
            if status not in ("ok", "empty")
        )
        share = reasons.total() / rows.num_rows if rows.num_rows else 0.0
        figures[f"failed_{name}"] = reasons.total()
        if share > most:
            passed = False
            why = "; ".join(f"{count} of {reason}" for reason, count in reasons.most_common(SHOWN))
            what = name.replace("_", " ")
            lines.append(f"{reasons.total()} of {rows.num_rows} {what} failed ({share:.1%}, at most {most:.1%}): {why}")
    mend = ". The next index run tries those again that failed for a passing reason; graphrag-assets status lists all"
    return Alert(passed, "; ".join(lines) + mend if lines else "", figures)


def evaluate(workspace: Workspace, clean: str = "", first: float | None = None) -> tuple[dict[str, Alert], Look | None]:
    """All alerts, and the look at the input behind them, which is None where the input cannot be read.

    Args:
        workspace: Settings, freshly loaded.
        clean: See :func:`graphrag_assets.automation.watching.look`.
        first: See :func:`stale`; 0: nothing was missing at the look before.

    Raises:
        StorageError: The storage cannot be read.
    """
    settings = workspace.settings.automation
    storage = open_storage(workspace)
    published = SnapshotStore(storage).current()
    seen, now = None, time.time()
    try:
        seen = look(workspace, open_input(workspace), storage, clean)
        fresh = stale(seen, published, settings.stale_hours, now, now if first == 0 else first)
    except (InputError, StorageError) as error:
        fresh = Alert(False, f"the input cannot be looked at: {error}")
    return {FRESH: fresh, FAILED: failures(storage, published, settings.alert_failed_share)}, seen


def shown(instance: dg.DagsterInstance) -> dict[str, bool | None]:
    """What the page of index_snapshot shows of each alert that was ever evaluated.

    A run that failed before it came to them leaves them as failed there, and one that was killed after it had published
    leaves them without a word on the latest snapshot: that is not what they say.
    """
    keys = [dg.AssetCheckKey(dg.AssetKey(SNAPSHOT), name) for name in DESCRIPTIONS]
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    latest = instance.get_latest_materialization_event(dg.AssetKey(SNAPSHOT))
    passed = {AssetCheckExecutionRecordStatus.SUCCEEDED: True, AssetCheckExecutionRecordStatus.FAILED: False}

    def of_latest(record: AssetCheckExecutionRecord) -> bool:
        return latest is None or record.run_id == latest.run_id or record.create_timestamp > latest.timestamp

    return {
        key.name: passed.get(record.status) if of_latest(record) else None
        for key, record in found.items()
        if record is not None
    }


def restate(instance: dg.DagsterInstance, workspace: Workspace) -> None:
    """Have the page say at once what the alerts say, after a run that ended before it came to them.

    Until the next look of the sensor ``watch_health`` it would show failed checks, or none, where all is well with what
    is published. A help, never a reason to fail.
    """
    try:
        told = shown(instance)
        if told.keys() == DESCRIPTIONS.keys() and None not in told.values():
            return
        for name, alert in evaluate(workspace)[0].items():
            instance.report_runless_asset_event(alert.evaluation(name))
    except Exception as error:
        log.info("the alerts could not be told anew: %s: %s", type(error).__name__, error)


def alert_checks(workspace: Workspace) -> list[dg.AssetChecksDefinition]:
    """Declare the alerts as checks of index_snapshot."""

    def declare(name: str) -> dg.AssetChecksDefinition:
        # No resource: a look does not need the lease of the index, and must not wait for it.
        @dg.asset_check(asset=SNAPSHOT, name=name, description=DESCRIPTIONS[name], blocking=False)
        def check() -> dg.AssetCheckResult:
            alerts, _ = evaluate(load_workspace(workspace.root))
            return alerts[name].result(name)

        return check

    return [declare(name) for name in (FRESH, FAILED)]
