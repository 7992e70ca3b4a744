"""Dagster's SQLite databases, kept open while a process makes its runs.

A run of the index records some hundreds of events, and looks up several hundred more. Dagster's own storage opens a
database anew for each of them, and compiles each statement anew: more work than a small index is itself. What is written
is the same, so the UI and the daemon read it with Dagster's own classes.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, cast

from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
)
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._core.storage.sqlite_storage import (
    DagsterSqliteStorage,
    _event_logs_directory,
    _runs_directory,
    _schedule_directory,
)
from dagster._serdes import ConfigurableClassData
from sqlalchemy import create_engine, event, inspect
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import QueuePool

#: Databases that stay open at once: the index of events, and those of the latest runs.
MOST_OPEN = 4

#: Seconds to wait for another process that writes.
BUSY_SECONDS = 60


class _Engines:
    """Engines by database, the latest used of which stay open."""

    def __init__(self) -> None:
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, url: str) -> Engine:
        """The engine of a database."""
        with self._lock:
            engine = self._engines.pop(url, None)
            if engine is None:
                waiting = {"timeout": BUSY_SECONDS}
                engine = create_engine(url, poolclass=QueuePool, max_overflow=-1, connect_args=waiting)
                event.listen(engine, "connect", _write_without_waiting)
            self._engines[url] = engine
            while len(self._engines) > MOST_OPEN:
                self._engines.popitem(last=False)[1].dispose()
            return engine

    def close(self) -> None:
        """Close all."""
        with self._lock:
            for engine in self._engines.values():
                engine.dispose()
            self._engines.clear()


def _write_without_waiting(connection: sqlite3.Connection, _record: object) -> None:
    """Do not wait for the disk at each of the hundreds of events of a run.

    With write-ahead logging SQLite stays consistent, whatever happens; a power cut may lose the last events of a run's
    history. The index itself is written with its own flushes.
    """
    connection.execute("pragma synchronous = normal")


def _write_new(path: str, content: bytes) -> bool:
    """Write a file that is not there, whole; False where another process was faster."""
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.link(temporary, path)
    except OSError:  # it is there by now, or the disk knows no links
        return False
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    return True


class OpenRuns(SqliteRunStorage):
    """Dagster's table of runs, kept open."""

    def __init__(self, conn_string: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines = _Engines()
        super().__init__(conn_string, inst_data)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection in a transaction."""
        with self._engines.of(self._conn_string).begin() as connection:
            yield connection

    def dispose(self) -> None:
        """Close the database."""
        self._engines.close()
        super().dispose()


class OpenEvents(SqliteEventLogStorage):
    """Dagster's events, a database for each run and one for all, kept open."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines = _Engines()
        self._tables: set[str] = set()
        self._empty = b""
        super().__init__(base_dir, inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            engine = self._engines.of(self.conn_string_for_shard(shard))
            if shard not in self._initialized_dbs:
                self._make(shard, engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                yield connection

    def _make(self, shard: str, engine: Engine) -> None:
        """Make the tables of a database where there are none: those of a new run are a copy of those of the run before."""
        path = self.path_for_shard(shard)
        new = shard != INDEX_SHARD_NAME and not os.path.exists(path)
        if new and self._empty and _write_new(path, self._empty):
            return
        self._initdb(engine)
        if new:
            with closing(engine.raw_connection()) as connection:
                self._empty = cast(sqlite3.Connection, connection.driver_connection).serialize()

    def has_table(self, table_name: str) -> bool:
        """Whether the database of all events has a table; those that it has it keeps."""
        if table_name not in self._tables:
            engine = self._engines.of(self.conn_string_for_shard(INDEX_SHARD_NAME))
            if not inspect(engine).has_table(table_name):
                return False
            self._tables.add(table_name)
        return True

    def dispose(self) -> None:
        """Close the databases."""
        self._engines.close()
        super().dispose()


class OpenSqlite(DagsterSqliteStorage):
    """Dagster's SQLite storage, with its databases kept open."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super(DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]
        self.base_dir = base_dir
        self._run_storage = OpenRuns.from_local(_runs_directory(base_dir))
        self._event_log_storage = OpenEvents(_event_logs_directory(base_dir))
        self._schedule_storage = SqliteScheduleStorage.from_local(_schedule_directory(base_dir))
        self._inst_data = inst_data

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> OpenSqlite:
        """As Dagster makes it from its settings."""
        return cls.from_local(inst_data=inst_data, **config_value)
