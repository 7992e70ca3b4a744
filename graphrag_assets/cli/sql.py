"""graphrag-assets sql: one query over the tables of a snapshot."""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from graphrag_assets.cli.output import print_json, table
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.call_tables import CALL_LOG

if TYPE_CHECKING:
    import pyarrow as pa

#: Characters of a cell that the table shows; csv and json give all of it.
LONGEST_CELL = 60


def sql_command(workspace: Workspace, query: str | None, *, snapshot: str | None, form: str) -> None:
    """Run a query and print its rows, all of them; without a query, list the tables.

    Args:
        workspace: Names the storage.
        query: One statement that reads; None: list the tables and their columns.
        snapshot: Id of an older snapshot.
        form: table, csv or json.
    """
    import duckdb

    from graphrag_assets.query import open_index
    from graphrag_assets.query.errors import QueryError
    from graphrag_assets.query.sql import describe, select, told

    with (
        open_index(workspace.uri(workspace.settings.storage.base), snapshot, workspace) as index,
        index.connection(with_log=query is None or CALL_LOG in query.lower()) as connection,
    ):
        if query is None:
            _print_tables(index.snapshot, [asdict(view) for view in describe(connection, index.manifest)], form)
            return
        try:
            _print_rows(index.snapshot, select(connection, query), form)
        except duckdb.Error as error:  # while rows are read
            raise QueryError(told(error)) from error


def _print_tables(snapshot: str, views: list[dict[str, Any]], form: str) -> None:
    named = [
        {
            **view,
            "columns": [{"column": name, "type": kind, "meaning": meaning} for name, kind, meaning in view["columns"]],
        }
        for view in views
    ]
    if form == "json":
        print_json({"snapshot": snapshot, "tables": named})
        return
    flat = [{"table": view["name"], "rows": view["rows"]} | column for view in named for column in view["columns"]]
    columns = ["table", "rows", "column", "type", "meaning"]
    if form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerows([columns, *([row[c] for c in columns] for row in flat)])
        return
    for view in named:
        click.echo(f"{view['name']} ({view['rows']} rows)")
        click.echo(table([{"": "", **column} for column in view["columns"]], ["", "column", "type"]).split("\n", 1)[1])


def _print_rows(snapshot: str, rows: pa.RecordBatchReader, form: str) -> None:
    """Rows as they come; only the table, whose columns are as wide as their widest cell, waits for the last one."""
    names = rows.schema.names
    if form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(names)
        for batch in rows:
            writer.writerows(zip(*(map(_cell, column.to_pylist()) for column in batch.columns), strict=True))
        return
    found = [list(row) for batch in rows for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
    if form == "json":
        print_json(
            {"snapshot": snapshot, "columns": names, "rows": [[_plain(value) for value in row] for row in found]}
        )
        return
    places = [str(i) for i in range(len(names))]  # names of columns may repeat
    shown = [dict(zip(places, (_short(_cell(value)) for value in row), strict=True)) for row in found]
    heads = [dict(zip(places, names, strict=True)), *shown]
    click.echo(table(heads, places).split("\n", 1)[1])
    click.echo(f"({len(found)} row{'' if len(found) == 1 else 's'})", err=True)


def _plain(value: Any) -> Any:
    """A value as JSON has it: dates and bytes as text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _cell(value: Any) -> Any:
    """A value as a cell: what has parts is JSON."""
    if isinstance(value, dict | list | tuple):
        import json

        return json.dumps(_plain(value), ensure_ascii=False)
    return value


def _short(value: Any) -> str | None:
    if value is None:
        return None
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
