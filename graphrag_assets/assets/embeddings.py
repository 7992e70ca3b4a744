"""Vectors of text units, entities and community reports."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import dagster as dg
import numpy as np
import pyarrow as pa

from graphrag_assets.assets.memory import give_back_memory
from graphrag_assets.assets.models import asking_stages, open_gateway, run, usage_metadata
from graphrag_assets.assets.partitions import by_batch, document_batches, one_run, single_or_all
from graphrag_assets.assets.resources import Index
from graphrag_assets.assets.specs import EMBEDDINGS, described
from graphrag_assets.ids import digest
from graphrag_assets.progress import Progress
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import Built
from graphrag_assets.storage.failures import fails_at_once, retries
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.snapshots import SnapshotStore
from graphrag_assets.storage.tables import ENTITY_VECTORS, REPORT_VECTORS, TEXT_UNIT_VECTORS, embeddings_table
from graphrag_assets.storage.vectors import VectorStore, read_marker
from graphrag_assets.text.citations import strip_citations

if TYPE_CHECKING:
    from graphrag_assets.llm.embedding.models import Embedder
    from graphrag_assets.llm.usage import StageUsage

log = logging.getLogger(__name__)

#: Vector table of each embedding asset.
VECTOR_TABLES: dict[str, str] = {
    "text_unit_embeddings": TEXT_UNIT_VECTORS,
    "entity_embeddings": ENTITY_VECTORS,
    "community_report_embeddings": REPORT_VECTORS,
}

#: Assets whose long texts keep a vector for each window: the best window of a text unit tells better whether it answers
#: a question than the mean of all (bench/long_text_embedding.py: recall@5 of .54 against .18 on mixed text, .79 against .76
#: on novels). Models with a window as long as a text unit make one vector all the same.
WINDOWED = frozenset({"text_unit_embeddings"})

#: Texts embedded at once: enough to keep all slots of a model busy, and no more, since their vectors are in memory twice.
TOGETHER = 4096

#: The same where texts travel in batches of a provider, of which each takes its time.
TOGETHER_IN_BATCHES = 50_000

Texts = tuple[Sequence[str], Sequence[str]]


def entity_texts(entities: pa.Table) -> Texts:
    """Ids, and title:description as the reference embeds it."""
    rows = entities.select(["id", "title", "description"]).to_pylist()
    return [row["id"] for row in rows], [f"{row['title']}:{row['description']}" for row in rows]


def report_texts(reports: pa.Table) -> Texts:
    """Ids, and the report without its citation markers, which say nothing and change when other rows come and go."""
    rows = reports.select(["id", "full_content"]).to_pylist()
    return [row["id"] for row in rows], [strip_citations(row["full_content"]) for row in rows]


class _Row(NamedTuple):
    """A text of which a table wants the vectors."""

    batch: str
    row_id: str
    text_hash: str
    content: str


@dataclass(frozen=True)
class Embedded:
    """Vectors of one or more tables.

    Args:
        tables: Vector tables by batch; the key is empty for a whole-corpus table.
        model: Identity of the embedding model.
        computed: Vectors that the model was asked for, by batch; of a text that several batches hold in the first.
        taken_over: Vectors that were there already, by batch.
        usage: Calls by stage.
    """

    tables: dict[str, pa.Table]
    model: str
    computed: dict[str, int]
    taken_over: dict[str, int]
    usage: "dict[str, StageUsage]"


def _known_vectors(
    asset: str, batches: Iterable[str], hashes: Collection[str], model: str, storage: FileSystem
) -> dict[str, np.ndarray]:
    """Vectors that the present table holds, by the hash of what was embedded: (windows, dimension) each.

    A text may have been embedded as that of another row, in another batch: as that of a document that was renamed.
    """
    published = SnapshotStore(storage).current()
    tables = [published.vectors.get(VECTOR_TABLES[asset])] if published else []
    markers = (read_marker(storage, asset, batch or None) for batch in batches)
    known = next((found for found in (*tables, *markers) if found is not None and found.model == model), None)
    if known is None:
        return {}
    rows = VectorStore(storage, model, known.dimension).known(VECTOR_TABLES[asset], hashes)
    flat = rows["vector"].combine_chunks().flatten().to_numpy().reshape(-1, known.dimension)
    return _by_text(rows["text_hash"].to_pylist(), flat, rows["window"].to_pylist())


def _by_text(hashes: Sequence[str], vectors: np.ndarray, windows: Sequence[int]) -> dict[str, np.ndarray]:
    """Rows of windows gathered by text; the windows of a text stand together, in order."""
    starts = [i for i, window in enumerate(windows) if window == 0]
    ends = [*starts[1:], len(windows)] if starts else []
    return {hashes[start]: vectors[start:end] for start, end in zip(starts, ends, strict=True)}


async def embed_tables(texts: Mapping[str, Texts], asset: str, workspace: Workspace, storage: FileSystem) -> Embedded:
    """Vectors of one or more tables; those of texts that did not change are taken over.

    Args:
        texts: Ids and texts by batch; the key is empty for a whole-corpus table.
        asset: Embedding asset; also the stage of the accounts.
        workspace: Models.
        storage: The storage base.
    """
    from graphrag_assets.llm.embedding.models import embedder as choose

    give_back_memory()
    async with open_gateway(workspace) as gateway:
        embedder = choose(workspace, gateway)
        rows = [
            _Row(batch, row_id, digest(embedder.model, content), content)
            for batch, (row_ids, contents) in texts.items()
            for row_id, content in sorted(zip(row_ids, contents, strict=True))
        ]
        times = Counter(row.text_hash for row in rows)
        known = _known_vectors(asset, texts, times, embedder.model, storage)
        computed = {row.text_hash for row in rows if row.text_hash not in known}
        progress = Progress(asset.replace("_", " "), len(computed))
        parts: dict[str, list[pa.Table]] = {batch: [] for batch in texts}
        model = workspace.settings.embedding_model(workspace.settings.embed_text.embedding_model_id)
        together = TOGETHER_IN_BATCHES if model is not None and model.batch_api else TOGETHER
        for some in (rows[i : i + together] for i in range(0, len(rows), together)):
            missing = {row.text_hash: row.content for row in some if row.text_hash not in known}
            served: dict[str, list[str]] = {}
            for row in some:
                served.setdefault(row.text_hash, []).append(row.row_id)
            found = await _embed(missing, asset, embedder, ["\n".join(served[text_hash]) for text_hash in missing])
            known |= {text_hash: found[text_hash].copy() for text_hash in missing if times[text_hash] > 1}
            for batch, of_batch in groupby(some, key=lambda row: row.batch):
                parts[batch].append(_vector_table(asset, list(of_batch), found | known))
            progress.advance(len(missing))
        if not rows:  # an empty table has vectors of some size too: one word tells which
            sized = await _embed({"": "size"}, asset, embedder)
            empty = _vector_table(asset, [_Row("", "", "", "")], sized).slice(0, 0)
            parts = {batch: [empty] for batch in texts}
        usage = gateway.usage()
    schema = next(table for tables in parts.values() for table in tables).schema
    made = {batch: pa.concat_tables(tables) if tables else schema.empty_table() for batch, tables in parts.items()}
    batch_of = {row.text_hash: row.batch for row in reversed(rows)}
    new, wanted = Counter(batch_of[text_hash] for text_hash in computed), Counter(row.batch for row in rows)
    return Embedded(made, embedder.model, new, wanted - new, usage)


async def _embed(
    wanted: Mapping[str, str], asset: str, embedder: "Embedder", rows: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Vectors, (windows, dimension) each, of texts by their hash; ``rows`` are the ids of what they belong to."""
    if not wanted:
        return {}
    contents = list(wanted.values())
    if asset in WINDOWED:
        vectors, owners = await embedder.embed_windows(contents, asset, rows)
    else:
        vectors, owners = await embedder.embed(contents, "document", asset, rows), np.arange(len(contents))
    first = np.searchsorted(owners, np.arange(len(contents) + 1))
    return {text_hash: vectors[first[i] : first[i + 1]] for i, text_hash in enumerate(wanted)}


def _vector_table(asset: str, rows: Sequence[_Row], vectors: Mapping[str, np.ndarray]) -> pa.Table:
    of_rows = [vectors[row.text_hash] for row in rows]
    dimension = of_rows[0].shape[1]
    windows = [(row, window) for row, found in zip(rows, of_rows, strict=True) for window in range(len(found))]
    flat = np.concatenate(of_rows).ravel().astype(np.float32, copy=False)
    table = pa.table(
        {
            "id": pa.array([row.row_id for row, _ in windows], pa.string()),
            "window": pa.array([window for _, window in windows], pa.int32()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(flat), dimension),
            "text_hash": pa.array([row.text_hash for row, _ in windows], pa.string()),
        }
    )
    return embeddings_table(asset, dimension).conform(table)


def figures(made: Embedded, asset: str, workspace: Workspace) -> dict[str, dict[str, Any]]:
    """What the page of vectors says about the step that made them, by batch.

    A step over several batches embeds them together: its calls are told with the first of them, and the others have none,
    so that the sum over batches is what was used.
    """
    stages = asking_stages(workspace, asset)
    found: dict[str, dict[str, Any]] = {}
    for batch in made.tables:
        usage = usage_metadata({} if found else made.usage, stages)
        found[batch] = {
            "vectors_computed": made.computed.get(batch, 0),
            "vectors_reused": made.taken_over.get(batch, 0),
            **{name.rsplit("/", 1)[-1]: value for name, value in usage.items()},
        }
    return found


def language_warning(index: Index, batches: list[str]) -> str:
    """What a user should know where the embedded model does not read the language of the documents; else empty."""
    from graphrag_assets.llm.embedding.embedded import choose_embedding_model

    settings = index.workspace.settings
    if settings.embedding_models or settings.embedded_models.embedding:
        return ""
    languages = index.build.ref("documents", batches).table(["language"])["language"].to_pylist()
    choice = choose_embedding_model(Counter(languages), ["bge-small-en-v1.5"])
    hint = "; where it is installed, set embedded_models.embedding: use-multilingual"
    return choice.message + hint if "multilingual" in choice.message else choice.message


def embedding_assets(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Declare text_unit_embeddings, entity_embeddings and community_report_embeddings."""
    settings = workspace.settings
    policy = retries(workspace, asks=settings.embedding_model(settings.embed_text.embedding_model_id) is not None)

    @dg.asset(
        partitions_def=document_batches,
        backfill_policy=one_run,
        io_manager_key="vectors",
        pool="embeddings",
        retry_policy=policy,
        **described("text_unit_embeddings", EMBEDDINGS, kinds={"lancedb"}, workspace=workspace),
    )
    @fails_at_once
    def text_unit_embeddings(context: dg.AssetExecutionContext, index: Index, text_units: Any) -> dg.Output[Any]:
        prints = index.fingerprints()
        texts = {
            key: (table["id"].to_pylist(), table["text"].to_pylist())
            for key, table in by_batch(context, text_units).items()
        }
        if warning := language_warning(index, list(texts)):
            context.log.warning(warning)
            log.warning(warning)
        made = run(embed_tables(texts, "text_unit_embeddings", index.workspace, index.storage))
        told = figures(made, "text_unit_embeddings", index.workspace)
        built = {
            key: Built(table, index.stamp(prints, "text_unit_embeddings", key), made.model, metadata=told[key])
            for key, table in made.tables.items()
        }
        return dg.Output(single_or_all(built))

    def whole(asset: str, source: str, prepare: Any) -> dg.AssetsDefinition:
        @dg.asset(
            name=asset,
            ins={"rows": dg.AssetIn(source)},
            io_manager_key="vectors",
            pool="embeddings",
            retry_policy=policy,
            **described(asset, EMBEDDINGS, kinds={"lancedb"}, workspace=workspace),
        )
        @fails_at_once
        def build(context: dg.AssetExecutionContext, index: Index, rows: pa.Table) -> dg.Output[Any]:
            made = run(embed_tables({"": prepare(rows)}, asset, index.workspace, index.storage))
            told = figures(made, asset, index.workspace)[""]
            return dg.Output(
                Built(made.tables[""], index.stamp(index.fingerprints(), asset), made.model, metadata=told)
            )

        declared: dg.AssetsDefinition = build
        return declared

    return [
        text_unit_embeddings,
        whole("entity_embeddings", "entities", entity_texts),
        whole("community_report_embeddings", "community_reports", report_texts),
    ]
