"""What a person does with the cache of answers: look at it, and take out of it what is old.

The age of an answer counts from when a run of an index last asked for it or took it, which the ledger of calls tells, else
from when it was written; that of a vector from when it was written. The ledger itself stays: it is what was paid.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphrag_assets.llm.caching.objects import SharedObjects, Stored
from graphrag_assets.llm.errors import GatewayError

TABLES = ("answers", "vectors")

#: Entries that are deleted in one transaction: others may write in between.
_TOGETHER = 2_000

#: Seconds to wait for others to leave the file, before it is left as large as it is.
_PATIENCE = 1.0


@dataclass(frozen=True)
class Pruned:
    """What was taken out, or would be.

    Args:
        entries: Answers and vectors (of a shared cache: answers and packs of vectors).
        bytes: Bytes of the file, or of the objects, before and after; after is estimated where nothing was taken out.
        kept: Entries that stay.
        shrunk: Whether the file gave its free room back; False where another process has it open.
    """

    entries: dict[str, int] = field(default_factory=dict)
    bytes: tuple[int, int] = (0, 0)
    kept: dict[str, int] = field(default_factory=dict)
    shrunk: bool = True


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, to read.

    Raises:
        GatewayError: It cannot be read.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise GatewayError(f"cache.path: {path} cannot be read ({error})") from error


def file_bytes(path: Path) -> int:
    """Size of the file with what is not yet merged into it."""
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.is_file())


def contents(path: Path) -> dict[str, Any]:
    """What a file holds: entries and bytes by table and stage, and how often runs took answers instead of asking.

    Args:
        path: The file; where there is none, all is 0.
    """
    found: dict[str, Any] = {"file": str(path), "bytes": 0, "answers": 0, "vectors": 0, "stages": [], "hits": []}
    if not path.is_file():
        return found
    found["bytes"] = file_bytes(path)
    with reading(path) as connection:
        for table in TABLES:
            rows = connection.execute(
                f"select stage, count(*), sum(length(value)), min(created), max(created) from {table} group by stage order by stage"  # noqa: S608
            ).fetchall()
            found[table] = sum(row[1] for row in rows)
            names = ("stage", "entries", "bytes", "oldest", "newest")
            found["stages"] += [{"kind": table, **dict(zip(names, row, strict=True))} for row in rows]
        if _has(connection, "calls"):
            rows = connection.execute(
                "select stage, model, sum(not cached), sum(cached) from calls group by stage, model order by stage, model"
            ).fetchall()
            found["hits"] = [
                {
                    "stage": stage,
                    "model": model,
                    "asked": asked,
                    "taken": taken,
                    "rate": round(taken / (asked + taken), 4),
                }
                for stage, model, asked, taken in rows
            ]
        if _has(connection, "unsent"):
            found["not_yet_shared"] = connection.execute("select count(*) from unsent").fetchone()[0]
    return found


def prune_file(
    path: Path, *, older_than: float | None = None, max_bytes: int | None = None, dry_run: bool = False
) -> Pruned:
    """Take old entries out of a file, the oldest first.

    Args:
        path: The file.
        older_than: Seconds from which age on entries go; None: not by age.
        max_bytes: Size of the file that the oldest go for; None: not by size.
        dry_run: Only tell.

    Raises:
        GatewayError: The file cannot be written.
    """
    if not path.is_file():
        return Pruned(dict.fromkeys(TABLES, 0), (0, 0), dict.fromkeys(TABLES, 0))
    before = file_bytes(path)
    goal, gone, shrunk = max_bytes, dict.fromkeys(TABLES, 0), True
    while True:
        old, kept, left = _chosen(path, None if older_than is None else time.time() - older_than, goal)
        gone = {table: gone[table] + count for table, count in _by_table(old).items()}
        if dry_run:
            return Pruned(gone, (before, min(before, left)), _by_table(kept))
        shrunk = _delete(path, old)
        after = file_bytes(path)
        if goal is None or max_bytes is None or after <= max_bytes or not (shrunk and old and kept):
            return Pruned(gone, (before, after), _by_table(kept), shrunk)
        goal -= after - max_bytes  # pages are no fuller than they are: once more, for less


def _chosen(path: Path, limit: float | None, goal: int | None) -> tuple[list[_Entry], list[_Entry], int]:
    """Entries that go, those that stay, and about the bytes of the file with these: by last use, and by what it may take."""
    with reading(path) as connection:
        ages = _ages(connection)
        pages, free, page = (
            connection.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    count = sum(limit is not None and entry.used < limit for entry in ages)
    # What a byte of an entry takes in the file; what else lies there stays.
    total, other = sum(entry.size for entry in ages), _ledger_bytes(path)
    share = max(1.0, ((pages - free) * page - other) / total) if ages else 1.0
    left = other + sum(entry.size for entry in ages[count:]) * share
    while goal is not None and left > goal and count < len(ages):
        left -= ages[count].size * share
        count += 1
    return ages[:count], ages[count:], round(left)


def _by_table(entries: Sequence[_Entry]) -> dict[str, int]:
    return {table: sum(entry.table == table for entry in entries) for table in TABLES}


def prune_shared(
    objects: SharedObjects, *, older_than: float | None = None, max_bytes: int | None = None, dry_run: bool = False
) -> Pruned:
    """The same for a shared cache, whose entries are as old as when they were written; vectors go by whole packs."""
    with _told(objects):
        stored = sorted(objects.listed(), key=lambda entry: entry.written)
    limit = None if older_than is None else time.time() - older_than
    gone: list[Stored] = []
    left = total = sum(entry.size for entry in stored)
    for entry in stored:
        if not ((limit is not None and entry.written < limit) or (max_bytes is not None and left > max_bytes)):
            break
        gone.append(entry)
        left -= entry.size
    kept = stored[len(gone) :]
    if not dry_run:
        with _told(objects):
            objects.remove([entry.name for entry in gone])
    return Pruned(_kinds(gone), (total, left), _kinds(kept))


def shared_contents(objects: SharedObjects) -> dict[str, Any]:
    """What a shared cache holds."""
    with _told(objects):
        stored = list(objects.listed())
    vectors = sum(entry.vectors for entry in stored)
    return {
        "address": objects.place.address,
        "bytes": sum(entry.size for entry in stored),
        **_kinds(stored),
        "vectors": vectors,
    }


@contextmanager
def _told(objects: SharedObjects) -> Iterator[None]:
    """Errors of the store in words."""
    try:
        yield
    except Exception as error:
        raise GatewayError(f"the shared cache cannot be used: {objects.place.told(error, objects.setting)}") from error


def _kinds(stored: Sequence[Stored]) -> dict[str, int]:
    packs = sum(bool(entry.vectors) for entry in stored)
    return {"answers": len(stored) - packs, "packs": packs}


@dataclass(frozen=True, slots=True)
class _Entry:
    table: str
    key: bytes
    size: int
    used: float


def _ages(connection: sqlite3.Connection) -> list[_Entry]:
    """All entries, that which was used the longest ago first."""
    taken: dict[bytes, float] = {}
    if _has(connection, "calls"):
        taken = dict(connection.execute("select answer, max(at) from calls group by answer"))
    entries = []
    for table in TABLES:
        rows = connection.execute(f"select key, length(value), created from {table}")  # noqa: S608
        entries += [_Entry(table, key, size + 64, max(created, taken.get(key, 0.0))) for key, size, created in rows]
    return sorted(entries, key=lambda entry: (entry.used, entry.table, entry.key))


def _ledger_bytes(path: Path) -> int:
    """About what the ledger takes in the file, which pruning leaves alone."""
    with reading(path) as connection:
        if not _has(connection, "calls"):
            return 0
        rows, texts = connection.execute(
            "select count(*), sum(length(place) + length(stage) + length(row) + length(model) + length(run)) from calls"
        ).fetchone()
        return int(rows * 250 + (texts or 0) * 1.5)


def _has(connection: sqlite3.Connection, table: str) -> bool:
    return bool(connection.execute("select 1 from sqlite_master where name = ?", [table]).fetchone())


def _delete(path: Path, gone: Sequence[_Entry]) -> bool:
    """Delete entries in small transactions, then give their room back where nobody else has the file open."""
    try:
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
            noted = _has(connection, "unsent")
            for start in range(0, len(gone), _TOGETHER):
                some = gone[start : start + _TOGETHER]
                connection.execute("begin immediate")
                for table in TABLES:
                    keys = [(entry.key,) for entry in some if entry.table == table]
                    connection.executemany(f"delete from {table} where key = ?", keys)  # noqa: S608
                    if noted:
                        connection.executemany(f"delete from unsent where kind = '{table}' and key = ?", keys)  # noqa: S608
                connection.execute("commit")
            return _shrink(connection)
    except sqlite3.Error as error:
        raise GatewayError(f"cache.path: {path} cannot be written ({error})") from error


def _shrink(connection: sqlite3.Connection) -> bool:
    """Write the file anew without its free room. That shuts others out for as long as it takes: only where there are none."""
    connection.execute(f"pragma busy_timeout = {int(_PATIENCE * 1000)}")
    try:
        # Leaving the write-ahead log is refused as long as another connection is open: that tells whether there is one.
        connection.execute("pragma journal_mode = delete")
        connection.execute("pragma journal_mode = wal")
        connection.execute("vacuum")
        connection.execute("pragma wal_checkpoint(truncate)")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        return False
    return True
