"""SQL over a snapshot: a view for every table, reading only, and nothing but the files of the snapshot.

The connection is locked once the views exist: no other file or address can be read, nothing can be written, no
extension loaded, no setting changed. So a query from anywhere (a model, a web form) can do no more than read the index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphrag_assets.llm.ledger import read_calls
from graphrag_assets.llm.providers.wire import clean
from graphrag_assets.query.errors import QueryError
from graphrag_assets.settings import Workspace
from graphrag_assets.storage import tables
from graphrag_assets.storage.call_tables import CALL_LOG, CALLS, RECORDS, tables_of
from graphrag_assets.storage.contract import Table
from graphrag_assets.storage.engine import telling
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.snapshots import Manifest

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


@dataclass(frozen=True)
class View:
    """One table of a snapshot as SQL sees it.

    Args:
        name: Name of the view.
        rows: Its rows.
        columns: Name, SQL type and meaning of each column.
    """

    name: str
    rows: int
    columns: tuple[tuple[str, str, str], ...]


def add_call_log(connection: duckdb.DuckDBPyConnection, workspace: Workspace) -> None:
    """Add every call that the ledger of this host knows of the index, whatever became of the run."""
    settings = workspace.settings
    calls = read_calls(workspace.path(settings.cache.path), workspace.uri(settings.storage.base))
    connection.register("ledger", tables_of(call.as_row() for call in calls)[CALLS.name])
    connection.execute(f"create table {CALL_LOG} as select * from ledger order by call")  # noqa: S608
    connection.unregister("ledger")


def lock(connection: duckdb.DuckDBPyConnection, filesystem: FileSystem, manifest: Manifest) -> None:
    """Let a connection read the tables of a snapshot, and do nothing else from now on.

    Args:
        connection: Has its views.
        filesystem: The storage base.
        manifest: The snapshot.
    """
    held = (*manifest.tables.values(), *manifest.records.values())
    files = ", ".join("'" + filesystem.uri(f.path).replace("'", "''") + "'" for f in held)
    connection.execute(f"set allowed_paths = [{files}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set python_enable_replacements = false")
    connection.execute("set lock_configuration = true")


def describe(connection: duckdb.DuckDBPyConnection, manifest: Manifest) -> list[View]:
    """The views with their columns, in the order in which people read the tables."""
    found = []
    log = Table(CALL_LOG, "Every call of the index that this host knows of.", CALLS.columns, CALLS.order)
    for contract in (*tables.PUBLISHED, *RECORDS, log):
        meaning = {column.name: column.description for column in contract.columns}
        shown = connection.execute(f'describe "{contract.name}"').fetchall()
        columns = tuple((str(row[0]), str(row[1]), meaning.get(str(row[0]), "")) for row in shown)
        file = manifest.tables.get(contract.name) or manifest.records.get(contract.name)
        rows = file.rows if file else connection.table(contract.name).count("*").fetchall()[0][0]
        found.append(View(contract.name, rows, columns))
    return found


def select(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.RecordBatchReader:
    """Run one query, all rows of it, in pieces as they are read.

    Args:
        connection: From :func:`open_views`.
        sql: One statement that reads: select, with, from, values, describe, summarize, show.

    Raises:
        QueryError: It is no such statement, or the database refuses it; the message is one line.
    """
    import duckdb

    sql = clean(sql)
    try:
        statements = connection.extract_statements(sql)
        kinds = [statement.type.name for statement in statements]
        if kinds != ["SELECT"]:
            found = f"found {' and '.join(kinds)}" if kinds else "found none"
            raise QueryError(f"sql: one query that reads is expected, such as select …; {found}")
        with telling():
            return connection.sql(sql).to_arrow_reader()
    except duckdb.Error as error:
        raise QueryError(told(error)) from error


def told(error: Exception) -> str:
    """An error of the database in one line; where a table or a column is not there, those that are."""
    text = str(error)
    message = " ".join(text.split("\n\nLINE ")[0].split())
    names = ", ".join([*(contract.name for contract in (*tables.PUBLISHED, *RECORDS)), CALL_LOG])
    if "Table with name" in message or "Referenced table" in message:
        return f"sql: {message.split(' Did you mean')[0]} The tables are {names}."
    return f"sql: {message}"
