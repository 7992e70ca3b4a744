"""Tracing in a snapshot whose calls nobody knows, and what a name may mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphrag_assets.query import open_index
from graphrag_assets.trace import Ambiguous, NotFound, trace
from tests.published import publish
from tests.unit.query_doubles import small_rows

pytestmark = pytest.mark.storage


def test_old_and_imported_snapshots_say_that_no_calls_are_known(tmp_path: Path) -> None:
    publish(tmp_path / "old", small_rows())
    publish(tmp_path / "imported", small_rows(), info={"imported": {"from": "elsewhere"}})
    for place, why in (("old", "release"), ("imported", "imported")):
        with open_index(str(tmp_path / place)) as index:
            row = index.rows("select id, title from entities order by degree desc limit 1")[0]
            found = trace(index, row["title"])
            assert found.traced.id == row["id"]
            assert not found.calls["known"]
            assert why in found.calls["why"]
            assert found.passages["count"] >= 1
            assert index.rows("select * from calls") == []


def test_a_row_lives_in_the_snapshots_that_hold_it(tmp_path: Path) -> None:
    first = publish(tmp_path, small_rows()).id
    rows = small_rows()
    gone = rows["community_reports"].pop()
    second = publish(tmp_path, rows).id
    with open_index(str(tmp_path), first) as index:
        found = trace(index, gone["id"], kind="report").snapshots
        assert (found["first"], found["last"], found["of"]) == (first, first, 2)
        entity = index.rows("select title from entities limit 1")[0]["title"]
        assert [entry["snapshot"] for entry in trace(index, entity, kind="entity").snapshots["in"]] == [first, second]


def test_names(tmp_path: Path) -> None:
    publish(tmp_path, small_rows())
    with open_index(str(tmp_path)) as index:
        for kind, name in (("entity", "Entities (0)"), ("text_unit", "text unit 0"), ("document", "document 0")):
            assert trace(index, name).traced.kind == kind
        with pytest.raises(Ambiguous, match="--kind"):
            trace(index, "Entities (0, 1)")
        title = index.rows("select title from entities limit 1")[0]["title"]
        with pytest.raises(NotFound) as error:
            trace(index, title + "Q")
        assert title in error.value.near
        for nothing in ("", "  ", "Entities (999)", "'; drop table entities", "a -> b", "zzzzzz"):
            with pytest.raises(NotFound):
                trace(index, nothing)


@pytest.mark.parametrize(
    ("what", "table", "column"),
    [
        ("Reports (9999)", "community_reports", "community"),
        ("[Data: Entities (9999)]", "entities", "human_readable_id"),
        ("community -1", "communities", "community"),
        ("report 9999", "community_reports", "community"),
        ("text unit 9999", "text_units", "human_readable_id"),
    ],
)
def test_a_number_that_is_not_there_tells_which_are(tmp_path: Path, what: str, table: str, column: str) -> None:
    publish(tmp_path, small_rows())
    with open_index(str(tmp_path)) as index:
        (row,) = index.rows(f"select min({column}) as least, max({column}) as most, count(*) as n from {table}")
        with pytest.raises(NotFound) as error:
            trace(index, what)
    assert (
        f"have numbers from {row['least']} to {row['most']}" in str(error.value)
        if row["n"] > 1
        else f"has the number {row['least']}" in str(error.value)
    )
    assert "names like it" not in str(error.value)


def test_a_kind_without_rows_is_told(tmp_path: Path) -> None:
    rows = small_rows()
    rows["community_reports"] = []
    publish(tmp_path, rows)
    with open_index(str(tmp_path)) as index, pytest.raises(NotFound, match="it has no reports"):
        trace(index, "Reports (0)")
