"""What every asset carries: description, group, kinds, owners, column schema, column lineage, code version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import dagster as dg
import pyarrow as pa

from graphrag_assets.assets.fingerprints import STAGE_ASSETS, code_version
from graphrag_assets.assets.lineage import COLUMN_LINEAGE
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import CONTRACTS
from graphrag_assets.storage.contract import Table
from graphrag_assets.storage.tables import embeddings_table

OWNERS = ["team:knowledge-graph"]

#: Groups of the asset graph, in reading order.
INPUT, EXTRACTION, GRAPH, COMMUNITIES, EMBEDDINGS, PUBLISHED = (
    "input",
    "extraction",
    "graph",
    "communities",
    "embeddings",
    "published",
)

#: Stands for the size of vectors, which is known once a model made one.
ANY_DIMENSION = 1

_STAGE_OF = {asset: stage for stage, assets in STAGE_ASSETS.items() for asset in assets}


def _column_schema(contract: Table) -> dg.TableSchema:
    return dg.TableSchema(
        [
            dg.TableColumn(
                c.name, _type_name(c.type), c.description, constraints=dg.TableColumnConstraints(nullable=c.nullable)
            )
            for c in contract.columns
        ]
    )


def _type_name(type: pa.DataType) -> str:
    """Arrow's name of a type, without the names that it gives to the items of lists."""
    return re.sub(r"(?<=<)(item|element): ", "", str(type)).removesuffix(f"[{ANY_DIMENSION}]")


def _lineage(asset: str) -> dg.TableColumnLineage:
    return dg.TableColumnLineage(
        {
            column: [dg.TableColumnDep(dg.AssetKey(source), name) for source, name in sources]
            for column, sources in COLUMN_LINEAGE[asset].items()
        }
    )


def described(asset: str, group: str, *, kinds: set[str], workspace: Workspace | None = None) -> dict[str, Any]:
    """Arguments of an asset declaration that follow from its table contract.

    Args:
        asset: Asset name.
        group: Group in the asset graph.
        kinds: What it is made with and stored as; Dagster shows three.
        workspace: Settings and prompts, from which the code version follows; None for assets without one.
    """
    metadata: dict[str, Any] = {}
    contract = embeddings_table(asset, ANY_DIMENSION) if group == EMBEDDINGS else CONTRACTS.get(asset)
    if contract:
        metadata["dagster/column_schema"] = _column_schema(contract)
    if asset in COLUMN_LINEAGE:
        metadata["dagster/column_lineage"] = _lineage(asset)
    stage = _STAGE_OF.get(asset)
    return {
        "description": DESCRIPTIONS[asset],
        "group_name": group,
        "kinds": kinds,
        "owners": OWNERS,
        "metadata": metadata,
        "code_version": code_version(workspace, stage) if workspace and stage else None,
    }


DESCRIPTIONS: Mapping[str, str] = {
    "input_inventory": "What the input holds: every document with its version and its batch. Materializing it looks at "
    "the input again and registers the batches.",
    "input_files": "Every file of the input as it was last seen, so that an unchanged file is not read again.",
    "rejected_inputs": "Files, rows and pages that could not be used, with the reason. Nothing is dropped in silence.",
    "documents": "The documents of a batch: text, title, metadata.",
    "text_units": "The documents of a batch, cut into text units with their exact place in the document.",
    "extracted_entities": "Entities that each text unit of a batch names.",
    "extracted_relationships": "Relationships that each text unit of a batch states.",
    "extracted_claims": "Claims that each text unit of a batch makes (empty unless claims are switched on).",
    "extraction_status": "How the extraction of each text unit went: ok, empty, failed, truncated or refused.",
    "entity_aliases": "Which titles were merged into one entity or kept apart, with the evidence for it.",
    "entities": "Entities of the whole corpus: one row per canonical title, all mentions and descriptions merged.",
    "relationships": "Relationships of the whole corpus: one row per unordered pair, weights summed.",
    "covariates": "Claims of the whole corpus, their subjects and objects resolved to entities.",
    "communities": "Communities of closely related entities, in levels, by hierarchical Leiden.",
    "community_reports": "A report for each community: title, summary, findings with citations, rating.",
    "text_unit_embeddings": "Vectors of the text units of a batch.",
    "entity_embeddings": "Vectors of entity titles and descriptions.",
    "community_report_embeddings": "Vectors of community reports.",
    "index_snapshot": "The published index: all tables and vectors as one immutable version that queries read. It is "
    "published only when the blocking checks pass.",
}
