"""Jobs: parts of the DAG that people start by name."""

from __future__ import annotations

import dagster as dg

from graphrag_assets.assets.fingerprints import BATCH_STAGES, CORPUS_STAGES, STAGE_ASSETS

#: Tag of runs by which dagster.yaml limits how many work on the tables of the whole corpus at once.
STAGE_TAG = "graphrag/stage"


def jobs() -> list[dg.UnresolvedAssetJobDefinition]:
    """The three jobs of an index run, in their order."""
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
