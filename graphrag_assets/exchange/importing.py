"""Importing: a foreign index becomes a published snapshot, with vectors, after the checks of imported snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from graphrag_assets import __version__, ids
from graphrag_assets.exchange.convert import convert, rejected_inputs
from graphrag_assets.exchange.findings import Findings
from graphrag_assets.exchange.legacy import modernise
from graphrag_assets.exchange.source import ExchangeError, Source, encoding_of, open_source, settings_value
from graphrag_assets.exchange.source_vectors import Vector, Vectors, dimension_of, read_vectors, same_model
from graphrag_assets.indexing.validation.imported import IMPORT_CHECKS
from graphrag_assets.progress import Progress
from graphrag_assets.settings import Workspace
from graphrag_assets.storage import parquet
from graphrag_assets.storage import tables as contracts
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.snapshots import Manifest, SnapshotStore, VectorTable
from graphrag_assets.storage.tables import ENTITY_VECTORS, REPORT_VECTORS, TEXT_UNIT_VECTORS
from graphrag_assets.storage.vectors import FOLDER, VectorStore
from graphrag_assets.text.citations import strip_citations

if TYPE_CHECKING:
    from graphrag_assets.llm.embedding.models import Embedder

#: What happens to the vectors of a source: kept where it names the model of the workspace, always kept, made anew.
VectorPolicy = Literal["auto", "keep", "embed"]

#: Violations of a check that a message names.
_SHOWN = 5

#: Stage that calls of the embedding model are booked to.
_STAGE = "import_embeddings"

#: Vector tables and the tables whose rows they hold.
_TABLES = {TEXT_UNIT_VECTORS: "text_units", ENTITY_VECTORS: "entities", REPORT_VECTORS: "community_reports"}

#: Facts of a manifest that an export of ours hands on.
_HANDED_ON = ("settings", "pruned", "method", "release")


@dataclass(frozen=True)
class Imported:
    """What an import did.

    Args:
        manifest: The published snapshot.
        new: Whether it is a new one; False where the published one has the same content.
        version: Version of the source.
        findings: What was wrong with the source, by table and kind.
        vectors: By vector table: rows that were kept, and rows that were embedded.
        usage: Calls of the embedding model by stage.
    """

    manifest: Manifest
    new: bool
    version: str
    findings: list[dict[str, Any]]
    vectors: dict[str, dict[str, int]]
    usage: Mapping[str, Any] = field(default_factory=dict)


async def import_graphrag(
    folder: Path, workspace: Workspace, storage: FileSystem, policy: VectorPolicy = "auto"
) -> Imported:
    """Import an index of Microsoft GraphRAG and publish it.

    Args:
        folder: Folder of its tables, or its root.
        workspace: Names the embedding model and the limits of checks.
        storage: The storage base.
        policy: What happens to its vectors.

    Raises:
        ExchangeError: There is no index that can be read, a blocking check failed, or its vectors cannot be kept.
        GatewayError: The embedding model cannot be used.
    """
    from graphrag_assets.llm.embedding.models import embedder as choose
    from graphrag_assets.llm.gateway import Gateway
    from graphrag_assets.llm.tokens import tokenizer

    findings = Findings()
    source = modernise(open_source(folder, findings))
    encoding = encoding_of(source)
    try:
        count = tokenizer(encoding).count
    except ValueError:
        encoding = workspace.settings.chunking.encoding_model
        count = tokenizer(encoding).count
    tables = convert(source, count, findings)
    if source.tables["text_units"] and not tables["text_units"].num_rows:
        raise ExchangeError(
            f"none of the {len(source.tables['text_units']):,} rows of the text units in {source.folder} can be used: "
            f"id and text are expected, found the columns {', '.join(source.tables['text_units'][0])}"
        )
    async with Gateway(workspace) as gateway:
        embedder = choose(workspace, gateway)
        wanted = [
            name
            for name in _TABLES
            if policy == "keep" or (policy == "auto" and same_model(source, workspace, embedder.model, name))
        ]
        given = read_vectors(source, folder) if wanted else {}
        kept = {name: given[name] for name in wanted if name in given}
        made, told = await _all_vectors(tables, kept, embedder, findings)
        usage = gateway.usage()
    described, vector_ids = _write_vectors(made, embedder.model, storage)
    for name in list(tables):
        tables[name] = tables[name].combine_chunks()
    tables["rejected_inputs"] = contracts.REJECTED_INPUTS.empty()
    _check(tables, vector_ids, workspace, findings)
    tables["rejected_inputs"] = rejected_inputs(source, findings)
    summary = findings.summary()
    info = _info(source, folder, encoding, summary)
    rows = {name: table.num_rows for name, table in tables.items()}
    data = {table.name: parquet.to_bytes(tables[table.name], table) for table in contracts.PUBLISHED}
    manifest, new = SnapshotStore(storage).publish(data, rows, described, info)
    return Imported(manifest, new, source.version, summary, told, usage)


def _info(source: Source, folder: Path, encoding: str, summary: list[dict[str, Any]]) -> dict[str, Any]:
    recorded = settings_value(source.record, "info") or {}
    handed_on = {name: recorded[name] for name in _HANDED_ON if name in recorded}
    return {
        "method": "imported",
        "release": __version__,
        **handed_on,
        "encoding_model": encoding,
        "imported": {"format": "graphrag", "version": source.version, "from": str(folder)},
        "import_findings": summary,
    }


def _texts(tables: Mapping[str, pa.Table], name: str) -> dict[str, str]:
    """What is embedded of each row, by its id; as for an index of our own."""
    rows = tables[_TABLES[name]]
    if name == TEXT_UNIT_VECTORS:
        contents = rows["text"].to_pylist()
    elif name == ENTITY_VECTORS:
        pairs = zip(rows["title"].to_pylist(), rows["description"].to_pylist(), strict=True)
        contents = [f"{title}:{description}" for title, description in pairs]
    else:
        contents = [strip_citations(content) for content in rows["full_content"].to_pylist()]
    return dict(zip(rows["id"].to_pylist(), contents, strict=True))


async def _all_vectors(
    tables: Mapping[str, pa.Table], kept: Mapping[str, Vectors], embedder: Embedder, findings: Findings
) -> tuple[dict[str, pa.Table], dict[str, dict[str, int]]]:
    """Vector tables, kept and made, and how many rows of each are which."""
    dimension = _dimension(kept, embedder)
    made: dict[str, tuple[dict[str, str], Vectors]] = {}
    told: dict[str, dict[str, int]] = {}
    for name, table in _TABLES.items():
        texts = _texts(tables, name)
        sound = _sound(kept.get(name, {}), texts, dimension, table, findings)
        missing = {own: content for own, content in texts.items() if own not in sound}
        if sound:
            for own in missing:
                findings.add("vector_missing", table, own)
        fresh = await _embed(missing, name, embedder)
        told[name] = {"kept": len(sound), "embedded": len(fresh)}
        made[name] = (texts, sound | fresh)
    sizes = {len(v) for _, vectors in made.values() for windows in vectors.values() for v in windows}
    if len(sizes) > 1:
        raise ExchangeError(
            f"the vectors of the source have {dimension} dimensions, those of {embedder.model} have "
            f"{', '.join(str(n) for n in sorted(sizes - {dimension}))}: set embed_text.embedding_model_id to the model "
            "that made them, or let all be made anew with --vectors embed"
        )
    size = next(iter(sizes), 0) or await _size(embedder)
    return {name: _vector_table(name, *pair, embedder.model, size) for name, pair in made.items()}, told


def _dimension(kept: Mapping[str, Vectors], embedder: Embedder) -> int:
    """Length of the kept vectors; that of the model must be the same, where it is known before a call."""
    from graphrag_assets.llm.errors import GatewayError

    dimension = dimension_of(kept)
    try:
        known = embedder.dimension
    except GatewayError:
        return dimension
    if dimension and known != dimension:
        raise ExchangeError(
            f"the vectors of the source have {dimension} dimensions, those of {embedder.model} have {known}: name the "
            "model that made them in embedding_models, or let all be made anew with --vectors embed"
        )
    return known


def _sound(vectors: Vectors, texts: Mapping[str, str], dimension: int, table: str, findings: Findings) -> Vectors:
    """Kept vectors at unit length, of rows that exist."""
    found: Vectors = {}
    for own, windows in vectors.items():
        if own not in texts:
            findings.add("vector_unknown", table, own)
            continue
        lengths = [float(np.linalg.norm(v)) if len(v) == dimension and np.isfinite(v).all() else 0.0 for v in windows]
        if not all(lengths):
            findings.add("vector_unusable", table, own)
            continue
        # what has unit length as far as float32 tells stays as it is, bit by bit
        found[own] = [
            v if abs(n - 1.0) < 1e-6 else (v / n).astype(np.float32) for v, n in zip(windows, lengths, strict=True)
        ]
    return found


async def _embed(texts: Mapping[str, str], name: str, embedder: Embedder) -> Vectors:
    """Vectors of texts by id; a long text unit has one for each window that the model reads it in."""
    if not texts:
        return {}
    progress = Progress(f"embed {_TABLES[name]}", len(texts))
    own, contents = list(texts), list(texts.values())
    if name == TEXT_UNIT_VECTORS:
        vectors, owners = await embedder.embed_windows(contents, _STAGE)
    else:
        vectors, owners = await embedder.embed(contents, "document", _STAGE), np.arange(len(contents))
    progress.advance(len(texts))
    first = np.searchsorted(owners, np.arange(len(contents) + 1))
    return {own[i]: list(vectors[first[i] : first[i + 1]]) for i in range(len(own))}


async def _size(embedder: Embedder) -> int:
    return int((await embedder.embed(["size"], "document", _STAGE)).shape[1])


def _vector_table(name: str, texts: Mapping[str, str], vectors: Vectors, model: str, dimension: int) -> pa.Table:
    rows: list[tuple[str, int, Vector]] = [
        (own, window, vector) for own in sorted(vectors) for window, vector in enumerate(vectors[own])
    ]
    flat = np.concatenate([vector for _, _, vector in rows]) if rows else np.zeros(0, np.float32)
    hashes = {own: ids.digest(model, texts[own]) for own in vectors}
    table = pa.table(
        {
            "id": pa.array([own for own, _, _ in rows], pa.string()),
            "window": pa.array([window for _, window, _ in rows], pa.int32()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(flat.astype(np.float32, copy=False)), dimension),
            "text_hash": pa.array([hashes[own] for own, _, _ in rows], pa.string()),
        }
    )
    return contracts.embeddings_table(name, dimension).conform(table)


def _write_vectors(
    made: Mapping[str, pa.Table], model: str, storage: FileSystem
) -> tuple[dict[str, VectorTable], dict[str, list[str]]]:
    """Write the vector tables into a folder of their own, so that they never mix with those of ``index``."""
    dimension = next(iter(made.values())).schema.field("vector").type.list_size
    content = ids.digest(
        model, *(f"{name} {own}" for name in sorted(made) for own in made[name]["text_hash"].to_pylist())
    )
    store = VectorStore(storage, model, dimension, f"{FOLDER}/imported-{content[:12]}")
    for name, table in made.items():
        store.write(name, table)
    return {name: store.describe(name) for name in made}, {name: store.ids(name) for name in made}


def _check(
    tables: Mapping[str, pa.Table], vector_ids: Mapping[str, list[str]], workspace: Workspace, findings: Findings
) -> None:
    """Run the checks of imported snapshots; what does not block is a finding.

    Raises:
        ExchangeError: A blocking check failed.
    """
    broken = []
    for check in IMPORT_CHECKS:
        for violation in check.run(tables, vector_ids, workspace.settings.checks):
            if check.blocking:
                broken.append(f"{check.name}: {violation}")
            else:
                table, _, what = violation.message.partition(": ")
                if table not in tables:
                    table, what = check.tables[0], violation.message
                findings.add("check", table, "", f"{violation.count} times {what}")
    if broken:
        raise ExchangeError(
            "nothing was published, since the converted tables do not pass these checks, which is a fault of "
            "graphrag-assets:\n" + "\n".join(broken[:_SHOWN])
        )
