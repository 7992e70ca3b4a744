"""711 recorded answers of nine models: bars of the data set's README."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from graphrag_assets.indexing.claim_answers import parse_claims, read_claims
from graphrag_assets.indexing.extraction import merge_answers, parse_tuples, read_answer
from graphrag_assets.indexing.report_answers import parse_report, report_markdown
from graphrag_assets.text.map_answers import parse_points
from graphrag_assets.text.names import canonical_title

Row = dict[str, Any]


@cache
def load(path: Path) -> list[Row]:
    rows: list[Row] = pq.read_table(path).to_pylist()
    return rows


@pytest.fixture(scope="module")
def zoo(shared: Path) -> list[Row]:
    return load(shared / "data" / "llm-zoo" / "responses.parquet")


def title(name: str) -> str:
    """The reader behind the reference cuts a closing bracket off names: FRED (SCROOGE'S NEPHEW."""
    return canonical_title(name).removesuffix(")")


def test_no_exception_on_any_row(zoo: list[Row]) -> None:
    for row in zoo:
        text = row["response"] or ""
        merge_answers([parse_tuples(text)], "u")
        parse_claims(text)
        for parse in (read_answer, read_claims, parse_report, parse_points):
            with suppress(ValueError):
                parse(text)


def test_entities_and_relationships(zoo: list[Row]) -> None:
    counts: Counter[str] = Counter()
    for row in zoo:
        if row["kind"] != "extract":
            continue
        found = parse_tuples(row["response"])
        entities = {(title(e.title), e.type) for e in found.entities}
        links = {(title(r.source), title(r.target)) for r in found.relationships}
        weights = {(title(r.source), title(r.target), r.weight) for r in found.relationships}
        for name, type_ in json.loads(row["ref_entities"] or "[]"):
            counts["entities"] += 1
            counts["entities found"] += (title(name), canonical_title(type_)) in entities
        for source, target, weight in json.loads(row["ref_relationships"] or "[]"):
            ends = (title(source), title(target))
            counts["relationships"] += 1
            counts["relationships found"] += ends in links
            if weight is not None and ends in links:
                counts["weights"] += 1
                counts["weights found"] += (*ends, float(weight)) in weights
    assert counts["entities"] == 3537
    assert counts["relationships"] == 2241
    assert counts["entities found"] >= 0.995 * counts["entities"], counts
    assert counts["relationships found"] >= 0.99 * counts["relationships"], counts
    assert counts["weights found"] == counts["weights"], counts


def test_programs_and_lists_give_no_entities(zoo: list[Row]) -> None:
    for row in zoo:
        faults = row["faults"] or []
        if "no-tuples" in faults or "hallucinated-example" in faults:
            assert not parse_tuples(row["response"])
            with pytest.raises(ValueError, match="expected"):
                read_answer(row["response"])


def test_no_placeholder_is_an_entity(zoo: list[Row]) -> None:
    for row in zoo:
        for entity in parse_tuples(row["response"] or "").entities:
            assert "ENTITY_NAME" not in entity.title
            assert not entity.title.startswith(("{", "<"))


def test_reports(zoo: list[Row]) -> None:
    reports = [parse_report(row["response"]) for row in zoo if row["kind"] == "report"]
    assert len(reports) == 229
    for report in reports:
        assert report.title
        assert report.summary
        assert report.findings
        assert all(finding.summary and finding.explanation for finding in report.findings)
        assert 0 <= report.rating <= 10
        assert report_markdown(report).startswith("# ")


def test_reports_that_are_bare_json_come_through_unchanged(zoo: list[Row]) -> None:
    for row in zoo:
        if row["kind"] == "report" and row["json_ok"]:
            answer, report = json.loads(row["response"]), parse_report(row["response"])
            assert [f.explanation for f in report.findings] == [f["explanation"].strip() for f in answer["findings"]]


def test_maps(zoo: list[Row]) -> None:
    maps = [parse_points(row["response"]) for row in zoo if row["kind"] == "map"]
    assert len(maps) == 4
    assert all(len(points) >= 5 for points in maps)


def test_claims(zoo: list[Row]) -> None:
    claims = {row["id"]: parse_claims(row["response"]).claims for row in zoo if row["kind"] == "claims"}
    assert {id_: len(found) for id_, found in claims.items() if found} == {680: 7, 682: 3, 683: 3}
    assert {claim["status"] for found in claims.values() for claim in found} == {"TRUE", "FALSE", "SUSPECTED"}
