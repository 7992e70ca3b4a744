"""Numbers of rows by id: the same whether the table stays in memory or is read by key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets.query import row_numbers
from graphrag_assets.query.row_numbers import numbers_of
from tests.unit.query_doubles import small_index, small_rows


@pytest.mark.parametrize("kept", [0, 1_000_000], ids=["by key", "in memory"])
@settings(max_examples=12, deadline=None)
@given(
    names=st.lists(st.sampled_from(["é", "ab", "zz", "東京", "00", "x\x00", "abc"]), unique=True, max_size=5),
    unknown=st.lists(st.text(max_size=3), max_size=3),
)
def test_ids_have_the_numbers_of_their_rows(
    tmp_path_factory: pytest.TempPathFactory, kept: int, names: list[str], unknown: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_numbers, "KEPT_ROWS", kept)
        rows = small_rows()
        for name in ("relationships", "entities", "communities", "community_reports", "covariates", "entity_aliases"):
            rows[name] = []
        rows["text_units"] = [
            {"id": name, "human_readable_id": 7 + i, "text": "a", "n_tokens": 1, "document_id": "d0"}
            for i, name in enumerate(names)
        ]
        index = small_index(Path(tmp_path_factory.mktemp("index")), rows)
        expected = {name: 7 + i for i, name in enumerate(names)}
        for _ in range(3):  # from the second question on the table may be in memory
            assert numbers_of(index, "text_units", [*names, *unknown]) == expected
            assert numbers_of(index, "entities", [*names, *unknown]) == {}


def test_tables_are_told_apart(tmp_path: Path) -> None:
    index = small_index(tmp_path)
    for _ in range(3):
        assert numbers_of(index, "entities", ["e1", "t1", "p1"]) == {"e1": 1}
        assert numbers_of(index, "text_units", ["e1", "t1", "p1"]) == {"t1": 1}
        assert numbers_of(index, "community_reports", ["e1", "t1", "p1"]) == {"p1": 1}
