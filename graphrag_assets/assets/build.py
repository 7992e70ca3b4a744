"""Putting the definitions together; tests build them for their own workspace."""

from __future__ import annotations

import warnings
from datetime import timedelta
from functools import partial

import dagster as dg

from graphrag_assets.assets.communities import community_assets
from graphrag_assets.assets.documents import document_assets
from graphrag_assets.assets.embeddings import VECTOR_TABLES, embedding_assets
from graphrag_assets.assets.extraction import extraction_assets
from graphrag_assets.assets.graph import graph_assets
from graphrag_assets.assets.resources import Index
from graphrag_assets.assets.snapshot import snapshot_assets
from graphrag_assets.automation.alerts import alert_checks
from graphrag_assets.automation.jobs import part_jobs, reconcile_job, upkeep_job
from graphrag_assets.automation.schedules import schedules
from graphrag_assets.automation.sensors import watch_batches_sensor, watch_health_sensor, watch_input_sensor
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.io_managers import LanceVectors, ParquetTables

#: Hours that a nightly run may take.
NIGHT = 2


def _looked_at_nightly(workspace: Workspace, spec: dg.AssetSpec) -> dg.AssetSpec:
    """The one freshness that Dagster's own policies describe: every reconcile takes the inventory, changed or not."""
    if spec.key != dg.AssetKey("input_inventory"):
        return spec
    window = timedelta(hours=workspace.settings.automation.stale_hours + NIGHT)
    fresh: dg.AssetSpec = dg.apply_freshness_policy(spec, dg.FreshnessPolicy.time_window(fail_window=window))
    return fresh


def build_definitions(workspace: Workspace) -> dg.Definitions:
    """Definitions of the project for one workspace.

    Args:
        workspace: Root folder and settings.
    """
    index = Index(root=str(workspace.root))
    with warnings.catch_warnings():
        # Backfill policies are beta: a warning for each asset that has one, on which a user could not act.
        warnings.simplefilter("ignore", dg.BetaWarning)
        assets = [
            *document_assets(workspace),
            *extraction_assets(workspace),
            *graph_assets(workspace),
            *community_assets(workspace),
            *embedding_assets(workspace),
            *snapshot_assets(workspace),
        ]
        if workspace.settings.automation.nightly:
            assets = list(dg.map_asset_specs(partial(_looked_at_nightly, workspace), assets))
    return dg.Definitions(
        assets=assets,
        asset_checks=alert_checks(workspace),
        jobs=[reconcile_job(), upkeep_job(), *part_jobs()],
        schedules=schedules(workspace),
        sensors=[watch_input_sensor(workspace), watch_batches_sensor(workspace), watch_health_sensor(workspace)],
        resources={
            "index": index,
            "io_manager": ParquetTables(index.storage),
            "vectors": LanceVectors(index.storage, VECTOR_TABLES),
        },
        executor=dg.in_process_executor,
    )
