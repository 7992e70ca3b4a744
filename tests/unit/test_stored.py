"""Rows by key from the published files, on disk and in an object store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets.query.stored import StoredTable
from graphrag_assets.storage import parquet, tables
from graphrag_assets.storage.contract import Column, Table
from graphrag_assets.storage.filesystem import FileSystem, open_filesystem
from graphrag_assets.storage.snapshots import TableFile
from tests.s3_server import S3Server

TABLE = Table(
    "rows",
    "A row.",
    (
        Column("number", pa.int64(), "Its number."),
        Column("name", pa.string(), "Its name."),
        Column("list", tables.STRINGS, "A list."),
        Column("rising", pa.int32(), "A number."),
    ),
    order=("name",),
    row_group_size=4,
    keys=("number", "name"),
    fetched=("rising",),
    rising=("rising",),
)


def stored(filesystem: FileSystem, rows: list[dict[str, object]]) -> StoredTable:
    data = parquet.to_bytes(TABLE.from_rows(rows), TABLE)
    filesystem.write("rows.parquet", data)
    return StoredTable(filesystem, TableFile("rows.parquet", len(rows), "", len(data)))


def made(names: list[str]) -> list[dict[str, object]]:
    return [
        {"number": 1000 - i, "name": name, "list": [name, str(i)], "rising": i * i}
        for i, name in enumerate(sorted(names))
    ]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text("aé東 z", min_size=0, max_size=3), unique=True, max_size=30),
    st.lists(st.text("aé東 z", max_size=3), max_size=5),
    st.lists(st.integers(960, 1010), max_size=8),
)
def test_rows_are_those_that_have_the_key(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], wanted: list[str], numbers: list[int]
) -> None:
    rows = made(names)
    table = stored(open_filesystem(str(tmp_path_factory.mktemp("rows"))), rows)
    columns = [c.name for c in TABLE.columns]
    assert table.take("name", wanted, columns).to_pylist() == [r for r in rows if r["name"] in wanted]
    assert table.take("number", numbers, ["list", "name"]).to_pylist() == [
        {"list": r["list"], "name": r["name"]} for r in rows if r["number"] in numbers
    ]
    assert table.whole(columns).to_pylist() == rows
    for first in range(0, len(rows), 3):
        assert table.slice(first, 5, ["rising"])["rising"].to_pylist() == [r["rising"] for r in rows[first : first + 5]]
    assert table.between("name", "a", "b", ["name"])["name"].to_pylist() == [n for n in sorted(names) if "a" <= n < "b"]


def test_many_threads_read_one_table(tmp_path: Path) -> None:
    rows = made([f"n{i:04}" for i in range(200)])
    table = stored(open_filesystem(str(tmp_path)), rows)
    wanted = [[1000 - i, 1000 - (i * 7) % 200] for i in range(200)]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda keys: table.take("number", keys, ["number"])["number"].to_pylist(), wanted))
    assert [set(numbers) for numbers in found] == [set(numbers) for numbers in wanted]


def test_an_object_store_is_read_by_ranges(s3_server: S3Server, bucket: str) -> None:
    filesystem = open_filesystem(f"s3://{bucket}/prefix", s3_server.endpoint_url)
    rows = made([f"n{i:04}" for i in range(60)])
    table = stored(filesystem, rows)
    assert table.take("number", [1000, 959, 941, 5], ["name", "list"]).to_pylist() == [
        {"name": f"n{i:04}", "list": [f"n{i:04}", str(i)]} for i in (0, 41, 59)
    ]
    assert table.take("name", ["n0007", "n9999"], ["rising"])["rising"].to_pylist() == [49]


def test_columns_of_a_table_without_rows(s3_server: S3Server, bucket: str) -> None:
    filesystem = open_filesystem(f"s3://{bucket}/empty", s3_server.endpoint_url)
    filesystem.write("rows.parquet", parquet.to_bytes(TABLE.from_rows([]), TABLE))
    assert parquet.read_table(filesystem, "rows.parquet", ["name", "rising"]).num_rows == 0
