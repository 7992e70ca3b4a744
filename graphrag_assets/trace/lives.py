"""The snapshots in which a row lived."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from graphrag_assets.query.index import Index
from graphrag_assets.query.stored import StoredTable
from graphrag_assets.storage.snapshots import Manifest, SnapshotStore, TableFile
from graphrag_assets.trace.finding import TABLES, Found

#: Tables of snapshots that are looked into at a time: each is a wait for an object store.
_AT_ONCE = 8


def lives(index: Index, row: Found) -> dict[str, Any]:
    """First and last snapshot that holds a row, and all of them, oldest first.

    Files with equal content are read once: a table that did not change holds what it held. For documents each snapshot
    tells which version of it it holds.
    """
    manifests = SnapshotStore(index.filesystem).all()
    files = {m.id: file for m in manifests if (file := _file(m, row.kind)) is not None}
    distinct = {file.sha256: file for file in files.values()}
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        held = dict(zip(distinct, threads.map(lambda file: _held(index, file, row), distinct.values()), strict=True))
    of = [(m, held[files[m.id].sha256]) for m in manifests if m.id in files and held[files[m.id].sha256] is not None]
    found = [{"snapshot": m.id, "created": m.created, **({"version": v} if v else {})} for m, v in of]
    ids = [entry["snapshot"] for entry in found]
    return {"first": ids[0] if ids else None, "last": ids[-1] if ids else None, "of": len(manifests), "in": found}


def _file(manifest: Manifest, kind: str) -> TableFile | None:
    """The table in which a row is looked up: that of numbers by id, where the kind is in it."""
    by_number = manifest.tables.get("row_numbers") if kind in ("text_unit", "entity", "report") else None
    return by_number or manifest.tables.get(TABLES[kind])


def _held(index: Index, file: TableFile, row: Found) -> str | None:
    """None where a table does not hold the row; else its version, empty where it has none."""
    if not file.rows:
        return None
    columns: Sequence[str] = ["content_hash"] if row.kind == "document" else ["id"]
    found = StoredTable(index.filesystem, file).take("id", [row.id], columns)
    if not found.num_rows:
        return None
    return str(found[columns[0]][0].as_py()) if row.kind == "document" else ""
