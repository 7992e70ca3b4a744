"""What is under way at providers: a small SQLite file beside the answer cache, written before and after each step.

A question is claimed for a batch before its file leaves this host, and its answer lies here until it stands in the cache:
whatever kills a process, no question is sent twice and no answer that was paid for is lost. Each write is on the disk
when it returns (``synchronous=FULL``); there are few.
"""

from __future__ import annotations

import fcntl
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import orjson

from graphrag_assets.settings import Workspace

#: Seconds that a write waits for another process's.
_BUSY_TIMEOUT = 30.0

#: Days for which answers are kept that nobody asked for any more.
KEPT_DAYS = 30

_CHUNK = 500

_TABLES = (
    "create table if not exists batches (token text primary key, place text not null, entry text not null, "
    "stages text not null, requests integer not null, state text not null, provider_id text not null default '', "
    "file text not null default '', status text not null default '', done integer not null default 0, "
    "created real not null, seen real not null, cancelled integer not null default 0, "
    "provider text not null default '', held text not null default '')",
    "create table if not exists questions (key blob primary key, token text not null, result blob)",
    "create index if not exists questions_of on questions (token)",
    "create table if not exists given_up (key blob primary key, times integer not null, at real not null)",
    "create table if not exists most_at_once (entry text primary key, requests integer not null)",
)

_COLUMNS = "token, place, entry, stages, requests, state, provider_id, file, status, done, created, seen, cancelled, provider, held"


@dataclass(frozen=True)
class Flight:
    """A batch that was sent, or is about to be.

    Args:
        token: What we call it; the provider keeps it as metadata.
        place: Storage base of the index that asked.
        entry: Entry of the settings.
        stages: Stages that asked, joined by commas.
        requests: Questions in it.
        state: writing (its file leaves this host), sent, or collected (answers wait here for those who asked).
        provider_id: Its id at the provider.
        file: Id of its file of questions at the provider.
        status: What the provider last said of it.
        done: Questions that the provider has answered so far.
        created: When it was made, seconds since 1970-01-01 UTC.
        seen: When the provider was last asked.
        cancelled: Whether its end was asked for.
        provider: Host and path of the provider, or its name.
        held: What the budget of the day set aside for it (:meth:`graphrag_assets.llm.limiting.day_budget.Held.to_json`).
    """

    token: str
    place: str
    entry: str
    stages: str
    requests: int
    state: str = "writing"
    provider_id: str = ""
    file: str = ""
    status: str = ""
    done: int = 0
    created: float = 0.0
    seen: float = 0.0
    cancelled: bool = False
    provider: str = ""
    held: str = ""


@dataclass(frozen=True)
class Found:
    """What is known of a question.

    Args:
        token: Its batch.
        result: Body of the answer; empty where the provider gave none for it; None while nothing has come.
    """

    token: str
    result: dict[str, Any] | None


def records_path(workspace: Workspace) -> Path:
    """The file of a workspace: beside its answer cache."""
    path = workspace.path(workspace.settings.cache.path)
    return path.with_name(f"{path.stem}.batches.sqlite")


class Records:
    """The file. Each method opens it anew, so that any thread may call any; none is called often.

    Args:
        path: The file; made when something is first written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def right_to_send(self) -> TextIOWrapper | None:
        """The right to send: one process of this host has it at a time, and loses it however it ends.

        Returns:
            To be closed when it is needed no more; None where another one has it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.with_suffix(".lock").open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file

    def flights(self, place: str | None = None) -> list[Flight]:
        """Batches, oldest first; of one index where it is named."""
        where, values = ("", []) if place is None else (" where place = ?", [place])
        rows = self._read(f"select {_COLUMNS} from batches{where} order by created, token", values)  # noqa: S608
        return [Flight(*(*row[:12], bool(row[12]), *row[13:])) for row in rows]

    def look_up(self, keys: Sequence[bytes]) -> dict[bytes, Found]:
        """What is known of questions; those that are in no batch are left out."""
        found: dict[bytes, Found] = {}
        for some in _parts(keys):
            marks = ",".join("?" * len(some))
            for key, token, result in self._read(
                f"select key, token, result from questions where key in ({marks})",  # noqa: S608
                some,
            ):
                found[key] = Found(token, None if result is None else orjson.loads(zlib.decompress(result)))
        return found

    def given_up(self, keys: Sequence[bytes]) -> set[bytes]:
        """Questions that batches ended without more than once."""
        return {
            key
            for some in _parts(keys)
            for (key,) in self._read(
                f"select key from given_up where times > 1 and key in ({','.join('?' * len(some))})",  # noqa: S608
                some,
            )
        }

    def claim(self, flight: Flight, keys: Sequence[bytes]) -> None:
        """Note a batch, before its file leaves this host.

        Args:
            flight: The batch.
            keys: Its questions, none of which is in another batch (see :meth:`right_to_send`).
        """
        with self._writing() as connection:
            values = [*vars(flight).values()]
            connection.execute(f"insert into batches ({_COLUMNS}) values ({','.join('?' * len(values))})", values)  # noqa: S608
            connection.executemany("insert into questions values (?, ?, null)", [(key, flight.token) for key in keys])

    def uploaded(self, token: str, file: str) -> None:
        """Note that the file of a batch is at the provider."""
        with self._writing() as connection:
            connection.execute("update batches set file = ? where token = ?", [file, token])

    def sent(self, token: str, provider_id: str, file: str, status: str) -> None:
        """Note that the provider has a batch."""
        with self._writing() as connection:
            connection.execute(
                "update batches set state = 'sent', provider_id = ?, file = ?, status = ?, seen = ? where token = ?",
                [provider_id, file, status, time.time(), token],
            )

    def seen(self, token: str, status: str, done: int, *, cancelled: bool = False) -> None:
        """Note what the provider said of a batch."""
        with self._writing() as connection:
            connection.execute(
                "update batches set status = ?, done = ?, seen = ?, cancelled = max(cancelled, ?) where token = ?",
                [status, done, time.time(), cancelled, token],
            )

    def drop(self, token: str) -> None:
        """Forget a batch that never came to be; its questions can be asked again."""
        with self._writing() as connection:
            connection.execute("delete from questions where token = ?", [token])
            connection.execute("delete from batches where token = ?", [token])

    def collect(self, token: str, status: str, results: Iterable[tuple[bytes, dict[str, Any]]], *, whole: bool) -> None:
        """Keep the answers of a batch that has ended.

        Args:
            token: The batch.
            status: How it ended.
            results: Bodies by question, empty ones for questions that failed.
            whole: Whether a question without a result has failed; else it can be asked again.
        """
        now = time.time()
        with self._writing() as connection:
            connection.executemany(
                "update questions set result = ? where key = ? and token = ? and result is null",
                ((zlib.compress(orjson.dumps(body), 1), key, token) for key, body in results),
            )
            if whole:
                empty = zlib.compress(b"{}")
                connection.execute("update questions set result = ? where token = ? and result is null", [empty, token])
            else:
                connection.execute(
                    "insert into given_up select key, 1, ? from questions where token = ? and result is null "
                    "on conflict (key) do update set times = times + 1, at = excluded.at",
                    [now, token],
                )
                connection.execute("delete from questions where token = ? and result is null", [token])
            connection.execute(
                "update batches set state = 'collected', status = ?, seen = ? where token = ?", [status, now, token]
            )
            _tidy(connection, now)

    def done_with(self, keys: Sequence[bytes]) -> None:
        """Forget questions whose answers stand in the cache, or could not be used."""
        if not keys:
            return
        now = time.time()
        with self._writing() as connection:
            for some in _parts(keys):
                marks = ",".join("?" * len(some))
                connection.execute(f"delete from questions where result is not null and key in ({marks})", some)  # noqa: S608
                connection.execute(f"delete from given_up where key in ({marks})", some)  # noqa: S608
            _tidy(connection, now)

    def most_at_once(self, entry: str) -> int | None:
        """Most questions that the provider of an entry queues at once; None where it never refused any."""
        rows = self._read("select requests from most_at_once where entry = ?", [entry])
        return int(rows[0][0]) if rows else None

    def limit(self, entry: str, requests: int) -> None:
        """Note how many questions the provider of an entry queues at once."""
        with self._writing() as connection:
            connection.execute("insert or replace into most_at_once values (?, ?)", [entry, requests])

    def answered(self) -> list[bytes]:
        """Questions whose answers have come and wait for those who asked."""
        return [key for (key,) in self._read("select key from questions where result is not null", [])]

    # -- the file ------------------------------------------------------------------------------------------------------

    def _read(self, sql: str, values: Sequence[Any]) -> list[Any]:
        if not self.path.is_file():
            return []
        with closing(self._connect()) as connection:
            return connection.execute(sql, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._connect()) as connection:
            connection.execute("begin immediate")
            try:
                yield connection
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT, isolation_level=None)
        connection.execute("pragma synchronous = full")
        for statement in _TABLES:
            connection.execute(statement)
        return connection


def _tidy(connection: sqlite3.Connection, now: float) -> None:
    """Forget batches of which nothing waits any more, and what nobody asked for in a long time."""
    old = now - KEPT_DAYS * 86400
    connection.execute(
        "delete from questions where token in (select token from batches where state = 'collected' and seen < ?)", [old]
    )
    connection.execute(
        "delete from batches where state = 'collected' and token not in (select distinct token from questions)"
    )
    connection.execute("delete from given_up where at < ?", [old])
    # A provider has deleted by now what nobody came for, as of an entry that was taken out of the settings.
    connection.execute("delete from questions where token in (select token from batches where created < ?)", [old])
    connection.execute("delete from batches where created < ?", [old])


def _parts(items: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
