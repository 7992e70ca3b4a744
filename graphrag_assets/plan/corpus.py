"""The stages of the whole corpus, on what is extracted and what is supposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from graphrag_assets.assets.clustering import earlier_clustering
from graphrag_assets.assets.communities import earlier_reports, write_through
from graphrag_assets.assets.contradictions import cached_conflicts, known_conflicts
from graphrag_assets.assets.corpus import canonical_titles
from graphrag_assets.assets.fingerprints import code_version
from graphrag_assets.assets.graph import earlier_summaries, finished, in_order, resolve, summarize_all
from graphrag_assets.assets.resources import Index
from graphrag_assets.indexing.communities import cluster
from graphrag_assets.indexing.conflicts import Conflict
from graphrag_assets.indexing.graph import merge_graph
from graphrag_assets.indexing.links import link_covariates
from graphrag_assets.plan.asking import Supposing
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.tables import (
    COMMUNITIES,
    COMMUNITY_REPORTS,
    COVARIATES,
    ENTITIES,
    ENTITY_ALIASES,
    RELATIONSHIPS,
)

Tables = dict[str, pa.Table]


@dataclass(frozen=True)
class Texts:
    """The corpus as it would be.

    Args:
        units: Rows of batch_text_units, by batch.
        extracted: extracted_entities, extracted_relationships and extracted_claims of all batches.
        order: Columns text_unit_id, document_id and order.
        dates: Dates of text units, for those whose documents state one.
    """

    units: Mapping[str, pa.Table]
    extracted: Mapping[str, pa.Table]
    order: pa.Table
    dates: Mapping[str, str]


async def graph_tables(corpus: Texts, index: Index, asking: Supposing) -> Tables:
    """entities, relationships and covariates, resolved, merged and described."""
    named, linked = corpus.extracted["extracted_entities"], corpus.extracted["extracted_relationships"]
    resolution = await resolve(named, linked, corpus.order, index.workspace, asking)
    merged = merge_graph(named, linked, corpus.order, resolution.mapping)
    asking.texts.descriptions = _said(merged.entities, ["title"]) | _said(merged.relationships, ["source", "target"])
    anew = "summarize_descriptions" in asking.anew
    known = {} if anew else earlier_summaries(index.build, code_version(index.workspace, "graph"))
    of_entities, of_relationships, *_ = await summarize_all(
        merged.entities, merged.relationships, index.workspace, asking, known
    )
    titles = canonical_titles(ENTITY_ALIASES.from_rows(resolution.aliases))
    claims = link_covariates(corpus.extracted["extracted_claims"], corpus.order, titles)
    return {
        "entities": finished(merged.entities, ENTITIES, of_entities),
        "relationships": finished(merged.relationships, RELATIONSHIPS, of_relationships),
        "covariates": COVARIATES.conform(claims),
    }


#: Of an input without documents.
_NO_UNITS = pa.table({name: pa.array([], pa.string()) for name in ("id", "text", "document_id")})


def _said(rows: pa.Table, names: Sequence[str]) -> dict[str, str]:
    """Name and descriptions by id."""
    columns = rows.select(["id", *names, "descriptions"]).to_pylist()
    return {row["id"]: " ".join([*(row[name] for name in names), *row["descriptions"]]) for row in columns}


def communities_of(tables: Tables, corpus: Texts, index: Index, *, recluster: bool) -> pa.Table:
    """The communities of a graph, those that there are kept as the run would keep them."""
    settings = index.workspace.settings.cluster_graph
    found = cluster(
        tables["entities"],
        tables["relationships"],
        max_cluster_size=settings.max_cluster_size,
        use_lcc=settings.use_lcc,
        seed=settings.seed,
        resolution=settings.resolution,
        dates=dict(corpus.dates),
        earlier=None if recluster else earlier_clustering(index),
        max_drift=settings.max_drift,
    )
    return COMMUNITIES.conform(found.communities)


async def reports_of(tables: Tables, corpus: Texts, index: Index, asking: Supposing) -> pa.Table:
    """The reports on all communities, carried over where they would be."""
    if asking.supposed:
        conflicts = _earlier_conflicts(index)
    else:
        units = pa.concat_tables(
            [table.select(["id", "text", "document_id"]) for table in corpus.units.values()] or [_NO_UNITS]
        )
        conflicts = cached_conflicts(in_order(units, corpus.order), tables, index.workspace, keep=False).conflicts
    previous: Mapping[str, Mapping[str, Any]] = {} if "community_reports" in asking.anew else earlier_reports(index)
    made = await write_through(asking, corpus.order.num_rows, tables, conflicts, index.workspace, previous)
    return COMMUNITY_REPORTS.from_rows(made.rows)


def _earlier_conflicts(index: Index) -> Sequence[Conflict]:
    """The contradictions of the published snapshot: those of all that does not change.

    To look for those of a graph that is only supposed would take a third of the time of a plan and tell little.
    """
    published = index.snapshots.current()
    if published is None or "imported" in published.info:
        return ()
    names = {"text_units": ["id"], "entities": ["title", "aliases", "text_unit_ids"], "covariates": None}
    tables = {name: read_table(index.storage, published.tables[name].path, wanted) for name, wanted in names.items()}
    known = known_conflicts(tables["text_units"], tables, index.workspace)
    return known.conflicts if known else ()
