"""A published snapshot made of passages and recorded triples, without a language model.

Each passage is a document of one text unit; subjects and objects are its entities. Entities are resolved, merged and
linked by the product's own functions, and embedded by the embedded model. What a language model would have written, the
description of an entity, is stood in for by the triples in words. There are no communities and reports: what is
measured here does not read them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from graphrag_assets import ids
from graphrag_assets.indexing.full_text import term_tables
from graphrag_assets.indexing.graph import merge_graph
from graphrag_assets.indexing.links import link_tables, row_numbers, text_unit_links
from graphrag_assets.indexing.resolution import resolve_entities, title_profiles
from graphrag_assets.llm.embedding.embedded import EmbeddedEmbedder
from graphrag_assets.storage import parquet, tables
from graphrag_assets.storage.filesystem import FileSystem, open_filesystem
from graphrag_assets.storage.snapshots import SnapshotStore, VectorTable
from graphrag_assets.storage.vectors import VectorStore
from graphrag_assets.text.names import canonical_title, clean_text

#: Statements that the description of an entity is made of, about as many as a summary holds.
MOST_STATEMENTS = 10


@dataclass(frozen=True)
class Passage:
    """A passage and what was read from it."""

    title: str
    text: str
    triples: Sequence[tuple[str, str, str]]


def publish(base: Path, passages: Sequence[Passage]) -> None:
    """Publish passages and triples as a snapshot; document i has the path ``i`` in six digits, so that text unit i of
    the snapshot is passage i.

    Args:
        base: Storage folder.
        passages: Passages in order.
    """
    units = [_unit(number, passage) for number, passage in enumerate(passages)]
    order = pa.table(
        {
            "text_unit_id": [unit["id"] for unit in units],
            "document_id": [unit["document_id"] for unit in units],
            "order": pa.array(range(len(units)), pa.int64()),
        }
    )
    published = _graph(passages, [str(unit["id"]) for unit in units], order)
    links = text_unit_links(order, published["entities"], published["relationships"])
    for name in ("entity_ids", "relationship_ids", "covariate_ids"):
        for unit, found in zip(units, links[name].to_pylist(), strict=True):
            unit[name] = found
    published["text_units"] = tables.TEXT_UNITS.from_rows(units)
    published["documents"] = tables.DOCUMENTS.from_rows([_document(unit, passages) for unit in units])
    for contract in tables.PUBLISHED:
        published.setdefault(contract.name, contract.empty())
    names = ("text_units", "entities", "relationships", "communities", "covariates")
    published |= link_tables(*(published[name] for name in names))
    published |= term_tables(published["text_units"])
    published["row_numbers"] = row_numbers(
        published["text_units"], published["entities"], published["community_reports"]
    )
    conformed = {table.name: table.conform(published[table.name]) for table in tables.PUBLISHED}
    filesystem = open_filesystem(str(base))
    data = {table.name: parquet.to_bytes(conformed[table.name], table) for table in tables.PUBLISHED}
    vectors = _vectors(filesystem, published["text_units"], published["entities"])
    counts = {name: table.num_rows for name, table in conformed.items()}
    SnapshotStore(filesystem).publish(data, counts, vectors, {})


def _unit(number: int, passage: Passage) -> dict[str, object]:
    document = ids.document_id(f"{number:06d}")
    text = f"{passage.title}\n{passage.text}"
    return {
        "id": ids.text_unit_id(document, text, 0),
        "human_readable_id": number,
        "text": text,
        "n_tokens": len(text) // 4,
        "document_id": document,
        "position": 0,
        "start": 0,
        "end": len(text),
        "status": "ok",
        "reason": "",
    }


def _document(unit: dict[str, object], passages: Sequence[Passage]) -> dict[str, object]:
    number = unit["human_readable_id"]
    assert isinstance(number, int)
    return {
        "id": unit["document_id"],
        "human_readable_id": number,
        "title": passages[number].title,
        "text": unit["text"],
        "text_unit_ids": [unit["id"]],
        "creation_date": "",
        "raw_data": None,
        "path": f"{number:06d}",
        "content_hash": ids.digest(str(unit["text"])),
        "language": "en",
    }


def _graph(passages: Sequence[Passage], unit_ids: Sequence[str], order: pa.Table) -> dict[str, pa.Table]:
    """Entities, relationships and aliases of all triples."""
    relations, entities = [], []
    for passage, unit in zip(passages, unit_ids, strict=True):
        for subject, predicate, object_ in passage.triples:
            source, target = canonical_title(subject), canonical_title(object_)
            if not source or not target:
                continue
            said = clean_text(f"{subject} {predicate} {object_}.")
            relations.append((unit, source, target, said, 1.0))
            entities += [(unit, source, "", said), (unit, target, "", said)]
    extracted = _table(("text_unit_id", "title", "type", "description"), sorted(set(entities)))
    related = _table(("text_unit_id", "source", "target", "description", "weight"), sorted(set(relations)))
    resolution = asyncio.run(resolve_entities(title_profiles(extracted, related, order)))
    merged = merge_graph(extracted, related, order, resolution.mapping)
    finished = {"entity_aliases": tables.ENTITY_ALIASES.from_rows(resolution.aliases)}
    for contract, table in ((tables.ENTITIES, merged.entities), (tables.RELATIONSHIPS, merged.relationships)):
        columns = {name: table[name] for name in contract.column_names if name != "description"}
        told = [" ".join(some[:MOST_STATEMENTS]) for some in table["descriptions"].to_pylist()]
        finished[contract.name] = contract.from_columns(columns | {"description": told})
    return finished


def _table(names: Sequence[str], rows: Sequence[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table({name: list(column) for name, column in zip(names, columns, strict=True)})


def _vectors(filesystem: FileSystem, units: pa.Table, entities: pa.Table) -> dict[str, VectorTable]:
    """Vectors of text units (one a window) and of entities (title:description), as the index embeds them."""
    embedder = EmbeddedEmbedder()
    store = VectorStore(filesystem, f"embedded/{embedder.model}", embedder.dimension)
    names = [f"{r['title']}:{r['description']}" for r in entities.select(["title", "description"]).to_pylist()]
    windows = embedder.encode_windows(units["text"].to_pylist())
    whole = (embedder.encode(names), np.arange(len(names)))
    none = (np.zeros((0, embedder.dimension), np.float32), np.arange(0))
    found = {
        tables.TEXT_UNIT_VECTORS: (units["id"].to_pylist(), windows),
        tables.ENTITY_VECTORS: (entities["id"].to_pylist(), whole),
        tables.REPORT_VECTORS: ([], none),
    }
    described = {}
    for name, (row_ids, (vectors, owners)) in found.items():
        number: dict[int, int] = defaultdict(int)
        window = []
        for owner in owners.tolist():
            window.append(number[owner])
            number[owner] += 1
        flat = pa.array(vectors.ravel(), pa.float32())
        table = pa.table(
            {
                "id": pa.array([row_ids[owner] for owner in owners.tolist()], pa.string()),
                "window": pa.array(window, pa.int32()),
                "vector": pa.FixedSizeListArray.from_arrays(flat, embedder.dimension),
                "text_hash": pa.array([""] * len(owners), pa.string()),
            }
        )
        store.write(name, table)
        described[name] = store.describe(name)
    return described
