"""Answers and vectors that were paid for once: a SQLite file shared by all processes of a host.

Write-ahead log, ``synchronous=NORMAL``: readers never wait, several processes write, and a killed process loses nothing
that was written. Writes go through one thread and are grouped while it is busy, so that neither a commit nor another
process's lock stops the event loop. A cache is a help, never a reason to fail: whatever goes wrong with the file is
told once, and the run goes on without it.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from graphrag_assets.llm import ledger
from graphrag_assets.llm.errors import GatewayError
from graphrag_assets.llm.providers.wire import clean, dumps
from graphrag_assets.progress import tell_once

logger = logging.getLogger(__name__)

#: Part of every key: raised when the meaning of what is stored changes.
CACHE_VERSION = 1

#: Version of the tables in the file.
FILE_VERSION = 1

#: Seconds that a write waits for another process's.
BUSY_TIMEOUT = 30.0

#: Keys in one look-up.
CHUNK = 500

#: Seconds that what is to be written waits for more, so that calls which end together are one transaction.
GATHERING = 0.01

_TABLES = [
    f"create table if not exists {name} "
    "(key blob primary key, value blob not null, stage text not null, created integer not null)"
    for name in ("answers", "vectors")
]

_Item = tuple[str, bytes]  # table, key


def answer_key(identity: Mapping[str, Any], messages: Sequence[Mapping[str, str]], schema: object) -> bytes:
    """Key of an answer: everything that changes it.

    Args:
        identity: Provider, endpoint, model and parameters; never a key or a header.
        messages: Role and content of each turn.
        schema: JSON schema that is asked for, None without one.

    Returns:
        SHA-256 over canonical JSON.
    """
    return hashlib.sha256(dumps([CACHE_VERSION, "answer", identity, messages, schema], canonical=True)).digest()


def vector_keys(identity: Mapping[str, Any], texts: Iterable[str]) -> list[bytes]:
    """Keys of the vectors of texts, one by one, whatever batch they are sent in.

    Args:
        identity: Provider, endpoint, model, dimensions and parameters.
        texts: Texts as they are sent.
    """
    start = hashlib.sha256(dumps([CACHE_VERSION, "vector", identity], canonical=True))
    keys = []
    for text in texts:
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = clean(text).encode()
        state = start.copy()
        state.update(data)
        keys.append(state.digest())
    return keys


class AnswerCache:
    """The file. Methods may be called from one thread (an event loop); writing happens in another.

    Args:
        path: The file; its folder is made. None: nothing is kept.
        must_keep: Whether to stop where the disk is full, instead of going on without keeping answers: a run that pays for
            thousands, and will not find room for its tables either, would lose them all.
    """

    def __init__(self, path: Path | None, *, must_keep: bool = False) -> None:
        self._path = path
        self._must_keep = must_keep
        self._full = ""
        self._lock = threading.Lock()
        self._pending: dict[_Item, tuple[bytes, str]] = {}
        self._calls: list[ledger.Call] = []
        self._draining: Future[None] | None = None
        self._hurry = threading.Event()
        self._thread: ThreadPoolExecutor | None = None
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._inode = 0
        self._writable = path is not None
        if path is not None:
            self._reader = self._open()

    def answer(self, key: bytes) -> bytes | None:
        """The value stored under a key, None if there is none."""
        with self._lock:
            pending = self._pending.get(("answers", key))
        if pending is not None:
            return pending[0]
        rows = self._read("select value from answers where key = ?", [key])
        try:
            return zlib.decompress(rows[0][0]) if rows else None
        except zlib.error:
            return None

    def put_answer(self, key: bytes, value: bytes, stage: str) -> None:
        """Store a value; it can be read at once, and is in the file some milliseconds later."""
        self._put({("answers", key): (value, stage)})

    def vectors(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The vectors stored under some of the keys, as the bytes of float32 numbers."""
        found: dict[bytes, bytes] = {}
        with self._lock:
            if self._pending:
                found.update(
                    {key: self._pending[item][0] for key in keys if (item := ("vectors", key)) in self._pending}
                )
        missing = [key for key in keys if key not in found] if found else keys
        for start in range(0, len(missing), CHUNK):
            some = missing[start : start + CHUNK]
            marks = ",".join("?" * len(some))
            found.update(self._read(f"select key, value from vectors where key in ({marks})", some))  # noqa: S608
        return found

    def put_vectors(self, vectors: Mapping[bytes, bytes], stage: str) -> None:
        """Store vectors by key."""
        self._put({("vectors", key): (value, stage) for key, value in vectors.items()})

    async def find_answer(self, key: bytes) -> bytes | None:
        """The value stored under a key, wherever it was paid for; None if there is none."""
        return self.answer(key)

    async def find_vectors(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The vectors stored under some of the keys, wherever they were paid for."""
        return self.vectors(keys)

    def note(self, call: ledger.Call) -> None:
        """Add a row to the ledger of calls; it is in the file no later than an answer that is stored after it."""
        if self._writable:
            with self._lock:
                self._calls.append(call)
                self._begin_draining()

    def flush(self) -> None:
        """Wait until everything is in the file."""
        self._hurry.set()
        while (draining := self._draining) is not None and not draining.done():
            draining.result()
        self._hurry.clear()

    def close(self) -> None:
        """Write what is left and close the file."""
        self.flush()
        if self._thread is not None:
            self._thread.submit(self._close_writer)
            self._thread.shutdown(wait=True)
            self._thread = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._writable = False

    # -- reading and opening ---------------------------------------------------------------------------------------

    def _read(self, sql: str, values: Sequence[bytes]) -> list[Any]:
        if self._reader is None:
            return []
        try:
            return self._reader.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            self._reader.close()
            self._reader = None
            if _is_corrupt(error):
                self._set_aside(error)
                self._reader = self._open()
            else:
                self._give_up(f"cannot be read ({error})")
            return []

    def _open(self) -> sqlite3.Connection | None:
        """A connection to the file, made new where it is damaged; None where it cannot be had."""
        assert self._path is not None
        for last_try in (False, True):
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                connection = self._connect()
                self._inode = self._path.stat().st_ino
                return connection
            except (sqlite3.Error, OSError) as error:
                if last_try or not _is_corrupt(error):
                    self._give_up(f"cannot be opened ({error})")
                    return None
                self._inode = self._path.stat().st_ino
                self._set_aside(error)
        return None

    def _connect(self) -> sqlite3.Connection:
        assert self._path is not None
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            version = connection.execute("pragma user_version").fetchone()[0]
            if version == 0:
                self._create(connection)
            elif version != FILE_VERSION:
                raise sqlite3.DatabaseError(f"made by another version of this program: {version}, not {FILE_VERSION}")
            connection.execute("pragma synchronous = normal")
            connection.execute("pragma wal_autocheckpoint = 2000")
            connection.execute("select 1 from answers, vectors limit 1").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self, connection: sqlite3.Connection) -> None:
        """Make the tables; several processes may do so at once, and SQLite queues no change of the journal mode."""
        connection.execute("pragma page_size = 8192")  # a vector of 1,536 numbers fits a page
        deadline = time.monotonic() + BUSY_TIMEOUT
        while True:
            try:
                connection.execute("pragma journal_mode = wal")
                connection.execute("begin immediate")
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute(f"pragma user_version = {FILE_VERSION}")
                connection.execute("commit")
                return
            except sqlite3.OperationalError as error:
                if connection.in_transaction:
                    connection.execute("rollback")
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _set_aside(self, error: Exception) -> None:
        """Move a damaged file out of the way, unless another process has already put a new one in its place."""
        assert self._path is not None
        try:
            if self._path.stat().st_ino != self._inode:
                return
            aside = self._path.with_name(f"{self._path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
            self._path.rename(aside)
            for suffix in ("-wal", "-shm"):
                log = self._path.with_name(self._path.name + suffix)
                if log.exists():
                    log.rename(aside.with_name(aside.name + suffix))
        except FileNotFoundError:
            return
        logger.warning(
            "LLM cache %s cannot be used (%s): moved to %s, a new one is made", self._path, error, aside.name
        )

    def _give_up(self, problem: str) -> None:
        self._writable = False
        tell_once(
            logger,
            f"cache {self._path}",
            "cache.path: %s %s: going on without keeping answers, so that what is asked again is paid for again",
            self._path,
            problem,
        )

    # -- writing, in a thread of its own ---------------------------------------------------------------------------

    def _put(self, items: Mapping[_Item, tuple[bytes, str]]) -> None:
        if self._full:
            raise GatewayError(
                f"{self._full}: stopped, so that no more answers are paid for and lost; free space on its disk, or set "
                "cache.path to another one"
            )
        if not self._writable or not items:
            return
        with self._lock:
            self._pending.update(items)
            self._begin_draining()

    def _begin_draining(self) -> None:
        if self._draining is None or self._draining.done():
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="llm-cache")
            self._draining = self._thread.submit(self._drain)

    def _drain(self) -> None:
        """Write what is waiting, group after group, until nothing waits."""
        while True:
            self._hurry.wait(GATHERING)
            with self._lock:
                group, calls = dict(self._pending), self._calls
                self._calls = []
                if not (group or calls) or not self._writable:
                    self._pending.clear()
                    self._draining = None
                    return
            try:
                self._write(group, calls)
            except (sqlite3.Error, OSError) as error:
                if self._must_keep and _is_full(error):
                    self._full = f"LLM cache {self._path} cannot be written ({error})"
                self._give_up(f"cannot be written ({error})")
            with self._lock:
                for item, value in group.items():
                    if self._pending.get(item) is value:
                        del self._pending[item]

    def _write(self, group: Mapping[_Item, tuple[bytes, str]], calls: Sequence[ledger.Call]) -> None:
        if self._writer is None:
            self._writer = self._connect()
            ledger.create(self._writer)
        now = int(time.time())
        rows: dict[str, list[tuple[bytes, bytes, str, int]]] = {"answers": [], "vectors": []}
        for (table, key), (value, stage) in group.items():
            rows[table].append((key, zlib.compress(value, 1) if table == "answers" else value, stage, now))
        self._writer.execute("begin immediate")
        try:
            for table, some in rows.items():
                if some:
                    self._writer.executemany(f"insert or replace into {table} values (?, ?, ?, ?)", some)  # noqa: S608
            self._beside(self._writer, group)
            ledger.write(self._writer, calls)
            self._writer.execute("commit")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("rollback")
            raise
        self._written(group)

    def _beside(self, connection: sqlite3.Connection, group: Mapping[_Item, tuple[bytes, str]]) -> None:
        """What is written with a group, in the same transaction."""

    def _written(self, group: Mapping[_Item, tuple[bytes, str]]) -> None:
        """What is done with a group that is in the file."""

    def _close_writer(self) -> None:
        if self._writer is None:
            return
        try:
            self._writer.execute("pragma busy_timeout = 100")
            self._writer.execute("pragma wal_checkpoint(truncate)")
            self._writer.close()
        except sqlite3.Error as error:
            logger.debug("LLM cache %s: %s at closing", self._path, error)
        self._writer = None


def _is_full(error: Exception) -> bool:
    """Whether the disk has no room; SQLite tells it in words, or as a fault of the disk."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "full" in str(error) or "disk I/O error" in str(error)


def _is_corrupt(error: Exception) -> bool:
    """Damage, as opposed to a full disk, a lock or a missing permission (which SQLite calls operational)."""
    return type(error) is sqlite3.DatabaseError
