"""A cache of answers that several hosts share: the local file in front, objects in a bucket or in Redis behind it.

What was paid for is written to the file at once, together with a note that it has yet to be sent, and sent from a thread
some moments later: a process that is killed loses nothing, the next one on this host sends the rest. What another host
paid for is fetched where the file has it not, and kept in the file. A store that does not answer is told of once in a run and left
alone for a minute: a cache is a help, never a reason to fail or to wait.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from graphrag_assets.llm.caching.local import BUSY_TIMEOUT, AnswerCache
from graphrag_assets.llm.caching.objects import PACK_VECTORS, BucketObjects, SharedObjects
from graphrag_assets.llm.caching.redis import RedisObjects, RedisPlace
from graphrag_assets.object_store import ObjectStore
from graphrag_assets.progress import tell_once
from graphrag_assets.settings import Workspace

logger = logging.getLogger(__name__)

#: Vectors wait so long for others to travel with, in seconds.
LINGER = 2.0

#: Seconds for which a store that failed is left alone.
PAUSE = 60.0

#: Seconds after which the packs of vectors are listed anew.
_LISTED_FOR = 30.0

#: Requests at one time.
_AT_ONCE = 32

_Group = Mapping[tuple[str, bytes], tuple[bytes, str]]

_TABLES = (
    "create table if not exists unsent (kind text not null, key blob not null, primary key (kind, key)) without rowid",
    "create table if not exists packs (number integer primary key, name text not null unique)",
    "create table if not exists packed (key blob primary key, pack integer not null) without rowid",
    "create table if not exists shared_with (address text not null)",
)


def open_cache(workspace: Workspace, *, must_keep: bool = False) -> AnswerCache:
    """The cache of a workspace: none, a file of this host, or one that is shared.

    Args:
        workspace: Root folder and settings.
        must_keep: Whether to stop where the disk of the file is full.
    """
    settings = workspace.settings.cache
    if not settings.enabled:
        return AnswerCache(None)
    path = workspace.path(settings.path)
    objects = shared_objects(workspace)
    if objects is None:
        return AnswerCache(path, must_keep=must_keep)
    return SharedCache(path, objects, must_keep=must_keep)


def shared_objects(workspace: Workspace) -> SharedObjects | None:
    """What hosts share behind their files; None where there is nothing."""
    settings = workspace.settings.cache
    if settings.enabled and settings.redis_url is not None:
        return RedisObjects(RedisPlace(settings.redis_url.get_secret_value()))
    place = shared_place(workspace)
    return None if place is None else BucketObjects(place)


def shared_place(workspace: Workspace) -> ObjectStore | None:
    """The bucket of the shared cache of a workspace; None where there is none."""
    settings, storage = workspace.settings.cache, workspace.settings.storage
    if not settings.enabled or settings.shared is None:
        return None
    return ObjectStore(
        settings.shared, settings.endpoint_url or storage.endpoint_url, settings.region or storage.region
    )


class SharedCache(AnswerCache):
    """The local file and what is behind it.

    Args:
        path: The file.
        objects: What hosts share.
        must_keep: See :class:`AnswerCache`.
    """

    def __init__(self, path: Path, objects: SharedObjects, *, must_keep: bool = False) -> None:
        self._objects = objects
        self._address = f"{objects.place.address} {objects.place.given_endpoint or ''}"
        self._file = path
        self._fetched: set[tuple[str, bytes]] = set()
        self._left_alone_until = 0.0
        self._listed_at = 0.0
        self._learning: asyncio.Lock | None = None
        super().__init__(path, must_keep=must_keep)
        self._sender = _Sender(self) if self._writable else None

    # -- reading ---------------------------------------------------------------------------------------------------

    async def find_answer(self, key: bytes) -> bytes | None:
        """See :meth:`AnswerCache.find_answer`: of this host, else of another one."""
        if (known := self.answer(key)) is not None or not self.may_ask():
            return known
        try:
            found = await self._objects.answer(key)
        except Exception as error:  # whatever it is, the answer can be paid for again
            self.leave_alone(error)
            return None
        if found is None:
            return None
        self._keep("answers", {key: found[0]}, found[1])
        return found[0]

    async def find_vectors(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """See :meth:`AnswerCache.find_vectors`: of this host, else of another one."""
        found = self.vectors(keys)
        missing = [key for key in keys if key not in found]
        if not missing or not self._writable or not self.may_ask():
            return found
        try:
            await self._learn_packs()
            packs = await asyncio.to_thread(self._packs_of, missing)
            slots = asyncio.Semaphore(_AT_ONCE)
            parts = await asyncio.gather(*(self._fetch_pack(name, slots) for name in packs))
        except Exception as error:
            self.leave_alone(error)
            return found
        for part in parts:
            found |= {key: part[key] for key in missing if key in part}
        return found

    async def _learn_packs(self) -> None:
        """Learn which keys the packs hold that other hosts sent meanwhile."""
        if self._learning is None:
            self._learning = asyncio.Lock()
        async with self._learning:
            if time.monotonic() < self._listed_at + _LISTED_FOR:
                return
            names = await asyncio.to_thread(self._objects.packs)
            with closing(self._connect_more()) as connection:
                known = {row[0] for row in connection.execute("select name from packs")}
            slots = asyncio.Semaphore(_AT_ONCE)
            new = [name for name in names if name not in known]

            async def keys_of(name: str) -> list[bytes]:
                async with slots:
                    return await self._objects.pack_keys(name)

            keys = await asyncio.gather(*(keys_of(name) for name in new))
            await asyncio.to_thread(self._note_packs, dict(zip(new, keys, strict=True)), set(known) - set(names))
            self._listed_at = time.monotonic()

    def _note_packs(self, new: Mapping[str, Sequence[bytes]], gone: Iterable[str]) -> None:
        with closing(self._connect_more()) as connection, connection:
            for name in gone:
                connection.execute("delete from packed where pack in (select number from packs where name = ?)", [name])
                connection.execute("delete from packs where name = ?", [name])
            for name, keys in new.items():
                connection.execute("insert or ignore into packs (name) values (?)", [name])
                number = connection.execute("select number from packs where name = ?", [name]).fetchone()[0]
                connection.executemany("insert or ignore into packed values (?, ?)", [(key, number) for key in keys])

    def held(self, table: str, keys: Sequence[bytes]) -> _Group:
        """Values in the file with their stages."""
        found = {}
        with closing(self._connect_more()) as connection:
            for key in keys:
                row = connection.execute(f"select value, stage from {table} where key = ?", [key]).fetchone()  # noqa: S608
                if row:
                    found[table, key] = (zlib.decompress(row[0]) if table == "answers" else row[0], row[1])
        return found

    def _packs_of(self, keys: Sequence[bytes]) -> list[str]:
        """Packs that hold any of some keys."""
        sql = "select name from packed join packs on number = pack where key = ?"
        with closing(self._connect_more()) as connection:
            return sorted({row[0] for key in keys for row in connection.execute(sql, [key])})

    async def _fetch_pack(self, name: str, slots: asyncio.Semaphore) -> dict[bytes, bytes]:
        async with slots:
            vectors, stage = await self._objects.pack(name)
        self._keep("vectors", vectors, stage)
        return vectors

    def _keep(self, table: str, values: Mapping[bytes, bytes], stage: str) -> None:
        """Keep in the file what came from another host; it need not be sent."""
        items = {(table, key): (value, stage) for key, value in values.items()}
        self._fetched.update(items)
        self._put(items)

    # -- the store ---------------------------------------------------------------------------------------------------

    def may_ask(self) -> bool:
        """Whether the store is worth asking: it was not found broken a moment ago."""
        return time.monotonic() >= self._left_alone_until

    def leave_alone(self, error: BaseException) -> None:
        """Do without the store for a while, and say so once in a run."""
        self._left_alone_until = time.monotonic() + PAUSE
        cause = self._objects.place.told(error, self._objects.setting)
        words = "Answers are kept on this host only, and sent when the shared cache answers again: %s"
        tell_once(logger, f"shared cache {self._address}", words, cause)

    def send(self, group: _Group) -> list[tuple[str, bytes]]:
        """Send what was paid for here.

        Returns:
            What was sent.
        """
        answers = [(key, value, stage) for (table, key), (value, stage) in group.items() if table == "answers"]
        vectors = {key: held for (table, key), held in group.items() if table == "vectors"}
        sent: list[tuple[str, bytes]] = []
        try:
            with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(answers)))) as pool:
                for (key, _, _), _done in zip(
                    answers, pool.map(lambda item: self._objects.put_answer(*item), answers), strict=True
                ):
                    sent.append(("answers", key))
            if vectors:
                self._objects.put_packs(vectors)
                sent += [("vectors", key) for key in vectors]
        except Exception as error:
            self.leave_alone(error)
        return sent

    # -- writing -----------------------------------------------------------------------------------------------------

    def _beside(self, connection: sqlite3.Connection, group: _Group) -> None:
        """Note, in the transaction that keeps values, that those of this host have yet to be sent."""
        for statement in _TABLES:
            connection.execute(statement)
        connection.executemany(
            "insert or ignore into unsent values (?, ?)", [item for item in group if item not in self._fetched]
        )

    def _written(self, group: _Group) -> None:
        own = {item: held for item, held in group.items() if item not in self._fetched}
        self._fetched.difference_update(group)
        if self._sender is not None and own:
            self._sender.add(own)

    def _connect_more(self) -> sqlite3.Connection:
        """A further connection to the file, with the tables of what is shared."""
        connection = sqlite3.connect(self._file, timeout=BUSY_TIMEOUT)
        connection.execute("pragma synchronous = normal")
        with connection:
            for statement in _TABLES:
                connection.execute(statement)
        return connection

    def close(self) -> None:
        """Write and send what is left, then close the file."""
        self.flush()
        if self._sender is not None:
            self._sender.close()
            self._sender = None
        super().close()


class _Sender:
    """Sends what is new, in a thread of its own, and what earlier processes left."""

    def __init__(self, cache: SharedCache) -> None:
        self._cache = cache
        self._waiting: dict[tuple[str, bytes], tuple[bytes, str]] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._vectors_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="llm-cache-sender", daemon=True)
        self._thread.start()

    def add(self, group: _Group) -> None:
        with self._changed:
            self._waiting.update(group)
            if self._vectors_since is None and any(table == "vectors" for table, _ in group):
                self._vectors_since = time.monotonic()
            self._changed.notify()

    def close(self) -> None:
        """Send what waits; what cannot be sent stays noted for the next process."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            with closing(self._cache._connect_more()) as connection:
                self._send_leftovers(connection)
                while group := self._next():
                    self._send(connection, group)
        except sqlite3.Error as error:
            words = "LLM cache %s: what is to be shared cannot be noted (%s)"
            tell_once(logger, f"unsent {self._cache._file}", words, self._cache._file, error)

    def _next(self) -> dict[tuple[str, bytes], tuple[bytes, str]]:
        """What is to be sent next: answers at once, vectors when they fill a pack or waited long; empty at the end."""
        with self._changed:
            while not (ready := self._ready()) and not self._closing:
                since = self._vectors_since
                self._changed.wait(None if since is None else max(0.0, since + LINGER - time.monotonic()))
            group = dict(self._waiting) if self._closing else ready
            for item in group:
                del self._waiting[item]
            if not any(table == "vectors" for table, _ in self._waiting):
                self._vectors_since = None
            return group

    def _ready(self) -> dict[tuple[str, bytes], tuple[bytes, str]]:
        """What waits and need not wait for more."""
        vectors = sum(table == "vectors" for table, _ in self._waiting)
        late = self._vectors_since is not None and time.monotonic() >= self._vectors_since + LINGER
        whole = late or vectors >= PACK_VECTORS
        return {item: held for item, held in self._waiting.items() if whole or item[0] == "answers"}

    def _send(self, connection: sqlite3.Connection, group: _Group) -> None:
        sent = self._cache.send(group) if self._cache.may_ask() else []
        with connection:
            connection.executemany("delete from unsent where kind = ? and key = ?", sent)

    def _send_leftovers(self, connection: sqlite3.Connection) -> None:
        """Send what is noted as unsent; with a store that this file was never shared with, everything in it."""
        address = self._cache._address
        if connection.execute("select address from shared_with").fetchall() != [(address,)]:
            with connection:
                for table in ("answers", "vectors"):
                    connection.execute(f"insert or ignore into unsent select ?, key from {table}", [table])  # noqa: S608
                for table in ("packs", "packed", "shared_with"):
                    connection.execute(f"delete from {table}")  # noqa: S608
                connection.execute("insert into shared_with values (?)", [address])
        for table in ("answers", "vectors"):
            keys = [row[0] for row in connection.execute("select key from unsent where kind = ?", [table])]
            for start in range(0, len(keys), PACK_VECTORS):
                if not self._cache.may_ask():
                    return
                some = keys[start : start + PACK_VECTORS]
                self._send(connection, self._cache.held(table, some))
