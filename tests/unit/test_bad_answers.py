"""Good answers, spoiled in every way that models know: what a lenient reader finds is found."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphrag_assets.indexing.claim_answers import parse_claims, read_claims
from graphrag_assets.indexing.extraction import parse_tuples, read_answer
from graphrag_assets.indexing.graph_answers import GraphAnswer, without_echoes
from graphrag_assets.indexing.report_answers import Report, parse_report
from graphrag_assets.text.map_answers import parse_points
from tests.unit.bad_answers import OF_JSON, OF_TUPLES

_RECORD = re.compile(r'\("(?:entity|relationship)"<\|>')


@cache
def zoo(path: Path) -> tuple[list[str], list[str]]:
    """Answers of real models that are in order: extractions, and reports."""
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    extractions = []
    for row in rows:
        text = row["response"] or ""
        if row["kind"] != "extract" or "##" not in text:
            continue
        found = parse_tuples(text)
        whole = len(_RECORD.findall(text)) >= len(found.entities) + len(found.relationships) - 1
        if found.ended and whole and len(found.entities) >= 4 and len(found.relationships) >= 2:
            extractions.append(text)
    reports = [row["response"] for row in rows if row["kind"] == "report" and row["json_ok"]]
    return extractions[::3], [json.dumps(json.loads(r), ensure_ascii=False, indent=2) for r in reports[::4]]


@pytest.fixture(scope="module")
def answers(shared: Path) -> tuple[list[str], list[str]]:
    return zoo(shared / "data" / "llm-zoo" / "responses.parquet")


def records(found: GraphAnswer) -> Counter[tuple[Any, ...]]:
    return Counter(
        [(e.title, e.type) for e in found.entities] + [(r.source, r.target, r.weight) for r in found.relationships]
    )


def share_found(good: list[str], spoiled: list[str]) -> float:
    right = [records(parse_tuples(text)) for text in good]
    found = [records(parse_tuples(text)) for text in spoiled]
    kept = sum((r & f).total() for r, f in zip(right, found, strict=True))
    return kept / sum(r.total() for r in right)


@pytest.mark.parametrize("name", OF_TUPLES)
def test_a_spoiled_extraction_is_read(name: str, answers: tuple[list[str], list[str]]) -> None:
    good = answers[0]
    assert len(good) > 15
    assert share_found(good, [OF_TUPLES[name](text, Random(i)) for i, text in enumerate(good)]) >= 0.98


def test_extractions_spoiled_in_two_ways_are_read(answers: tuple[list[str], list[str]]) -> None:
    chance = Random(7)
    shares = []
    for _ in range(150):
        first, second = chance.sample(sorted(OF_TUPLES), 2)
        good = chance.choice(answers[0])
        shares.append((share_found([good], [OF_TUPLES[second](OF_TUPLES[first](good, chance), chance)]), first, second))
    worst = sorted(shares)[:20]
    assert sum(share for share, *_ in shares) / len(shares) >= 0.95, worst


def same(report: Report, right: Report) -> bool:
    findings = [(a.summary, b.summary) for a, b in zip(report.findings, right.findings, strict=False)]
    return (
        report.title == right.title
        and len(report.findings) == len(right.findings)
        and all(re.sub(r"\W", "", a) == re.sub(r"\W", "", b) for a, b in findings)
    )


@pytest.mark.parametrize("name", OF_JSON)
def test_a_spoiled_report_is_read(name: str, answers: tuple[list[str], list[str]]) -> None:
    good = answers[1]
    assert len(good) > 20
    right = [parse_report(text) for text in good]
    found = []
    for number, text in enumerate(good):
        try:
            found.append(parse_report(OF_JSON[name](text, Random(number))))
        except ValueError:
            found.append(Report("", ""))
    # Typographic quotes within typographic quotes cannot be told apart.
    least = 0.8 if name == "typographic quotes" else 0.97
    assert sum(map(same, found, right)) >= least * len(good)
    if name != "NaN":
        ratings = [f.rating == r.rating for f, r in zip(found, right, strict=True) if f.title]
        assert sum(ratings) >= 0.97 * len(ratings)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_nothing_raises_whatever_comes(data: st.DataObject, answers: tuple[list[str], list[str]]) -> None:
    text = data.draw(st.sampled_from([*answers[0][:8], *answers[1][:8]]))
    chance = Random(data.draw(st.integers(0, 9_999)))
    for name in data.draw(st.lists(st.sampled_from(sorted(OF_TUPLES)), max_size=3)):
        text = OF_TUPLES[name](text, chance)
    cut = data.draw(st.integers(0, len(text)))
    text = text[:cut] + data.draw(st.text(max_size=20)) + text[cut + data.draw(st.integers(0, 40)) :]
    parse_tuples(text)
    parse_claims(text)
    for parse in (read_answer, read_claims, parse_report, parse_points):
        with suppress(ValueError):
            parse(text)


def test_only_spoiled_answers_count_as_mended() -> None:
    good = '("entity"<|>Scrooge<|>PERSON<|>A miser)\n##\n("relationship"<|>Scrooge<|>Marley<|>Partners (old)<|>8)\n<|COMPLETE|>'
    assert not read_answer(good).mended
    for name in ("fence", "delimiter '<||>'", "kinds without quotes", "one line without blanks"):
        assert read_answer(OF_TUPLES[name](good, Random(0))).mended is (name != "one line without blanks")
    report = '{"title": "T", "summary": "S", "findings": [], "rating": 5, "rating_explanation": ""}'
    assert not parse_report(report).mended
    assert parse_report(f"```json\n{report}\n```").mended


def test_placeholders_are_no_entities() -> None:
    answer = parse_tuples(
        '("entity"<|>X<|>Y<|>Z<|>extra)##("relationship"<|>A<|>B<|>strength<|>high)##("entity"<|>EU<|>ORG<|>A union)<|COMPLETE|>'
    )
    found = without_echoes(answer, "The EU was founded, and grew.", frozenset())
    assert [e.title for e in found.entities] == ["EU"]
    assert found.relationships == []


def test_an_abbreviation_that_the_text_writes_out_is_a_name() -> None:
    answer = parse_tuples('("entity"<|>US<|>GEO<|>A country)##("entity"<|>UN<|>ORG<|>An organisation)<|COMPLETE|>')
    found = without_echoes(answer, "The United States joined the United Nations.", frozenset())
    assert [e.title for e in found.entities] == ["US", "UN"]
