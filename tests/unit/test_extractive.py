"""Extractive descriptions and reports: verbatim sentences, cited, that say most and do not repeat each other."""

from __future__ import annotations

import json
import random
import re
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets import ids
from graphrag_assets.indexing.communities import cluster
from graphrag_assets.indexing.conflicts import Conflict, Side
from graphrag_assets.indexing.contradictions import find_conflicts
from graphrag_assets.indexing.extractive import (
    Corpus,
    describe,
    entity_descriptions,
    extractive_report,
    extractive_reports,
    relationship_descriptions,
)
from graphrag_assets.indexing.ranking import Ranked
from graphrag_assets.indexing.statements import Statement, Statements, content_words, find_statements
from graphrag_assets.storage.tables import COMMUNITY_REPORTS
from graphrag_assets.text.citations import find_citations
from graphrag_assets.text.names import readable

Row = dict[str, Any]

DOCUMENTS = {
    "news": "# The line\n\n"
    "Margit Aldous, general manager of the Tolvane Light Railway, spoke to reporters at Ostrey Yard. "
    "The Tolvane Light Railway carried wool and stone from Hindmoss to Ostrey Yard. She said little. "
    "The Sallow Viaduct was last inspected by the railway on 9 September 2031.",
    "report": "The Sallow Viaduct carried the Tolvane Light Railway over the gill until November 2031. "
    "Marten Pryce inspected the Sallow Viaduct for the Tolvane Light Railway twice a year. "
    "His notebook shows that the Sallow Viaduct was last inspected by the railway on 9 June 2031.",
    "minutes": "Present: Margit Aldous; Marten Pryce; Hesper Nolan; Gideon Maske. "
    "Margit Aldous told the board that Marten Pryce had asked for a diver. Why was no diver sent?",
    "quarry": "Gideon Maske is the managing director of Skarne Stone. Skarne Stone broke into an old mine on Bench 7. "
    "Gideon Maske told nobody that Skarne Stone had broken into an old mine.",
}
TITLES = [
    "GIDEON MASKE",
    "MARGIT ALDOUS",
    "MARTEN PRYCE",
    "OSTREY YARD",
    "SALLOW VIADUCT",
    "SKARNE STONE",
    "TOLVANE LIGHT RAILWAY",
]


def units() -> list[Row]:
    return [{"id": ids.digest(name), "document_id": name, "text": text} for name, text in DOCUMENTS.items()]


def entities() -> list[Row]:
    return [
        {
            "id": ids.entity_id(title),
            "title": title,
            "aliases": [],
            "degree": 2,
            "text_unit_ids": [u["id"] for u in units() if title in u["text"].upper()],
        }
        for title in TITLES
    ]


def relationships(statements: Statements) -> list[Row]:
    pairs = sorted({(a, b) for s in statements.all for a in s.titles for b in s.titles if a < b})
    return [
        {"id": ids.relationship_id(a, b), "source": a, "target": b, "weight": 1.0, "text_unit_ids": []}
        for a, b in pairs
    ]


def reports() -> list[Row]:
    statements = find_statements(units(), entities())
    links = relationships(statements)
    schema = pa.schema([("id", pa.string()), ("title", pa.string()), ("text_unit_ids", pa.list_(pa.string()))])
    link_schema = schema.remove(1).append(pa.field("source", pa.string())).append(pa.field("target", pa.string()))
    tables = [
        pa.Table.from_pylist([{k: e[k] for k in schema.names} for e in entities()], schema=schema),
        pa.Table.from_pylist(links, schema=link_schema.append(pa.field("weight", pa.float64()))),
    ]
    communities = cluster(*tables).communities.to_pylist()
    conflicts = find_conflicts(statements).conflicts
    return extractive_reports(communities, entities(), links, statements, conflicts, text_units=len(DOCUMENTS))


def test_reports_are_made_of_cited_sentences_of_their_sources() -> None:
    rows = reports()
    COMMUNITY_REPORTS.from_rows(rows)
    assert [row["level"] for row in rows] == sorted((row["level"] for row in rows), reverse=True)
    sentences = {s.text for s in find_statements(units(), entities()).all}
    unit_of = {u["id"]: u["text"] for u in units()}
    known = {e["id"] for e in entities()} | {r["id"] for r in relationships(find_statements(units(), entities()))}
    for row in rows:
        assert row["extractive"]
        assert row["status"] == "ok"
        assert row["findings"]
        assert 0 < row["rank"] <= 10
        assert "%" in row["rating_explanation"]
        assert json.loads(row["full_content_json"])["title"] == row["title"]
        for finding in row["findings"]:
            cited = find_citations(finding["explanation"])
            assert any(c.dataset == "Sources" for c in cited), "every finding names its sources"
            assert all(i in (unit_of if c.dataset == "Sources" else known) for c in cited for i in c.ids)
            if finding["summary"].startswith("Sources disagree"):
                continue
            quoted = re.sub(r"\[Data:[^\]]*\]", "|", finding["explanation"])
            pieces = [p.strip() for p in quoted.split("|") if p.strip()]
            assert all(any(piece.startswith(s) for s in sentences) for piece in pieces), "sentences are verbatim"


def test_a_finding_says_what_its_theme_says_and_no_sentence_twice() -> None:
    for row in reports():
        told = [f for f in row["findings"] if not f["summary"].startswith("Sources disagree")]
        for finding in told:
            for name in finding["summary"].split(" and "):
                assert name in finding["explanation"]
        text = " ".join(f["explanation"] for f in told)
        assert all(text.count(s.text) <= 1 for s in find_statements(units(), entities()).all)


def test_titles_and_themes_are_written_as_in_the_text() -> None:
    titles = " ".join(row["title"] for row in reports())
    assert "Tolvane Light Railway" in titles
    assert "TOLVANE" not in titles


def test_contradictions_are_findings_with_both_sources() -> None:
    findings = [
        f
        for row in reports()
        for f in row["findings"]
        if f["summary"] == "Sources disagree on the date: Sallow Viaduct"
    ]
    assert findings
    cited = {i for c in find_citations(findings[0]["explanation"]) for i in c.ids}
    assert cited == {ids.digest("news"), ids.digest("report")}


def test_many_contradictions_are_summed_up() -> None:
    side = Side("It fell in May.", "u1", "May")
    many = [Conflict("date", f"T{i}", side, Side("It fell in June.", f"v{i}", "June"), 0.5) for i in range(9)]
    members = [{"id": f"t{i}", "title": f"T{i}", "degree": 1, "text_unit_ids": []} for i in range(9)]
    report = extractive_report(members, [], many, Corpus(find_statements([], []), {}, 0))
    assert [f.summary for f in report.findings][4:] == [
        "Sources disagree on the date: T4",
        "4 more disagreements of sources",
    ]
    assert "T5, T6, T7 and T8" in report.findings[-1].explanation


def test_reports_are_the_same_every_time() -> None:
    assert reports() == reports()


def test_attendance_lists_and_questions_do_not_lead() -> None:
    for row in reports():
        assert "Present:" not in row["summary"]
        assert "?" not in row["summary"]


def test_a_community_without_sentences_still_has_a_report() -> None:
    statements = find_statements([], [])
    members = [
        {"id": "a", "title": "ALPHA", "degree": 1, "text_unit_ids": []},
        {"id": "b", "title": "BETA", "degree": 1, "text_unit_ids": []},
    ]
    community = {"id": "c", "community": 0, "level": 0, "parent": -1, "children": [], "period": "", "size": 2}
    community |= {"entity_ids": ["a", "b"], "relationship_ids": []}
    (row,) = extractive_reports([community], members, [], statements, text_units=0)
    assert row["summary"] == "A group of 2 entities: Alpha and Beta."


def test_descriptions_begin_with_what_introduces_the_entity() -> None:
    statements = find_statements(units(), entities())
    found = entity_descriptions(statements, ["GIDEON MASKE", "MARGIT ALDOUS", "NOBODY"])
    assert found["GIDEON MASKE"].startswith("Gideon Maske is the managing director of Skarne Stone.")
    assert found["MARGIT ALDOUS"].startswith("Margit Aldous, general manager of the Tolvane Light Railway")
    assert found["NOBODY"] == ""
    pairs = relationship_descriptions(statements, [("SKARNE STONE", "GIDEON MASKE"), ("MARTEN PRYCE", "SKARNE STONE")])
    assert "Skarne Stone" in pairs["SKARNE STONE", "GIDEON MASKE"]
    assert pairs["MARTEN PRYCE", "SKARNE STONE"] == ""


def test_describe_drops_repetitions() -> None:
    twice = ["The mill stands by the river.", "The  mill stands by the river.", "The mill stands by the river now."]
    other = "In 1903 a fire took the weaving shed and two looms."
    found = describe([*twice, other], 2)
    assert other in found
    assert found.count("stands by the river") == 1
    assert describe([]) == ""
    assert describe(["One."], 0) == ""


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="abc .é漢字?", max_size=40), max_size=12), st.integers(0, 5))
def test_describe_takes_any_text(descriptions: list[str], count: int) -> None:
    found = describe(descriptions, count)
    cleaned = {" ".join(d.split()) for d in descriptions}
    assert found == "" or any(found.startswith(c) for c in cleaned if c)
    assert describe(descriptions, count) == found


def statement(text: str, order: int) -> Statement:
    return Statement(text, f"u{order}", "d", order, (), True)


def test_selection_avoids_what_was_said() -> None:
    texts = [
        "The dam gates were opened at night.",
        "The dam gates were opened at night again.",
        "Sheep graze on the high moor.",
    ]
    ranked = Ranked([statement(t, i) for i, t in enumerate(texts)], {})
    assert len(ranked.select(3)) == 2, "the repetition is left out"
    assert ranked.select(1, seen=[0]) == [2]
    assert ranked.select(2, among=[]) == []


def test_thousands_of_sentences_are_narrowed_down() -> None:
    pick = random.Random(1)
    words = [f"word{i}" for i in range(500)]
    many = [statement(" ".join(pick.sample(words, 12)) + ".", i) for i in range(20_000)]
    start = time.process_time()
    ranked = Ranked(many, {})
    assert len(ranked.statements) == 300
    assert time.process_time() - start < 100


def test_names_are_found_whole_and_longest_first() -> None:
    text = "Skarne Stone Company met. Skarneford did not. Skarne itself is small."
    rows = [
        {"title": t, "aliases": a, "text_unit_ids": ["u"]}
        for t, a in (("SKARNE", []), ("SKARNE STONE COMPANY", []), ("FORD", []))
    ]
    found = find_statements([{"id": "u", "document_id": "d", "text": text}], rows)
    assert [s.titles for s in found.all] == [("SKARNE STONE COMPANY",), (), ("SKARNE",)]
    assert found.name("SKARNE STONE COMPANY") == "Skarne Stone Company"
    aliased = find_statements(
        [{"id": "u", "document_id": "d", "text": "Mina Croft wrote a letter."}],
        [{"title": "WILHELMINA CROFT", "aliases": ["MINA CROFT"], "text_unit_ids": ["u"]}],
    )
    assert aliased.all[0].titles == ("WILHELMINA CROFT",)


def test_words_of_any_script() -> None:
    assert content_words("The inspectors inspected it.") == ["inspect", "inspect"]
    assert content_words("東京大学") == ["東京", "京大", "大学"]
    assert readable("HOUSE OF THE DEAD") == "House of the Dead"


@pytest.mark.parametrize(
    "mark", ["**1. Silence.** The meeting stood in silence for them.", "> - *The meeting* stood in silence for them."]
)
def test_marks_of_lists_and_emphasis_are_dropped(mark: str) -> None:
    (found,) = [s.text for s in find_statements([{"id": "u", "document_id": "d", "text": mark}], []).all][-1:]
    assert found == "The meeting stood in silence for them."
