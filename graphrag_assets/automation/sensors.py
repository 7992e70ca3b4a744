"""Sensors: two start the job reconcile, when the input changed or a batch is done; one keeps the alerts true."""

import json
import time
from dataclasses import replace

import dagster as dg

from graphrag_assets.assets.resources import open_input, open_storage
from graphrag_assets.automation.alerts import evaluate, shown
from graphrag_assets.automation.jobs import RECONCILE, RECONCILE_OP, UPKEEP
from graphrag_assets.automation.watching import LastRun, Memory, decide, look
from graphrag_assets.ids import digest_json
from graphrag_assets.settings import Workspace
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.lease import holder

#: Tag of a run that the sensor asked for: what for. A run that Dagster starts again after a crash keeps it.
CHANGE_TAG = "graphrag/change"

#: Seconds between two looks of the alerts.
HEALTH_SECONDS = 300

#: Seconds after which a run is started once more for batches that an earlier one should have collected.
BATCH_RETRY_SECONDS = 3600

_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def busy(instance: dg.DagsterInstance, workspace: Workspace) -> str:
    """Who reconciles now, here or elsewhere, in words; empty where nobody does."""
    for job in (RECONCILE, UPKEEP):
        for run in instance.get_runs(dg.RunsFilter(job_name=job, statuses=_UNFINISHED), limit=1):
            return f"run {run.run_id} of the job {job} is {run.status.value.lower()}"
    entry = holder(open_storage(workspace))
    return f"the index is being worked on by {entry.told()}" if entry else ""


def last_run(instance: dg.DagsterInstance, key: str) -> LastRun | None:
    """The newest run that was started for a key."""
    for record in instance.get_run_records(dg.RunsFilter(tags={CHANGE_TAG: key}), limit=1):
        run = record.dagster_run
        stopped = run.status == dg.DagsterRunStatus.CANCELED
        ended = record.end_time or record.update_timestamp.timestamp()
        return LastRun(run.run_id, ended, run.status == dg.DagsterRunStatus.SUCCESS, stopped)
    return None


def watch_input_sensor(workspace: Workspace) -> dg.SensorDefinition:
    """Declare watch_input.

    Args:
        workspace: Where settings.yaml lies; it is read anew at each look.
    """
    settings = workspace.settings.automation

    @dg.sensor(
        name="watch_input",
        job_name=RECONCILE,
        minimum_interval_seconds=settings.watch_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING if settings.watch_input else dg.DefaultSensorStatus.STOPPED,
        description="Looks at the input by size, time and ETag, and starts the job reconcile when new, edited or deleted "
        "files have come to rest, or when an earlier run left something undone. A run spends what indexing the change "
        "costs: off unless automation.watch_input is set, or it is switched on here.",
    )
    def watch_input(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        present = load_workspace(workspace.root)
        if at_work := busy(context.instance, present):
            return dg.SensorResult(skip_reason=f"skipped: {at_work}", cursor=context.cursor)
        memory = Memory.read(context.cursor)
        seen = look(present, open_input(present), open_storage(present), memory.clean)
        automation = present.settings.automation
        decision = decide(memory, seen, time.time(), automation, lambda key: last_run(context.instance, key))
        cursor = decision.memory.to_json()
        if not decision.start:
            return dg.SensorResult(skip_reason=decision.reason, cursor=cursor)
        key = decision.memory.key
        request = dg.RunRequest(
            run_key=key,
            tags={CHANGE_TAG: key},
            run_config={"ops": {RECONCILE_OP: {"config": {"settle_seconds": automation.settle_seconds}}}},
        )
        context.log.info(f"{decision.reason}: starting a reconcile")
        return dg.SensorResult(run_requests=[request], cursor=cursor)

    return watch_input


def watch_batches_sensor(workspace: Workspace) -> dg.SensorDefinition:
    """Declare watch_batches.

    Args:
        workspace: Where settings.yaml lies; it is read anew at each look.
    """
    settings = workspace.settings.automation

    @dg.sensor(
        name="watch_batches",
        job_name=RECONCILE,
        minimum_interval_seconds=settings.batch_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING if settings.watch_batches else dg.DefaultSensorStatus.STOPPED,
        description="Asks providers about the batches that earlier runs sent (batch_api), and starts the job reconcile when "
        "one has ended: it takes the answers and sends what follows from them, which costs what that costs. Off unless "
        "automation.watch_batches is set, or it is switched on here.",
    )
    def watch_batches(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        from graphrag_assets.llm.batching.looking import look_at_flights

        present = load_workspace(workspace.root)
        if at_work := busy(context.instance, present):
            return dg.SensorResult(skip_reason=f"skipped: {at_work}")
        looked = look_at_flights(present)
        if not looked.ready:
            return dg.SensorResult(skip_reason=looked.told)
        # What a run could not finish, as while the provider is away, is tried again, but not at each look.
        key = f"batches-{digest_json(sorted(looked.ready))[:16]}-{time.time() // BATCH_RETRY_SECONDS:.0f}"
        context.log.info(f"{looked.told}: starting a reconcile")
        return dg.SensorResult(run_requests=[dg.RunRequest(run_key=key, tags={CHANGE_TAG: key})])

    return watch_batches


def watch_health_sensor(workspace: Workspace) -> dg.SensorDefinition:
    """Declare watch_health.

    Args:
        workspace: Where settings.yaml lies; it is read anew at each look.
    """

    @dg.sensor(
        name="watch_health",
        asset_selection="index_snapshot",
        minimum_interval_seconds=HEALTH_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Keeps two checks of index_snapshot true between publications: no change of the input waits too long, "
        "and not too much failed. It starts no run and asks no model: on unless it is switched off here.",
    )
    def watch_health(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        remembered = json.loads(context.cursor or "{}")
        memory = Memory.read(json.dumps(remembered.get("memory", {})))
        alerts, seen = evaluate(load_workspace(workspace.root), memory.clean, memory.first)
        if seen is not None and not seen.missing:
            memory = Memory(clean=seen.state)
        elif seen is not None:
            memory = replace(memory, first=memory.first or time.time())
        said = digest_json({name: [alert.passed, alert.told] for name, alert in alerts.items()})
        cursor = json.dumps({"memory": json.loads(memory.to_json()), "said": said})
        if said == remembered.get("said") and shown(context.instance) in (
            {},
            {n: a.passed for n, a in alerts.items()},
        ):
            return dg.SensorResult(skip_reason="nothing new to say", cursor=cursor)
        return dg.SensorResult(asset_events=[a.evaluation(name) for name, a in alerts.items()], cursor=cursor)

    return watch_health
