"""Assembling and publishing a snapshot: the last gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg
import pyarrow as pa

from graphrag_assets import __version__
from graphrag_assets.assets.embeddings import VECTOR_TABLES
from graphrag_assets.assets.fingerprints import Fingerprints
from graphrag_assets.assets.partitions import every_batch
from graphrag_assets.assets.resources import Index
from graphrag_assets.assets.specs import PUBLISHED, described
from graphrag_assets.indexing.graph import link_tables, text_unit_links
from graphrag_assets.indexing.report_context import publish_citations
from graphrag_assets.indexing.validation import CHECKS, Violation
from graphrag_assets.settings import Workspace
from graphrag_assets.storage import parquet, tables
from graphrag_assets.storage.build import BuildArea, TableRef
from graphrag_assets.storage.snapshots import VectorTable
from graphrag_assets.storage.vectors import VectorStore, read_marker


def assemble(area: BuildArea, batches: list[str]) -> dict[str, pa.Table]:
    """The published tables, from the build area.

    Args:
        area: The build area; all stages are built.
        batches: Batches that hold documents.

    Returns:
        Every table of a snapshot by name, in canonical order, whatever the batches were.
    """
    corpus = {
        name: area.read(name)
        for name in ("entities", "relationships", "covariates", "communities", "entity_aliases", "rejected_inputs")
    }
    documents = area.ref("documents", batches).table().sort_by("path")
    units = _text_units(area, batches, documents)
    units = _with_links(units, corpus)
    by_document = _text_units_by_document(units)
    documents = documents.append_column("human_readable_id", pa.array(range(documents.num_rows), pa.int64()))
    documents = documents.append_column(
        "text_unit_ids", pa.array([by_document.get(i, []) for i in documents["id"].to_pylist()], tables.STRINGS)
    )
    published = {
        **corpus,
        "documents": documents.select(tables.DOCUMENTS.column_names),
        "text_units": units.select(tables.TEXT_UNITS.column_names),
    }
    published["community_reports"] = _reports_for_readers(area.read("community_reports"), published)
    published |= link_tables(
        published["text_units"], published["entities"], published["relationships"], published["communities"]
    )
    return {table.name: table.conform(published[table.name]) for table in tables.PUBLISHED}


def _text_units(area: BuildArea, batches: list[str], documents: pa.Table) -> pa.Table:
    """Text units of all batches with their extraction status, in the order of documents and positions."""
    units = area.ref("text_units", batches).table()
    status = area.ref("extraction_status", batches).table(["text_unit_id", "status", "reason"])
    order = pa.table({"document_id": documents["id"], "document": pa.array(range(documents.num_rows), pa.int64())})
    joined = units.join(order, "document_id").join(status, "id", "text_unit_id")
    joined = joined.sort_by([("document", "ascending"), ("position", "ascending")])
    return joined.append_column("human_readable_id", pa.array(range(joined.num_rows), pa.int64()))


def _with_links(units: pa.Table, corpus: Mapping[str, pa.Table]) -> pa.Table:
    links = text_unit_links(units["id"], corpus["entities"], corpus["relationships"], corpus["covariates"])
    for name in ("entity_ids", "relationship_ids", "covariate_ids"):
        units = units.append_column(name, links[name])
    return units


def _text_units_by_document(units: pa.Table) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for document, unit in zip(units["document_id"].to_pylist(), units["id"].to_pylist(), strict=True):
        found.setdefault(document, []).append(unit)
    return found


def _reports_for_readers(reports: pa.Table, published: Mapping[str, pa.Table]) -> pa.Table:
    """Reports cite content ids while they are built; readers want the numbers of this snapshot."""
    numbers = {
        "Entities": _numbers(published["entities"]),
        "Relationships": _numbers(published["relationships"]),
        "Claims": _numbers(published["covariates"]),
        "Sources": _numbers(published["text_units"]),
        "Reports": dict(
            zip(published["communities"]["id"].to_pylist(), published["communities"]["community"].to_pylist(), strict=True)
        ),
    }
    rows = reports.to_pylist()
    for row in rows:
        for name in ("summary", "full_content", "full_content_json", "rating_explanation"):
            row[name] = publish_citations(row[name], numbers)
        for finding in row["findings"]:
            finding["summary"] = publish_citations(finding["summary"], numbers)
            finding["explanation"] = publish_citations(finding["explanation"], numbers)
    return tables.COMMUNITY_REPORTS.from_rows(rows)


def _numbers(table: pa.Table) -> dict[str, int]:
    return dict(zip(table["id"].to_pylist(), table["human_readable_id"].to_pylist(), strict=True))


def collect_vectors(index: Index, batches: list[str]) -> tuple[dict[str, VectorTable], dict[str, list[str]]]:
    """The vector tables at their present version, and the ids in them.

    Rows of batches that no longer exist leave the table of text units first.
    """
    vectors: dict[str, VectorTable] = {}
    vector_ids: dict[str, list[str]] = {}
    for asset, name in VECTOR_TABLES.items():
        keys: list[str | None] = list(batches) if asset == "text_unit_embeddings" else [None]
        markers = [m for m in (read_marker(index.storage, asset, key) for key in keys) if m is not None]
        if not markers:
            continue
        store = VectorStore(index.storage, markers[-1].model, markers[-1].dimension)
        if asset == "text_unit_embeddings":
            store.keep_batches(name, batches)
        vectors[name] = store.describe(name)
        vector_ids[name] = store.rows(name, vectors=False)["id"].to_pylist()
    return vectors, vector_ids


def violations(
    published: Mapping[str, pa.Table], vector_ids: Mapping[str, list[str]], workspace: Workspace
) -> dict[str, list[Violation]]:
    """What each check finds wrong with the assembled tables."""
    return {check.name: check.run(published, vector_ids, workspace.settings.checks) for check in CHECKS}


def snapshot_assets(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Declare index_snapshot."""

    @dg.asset(
        ins={
            **{
                name: dg.AssetIn(name, partition_mapping=every_batch)
                for name in ("documents", "text_units", "extraction_status")
            },
            "text_unit_embeddings": dg.AssetIn(
                "text_unit_embeddings", partition_mapping=every_batch, input_manager_key="vectors"
            ),
        },
        deps=[
            "rejected_inputs",
            "entity_aliases",
            "entities",
            "relationships",
            "covariates",
            "communities",
            "community_reports",
            "entity_embeddings",
            "community_report_embeddings",
        ],
        pool="publish",
        output_required=False,
        **described("index_snapshot", PUBLISHED, kinds={"parquet", "lancedb", "duckdb"}),
    )
    def index_snapshot(
        context: dg.AssetExecutionContext,
        index: Index,
        input_inventory: pa.Table,
        documents: TableRef,
        text_units: TableRef,
        extraction_status: TableRef,
        text_unit_embeddings: Any,
    ) -> dg.MaterializeResult[None]:
        published = assemble(index.build, list(documents.partitions))
        vectors, vector_ids = collect_vectors(index, list(documents.partitions))
        found = violations(published, vector_ids, index.workspace)
        broken = {name: v for name, v in found.items() if v and BLOCKING[name]}
        if broken:
            lines = [f"{name}: {violation}" for name, listed in sorted(broken.items()) for violation in listed]
            raise dg.Failure(
                "The index was not published, and the published one stays as it is, since these checks failed:\n"
                + "\n".join(lines),
                allow_retries=False,
            )
        data = {table.name: parquet.to_bytes(published[table.name], table) for table in tables.PUBLISHED}
        rows = {name: table.num_rows for name, table in published.items()}
        info = snapshot_info(index.workspace, Fingerprints(index.workspace, input_inventory))
        manifest, new = index.snapshots.publish(data, rows, vectors, info)
        return dg.MaterializeResult(
            metadata={
                "snapshot": manifest.id,
                "new": new,
                "dagster/uri": index.storage.uri(f"snapshots/{manifest.id}"),
                **{f"rows/{name}": count for name, count in rows.items()},
                "bytes": sum(len(value) for value in data.values()),
            }
        )

    return [index_snapshot]


BLOCKING = {check.name: check.blocking for check in CHECKS}


def snapshot_info(workspace: Workspace, prints: Fingerprints) -> dict[str, Any]:
    """Facts about a snapshot that readers need; equal for equal input and settings."""
    settings = workspace.settings
    return {
        "method": settings.effective_method,
        "encoding_model": settings.chunking.encoding_model,
        "fingerprint": prints.whole_input(),
        "release": __version__,
    }
