"""Removing old snapshots: never the published one, and nothing that one which is kept needs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.snapshots import FOLDER, Manifest, SnapshotStore
from graphrag_assets.storage.vectors import connect, telling

#: Versions of vector tables as old as the first one needed stay as well: clocks and time stamps are not exact.
_MARGIN = timedelta(seconds=1)


@dataclass(frozen=True)
class Pruned:
    """What was removed, or would be.

    Args:
        snapshots: Ids, oldest first.
        files: Files of tables and manifests.
        bytes: Their size.
        vector_tables: Vector tables whose unused versions were removed.
    """

    snapshots: tuple[str, ...]
    files: int
    bytes: int
    vector_tables: int


def superfluous(
    snapshots: list[Manifest], published: str | None, keep: int | None, older_than: timedelta | None, now: datetime
) -> list[Manifest]:
    """Snapshots that may go: beyond the newest ones, and older than given, whichever of the two is given.

    Args:
        snapshots: All, oldest first.
        published: Id of the published one, which stays.
        keep: How many of the newest stay; None: age alone decides.
        older_than: Age from which they go; None: the number alone decides.
        now: Time to reckon from.
    """
    newest = {m.id for m in snapshots[-keep:]} if keep else set()
    found = []
    for manifest in snapshots:
        young = older_than is not None and now - datetime.fromisoformat(manifest.created) < older_than
        if manifest.id != published and manifest.id not in newest and not young:
            found.append(manifest)
    return found


def prune(
    filesystem: FileSystem, *, keep: int | None = None, older_than: timedelta | None = None, dry_run: bool = False
) -> Pruned:
    """Remove old snapshots, and the versions of vector tables that no remaining one names.

    Args:
        filesystem: The storage base.
        keep: How many of the newest snapshots stay; None: age alone decides.
        older_than: Age from which they go; None: the number alone decides.
        dry_run: Only tell.

    Raises:
        ValueError: Neither a number nor an age is given.
    """
    if keep is None and older_than is None:
        raise ValueError("say how many snapshots to keep, or from which age on they go")
    store = SnapshotStore(filesystem)
    every = store.all()
    gone = superfluous(every, store.head()[1], keep, older_than, datetime.now(UTC))
    kept = [manifest for manifest in every if manifest not in gone]
    needed = {file.path for manifest in kept for file in (*manifest.tables.values(), *manifest.records.values())}
    files = [
        info for manifest in gone for info in filesystem.list(f"{FOLDER}/{manifest.id}") if info.path not in needed
    ]
    tables = {(table.path, table.table) for manifest in gone for table in manifest.vectors.values()}
    told = Pruned(tuple(m.id for m in gone), len(files), sum(info.size for info in files), len(tables))
    if dry_run or not gone:
        return told
    # The manifest goes first: a snapshot that is half removed must not look like a whole one.
    for info in sorted(files, key=lambda info: not info.path.endswith("manifest.json")):
        filesystem.delete(info.path)
    store.forget({manifest.id for manifest in gone})
    _clean_vectors(filesystem, tables, kept)
    return told


def _clean_vectors(filesystem: FileSystem, tables: set[tuple[str, str]], kept: list[Manifest]) -> None:
    """Remove the versions of vector tables before the first that a snapshot names; the newest one always stays.

    LanceDB removes by age, not by number: the age is that of the first version still needed.
    """
    for path, name in sorted(tables):
        with telling(filesystem):
            _clean_table(filesystem, path, name, kept)


def _clean_table(filesystem: FileSystem, path: str, name: str, kept: list[Manifest]) -> None:
    table = connect(filesystem, path).open_table(name)
    named = [v.version for manifest in kept for v in manifest.vectors.values() if (v.path, v.table) == (path, name)]
    first = min(named, default=int(table.version))
    since = next(v["timestamp"] for v in table.list_versions() if v["version"] == first)
    with warnings.catch_warnings():  # it warns of an age of 0, which this never is
        warnings.simplefilter("ignore")
        table.optimize(cleanup_older_than=datetime.now(since.tzinfo) - since + _MARGIN)
