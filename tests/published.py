"""Published snapshots for tests: from rows made by hand, or from an index that Microsoft GraphRAG wrote."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from graphrag_assets.indexing.look_ups import look_up_tables
from graphrag_assets.storage import parquet, tables
from graphrag_assets.storage.contract import Table
from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.snapshots import Manifest, SnapshotStore
from graphrag_assets.storage.vectors import VectorStore

Rows = list[dict[str, Any]]


class HashEmbedder:
    """Embeds texts by their words, without a model: equal words give near vectors, on every machine the same ones."""

    model = "hashed-words"
    dimension = 64

    async def embed(self, texts: Sequence[str], kind: str, stage: str, rows: Sequence[str] = ()) -> np.ndarray:
        return self.encode(texts)

    async def embed_windows(
        self, texts: Sequence[str], stage: str, rows: Sequence[str] = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.encode(texts), np.arange(len(texts))

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        out = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for i, text in enumerate(texts):
            for word in re.findall(r"\w+", text.lower()):
                h = hashlib.sha256(word.encode()).digest()
                out[i, h[0] % self.dimension] += 1 if h[1] % 2 else -1
            out[i, 0] += 1e-3
        return out / np.linalg.norm(out, axis=1, keepdims=True)


def publish(
    base: Path | str,
    rows: Mapping[str, Rows],
    embedder: Any = None,
    info: Mapping[str, Any] | None = None,
    endpoint_url: str | None = None,
) -> Manifest:
    """Publish rows of the published tables, with link tables and vectors made from them.

    Args:
        base: Storage folder or address.
        rows: Rows by table: documents, text_units, entities, relationships, covariates, communities, community_reports,
            entity_aliases. Columns that are left out get neutral values.
        embedder: Has model, dimension and encode(texts); None: :class:`HashEmbedder`.
        info: Facts for the manifest.
        endpoint_url: Server of an object store.
    """
    full = {name: [_complete(tables_by_name()[name], row) for row in rows.get(name, [])] for name in _SOURCES}
    arrow = {name: tables_by_name()[name].from_rows(full[name]) for name in _SOURCES}
    arrow |= look_up_tables(arrow)
    arrow = {t.name: t.conform(arrow[t.name]) for t in tables.PUBLISHED}
    filesystem = open_filesystem(str(base), endpoint_url)
    data = {name: parquet.to_bytes(table, tables_by_name()[name]) for name, table in arrow.items()}
    embedder = embedder or HashEmbedder()
    store = VectorStore(filesystem, embedder.model, embedder.dimension)
    texts = {
        tables.TEXT_UNIT_VECTORS: [(r["id"], r["text"]) for r in full["text_units"]],
        tables.ENTITY_VECTORS: [(r["id"], f"{r['title']}:{r['description']}") for r in full["entities"]],
        tables.REPORT_VECTORS: [(r["id"], r["full_content"]) for r in full["community_reports"]],
    }
    vectors = {}
    for name, pairs in texts.items():
        encoded = (
            embedder.encode([text for _, text in pairs]) if pairs else np.zeros((0, embedder.dimension), np.float32)
        )
        table = pa.table(
            {
                "id": pa.array([i for i, _ in pairs], pa.string()),
                "vector": pa.FixedSizeListArray.from_arrays(
                    pa.array(encoded.ravel(), pa.float32()), embedder.dimension
                ),
                "window": pa.array([0] * len(pairs), pa.int32()),
                "text_hash": pa.array([""] * len(pairs), pa.string()),
            }
        )
        store.write(name, table)
        vectors[name] = store.describe(name)
    counts = {name: table.num_rows for name, table in arrow.items()}
    return SnapshotStore(filesystem).publish(data, counts, vectors, info or {})[0]


_SOURCES = (
    "documents",
    "text_units",
    "entities",
    "relationships",
    "covariates",
    "communities",
    "community_reports",
    "entity_aliases",
    "rejected_inputs",
)


def tables_by_name() -> dict[str, Table]:
    return {t.name: t for t in tables.PUBLISHED}


def _complete(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with neutral values for the columns it lacks."""
    neutral = {"status": "ok", "extractive": False}
    full = {}
    for column in table.columns:
        value = row.get(column.name, neutral.get(column.name))
        if value is None and not column.nullable:
            value = _NEUTRAL.get(column.type, [] if pa.types.is_list(column.type) else "")
        full[column.name] = value
    return full


_NEUTRAL = {pa.int64(): 0, pa.int32(): 0, pa.float64(): 0.0, pa.bool_(): False, pa.string(): ""}


def publish_microsoft_index(base: Path, folder: Path, embedder: Any = None) -> Manifest:
    """Publish the tables of an index that Microsoft GraphRAG 3 wrote, worn rows and all.

    Args:
        base: Storage folder.
        folder: Folder of its Parquet files.
        embedder: See :func:`publish`.
    """
    rows: dict[str, Rows] = {
        name: pq.read_table(folder / f"{name}.parquet").to_pylist() if (folder / f"{name}.parquet").exists() else []
        for name in _SOURCES
    }
    texts = {d["id"]: d["text"] for d in rows["documents"]}
    for document in rows["documents"]:
        document.pop("raw_data", None)
        document["path"] = document["title"]
        document["content_hash"] = hashlib.sha256(document["text"].encode()).hexdigest()
    reached: dict[str, int] = {}
    for number, unit in enumerate(rows["text_units"]):
        unit["human_readable_id"] = number
        unit["start"], unit["end"] = _place(
            texts.get(unit["document_id"], ""), unit["text"], reached, unit["document_id"]
        )
    for name in ("entities", "relationships"):
        for row in rows[name]:
            row["text_unit_ids"] = list(dict.fromkeys(row["text_unit_ids"]))
    for claim in rows["covariates"]:
        claim |= {key: value or "" for key, value in claim.items() if key != "human_readable_id"}
    return publish(base, rows, embedder)


def _place(document: str, text: str, reached: dict[str, int], document_id: str) -> tuple[int, int]:
    """Span of a text unit in its document; metadata lines before it are left out."""
    for piece in (text, *(text[i + 2 :] for i in range(len(text) - 2) if text[i : i + 2] == ".\n")):
        start = document.find(piece, reached.get(document_id, 0))
        if start >= 0:
            reached[document_id] = start + 1
            return start, start + len(piece)
    return 0, 0
