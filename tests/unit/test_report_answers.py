"""Reports out of answers."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.indexing.report_answers import Finding, Report, parse_report, report_markdown
from graphrag_assets.text.refusals import RefusalError

FULL = {
    "title": "Scrooge and Marley",
    "summary": "A firm.",
    "rating": 7.5,
    "rating_explanation": "Central.",
    "findings": [{"summary": "Dead partner", "explanation": "Marley is dead [Data: Entities (1)]."}],
    "date_range": ["1836", "1843"],
}


def test_a_whole_report() -> None:
    report = parse_report(json.dumps(FULL))
    assert report == Report(
        "Scrooge and Marley",
        "A firm.",
        7.5,
        "Central.",
        (Finding("Dead partner", "Marley is dead [Data: Entities (1)]."),),
        {"date_range": ["1836", "1843"]},
    )
    assert report.as_json() == FULL


def test_markdown_has_the_form_of_the_reference() -> None:
    assert report_markdown(parse_report(json.dumps(FULL))) == (
        "# Scrooge and Marley\n\nA firm.\n\n## Dead partner\n\nMarley is dead [Data: Entities (1)]."
    )


@pytest.mark.parametrize(
    ("rating", "read"),
    [
        (11, 10.0),
        (-2, 0.0),
        ("8/10", 8.0),
        ("7.5 (high)", 7.5),
        (None, 0.0),
        ("high", 0.0),
        (True, 0.0),
        (float("inf"), 0.0),
    ],
)
def test_ratings(rating: object, read: float) -> None:
    assert parse_report(json.dumps({**FULL, "rating": rating})).rating == read


def test_loose_fields() -> None:
    report = parse_report(
        json.dumps(
            {"title": 5, "summary": ["a", "b"], "findings": ["x", {"summary": "s"}, {"explanation": "e"}, {}, None]}
        )
    )
    assert (report.title, report.summary) == ("5", "a\nb")
    assert report.findings == (Finding("x", ""), Finding("s", ""), Finding("e", ""))
    assert parse_report('{"title": "t", "summary": "s"}').findings == ()
    assert parse_report('{"title": "t", "findings": {"1": {"summary": "s", "explanation": "e"}}}').findings == (
        Finding("s", "e"),
    )


@pytest.mark.parametrize("answer", ["", "no", '{"title": "t"}', '{"summary": "s"}', json.dumps(FULL)[:120], "[]"])
def test_what_is_no_report(answer: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_report(answer)


def test_a_refusal() -> None:
    with pytest.raises(RefusalError):
        parse_report("I'm sorry, but I can't assist with that request.")


@given(st.text() | st.text(alphabet='{}[]":, titlesumaryfndg1'))
def test_any_text(text: str) -> None:
    with suppress(ValueError):
        report_markdown(parse_report(text)).encode("utf-8")
