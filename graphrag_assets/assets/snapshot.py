"""Assembling, checking and publishing a snapshot: the last gate."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
import pyarrow as pa

from graphrag_assets import __version__
from graphrag_assets.assets.built_with import built_with
from graphrag_assets.assets.corpus import text_unit_order
from graphrag_assets.assets.embeddings import VECTOR_TABLES
from graphrag_assets.assets.fingerprints import Fingerprints
from graphrag_assets.assets.memory import give_back_memory
from graphrag_assets.assets.partitions import all_there, every_batch
from graphrag_assets.assets.resources import Index
from graphrag_assets.assets.specs import PUBLISHED, described
from graphrag_assets.indexing.links import link_tables, text_unit_links
from graphrag_assets.indexing.report_parts import publish_citations
from graphrag_assets.indexing.validation import CHECKS, Violation
from graphrag_assets.settings import Workspace
from graphrag_assets.storage import parquet, tables
from graphrag_assets.storage.build import BuildArea
from graphrag_assets.storage.snapshots import VectorTable
from graphrag_assets.storage.vectors import VectorStore, read_marker

#: Whole-corpus tables that a snapshot takes over as they are.
TAKEN_OVER = ("entities", "relationships", "covariates", "communities", "entity_aliases", "rejected_inputs")


def assemble(area: BuildArea, batches: list[str]) -> dict[str, pa.Table]:
    """The published tables, from the build area.

    Args:
        area: The build area; all stages are built.
        batches: Batches that hold documents.

    Returns:
        Every table of a snapshot by name, in canonical order, however the documents were grouped in batches.
    """
    published = {name: area.read(name) for name in TAKEN_OVER}
    order = text_unit_order(area.ref("documents", batches), area.ref("text_units", batches))
    published["text_units"] = _text_units(area, batches, order, published)
    published["documents"] = _documents(area, batches, published["text_units"])
    published["community_reports"] = _reports(area.read("community_reports"), published)
    published |= link_tables(
        published["text_units"], published["entities"], published["relationships"], published["communities"]
    )
    return {table.name: table.conform(published[table.name]) for table in tables.PUBLISHED}


def _text_units(area: BuildArea, batches: list[str], order: pa.Table, published: Mapping[str, pa.Table]) -> pa.Table:
    """Text units of all batches in corpus order, with the status of their extraction and what was found in them."""
    units = area.ref("text_units", batches).table()
    status = area.ref("extraction_status", batches).table(["text_unit_id", "status", "reason"])
    links = text_unit_links(order, published["entities"], published["relationships"], published["covariates"])
    # Joins lose the order of rows and cannot carry lists: take rows by position instead.
    position = {unit: i for i, unit in enumerate(units["id"].to_pylist())}
    status_position = {unit: i for i, unit in enumerate(status["text_unit_id"].to_pylist())}
    ordered = order["text_unit_id"].to_pylist()
    units = units.take(pa.array([position[unit] for unit in ordered], pa.int64()))
    status = status.take(pa.array([status_position[unit] for unit in ordered], pa.int64()))
    columns = {name: units[name] for name in units.column_names}
    columns |= {name: links[name] for name in ("entity_ids", "relationship_ids", "covariate_ids")}
    columns |= {name: status[name] for name in ("status", "reason")}
    columns["human_readable_id"] = pa.chunked_array([pa.array(range(len(ordered)), pa.int64())])
    return tables.TEXT_UNITS.from_columns(columns)


def _documents(area: BuildArea, batches: list[str], units: pa.Table) -> pa.Table:
    """Documents of all batches in the order of their paths, with their text units."""
    by_document: dict[str, list[str]] = {}
    for document, unit in zip(units["document_id"].to_pylist(), units["id"].to_pylist(), strict=True):
        by_document.setdefault(document, []).append(unit)
    documents = area.ref("documents", batches).table().sort_by("path")
    columns = {name: documents[name] for name in documents.column_names}
    columns["human_readable_id"] = pa.chunked_array([pa.array(range(documents.num_rows), pa.int64())])
    lists = [by_document.get(document, []) for document in documents["id"].to_pylist()]
    columns["text_unit_ids"] = pa.chunked_array([pa.array(lists, tables.STRINGS)])
    return tables.DOCUMENTS.from_columns(columns)


def _reports(reports: pa.Table, published: Mapping[str, pa.Table]) -> pa.Table:
    """Reports cite content ids while they are built; readers want the numbers of this snapshot."""
    communities = published["communities"]
    numbers = {
        "Entities": _numbers(published["entities"]),
        "Relationships": _numbers(published["relationships"]),
        "Claims": _numbers(published["covariates"]),
        "Sources": _numbers(published["text_units"]),
        "Reports": dict(zip(communities["id"].to_pylist(), communities["community"].to_pylist(), strict=True)),
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
        windows = store.rows(name, vectors=False)
        vector_ids[name] = [
            i for i, w in zip(windows["id"].to_pylist(), windows["window"].to_pylist(), strict=True) if not w
        ]
    return vectors, vector_ids


#: Violations of one check that its metadata names; the count says how many there are.
SHOWN = 5


def _check_result(name: str, found: list[Violation], blocking: bool) -> dg.AssetCheckResult:
    severity = dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN
    lines = [str(violation) for violation in found[:SHOWN]]
    return dg.AssetCheckResult(
        check_name=name,
        passed=not found,
        severity=severity,
        description="; ".join(lines) or None,
        metadata={"violations": sum(violation.count for violation in found)},
    )


def snapshot_info(workspace: Workspace, prints: Fingerprints, area: BuildArea) -> dict[str, Any]:
    """Facts about a snapshot that readers need; equal for equal input and settings."""
    settings = workspace.settings
    pruned = {name: area.facts(name).get("pruned") for name in ("entities", "relationships")}
    return {
        "settings": built_with(workspace),
        "pruned": {name: count for name, count in pruned.items() if count is not None},
        "method": settings.effective_method,
        "encoding_model": settings.chunking.encoding_model,
        "fingerprint": prints.whole_input(),
        "release": __version__,
    }


def snapshot_assets(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Declare index_snapshot with the checks that it has to pass."""

    @dg.asset(
        deps=[
            *[
                dg.AssetDep(name, partition_mapping=every_batch)
                for name in ("documents", "text_units", "extraction_status", "text_unit_embeddings")
            ],
            *TAKEN_OVER,
            "community_reports",
            "entity_embeddings",
            "community_report_embeddings",
        ],
        check_specs=[
            dg.AssetCheckSpec(c.name, asset="index_snapshot", description=c.description, blocking=c.blocking)
            for c in CHECKS
        ],
        pool="publish",
        output_required=False,
        **described("index_snapshot", PUBLISHED, kinds={"parquet", "lancedb", "duckdb"}),
    )
    def index_snapshot(
        context: dg.AssetExecutionContext, index: Index
    ) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
        give_back_memory()
        prints = index.fingerprints()
        for name in ("documents", "text_units", "extraction_status"):
            all_there(index.build.ref(name, prints.batches), prints.batches)
        published = assemble(index.build, prints.batches)
        vectors, vector_ids = collect_vectors(index, prints.batches)
        batch_rows = {
            name: {key: index.build.rows(name, key) for key in prints.batches} for name in ("documents", "text_units")
        }
        broken: list[str] = []
        for check in CHECKS:
            found = check.run(published, vector_ids, index.workspace.settings.checks, batch_rows)
            broken += [f"{check.name}: {violation}" for violation in found[:SHOWN] if check.blocking]
            yield _check_result(check.name, found, check.blocking)
        if broken:
            raise dg.Failure(
                "nothing was published, and the published snapshot stays as it is, since these checks failed:\n"
                + "\n".join(broken),
                allow_retries=False,
            )
        data = {table.name: parquet.to_bytes(published[table.name], table) for table in tables.PUBLISHED}
        rows = {name: table.num_rows for name, table in published.items()}
        info = snapshot_info(index.workspace, prints, index.build)
        manifest, new = index.snapshots.publish(data, rows, vectors, info)
        yield dg.MaterializeResult(
            metadata={
                "snapshot": manifest.id,
                "new_snapshot": new,
                "method": index.workspace.settings.effective_method,
                "dagster/uri": index.storage.uri(f"snapshots/{manifest.id}"),
                **{f"rows/{name}": count for name, count in sorted(rows.items())},
                **{f"vectors/{name}": table.rows for name, table in sorted(vectors.items())},
                **{f"pruned/{name}": count for name, count in info["pruned"].items()},
                "tables_size_bytes": sum(len(value) for value in data.values()),
            }
        )

    return [index_snapshot]
