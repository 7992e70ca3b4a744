"""The indexing prompts against the simulated model: it finds task and data in them, and its answers can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.indexing.claim_answers import example_subjects, read_claims
from graphrag_assets.indexing.extraction import parse_json, read_answer
from graphrag_assets.indexing.gleaning import is_yes
from graphrag_assets.indexing.graph_answers import example_titles
from graphrag_assets.indexing.report_answers import parse_report
from graphrag_assets.text.templates import render
from tests.llmsim import llmsim

PROMPTS = Path(__file__).resolve().parents[2] / "prompts"
TEXT = (
    "Old Scrooge kept his counting-house in London with Jacob Marley. Jacob Marley died on Christmas Eve. "
    "Bob Cratchit worked for Old Scrooge, and Bob Cratchit had no coal. Fred invited Old Scrooge to dinner."
)
DATA = """-----Entities-----
id,entity,description,number of relationships
5,SCROOGE,"a miser",4
7,MARLEY,"his partner",3

-----Relationships-----
id,source,target,description,weight
3,SCROOGE,MARLEY,partners,8"""
VALUES = {
    "entity_types": "person,geo",
    "entity_specs": "person, geo",
    "claim_description": "Any claims or facts.",
    "entity_name": '"SCROOGE"',
    "description_list": json.dumps(["Scrooge is a miser.", "Scrooge has a nephew."]),
    "max_length": "500",
    "max_report_length": "2000",
    "pairs": "Pair 1\nA: SCROOGE (PERSON): a miser\nB: MR. SCROOGE (PERSON): has a nephew",
}


def prompt(name: str) -> str:
    template = (PROMPTS / f"{name}.txt").read_text(encoding="utf-8")
    return render(template, VALUES | {"input_text": DATA if name.startswith("community") else TEXT})


def ask(*turns: str) -> tuple[str, Any]:
    """Kind of the task as the simulator sees it, and its context; every second turn is the assistant's."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns)]
    context = llmsim.Ctx({"messages": messages}, dict(llmsim.DEFAULTS))
    context.kind = llmsim.detect(context.full, context.last, len(turns) // 2)
    return context.kind, context


def test_extraction() -> None:
    kind, context = ask(prompt("extract_graph"))
    assert kind == "extract"
    assert llmsim.payload(context.main) == TEXT
    assert llmsim.entity_types(context.full) == ["person", "geo"]
    found = read_answer(llmsim.answer(context))
    assert {"BOB CRATCHIT", "JACOB MARLEY"} <= {entity.title for entity in found.entities}
    assert found.ended


def test_extraction_in_json() -> None:
    kind, context = ask(prompt("extract_graph_json"))
    assert kind == "extract"
    assert llmsim.payload(context.main) == TEXT
    assert "JACOB MARLEY" in {entity.title for entity in parse_json(llmsim.answer(context)).entities}


@pytest.mark.parametrize("stage", ["extract_graph", "extract_claims"])
def test_gleaning(stage: str) -> None:
    kind, context = ask(prompt(stage), "<|COMPLETE|>", prompt(f"{stage}_continue"))
    assert kind == "glean"
    assert llmsim.payload(context.main) == TEXT
    kind, context = ask(prompt(stage), "<|COMPLETE|>", prompt(f"{stage}_loop"))
    assert kind == "glean_check"
    answer = llmsim.answer(context)
    assert answer in {"Y", "N"}
    assert is_yes(answer) is (answer == "Y")


def test_claims() -> None:
    kind, context = ask(prompt("extract_claims"))
    assert kind == "claims"
    assert llmsim.payload(context.main) == TEXT
    assert read_claims(llmsim.answer(context)).claims


def test_reports() -> None:
    kind, context = ask(prompt("community_report_graph"))
    assert kind == "report"
    assert llmsim.payload(context.main) == DATA
    report = parse_report(llmsim.answer(context))
    assert "Scrooge" in report.title
    assert report.findings


def test_summaries_and_resolution() -> None:
    kind, context = ask(prompt("summarize_descriptions"))
    assert kind == "summarize"
    assert llmsim.answer(context).startswith("SCROOGE: Scrooge is a miser.")
    assert ask(prompt("resolve_entities"))[0] == "resolve"


def test_the_examples_are_known_so_that_echoes_are_found() -> None:
    for name in ("extract_graph", "extract_graph_json"):
        template = (PROMPTS / f"{name}.txt").read_text(encoding="utf-8")
        assert {"YSOLDE BRANNAGH", "SKARVHOLM", "ORLOP LINE"} <= example_titles(template)
    assert "PEVEREL QUOYLE" in example_subjects((PROMPTS / "extract_claims.txt").read_text(encoding="utf-8"))


def test_the_examples_follow_their_own_format() -> None:
    template = (PROMPTS / "extract_graph.txt").read_text(encoding="utf-8")
    for example in template.split("</text>\n")[1:-1]:
        found = read_answer(example.split("\n\n")[0])
        assert found.ended
        assert not found.dropped
        assert {r.source for r in found.relationships} | {r.target for r in found.relationships} <= {
            e.title for e in found.entities
        }
        assert all(1 <= r.weight <= 10 for r in found.relationships)


def test_prompts_are_short() -> None:
    for path in PROMPTS.glob("extract_graph*.txt"):
        assert len(path.read_text(encoding="utf-8")) < 3_000, f"{path.name} is sent with every text unit"
