"""DuckDB over Arrow tables in memory, for the algorithms that are relational."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

import duckdb
import pyarrow as pa

STRINGS = pa.list_(pa.string())


@lru_cache(maxsize=1)
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """The in-memory database of this process; opening one takes longer than many a query. Its cursors share nothing."""
    connection = duckdb.connect(":memory:")
    connection.execute("set enable_progress_bar = false")
    return connection


def close_database() -> None:
    """Close the database of this process and free what it keeps (tens of megabytes); the next use opens another."""
    if _database.cache_info().currsize:
        _database(os.getpid()).close()
        _database.cache_clear()


@contextmanager
def tables(**named: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory connection that sees Arrow tables by name.

    Text compares by code point, as in Python. Nothing that is read without ORDER BY may depend on the order of rows:
    DuckDB works in parallel.

    Args:
        named: Arrow table by the name that SQL uses.

    Yields:
        The connection; closed on exit.
    """
    connection = _database(os.getpid()).cursor()
    try:
        for name, table in named.items():
            connection.register(name, table)
        yield connection
    finally:
        connection.close()


def cast(table: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Give the columns their exact types, in the order of ``types``, in one chunk.

    Engines name the items of lists differently, and split tables into chunks by how many threads were free; after this,
    equal content is an equal table.
    """
    schema = pa.schema(list(types.items()))
    return table.select(list(types)).cast(schema).combine_chunks()
