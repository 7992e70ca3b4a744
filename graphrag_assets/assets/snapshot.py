"""Assembling, checking and publishing a snapshot: the last gate."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from graphrag_assets import __version__
from graphrag_assets.assets.built_with import built_with
from graphrag_assets.assets.calls import Known, call_tables
from graphrag_assets.assets.checks import result, stop_if_broken
from graphrag_assets.assets.clustering import CLUSTERING, clustering_info
from graphrag_assets.assets.corpus import text_unit_order
from graphrag_assets.assets.embeddings import VECTOR_TABLES
from graphrag_assets.assets.expected import expected_and_taken, run_metadata
from graphrag_assets.assets.fingerprints import BATCH_STAGES, STAGE_ASSETS, Fingerprints
from graphrag_assets.assets.memory import give_back_memory
from graphrag_assets.assets.partitions import all_there, every_batch
from graphrag_assets.assets.resources import Index
from graphrag_assets.assets.specs import PUBLISHED, described
from graphrag_assets.assets.usage_over_runs import usage_over_runs
from graphrag_assets.indexing.links import text_unit_links
from graphrag_assets.indexing.look_ups import look_up_tables
from graphrag_assets.indexing.report_parts import publish_citations
from graphrag_assets.indexing.validation import CHECKS
from graphrag_assets.settings import Workspace
from graphrag_assets.storage import parquet, tables
from graphrag_assets.storage.build import BuildArea
from graphrag_assets.storage.call_tables import RECORDS
from graphrag_assets.storage.failures import fails_at_once, retries
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.lease import confirm
from graphrag_assets.storage.snapshots import Made, Manifest, VectorTable, is_kept, kept_message
from graphrag_assets.storage.vectors import VectorStore, read_marker

SNAPSHOT = "index_snapshot"

#: Tables that are made for each document batch.
BATCHED = tuple(asset for stage in BATCH_STAGES for asset in STAGE_ASSETS[stage] if asset not in VECTOR_TABLES)

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
    reports = {"community_reports": area.read("community_reports", columns=["id", "human_readable_id"])}
    published |= look_up_tables(published | reports)
    give_back_memory()  # what DuckDB took, before the tables that are mostly text
    published["documents"] = _documents(area, batches, published["text_units"])
    published["community_reports"] = _reports(area, published)
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


def _reports(area: BuildArea, published: Mapping[str, pa.Table]) -> pa.Table:
    """Reports cite content ids while they are built; readers want the numbers of this snapshot."""
    reports = area.read("community_reports")
    communities = published["communities"]
    numbers = {
        "Entities": _numbers(published["entities"]),
        "Relationships": _numbers(published["relationships"]),
        "Claims": _numbers(published["covariates"]),
        "Sources": _numbers(published["text_units"]),
        "Reports": dict(zip(communities["id"].to_pylist(), communities["community"].to_pylist(), strict=True)),
    }

    def published_text(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
        return pa.array([publish_citations(text, numbers) for text in texts.to_pylist()], pa.string())

    columns: dict[str, Any] = {name: reports[name] for name in reports.column_names}
    del reports  # so that each column goes as its successor comes: this is most of the text of a snapshot
    for name in ("summary", "full_content", "full_content_json", "rating_explanation"):
        columns[name] = published_text(columns[name])
    findings = columns["findings"].combine_chunks()
    members = findings.flatten()
    fields = [pa.field(f.name, f.type) for f in members.type]
    told = pa.StructArray.from_arrays([published_text(members.field(f.name)) for f in fields], fields=fields)
    columns["findings"] = pa.ListArray.from_arrays(_offsets(findings), told)
    return tables.COMMUNITY_REPORTS.from_columns(columns)


def _offsets(lists: pa.ListArray) -> pa.Array:
    """Where each list begins among the flattened items, which leave out what a slice does not show."""
    return pc.subtract(lists.offsets, lists.offsets[0]) if len(lists) else lists.offsets


def _numbers(table: pa.Table) -> dict[str, int]:
    return dict(zip(table["id"].to_pylist(), table["human_readable_id"].to_pylist(), strict=True))


def collect_vectors(index: Index, batches: list[str]) -> tuple[dict[str, VectorTable], dict[str, list[str]]]:
    """The vector tables at their present version, and the ids in them.

    Rows of batches that no longer exist leave the table of text units first, and before them what tells that they are
    there: a batch may come back.
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
            forget_batches(index.build, batches, [asset])
            store.keep_batches(name, batches)
        vectors[name] = store.describe(name)
        vector_ids[name] = store.ids(name)
    return vectors, vector_ids


def forget_batches(area: BuildArea, batches: list[str], assets: Iterable[str]) -> None:
    """Delete what the build area holds of batches that hold no document any more.

    Args:
        area: The build area.
        batches: Batches that hold documents.
        assets: Assets that are made for each batch.
    """
    for asset in assets:
        for path in area.parts(asset):
            if path.rpartition("/")[2].partition(".")[0] not in batches:
                area.filesystem.delete(path)


#: The checks of the snapshot itself: the tables of several assets agree.
OF_SNAPSHOT = tuple(check for check in CHECKS if not check.asset)

#: Tables are checked before they are written; the gate looks again, since a file may have been changed or damaged since.
TABLES_CHECK = "tables"


def _specs() -> list[dg.AssetCheckSpec]:
    specs = [
        dg.AssetCheckSpec(check.name, asset=SNAPSHOT, description=check.description, blocking=check.blocking)
        for check in OF_SNAPSHOT
    ]
    description = "The tables, as they are published, pass the checks of their own assets."
    return [*specs, dg.AssetCheckSpec(TABLES_CHECK, asset=SNAPSHOT, description=description, blocking=True)]


def snapshot_info(workspace: Workspace, prints: Fingerprints, area: BuildArea) -> dict[str, Any]:
    """Facts about a snapshot that readers need; equal for equal input and settings."""
    settings = workspace.settings
    pruned = {name: area.facts(name).figures.get("pruned") for name in ("entities", "relationships")}
    return {
        "settings": built_with(workspace),
        "pruned": {name: count for name, count in pruned.items() if count is not None},
        CLUSTERING: clustering_info(workspace, area),
        "method": settings.effective_method,
        "encoding_model": settings.chunking.encoding_model,
        "fingerprint": prints.snapshot(area.read("rejected_inputs")),
        "release": __version__,
    }


def snapshot_metadata(storage: FileSystem, manifest: Manifest) -> dict[str, Any]:
    """What the materialization of a snapshot tells about it."""
    return {
        "snapshot": manifest.id,
        "method": str(manifest.info.get("method")),
        "dagster/uri": storage.uri(f"snapshots/{manifest.id}"),
        **{f"rows/{name}": file.rows for name, file in sorted(manifest.tables.items())},
        **{f"vectors/{name}": vectors.rows for name, vectors in sorted(manifest.vectors.items())},
        **{f"pruned/{name}": count for name, count in (manifest.info.get("pruned") or {}).items()},
        "tables_size_bytes": sum(file.bytes for file in manifest.tables.values()),
    }


def how_it_was_made(
    index: Index, current: Manifest | None, published: Mapping[str, pa.Table], fingerprint: str
) -> Made:
    """The calls behind the rows of a snapshot, and what its run took."""
    calls = call_tables(index.workspace, index.storage, current, Known(published))
    data = {contract.name: parquet.to_bytes(calls[contract.name], contract) for contract in RECORDS}
    rows = {name: table.num_rows for name, table in calls.items()}
    return Made(data, rows, expected_and_taken(index, fingerprint))


class SnapshotConfig(dg.Config):
    """What a person may allow where a snapshot is published."""

    replace_imported: bool = Field(False, description="Take the place of an imported snapshot.")


def snapshot_assets(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Declare index_snapshot with the checks that it has to pass."""

    batched = ("documents", "text_units", "extraction_status", "text_unit_embeddings")
    whole = (*TAKEN_OVER, "community_reports", "entity_embeddings", "community_report_embeddings")

    @dg.asset(
        deps=[
            *[dg.AssetDep(name, partition_mapping=every_batch) for name in batched],
            *[dg.AssetDep(name) for name in whole],
        ],
        check_specs=_specs(),
        pool="publish",
        retry_policy=retries(workspace),
        output_required=False,
        **described("index_snapshot", PUBLISHED, kinds={"parquet", "lancedb", "duckdb"}),
    )
    @fails_at_once
    def index_snapshot(
        context: dg.AssetExecutionContext, config: SnapshotConfig, index: Index
    ) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
        give_back_memory()
        current = index.snapshots.current()
        if current is not None and is_kept(current, config.replace_imported):
            mend = "in Dagster: replace_imported: true in the config"
            raise dg.Failure(f"{kept_message(current)}; {mend}", allow_retries=False)
        prints = index.fingerprints()
        for name in ("documents", "text_units", "extraction_status"):
            all_there(index.build.ref(name, prints.batches), prints.batches)
        # LanceDB, then DuckDB, then the checks: none needs its memory while another works.
        vectors, vector_ids = collect_vectors(index, prints.batches)
        give_back_memory()
        published = assemble(index.build, prints.batches)
        batch_rows = {
            name: {key: index.build.rows(name, key) for key in prints.batches} for name in ("documents", "text_units")
        }
        limits = index.workspace.settings.checks
        give_back_memory()
        found = {check: check.run(published, vector_ids, limits, batch_rows) for check in CHECKS}
        for check in OF_SNAPSHOT:
            yield result(check.name, found[check], check.blocking, SNAPSHOT)
        of_tables = [violation for check in CHECKS if check.asset for violation in found[check]]
        yield result(TABLES_CHECK, of_tables, True, SNAPSHOT)
        stop_if_broken(found, "nothing was published")
        give_back_memory()
        rows = {name: table.num_rows for name, table in published.items()}
        made = how_it_was_made(index, current, published, prints.whole_input())
        data = {table.name: parquet.to_bytes(published.pop(table.name), table) for table in tables.PUBLISHED}
        info = snapshot_info(index.workspace, prints, index.build)
        confirm(index.storage)
        manifest, new = index.snapshots.publish(data, rows, vectors, info, made)
        forget_batches(index.build, prints.batches, BATCHED)
        metadata = snapshot_metadata(index.storage, manifest) | {"new_snapshot": new} | run_metadata(made.run)
        metadata |= usage_over_runs(index, context.instance, SNAPSHOT)
        yield dg.MaterializeResult(metadata=metadata)

    return [index_snapshot]
