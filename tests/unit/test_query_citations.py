from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.query.citations import CitationStream, check_citations, document_span, resolve_citations
from graphrag_assets.query.index import Index
from graphrag_assets.query.records import TextUnit
from tests.unit.query_doubles import LETTER, MINUTES, small_index

pytestmark = pytest.mark.storage

CITABLE = {
    "Sources": {0: "t0", 2: "t2"},
    "Reports": {1: "p1"},
    "Entities": {2: "e2"},
    "Relationships": {3: "r3"},
    "Claims": {0: "k0"},
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return small_index(tmp_path_factory.mktemp("small"))


def test_made_up_ids_are_removed_and_reported() -> None:
    text = (
        "A [Data: Sources (0, 99); Entities (7)]. B [Data: Reports (55)]. "
        "C [Data: Reports (1, +more)]. D [Data: Moons (1)]"
    )
    checked, dropped = check_citations(text, CITABLE)
    assert checked == "A [Data: Sources (0)]. B. C [Data: Reports (1, +more)]. D"
    assert dropped == ["Sources (99)", "Entities (7)", "Reports (55)"]


@given(st.text(max_size=80), st.integers(min_value=1, max_value=7))
def test_a_stream_shows_what_the_whole_text_would_show(text: str, size: int) -> None:
    text = f"{text} [Data: Sources (0, 99)] {text} [Data: Reports (5)]. end"
    stream = CitationStream(CITABLE)
    shown = "".join(stream.feed(text[i : i + size]) for i in range(0, len(text), size)) + stream.finish()
    assert shown == check_citations(text, CITABLE)[0]


def test_a_bracket_that_never_closes_does_not_hold_a_stream_back() -> None:
    stream = CitationStream(CITABLE)
    shown = "".join(stream.feed(piece) for piece in ["see [", *["x" * 50] * 20])
    assert len(shown) > 900


def test_a_source_resolves_to_the_sentence_that_supports_the_statement(index: Index) -> None:
    [cited] = resolve_citations(index, "The mill had 40 looms, forty indeed [Data: Sources (0)].", CITABLE)
    assert (cited.kind, cited.id, cited.document, cited.version) == ("text_unit", 0, "letter.txt", "h0")
    assert cited.quote == "The mill had forty looms."
    assert LETTER[cited.start : cited.end] == cited.quote


@pytest.mark.parametrize(
    ("marker", "kind", "title"),
    [
        ("Entities (2)", "entity", "COUNCIL"),
        ("Relationships (3)", "relationship", "TOM FINCH – COUNCIL"),
        ("Claims (0)", "claim", "COUNCIL"),
        ("Reports (1)", "report", "Report 1"),
    ],
)
def test_every_kind_resolves_to_a_passage_of_a_document(index: Index, marker: str, kind: str, title: str) -> None:
    [cited] = resolve_citations(index, f"The council refused a loan [Data: {marker}].", CITABLE)
    assert (cited.kind, cited.title, cited.document) == (kind, title, "minutes.txt")
    assert MINUTES[cited.start : cited.end] == cited.quote == "The council refused."


def test_a_report_resolves_through_the_marker_of_its_own_sentence(index: Index) -> None:
    [cited] = resolve_citations(index, "Ada Finch bought the mill in 1931 [Data: Reports (1)].", CITABLE)
    assert cited.document == "letter.txt"
    assert cited.quote.startswith("Ada Finch bought the mill")


def test_one_row_is_listed_again_only_with_another_quote(index: Index) -> None:
    text = "It had looms [Data: Sources (0)]. Looms it had [Data: Sources (0)]. Tom kept books [Data: Sources (0)]."
    assert [c.quote for c in resolve_citations(index, text, CITABLE)] == [
        "The mill had forty looms.",
        "Her brother Tom Finch kept the books.",
    ]


def test_metadata_before_a_text_unit_is_no_part_of_the_document() -> None:
    unit = TextUnit(0, "t", "title: x.\nHello world.", "d", 100, 112)
    assert document_span(unit, 10, 22) == (100, 112)
    assert document_span(unit, 0, 9) is None
    assert document_span(TextUnit(0, "t", "abc", "d", 0, 0), 0, 3) is None
