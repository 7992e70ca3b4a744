"""What users of other systems suffered from answers of models, one by one, where no other test has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphrag_assets.indexing.extraction import merge_answers, parse_json, parse_tuples, read_answer
from graphrag_assets.indexing.report_answers import parse_report
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import invoke, make_workspace, rows, simulated

TEXT = "Ebenezer Scrooge met Jacob Marley in London. Bob Cratchit saw Tiny Tim at home."


@pytest.mark.parametrize(
    "description",
    [
        "There is no direct relationship between Scrooge and London.",
        "No relationship is mentioned in the text",
        "no connection",
        "Scrooge and London are not directly related in the text.",
        "两者之间没有直接关系。",
    ],
)
def test_a_pair_that_is_said_not_to_be_related_is_no_edge(description: str) -> None:
    found = parse_tuples(f'("relationship"<|>Scrooge<|>London<|>{description}<|>1)##\n<|COMPLETE|>')
    assert found.relationships == []
    assert found.dropped == {"relationship that says that there is none": 1}


@pytest.mark.parametrize(
    "description",
    [
        "Scrooge ended his connection with London.",
        "No relationship of his lasted. Scrooge left London for Marley's house and came back.",
        "Scrooge found no link in the chain that Marley forged in London, and kept it.",
    ],
)
def test_a_relationship_that_speaks_of_none_stays(description: str) -> None:
    found = parse_tuples(f'("relationship"<|>Scrooge<|>London<|>{description}<|>7)##\n<|COMPLETE|>')
    assert [link.description for link in found.relationships] == [description]


def test_fields_that_are_no_text_cost_one_record_at_most() -> None:
    answer = {
        "entities": [
            {"name": "Scrooge", "type": {"kind": "person"}, "description": None},
            {"name": "Marley", "type": ["person", "ghost"], "description": 7},
            {"name": None, "type": "person", "description": "nobody"},
            "Cratchit",
            {"name": "", "type": "", "description": ""},
        ],
        "relationships": [
            {"source": "Scrooge", "target": "Marley", "description": ["partners", None], "weight": "NaN"},
            {"source": {"name": "x"}, "target": "Marley", "description": "y", "weight": 3},
            None,
        ],
    }
    found = parse_json(json.dumps(answer))
    assert [e.name for e in found.entities] == ["Marley"]
    assert [(r.source, r.target, r.weight) for r in found.relationships] == [("SCROOGE", "MARLEY", 1.0)]
    assert found.dropped.total() == 4
    merged = merge_answers([found], "u")
    assert {row["title"] for row in merged.entities} == {"SCROOGE", "MARLEY"}, "an end without a record is no phantom"


def test_the_seams_of_answers_lose_nothing() -> None:
    answer = (
        '("entity"<|>A House<|>GEO<|>has ## in it)##("relationship"<|>A House<|>B Street<|>stands in<|>9)<|COMPLETE|>'
    )
    found = read_answer(answer)
    assert found.relationships[0].weight == 9.0
    assert read_answer("(entity<|>A House<|>GEO<|>d)\n<|COMPLETE|>").entities[0].name == "A House"


def test_a_report_in_a_fence_with_a_missing_comma() -> None:
    text = '```json\n{"title": "T", "summary": "S"\n "findings": [{"summary": "f", "explanation": "e"}], "rating": "7/10"}\n```'
    report = parse_report(text)
    assert (report.title, report.rating, len(report.findings)) == ("T", 7.0, 1)


@pytest.mark.storage
def test_a_model_that_finds_nothing_leaves_an_index_that_says_so(tmp_path: Path, llmsim: LlmSim) -> None:
    """No entity in any text unit: empty tables of the right form, an index that can be asked, and a check that warns."""
    llmsim.config(faults={"empty": 0.0})
    documents = {"a.txt": "it was so, and then it was not. " * 4, "b.txt": "1 2 3 4 5 6 7 8 9. " * 3}
    root = make_workspace(tmp_path, documents, **simulated(llmsim))
    report = invoke("index", "--root", root, "--json").json
    assert report["text_units"]["failed"] == 0
    assert report["tables"]["text_units"] == report["text_units"]["empty"] + report["text_units"]["ok"]
    for name in ("entities", "relationships", "communities", "community_reports"):
        assert isinstance(rows(root, name), list)


@pytest.mark.storage
def test_reports_that_all_fail_leave_the_rest(tmp_path: Path, llmsim: LlmSim) -> None:
    """Every report is garbage: stand-ins with a reason, no missing community, and the limit of the check names itself."""
    root = make_workspace(tmp_path, {"a.txt": TEXT}, **simulated(llmsim))
    llmsim.config(faults={"garbage": 1.0}, fault_kinds=["report"])
    failed = invoke("index", "--root", root)
    assert failed.code == 1
    assert "max_failed_reports_share" in failed.err
    settings = simulated(llmsim, checks={"max_failed_reports_share": 1.0})
    make_workspace(tmp_path, {"a.txt": TEXT}, **settings)
    assert invoke("index", "--root", root, "--json").code == 0
    reports = rows(root, "community_reports")
    assert {row["community"] for row in reports} == {row["community"] for row in rows(root, "communities")}
    assert all(row["status"] == "failed" and row["reason"] for row in reports)
    llmsim.reset()
    assert invoke("index", "--root", root, "--retry-failed", "--json").code == 0
    assert {row["status"] for row in rows(root, "community_reports")} == {"ok"}
