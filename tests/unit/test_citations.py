"""Citation markers."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.text.citations import find_citations, format_citation, map_citations, strip_citations


def found(text: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(citation.dataset, citation.ids) for citation in find_citations(text)]


@pytest.mark.parametrize(
    ("text", "citations"),
    [
        ("a [Data: Reports (1, 2)].", [("Reports", ("1", "2"))]),
        ("[Data: Entities (5, 7, +more); Relationships (23)]", [("Entities", ("5", "7")), ("Relationships", ("23",))]),
        ("［Data：Report（1，2）］", [("Reports", ("1", "2"))]),
        ("[data: sources(3), and Claim (4)]", [("Sources", ("3",)), ("Claims", ("4",))]),
        ("[Entities (1); Relationships (2)]", [("Entities", ("1",)), ("Relationships", ("2",))]),
        ("(Data: Entities (5))", [("Entities", ("5",))]),
        ("[Data: Reports (1; 2 and 3)]", [("Reports", ("1", "2", "3"))]),
        ("[see (1)] (Entities (1)) [note] f(1)", []),
        ("[Data: General Knowledge (href)]", []),
    ],
)
def test_find(text: str, citations: list[tuple[str, tuple[str, ...]]]) -> None:
    assert found(text) == citations


def test_more_and_place() -> None:
    text = "so [Data: Claims (1, +more)]."
    (citation,) = find_citations(text)
    assert citation.more
    assert text[slice(*citation.span)] == "[Data: Claims (1, +more)]"


def test_map_translates_and_drops() -> None:
    text = "a [Data: Reports (1, 9); Entities (9)]. b [Data: Sources (9)]."
    assert (
        map_citations(text, lambda dataset, id_: None if id_ == "9" else f"{dataset[0]}{id_}")
        == "a [Data: Reports (R1)]. b."
    )


def test_strip() -> None:
    assert strip_citations("One [Data: Reports (1)], two [Data: Entities (2, +more)].") == "One, two."


def test_format_joins_groups() -> None:
    assert (
        format_citation([("Reports", ["1"], False), ("Reports", ["1", "2"], True)]) == "[Data: Reports (1, 2, +more)]"
    )
    assert format_citation([("Reports", [], True)]) == ""


@pytest.mark.parametrize(
    "bad", ["[data" + " " * 200_000, "[data: " + "a (1)" * 40_000, "[data: " + "a " * 100_000, "[" * 200_000]
)
def test_hostile_text_costs_little(bad: str) -> None:
    started = time.perf_counter()
    find_citations(bad)
    assert time.perf_counter() - started < 100


@given(st.text() | st.text(alphabet="[]()Data: Reports,;12+more"))
def test_any_text(text: str) -> None:
    plain = strip_citations(text)
    assert len(plain) <= len(text)
    for citation in find_citations(text):
        assert 0 <= citation.start < citation.end <= len(text)


IDS = st.lists(st.integers(0, 10_000).map(str), min_size=1, max_size=8, unique=True)
DATASETS = st.sampled_from(["Reports", "Entities", "Relationships", "Claims", "Sources"])


@given(st.dictionaries(DATASETS, st.tuples(IDS, st.booleans()), min_size=1))
def test_what_is_written_is_read(groups: dict[str, tuple[list[str], bool]]) -> None:
    marker = format_citation([(dataset, ids, more) for dataset, (ids, more) in groups.items()])
    read = find_citations(f"Text {marker}.")
    assert {c.dataset: (list(c.ids), c.more) for c in read} == groups
    assert map_citations(marker, lambda dataset, id_: id_) == marker
