"""Whether what is published is whole: for tests that kill runs, fill disks and let processes work at the same time.

It works on any storage base: a folder or an address of an object store.
"""

from __future__ import annotations

import hashlib
import io

import pyarrow.parquet as pq

from graphrag_assets.assets.embeddings import VECTOR_TABLES
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.snapshots import Manifest, SnapshotStore
from graphrag_assets.storage.vectors import open_vectors

#: Table whose rows a vector table has the vectors of.
_EMBEDDED = {
    "text_unit_embeddings": "text_units",
    "entity_embeddings": "entities",
    "community_report_embeddings": "community_reports",
}


def assert_whole(storage: FileSystem, manifest: Manifest) -> None:
    """Assert that every file of a snapshot is there as it was published, and that tables and vectors agree."""
    ids: dict[str, set[str]] = {}
    for name, file in manifest.tables.items():
        data = storage.read(file.path)
        assert hashlib.sha256(data).hexdigest() == file.sha256, f"{manifest.id}: {name} is not what was published"
        found = pq.read_table(io.BytesIO(data))
        assert found.num_rows == file.rows
        if "id" in found.column_names:
            ids[name] = set(found["id"].to_pylist())
    for asset, vectors in VECTOR_TABLES.items():
        told = manifest.vectors[vectors]
        rows = open_vectors(storage, told).search().select(["id", "window", "text_hash"]).limit(None).to_arrow()
        assert rows.num_rows == told.rows, f"{manifest.id}: {vectors}"
        found_ids = rows["id"].to_pylist()
        assert set(found_ids) == ids[_EMBEDDED[asset]], f"{manifest.id}: {vectors} has other rows than its table"
        keys = sorted(zip(found_ids, rows["window"].to_pylist(), rows["text_hash"].to_pylist(), strict=True))
        h = hashlib.sha256()
        for row in keys:
            h.update(" ".join(map(str, row)).encode() + b"\n")
        assert h.hexdigest() == told.sha256, f"{manifest.id}: {vectors} is not what was published"


def published(storage: FileSystem) -> Manifest | None:
    """The published snapshot, after making sure that it and its history are whole."""
    store = SnapshotStore(storage)
    entries = [info.path.rpartition("/")[2] for info in storage.list("snapshots/log") if info.path.endswith(".json")]
    assert entries == [f"{number:09d}.json" for number in range(1, len(entries) + 1)], "no entry is lost"
    current = store.current()
    if current is not None:
        assert_whole(storage, current)
    return current
