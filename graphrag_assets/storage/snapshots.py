"""Snapshots: immutable, complete, published versions of all tables.

A snapshot is a folder ``snapshots/<id>/`` with one plainly named Parquet file a table and a ``manifest.json`` that names
every file and the version of every vector table. Which snapshot is the published one is told by the newest entry of
``snapshots/log/``: entry n+1 can be created only once, so of two publishers at the same time one fails and nothing is
mixed. Readers take the newest entry once, then read only files that its manifest names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from graphrag_assets.storage.filesystem import FileSystem

FOLDER = "snapshots"
MANIFEST_VERSION = 1

#: Snapshots that the message about an unknown one names.
NAMED = 5


class SnapshotError(Exception):
    """A snapshot is missing, unreadable, or was overtaken by another publisher."""


@dataclass(frozen=True)
class TableFile:
    """One table of a snapshot.

    Args:
        path: Path of the Parquet file, relative to the storage base.
        rows: Number of rows.
        sha256: Hash of the file's bytes.
        bytes: Size of the file.
    """

    path: str
    rows: int
    sha256: str
    bytes: int


@dataclass(frozen=True)
class VectorTable:
    """One vector table of a snapshot.

    Args:
        path: Folder of the LanceDB database, relative to the storage base.
        table: Name of the table in it.
        version: Version of the table that belongs to the snapshot.
        rows: Number of rows.
        model: Identity of the embedding model.
        dimension: Length of a vector.
        sha256: Hash of the ids and of the texts that the vectors stand for, in the order of ids.
    """

    path: str
    table: str
    version: int
    rows: int
    model: str
    dimension: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a snapshot consists of.

    Args:
        id: Snapshot id: ordinal and content hash.
        sequence: Ordinal, from 1.
        created: Time of publication, ISO 8601 UTC.
        parent: Id of the snapshot that was published before, or None.
        content_hash: Hash over the hashes of all tables and vectors: equal content, equal hash.
        tables: Tables by name.
        vectors: Vector tables by name.
        info: Method, models, token encoding and other facts a reader needs.
        records: Tables that tell how it was made (:mod:`graphrag_assets.storage.call_tables`): no part of its content.
        run: What the run that published it took, beside what was expected: no part of its content either.
    """

    id: str
    sequence: int
    created: str
    parent: str | None
    content_hash: str
    tables: Mapping[str, TableFile]
    vectors: Mapping[str, VectorTable]
    info: Mapping[str, Any] = field(default_factory=dict)
    records: Mapping[str, TableFile] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """The manifest file."""
        return json.dumps({"version": MANIFEST_VERSION, **asdict(self)}, indent=2, sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Read a manifest file.

        Raises:
            SnapshotError: Not a manifest of a known version.
        """
        try:
            raw = json.loads(data)
            if raw.pop("version") != MANIFEST_VERSION:
                raise SnapshotError(f"manifest version is not {MANIFEST_VERSION}; a newer release wrote this snapshot")
            tables = {name: TableFile(**value) for name, value in raw.pop("tables").items()}
            vectors = {name: VectorTable(**value) for name, value in raw.pop("vectors").items()}
            records = {name: TableFile(**value) for name, value in raw.pop("records", {}).items()}
            return cls(tables=tables, vectors=vectors, records=records, **raw)
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotError(f"not a readable snapshot manifest: {error}") from error


@dataclass(frozen=True)
class Made:
    """How a snapshot was made.

    Args:
        records: Parquet files of its records by name.
        rows: Their rows.
        run: What the run took; see :class:`Manifest`.
    """

    records: Mapping[str, bytes] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)


def content_hash(tables: Mapping[str, TableFile], vectors: Mapping[str, VectorTable]) -> str:
    """Hash of a snapshot's content, whatever its ordinal, time and place."""
    hashes = [(name, file.sha256) for name, file in sorted(tables.items())]
    hashes += [(name, table.sha256) for name, table in sorted(vectors.items())]
    parts = [f"{name} {sha256}" for name, sha256 in hashes]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def is_kept(published: Manifest, replace: bool) -> bool:
    """Whether a snapshot stays published where an index is made of the input: it was imported, and nobody said otherwise.

    Args:
        published: The published snapshot.
        replace: Whether it may be replaced.
    """
    return "imported" in published.info and not replace


def kept_message(published: Manifest) -> str:
    """Why nothing is made of the input, and how to have it made all the same."""
    return (
        f"snapshot {published.id} was imported from {published.info['imported']['from']}; an index of the documents in "
        "the input would take its place: graphrag-assets index --replace does so (the snapshot is kept, and --snapshot "
        "still reads it)"
    )


class SnapshotStore:
    """Publishes and opens the snapshots of a storage base.

    Args:
        filesystem: The storage base.
    """

    def __init__(self, filesystem: FileSystem) -> None:
        self.filesystem = filesystem

    def _log(self) -> list[str]:
        return [info.path for info in self.filesystem.list(f"{FOLDER}/log") if info.path.endswith(".json")]

    def head(self) -> tuple[int, str | None]:
        """Number of the newest log entry (0 when there is none) and the id of the published snapshot."""
        entries = self._log()
        if not entries:
            return 0, None
        entry = json.loads(self.filesystem.read(entries[-1]))
        return int(entry["entry"]), str(entry["snapshot"])

    def current(self) -> Manifest | None:
        """The published snapshot; None before the first."""
        _, snapshot = self.head()
        return self.get(snapshot) if snapshot else None

    def get(self, snapshot: str) -> Manifest:
        """The snapshot with this id.

        Raises:
            SnapshotError: No such snapshot; the message names those that exist.
        """
        if "/" in snapshot or ".." in snapshot:
            raise SnapshotError(f"{snapshot!r} is not a snapshot id")
        try:
            return Manifest.from_json(self.filesystem.read(f"{FOLDER}/{snapshot}/manifest.json"))
        except FileNotFoundError as error:
            raise SnapshotError(f"no snapshot {snapshot!r} at {self.filesystem.base}; {self._there_are()}") from error

    def _there_are(self) -> str:
        """The snapshots that can be opened, newest first, of very many only the newest."""
        known = self._published()[::-1]
        if not known:
            return "nothing is published there yet: run graphrag-assets index first"
        more = len(known) - NAMED
        others = f", and {more} older ones: graphrag-assets snapshots list" if more > 0 else ""
        return f"there are {', '.join(known[:NAMED])}{others}"

    def all(self) -> list[Manifest]:
        """All snapshots that were published, oldest first; what a run left unfinished is none."""
        return [self.get(snapshot) for snapshot in self._published()]

    def _published(self) -> list[str]:
        return sorted({str(json.loads(self.filesystem.read(path))["snapshot"]) for path in self._log()})

    def forget(self, snapshots: Collection[str]) -> None:
        """Remove the log entries of snapshots that were removed; the newest entry, which is the pointer, stays."""
        for path in self._log()[:-1]:
            if json.loads(self.filesystem.read(path))["snapshot"] in snapshots:
                self.filesystem.delete(path)

    def stage(self, run: str, name: str, data: bytes, rows: int) -> TableFile:
        """Write one table of a snapshot that is being built; nobody reads it before it is published.

        Args:
            run: Name of the folder while it is built; unique to the run.
            name: Table name.
            data: The Parquet file.
            rows: Its rows.
        """
        path = f"{FOLDER}/{run}/{name}.parquet"
        self.filesystem.write(path, data)
        return TableFile(path, rows, hashlib.sha256(data).hexdigest(), len(data))

    def publish(
        self,
        tables: Mapping[str, bytes],
        rows: Mapping[str, int],
        vectors: Mapping[str, VectorTable],
        info: Mapping[str, Any],
        made: Made | None = None,
    ) -> tuple[Manifest, bool]:
        """Publish a snapshot, unless the published one has the same content.

        Args:
            tables: Parquet files by table name.
            rows: Row counts by table name.
            vectors: Vector tables by name.
            info: Facts for readers.
            made: How it was made; no part of what is compared.

        Returns:
            The published manifest, and whether it is new.

        Raises:
            SnapshotError: Another publisher was faster; what it published stays.
        """
        entry, parent = self.head()
        hashes = {
            name: TableFile("", rows[name], hashlib.sha256(data).hexdigest(), len(data))
            for name, data in tables.items()
        }
        digest = content_hash(hashes, vectors)
        if parent is not None:
            current = self.get(parent)
            if current.content_hash == digest and dict(current.info) == dict(info):
                return current, False
        sequence = entry + 1
        snapshot = f"{sequence:06d}-{digest[:12]}"
        files = {name: self.stage(snapshot, name, data, rows[name]) for name, data in tables.items()}
        made = made or Made()
        records = {name: self.stage(snapshot, name, data, made.rows[name]) for name, data in made.records.items()}
        created = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = Manifest(
            snapshot, sequence, created, parent, digest, files, dict(vectors), dict(info), records, dict(made.run)
        )
        self.filesystem.write(f"{FOLDER}/{snapshot}/manifest.json", manifest.to_json())
        self._point(sequence, snapshot, "publish")
        return manifest, True

    def _point(self, entry: int, snapshot: str, action: str) -> None:
        """Make a snapshot the published one: the compare-and-set of the log."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        data = json.dumps({"entry": entry, "snapshot": snapshot, "action": action, "at": at}).encode()
        try:
            self.filesystem.create(f"{FOLDER}/log/{entry:09d}.json", data)
        except FileExistsError as error:
            raise SnapshotError(
                f"another run published entry {entry} at {self.filesystem.base} meanwhile; run the index again"
            ) from error

    def rollback(self, snapshot: str) -> Manifest:
        """Make an older snapshot the published one again.

        Raises:
            SnapshotError: No such snapshot, or another publisher was faster.
        """
        manifest = self.get(snapshot)
        entry, _ = self.head()
        self._point(entry + 1, manifest.id, "rollback")
        return manifest
