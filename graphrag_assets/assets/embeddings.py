"""Vectors of text units, entities and community reports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np
import pyarrow as pa

from graphrag_assets.assets.fingerprints import Fingerprints
from graphrag_assets.assets.models import open_gateway, usage_metadata
from graphrag_assets.assets.partitions import by_batch, document_batches, one_run, single_or_all
from graphrag_assets.assets.resources import Index
from graphrag_assets.assets.specs import EMBEDDINGS, described
from graphrag_assets.ids import digest
from graphrag_assets.progress import Progress
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import Built
from graphrag_assets.storage.tables import ENTITY_VECTORS, REPORT_VECTORS, TEXT_UNIT_VECTORS, embeddings_table
from graphrag_assets.storage.vectors import VectorStore
from graphrag_assets.text.citations import strip_citations

if TYPE_CHECKING:
    from graphrag_assets.llm.embeddings import Embedder
    from graphrag_assets.llm.usage import StageUsage
    from graphrag_assets.storage.filesystem import FileSystem

#: Vector table of each embedding asset.
VECTOR_TABLES: dict[str, str] = {
    "text_unit_embeddings": TEXT_UNIT_VECTORS,
    "entity_embeddings": ENTITY_VECTORS,
    "community_report_embeddings": REPORT_VECTORS,
}

Texts = tuple[Sequence[str], Sequence[str]]


def entity_texts(entities: pa.Table) -> Texts:
    """Ids, and title:description as the reference embeds it."""
    rows = entities.select(["id", "title", "description"]).to_pylist()
    return [row["id"] for row in rows], [f"{row['title']}:{row['description']}" for row in rows]


def report_texts(reports: pa.Table) -> Texts:
    """Ids, and the report without its citation markers, which say nothing and change when other rows come and go."""
    rows = reports.select(["id", "full_content"]).to_pylist()
    return [row["id"] for row in rows], [strip_citations(row["full_content"]) for row in rows]


async def _embed(
    texts: Texts, known: pa.Table, embedder: Embedder, stage: str, progress: Progress
) -> tuple[pa.Table, int]:
    """Vectors of the texts; those whose text and model did not change are taken over from the present table."""
    row_ids, contents = texts
    hashes = [digest(embedder.model, content) for content in contents]
    have = dict(zip(known["text_hash"].to_pylist(), range(known.num_rows), strict=True))
    missing = [i for i, text_hash in enumerate(hashes) if text_hash not in have]
    vectors = np.zeros((len(contents), embedder.dimension), dtype=np.float32)
    if missing:
        vectors[missing] = await embedder.embed([contents[i] for i in missing], "document", stage)
    kept = [i for i, text_hash in enumerate(hashes) if text_hash in have]
    if kept:
        flat = known["vector"].combine_chunks().flatten().to_numpy().reshape(-1, embedder.dimension)
        vectors[kept] = flat[[have[hashes[i]] for i in kept]]
    progress.advance(len(contents))
    order = sorted(range(len(row_ids)), key=lambda i: row_ids[i])
    table = pa.table(
        {
            "id": pa.array([row_ids[i] for i in order], pa.string()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors[order].ravel()), embedder.dimension),
            "text_hash": pa.array([hashes[i] for i in order], pa.string()),
        }
    )
    return embeddings_table(stage, embedder.dimension).conform(table), len(kept)


async def embed_tables(
    texts: Mapping[str, Texts], asset: str, workspace: Workspace, storage: FileSystem
) -> tuple[dict[str, pa.Table], str, int, dict[str, StageUsage]]:
    """Vectors of one or more tables (batches), all of them at once.

    Args:
        texts: Ids and texts by batch; the key is empty for a whole-corpus table.
        asset: Embedding asset; also the stage of the accounts.
        workspace: Models.
        storage: The storage base, whose present vectors are reused where the text did not change.

    Returns:
        Tables by batch, identity of the model, rows taken over, usage.
    """
    from graphrag_assets.llm.embeddings import embedder as choose

    progress = Progress(asset.replace("_", " "), sum(len(ids) for ids, _ in texts.values()))
    async with open_gateway(workspace) as gateway:
        embedder = choose(workspace, gateway)
        await embedder.ready()
        store = VectorStore(storage, embedder.model, embedder.dimension)
        known = {key: store.rows(VECTOR_TABLES[asset], key) for key in texts}
        async with asyncio.TaskGroup() as group:
            tasks = {
                key: group.create_task(_embed(texts[key], known[key], embedder, asset, progress)) for key in texts
            }
        usage = gateway.usage()
    built = {key: task.result() for key, task in tasks.items()}
    kept = sum(count for _, count in built.values())
    return {key: table for key, (table, _) in built.items()}, embedder.model, kept, usage


def embedding_assets(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Declare text_unit_embeddings, entity_embeddings and community_report_embeddings."""

    @dg.asset(
        partitions_def=document_batches,
        backfill_policy=one_run,
        io_manager_key="vectors",
        pool="embeddings",
        **described("text_unit_embeddings", EMBEDDINGS, kinds={"lancedb"}, workspace=workspace),
    )
    def text_unit_embeddings(
        context: dg.AssetExecutionContext, index: Index, input_inventory: pa.Table, text_units: Any
    ) -> dg.Output[Any]:
        prints = Fingerprints(index.workspace, input_inventory)
        texts = {
            key: (table["id"].to_pylist(), table["text"].to_pylist()) for key, table in by_batch(context, text_units).items()
        }
        tables, model, kept, usage = asyncio.run(
            embed_tables(texts, "text_unit_embeddings", index.workspace, index.storage)
        )
        built = {
            key: Built(table, prints.batch("text_unit_embeddings", key), model) for key, table in tables.items()
        }
        return dg.Output(single_or_all(built), metadata={"taken_over": kept} | usage_metadata(usage))

    def whole(asset: str, source: str, prepare: Any) -> dg.AssetsDefinition:
        @dg.asset(
            name=asset,
            ins={"rows": dg.AssetIn(source)},
            io_manager_key="vectors",
            pool="embeddings",
            **described(asset, EMBEDDINGS, kinds={"lancedb"}, workspace=workspace),
        )
        def build(context: dg.AssetExecutionContext, index: Index, input_inventory: pa.Table, rows: pa.Table) -> dg.Output[Any]:
            prints = Fingerprints(index.workspace, input_inventory)
            tables, model, kept, usage = asyncio.run(
                embed_tables({"": prepare(rows)}, asset, index.workspace, index.storage)
            )
            built = Built(tables[""], prints.corpus(asset), model)
            return dg.Output(built, metadata={"taken_over": kept} | usage_metadata(usage))

        return build

    return [
        text_unit_embeddings,
        whole("entity_embeddings", "entities", entity_texts),
        whole("community_report_embeddings", "community_reports", report_texts),
    ]
