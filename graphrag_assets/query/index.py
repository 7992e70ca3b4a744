"""One published snapshot, opened for reading.

Rows are looked up by key in the Parquet files where they lie; for all other questions there are DuckDB views over the
same files. Files, views and vector tables are opened at their first use, vector tables at the version that the snapshot
names. An index never changes, may be shared by threads, and knows nothing of Dagster.
"""

# ruff: noqa: S608 (SQL is put together from names and file addresses only)

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphrag_assets.query.errors import NoSnapshotError, QueryError
from graphrag_assets.query.filters import Filter
from graphrag_assets.query.scope import Scope, ScopedTable
from graphrag_assets.query.sql import add_call_log, lock, select
from graphrag_assets.query.stored import StoredTable
from graphrag_assets.query.vectors import VectorIndex
from graphrag_assets.settings import Settings, Workspace
from graphrag_assets.storage import engine, tables
from graphrag_assets.storage.call_tables import CALL_LOG, RECORDS
from graphrag_assets.storage.copies import LocalCopies
from graphrag_assets.storage.filesystem import FileSystem, open_filesystem
from graphrag_assets.storage.s3 import S3FileSystem
from graphrag_assets.storage.snapshots import Manifest, SnapshotError, SnapshotStore, VectorTable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

#: What vectors stand for, by the name of their table.
VECTOR_TABLES = {
    tables.TEXT_UNIT_VECTORS: "text_units",
    tables.ENTITY_VECTORS: "entities",
    tables.REPORT_VECTORS: "community_reports",
}

#: A row of a query: column name -> value.
Record = dict[str, Any]


class Index:
    """A snapshot that can be asked.

    Args:
        filesystem: The storage base.
        manifest: The snapshot.
        workspace: Root and settings; None: this folder and the defaults, with the embedded models.
        whole: The same snapshot without a filter, whose files are shared; with ``scope``.
        scope: What lies inside a filter on documents: nothing else can be read through this index; None: no filter.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        manifest: Manifest,
        workspace: Workspace | None = None,
        whole: Index | None = None,
        scope: Scope | None = None,
    ) -> None:
        self.filesystem = filesystem
        self.manifest = manifest
        self.workspace = workspace or Workspace(root=Path.cwd(), settings=Settings.model_validate({}))
        self.whole = whole or self
        self.scope = scope
        self._copies: LocalCopies | None = whole._copies if whole else _local_copies(filesystem, workspace)
        self._vectors: dict[str, VectorIndex] = {}
        self._tables: dict[str, StoredTable] = {}
        self._kept: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._opened: duckdb.DuckDBPyConnection | None = None

    @property
    def snapshot(self) -> str:
        """Id of the snapshot."""
        return self.manifest.id

    @property
    def settings(self) -> Settings:
        """Settings of the workspace."""
        return self.workspace.settings

    def connection(self, *, with_log: bool = False) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection of the caller's own, with a view for every table: it reads this snapshot and nothing else.

        The caller closes it.

        Args:
            with_log: Add call_log: all calls that index runs of this workspace made on this host.
        """
        connection = self._connect()
        _create_views(connection, self.filesystem, self.manifest)
        if with_log:
            add_call_log(connection, self.workspace)
        lock(connection, self.filesystem, self.manifest)
        return connection

    def _connect(self) -> duckdb.DuckDBPyConnection:
        return engine.connect(self.filesystem, files=self.manifest.tables.values(), copies=self._copies)

    def sql(self, query: str) -> pa.Table:
        """All rows of one SQL query over the views of the snapshot.

        Raises:
            QueryError: It is no query that reads, or the database refuses it.
        """
        with self.connection(with_log=CALL_LOG in query.lower()) as connection, engine.telling():
            return select(connection, query).read_all()

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Record]:
        """Run one SQL query over the views of the snapshot; safe to call from several threads.

        Args:
            sql: A query; table names are those of :mod:`graphrag_assets.storage.tables`.
            parameters: Values of its question marks.

        Returns:
            Rows in the order of the query.
        """
        cursor = self._connection().cursor()
        try:
            with engine.telling():
                cursor.execute(sql, list(parameters))
                names = [column[0] for column in cursor.description or ()]
                return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        finally:
            cursor.close()

    def _connection(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._opened is None:
                self._opened = self._connect()
                _create_views(self._opened, self.filesystem, self.manifest, self.scope)
            return self._opened

    def within(self, documents: Filter | None) -> Index:
        """The same snapshot, of which only what lies inside a filter on documents can be read.

        Args:
            documents: The filter; None: everything.

        Raises:
            QueryError: The filter names what there is not, or leaves no document.
        """
        if documents is None:
            return self
        scope = Scope(self.whole.stored, documents)
        return Index(self.filesystem, self.manifest, self.workspace, self.whole, scope)

    def table(self, name: str) -> StoredTable | ScopedTable | None:
        """A table for look-ups by key; None where the snapshot does not hold it, or no row of it."""
        stored = self.whole.stored(name)
        return ScopedTable(stored, name, self.scope) if stored is not None and self.scope is not None else stored

    def stored(self, name: str) -> StoredTable | None:
        """A table with all its rows, whatever the filter: for what tells of no document, such as counts of words."""
        described = self.manifest.tables.get(name) or self.manifest.records.get(name)
        if described is None or not described.rows:
            return None
        with self._lock:
            if name not in self._tables:
                self._tables[name] = StoredTable(self.filesystem, described, self._copies)
            return self._tables[name]

    def take(self, table: str, key: str, values: Sequence[int] | Sequence[str], columns: Sequence[str]) -> pa.Table:
        """Rows of a table whose key is among some values, in the order of the table; see :class:`StoredTable`."""
        stored = self.table(table)
        if stored is None or not len(values):
            contract = next(t for t in (*tables.PUBLISHED, *RECORDS) if t.name == table)
            return contract.empty().select(list(columns))
        return stored.take(key, values, columns)

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """Something small that is made once from the snapshot, such as the lengths of text units."""
        with self._lock:
            if name in self._kept:
                return self._kept[name]
        made = make()
        with self._lock:
            return self._kept.setdefault(name, made)

    def count(self, table: str) -> int:
        """Rows of a table, as the manifest says; 0 for a table that the snapshot does not hold."""
        inside = self.scope.count(table) if self.scope is not None else None
        if inside is not None:
            return inside
        file = self.manifest.tables.get(table)
        return file.rows if file else 0

    def vectors(self, name: str) -> VectorIndex:
        """A vector table of the snapshot.

        Raises:
            QueryError: The snapshot does not hold it.
        """
        with self._lock:
            if name not in self._vectors:
                described = self.manifest.vectors.get(name)
                if described is None:
                    held = sorted(self.manifest.vectors) or "none"
                    raise QueryError(
                        f"snapshot {self.snapshot} holds no vectors {name!r} (it holds {held}): "
                        "run graphrag-assets index again"
                    )
                self._vectors[name] = self._vector_index(name, described)
            return self._vectors[name]

    def _vector_index(self, name: str, described: VectorTable) -> VectorIndex:
        table = VECTOR_TABLES.get(name, "")
        windows = max(1.0, described.rows / max(1, self.whole.count(table)))
        scope = self.scope
        inside = (lambda: scope.ids(table)) if scope is not None else None
        return VectorIndex(self.filesystem, described, inside, windows)

    def close(self) -> None:
        """Close the database connection."""
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_index(base: str, snapshot: str | None = None, workspace: Workspace | None = None) -> Index:
    """Open a published snapshot.

    Args:
        base: Storage address: a folder or s3://bucket/prefix.
        snapshot: Snapshot id; None: the published one.
        workspace: Root and settings, which name the models that answer; None: the defaults.

    Raises:
        NoSnapshotError: Nothing is published there.
        QueryError: No such snapshot, or it cannot be read.
    """
    storage = workspace.settings.storage if workspace else None
    filesystem = open_filesystem(base, storage.endpoint_url if storage else None, storage.region if storage else None)
    store = SnapshotStore(filesystem)
    try:
        manifest = store.get(snapshot) if snapshot else store.current()
    except SnapshotError as error:
        raise QueryError(str(error)) from error
    if manifest is None:
        raise NoSnapshotError(f"no snapshot is published at {base}: run graphrag-assets index first")
    return Index(filesystem, manifest, workspace)


def _local_copies(filesystem: FileSystem, workspace: Workspace | None) -> LocalCopies | None:
    """Where copies of files in an object store are kept; None for a local index, and without a workspace."""
    if workspace is None or not isinstance(filesystem, S3FileSystem):
        return None
    storage = workspace.settings.storage
    return LocalCopies(workspace.path(storage.local_copies), storage.local_copies_max_bytes)


def _create_views(
    connection: duckdb.DuckDBPyConnection, filesystem: FileSystem, manifest: Manifest, scope: Scope | None = None
) -> None:
    """One view a table, of the rows inside a scope; a table that the snapshot lacks is empty."""
    for contract in (*tables.PUBLISHED, *RECORDS):
        file = manifest.tables.get(contract.name) or manifest.records.get(contract.name)
        if scope is not None and contract in RECORDS:
            continue  # calls tell of documents outside the filter too
        if file is None:
            columns = ", ".join(f'"{column.name}" {_sql_type(column.type)}' for column in contract.columns)
            connection.execute(f'create table "{contract.name}" ({columns})')
            continue
        address = filesystem.uri(file.path).replace("'", "''")
        rows = f"select * from read_parquet('{address}')"
        with engine.telling():
            shown = scope.restrict(connection, contract.name, rows) if scope is not None else rows
            connection.execute(f'create view "{contract.name}" as {shown}')


def _sql_type(kind: pa.DataType) -> str:
    """Type of a column in SQL; DuckDB would import pandas to take an empty Arrow table."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return f"{_sql_type(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return f"struct({', '.join(f'{field.name} {_sql_type(field.type)}' for field in kind)})"
    names = {"string": "varchar", "bool": "boolean", "double": "double", "int64": "bigint", "int32": "integer"}
    return names.get(str(kind), "timestamp")


def integers(values: Sequence[int]) -> str:
    """A list of integers for ``in (…)``; written into the SQL text, where DuckDB can skip row groups by it."""
    return ", ".join(str(int(value)) for value in values) or "null"


def marks(values: Sequence[object]) -> str:
    """As many question marks as there are values, for ``in (…)``."""
    return ", ".join("?" * len(values)) or "null"
