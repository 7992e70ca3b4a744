"""The command sql and the same views in Python: they read one snapshot, all of its rows, and nothing else."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from graphrag_assets.cli.main import main
from graphrag_assets.query import QueryError, open_index
from graphrag_assets.storage import tables
from tests.published import publish
from tests.s3_server import S3Server
from tests.unit.query_doubles import small_rows

pytestmark = pytest.mark.storage


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "settings.yaml").write_text("{}", encoding="utf-8")
    publish(tmp_path / "output", small_rows())
    return tmp_path


def run(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["sql", "--root", str(root), *arguments])


def test_every_form_has_every_row(root: Path) -> None:
    query = "select e.title, range as n from entities e, range(2000) order by all"
    as_csv = list(csv.reader(io.StringIO(run(root, "--format", "csv", query).stdout)))
    as_json = json.loads(run(root, "--json", query).stdout)
    assert as_json["columns"] == as_csv[0] == ["title", "n"]
    assert len(as_json["rows"]) == len(as_csv) - 1 == 5 * 2000
    assert as_json["rows"][-1] == ["TOM FINCH", 1999]
    assert len(run(root, query).stdout.splitlines()) == 5 * 2000 + 1


def test_lists_numbers_and_nulls_as_json(root: Path) -> None:
    query = "select text_unit_ids, sum(degree)::hugeint as n, null as nothing, date '2031-01-02' as day from entities group by all limit 1"
    (row,) = json.loads(run(root, "--json", query).stdout)["rows"]
    assert isinstance(row[0], list)
    assert isinstance(row[1], int)
    assert row[2:] == [None, "2031-01-02"]


def test_without_a_query_the_tables_are_listed(root: Path) -> None:
    listed = json.loads(run(root, "--json").stdout)["tables"]
    names = [table.name for table in tables.PUBLISHED]
    assert [view["name"] for view in listed] == [*names, "calls", "call_rows", "call_log"]
    assert listed[2]["rows"] == 5
    assert {"column": "title", "type": "VARCHAR"}.items() <= listed[2]["columns"][2].items()
    assert "entities (5 rows)" in run(root, "--tables").stdout


def test_an_older_snapshot(root: Path) -> None:
    first = open_index(str(root / "output")).snapshot
    rows = small_rows()
    rows["entities"][0]["description"] = "changed"
    publish(root / "output", rows)
    query = "select count(*) from entities where description = 'changed'"
    assert json.loads(run(root, "--json", query).stdout)["rows"] == [[1]]
    assert json.loads(run(root, "--json", "--snapshot", first, query).stdout)["rows"] == [[0]]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("select * from nix", "The tables are documents, text_units"),
        ("select nix from entities", '"nix" not found'),
        ("selct 1", "syntax error"),
        ("", "found none"),
        ("select 1; select 2", "found SELECT and SELECT"),
        ("select cast(title as int) from entities", "Could not convert"),
        ("drop view entities", "found DROP"),
        ("explain analyze copy entities to 'x.csv'", "found EXPLAIN"),
    ],
)
def test_errors_are_one_line(root: Path, query: str, told: str) -> None:
    done = run(root, "--json", query)
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert told in done.stderr
    assert json.loads(done.stdout)["error"]["type"] == "query"


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_text('{secret}')",
        "select * from '{secret}'",
        "select * from glob('{folder}/*')",
        "select * from read_parquet('{folder}/output/snapshots/*/entities.parquet')",
        "select * from query('select * from read_text(''{secret}'')')",
    ],
)
def test_no_other_file_is_read(root: Path, query: str) -> None:
    secret = root / "secret.csv"
    secret.write_text("word\nhidden\n", encoding="utf-8")
    done = run(root, query.format(secret=secret, folder=root))
    assert done.exit_code == 1
    assert "Permission" in done.stderr
    assert "hidden" not in done.stdout


@pytest.mark.parametrize(
    "statement",
    [
        "copy entities to '{file}'",
        "attach '{file}'",
        "set enable_external_access = true",
        "install httpfs",
        "load httpfs",
    ],
)
def test_a_connection_cannot_be_unlocked_nor_write(root: Path, statement: str) -> None:
    new = root / "new.db"
    with open_index(str(root / "output")) as index, index.connection() as connection:
        with pytest.raises(duckdb.Error):
            connection.execute(statement.format(file=new))
        assert not new.exists()
        own = index.manifest.tables["entities"].path
        before = index.filesystem.read(own)
        with pytest.raises(duckdb.Error):
            connection.execute(f"copy documents to '{index.filesystem.uri(own)}'")
        assert index.filesystem.read(own) == before
        assert connection.sql("select count(*) from entities").fetchall() == [(5,)]


def test_in_python(root: Path) -> None:
    with open_index(str(root / "output")) as index:
        found = index.sql("select title from entities order by human_readable_id limit 1")
        assert found.to_pylist() == [{"title": "ADA FINCH"}]
        with pytest.raises(QueryError, match="found DROP"):
            index.sql("drop view entities")


def test_halves_of_characters_are_no_obstacle(root: Path) -> None:
    with open_index(str(root / "output")) as index:
        assert index.sql("select '\udcff' as x").to_pylist() == [{"x": "\ufffd"}]


@pytest.mark.slow
def test_in_an_object_store(s3_server: S3Server, bucket: str, tmp_path: Path) -> None:
    base = f"s3://{bucket}/some/prefix"
    (tmp_path / "settings.yaml").write_text(
        json.dumps({"storage": {"base": base, "endpoint_url": s3_server.endpoint_url}}), encoding="utf-8"
    )
    publish(base, small_rows(), endpoint_url=s3_server.endpoint_url)
    query = "select count(*) from entities"
    assert json.loads(run(tmp_path, "--json", query).stdout)["rows"] == [[5]]
    refused = run(tmp_path, f"select * from read_parquet('{base}/snapshots/log/000000001.json')")
    assert refused.exit_code == 1
    assert "Permission" in refused.stderr
