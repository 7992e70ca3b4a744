"""Vectors that lie beside the tables of a foreign index, in LanceDB or in Parquet files, and the model they name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from graphrag_assets.exchange.source import ExchangeError, Source, settings_value
from graphrag_assets.exchange.values import integer, text
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.tables import ENTITY_VECTORS, REPORT_VECTORS, TEXT_UNIT_VECTORS

Vector = np.ndarray[Any, Any]

#: Windows of each row, by its id.
Vectors = dict[str, list[Vector]]

#: How the names of vector tables and files end, in all versions: default-entity-description, embeddings.entity_description.
_ENDINGS = {
    TEXT_UNIT_VECTORS: ("text_unit_text", "text_unit.text", "text_unit-text"),
    ENTITY_VECTORS: ("entity_description", "entity.description", "entity-description"),
    REPORT_VECTORS: ("community_full_content", "community.full_content", "community-full_content"),
}


def read_vectors(source: Source, root: Path) -> dict[str, Vectors]:
    """Vectors by table, in the names of version 3; tables that the source has no vectors of are left out.

    LanceDB comes before Parquet files, and they before vectors inside the table of entities (version 0.3).

    Args:
        source: The index.
        root: Folder that the import was asked for; a relative address of the settings is relative to it.

    Raises:
        ExchangeError: They cannot be read.
    """
    found: dict[str, Vectors] = {}
    readers = (_inside_entities(source), _from_files(source.folder), _from_lancedb(_databases(source, root)))
    try:
        for reader in readers:
            for name, rows in reader:
                if vectors := _by_id(rows):
                    found[name] = vectors
    except (pa.ArrowException, OSError, RuntimeError, ValueError) as error:
        told = " ".join(str(error).split())
        raise ExchangeError(
            f"the vectors of the source cannot be read ({told}): let all be made anew with --vectors embed"
        ) from error
    return found


def _databases(source: Source, root: Path) -> list[Path]:
    stated = [
        settings_value(source.settings, "vector_store", "db_uri"),
        *(
            settings_value(entry, "db_uri")
            for entry in (source.settings.get("vector_store") or {}).values()
            if isinstance(entry, dict)
        ),
    ]
    named = [root / uri for uri in stated if isinstance(uri, str) and uri and "://" not in uri and "$" not in uri]
    return [*named, source.folder / "lancedb", source.folder.parent / "lancedb", root / "lancedb"]


def _from_lancedb(places: list[Path]) -> Iterator[tuple[str, pa.Table]]:
    place = next((p for p in places if p.is_dir() and any(p.glob("*.lance"))), None)
    if place is None:
        return
    from graphrag_assets.storage.vectors import load_lancedb

    database = load_lancedb().connect(str(place))
    for folder in sorted(place.glob("*.lance")):
        for name, endings in _ENDINGS.items():
            if folder.stem.endswith(endings):
                yield name, database.open_table(folder.stem).to_arrow()


def _from_files(folder: Path) -> Iterator[tuple[str, pa.Table]]:
    for file in sorted(folder.glob("*embeddings.*.parquet")):
        for name, endings in _ENDINGS.items():
            if file.stem.endswith(endings):
                yield name, pq.read_table(file)


def _inside_entities(source: Source) -> Iterator[tuple[str, pa.Table]]:
    rows = [row for row in source.tables["entities"] if row.get("description_embedding") is not None]
    if rows:
        columns = {"id": [text(r.get("id")) for r in rows], "vector": [r["description_embedding"] for r in rows]}
        yield ENTITY_VECTORS, pa.table(columns)


def _by_id(rows: pa.Table) -> Vectors:
    """Rows of a vector table by id, their windows in order."""
    column = next((c for c in ("vector", "embedding") if c in rows.column_names), None)
    if column is None or "id" not in rows.column_names:
        return {}
    windows = rows["window"].to_pylist() if "window" in rows.column_names else [0] * rows.num_rows
    found: dict[str, list[tuple[int, Vector]]] = {}
    for own, window, vector in zip(rows["id"].to_pylist(), windows, rows[column], strict=True):
        values = vector.values
        flat = np.zeros(0, np.float32) if values is None else values.to_numpy(zero_copy_only=False)
        found.setdefault(text(own), []).append((integer(window) or 0, np.asarray(flat, dtype=np.float32)))
    return {own: [v for _, v in sorted(pairs, key=lambda pair: pair[0])] for own, pairs in found.items()}


def named_model(source: Source) -> tuple[str, str, int | None] | None:
    """Provider, model and dimensions that the settings of a source embed with; None where they do not tell."""
    settings = source.settings
    wanted = settings_value(settings, "embed_text", "embedding_model_id") or settings_value(
        settings, "embed_text", "model_id"
    )
    for section in ("embedding_models", "models"):
        entries = settings.get(section)
        if not isinstance(entries, dict):
            continue
        entry = entries.get(wanted or "default_embedding_model")
        if entry is None and section == "embedding_models" and len(entries) == 1:
            entry = next(iter(entries.values()))
        if isinstance(entry, dict) and entry.get("model"):
            kind = str(entry.get("type") or "")
            provider = text(entry.get("model_provider")) or ("azure" if kind.startswith("azure") else "openai")
            return provider, text(entry["model"]), integer(settings_value(entry, "call_args", "dimensions"))
    llm = settings_value(settings, "embeddings", "llm")  # versions 0 and 1
    if isinstance(llm, dict) and llm.get("model"):
        return ("azure" if "azure" in str(llm.get("type")) else "openai"), text(llm["model"]), None
    return None


def same_model(source: Source, workspace: Workspace, identity: str, table: str) -> bool:
    """Whether the vectors of a source come from the embedding model of a workspace, as far as the source tells.

    Args:
        source: The index.
        workspace: Names the model.
        identity: Identity of that model.
        table: Vector table.
    """
    recorded = settings_value(source.record, "vectors", table, "model")
    if recorded is not None:
        return bool(recorded == identity)
    named = named_model(source)
    settings = workspace.settings
    ours = settings.embedding_model(settings.embed_text.embedding_model_id)
    if named is None or ours is None:
        return False
    provider, model, dimensions = named
    hosts = {"azure", "openai"}  # the same models on two hosts
    same_provider = provider == ours.model_provider or {provider, ours.model_provider} <= hosts
    return same_provider and _plain(model) == _plain(ours.model) and dimensions == ours.call_args.get("dimensions")


def _plain(model: str) -> str:
    return re.sub(r"^.*/", "", model).lower()


def dimension_of(vectors: Mapping[str, Vectors]) -> int:
    """The length that most vectors of all tables have; 0 without any."""
    lengths: dict[int, int] = {}
    for table in vectors.values():
        for windows in table.values():
            for vector in windows:
                lengths[len(vector)] = lengths.get(len(vector), 0) + 1
    return max(lengths, key=lambda n: (lengths[n], n), default=0)
