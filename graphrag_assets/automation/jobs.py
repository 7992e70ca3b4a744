"""Jobs: the whole reconcile, upkeep, and the parts of the DAG that people start by name."""

from dataclasses import asdict
from datetime import timedelta

import dagster as dg
from pydantic import Field

from graphrag_assets.assets.fingerprints import BATCH_STAGES, CORPUS_STAGES, STAGE_ASSETS
from graphrag_assets.assets.resources import Index
from graphrag_assets.automation.wish import Wish
from graphrag_assets.storage.pruning import prune

#: Tag of runs by which dagster.yaml limits how many work on the tables of the whole corpus at once.
STAGE_TAG = "graphrag/stage"

#: Tag of the runs that a run of the job reconcile makes: the id of that run.
RECONCILE_TAG = "graphrag/reconcile"

#: Tags by which the UI tells who started a run.
STARTED_BY = ("dagster/sensor_name", "dagster/schedule_name")

RECONCILE, UPKEEP = "reconcile", "upkeep"
RECONCILE_OP = "reconcile_index"


class ReconcileConfig(dg.Config):
    """What a person may ask of a reconcile."""

    allow_empty: bool = Field(
        False, description="Delete all documents where the input holds none any more, or a folder cannot be read."
    )
    recluster: bool = Field(False, description="Make all communities afresh, instead of keeping those that there are.")
    replace_imported: bool = Field(False, description="Take the place of an imported snapshot.")
    retry_failed: bool = Field(False, description="Try what failed at once, instead of when it is time.")
    settle_seconds: float = Field(
        0.0, description="Leave files that were changed in the last seconds as they were seen last: they may be half."
    )


@dg.op(
    name=RECONCILE_OP,
    description="Look at the input, compute what is missing in runs of this process, publish. The same function as "
    "graphrag-assets index.",
    out=dg.Out(dg.Nothing),
)
def reconcile_op(context: dg.OpExecutionContext, config: ReconcileConfig, index: Index) -> None:
    """Run the reconcile; the runs that it makes carry the id of this one as a tag."""
    from graphrag_assets.assets.build import build_definitions
    from graphrag_assets.assets.models import settings_budget
    from graphrag_assets.automation.instance import opened
    from graphrag_assets.automation.reconcile import RunFailedError, WaitingError, reconcile
    from graphrag_assets.llm.limiting.budget import limited_by

    wish = Wish(
        config.allow_empty,
        config.recluster,
        config.replace_imported,
        wait=True,
        retry_failed=config.retry_failed,
        settle_seconds=config.settle_seconds,
    )
    by = {name: value for name, value in context.run.tags.items() if name in STARTED_BY}
    tags = {RECONCILE_TAG: context.run_id, **by}
    context.log.info(f"The runs of this reconcile: /runs?q=tag:{RECONCILE_TAG}={context.run_id}")
    try:
        with limited_by(settings_budget(index.workspace)), opened(context.instance) as instance:
            definitions = build_definitions(index.workspace)
            done = reconcile(definitions, index, instance, wish, what=f"Dagster run {context.run_id}", tags=tags)
    except WaitingError as error:
        run = dg.MetadataValue.dagster_run(error.run_id)
        context.add_output_metadata({"waiting": str(error), "last run": run})
        context.log.info(f"{error}. The sensor watch_batches, or the next reconcile, goes on with the answers")
        return
    except RunFailedError as error:
        run = dg.MetadataValue.dagster_run(error.run_id)
        raise dg.Failure(str(error), metadata={"failed run": run}, allow_retries=False) from error
    except KeyboardInterrupt as error:
        raise dg.DagsterExecutionInterruptedError("interrupted") from error
    snapshot = done.snapshot.id if done.snapshot else "none"
    told = {**{f"documents_{name}": count for name, count in done.changes.items()}, "batches": len(done.work.batches)}
    context.add_output_metadata({"snapshot": snapshot, "new_snapshot": done.new, **told})
    counts = ", ".join(f"{count} {name}" for name, count in done.changes.items())
    outcome = "published as" if done.new else "nothing new to publish: the published snapshot stays"
    context.log.info(f"Documents: {counts}; {len(done.work.batches)} batches; {outcome} {snapshot}")


@dg.op(
    name="prune_snapshots",
    description="Remove snapshots beyond automation.keep_snapshots that are older than automation.keep_days; never the "
    "published one, nor what another one needs.",
    ins={"after": dg.In(dg.Nothing)},
    out=dg.Out(dg.Nothing),
)
def prune_op(context: dg.OpExecutionContext, index: Index) -> None:
    """Prune snapshots by the settings."""
    settings = index.workspace.settings.automation
    done = prune(index.storage, keep=settings.keep_snapshots, older_than=timedelta(days=settings.keep_days))
    told = asdict(done) | {"snapshots": ", ".join(done.snapshots) or "none"}
    context.add_output_metadata(told)
    context.log.info(f"Removed snapshots: {told['snapshots']} ({done.files} files, {done.bytes / 1e6:.1f} MB)")


def reconcile_job() -> dg.JobDefinition:
    """The job that the sensor and the nightly schedule start."""

    @dg.job(
        name=RECONCILE,
        description="Bring the index to the state of the input: the same as graphrag-assets index.",
        tags={STAGE_TAG: "global"},
    )
    def reconcile() -> None:
        reconcile_op()

    return reconcile


def upkeep_job() -> dg.JobDefinition:
    """The job that the weekly schedule starts."""

    @dg.job(
        name=UPKEEP,
        description="Reconcile with all communities made afresh, then remove old snapshots.",
        tags={STAGE_TAG: "global"},
    )
    def upkeep() -> None:
        prune_op(after=reconcile_op())

    return upkeep


def part_jobs() -> "list[dg.UnresolvedAssetJobDefinition]":
    """The three parts of an index run, in their order."""
    batch = [asset for stage in BATCH_STAGES for asset in STAGE_ASSETS[stage]]
    corpus = [asset for stage in CORPUS_STAGES for asset in STAGE_ASSETS[stage]]
    return [
        dg.define_asset_job(
            "take_inventory",
            selection=dg.AssetSelection.assets("input_inventory", "input_files", "rejected_inputs"),
            description="Look at the input: find new, edited and deleted documents and register their batches.",
        ),
        dg.define_asset_job(
            "index_batches",
            selection=dg.AssetSelection.assets(*batch),
            description="Everything that is made for each document batch: documents, text units, extraction, vectors.",
            tags={STAGE_TAG: "batch"},
        ),
        dg.define_asset_job(
            "build_graph",
            selection=dg.AssetSelection.assets(*corpus, "index_snapshot"),
            description="Everything that is made for the whole corpus, up to the published snapshot.",
            tags={STAGE_TAG: "global"},
        ),
    ]
