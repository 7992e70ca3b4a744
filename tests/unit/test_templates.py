"""Prompt templates."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.text.templates import check, placeholders, render

PROMPTS = Path(__file__).resolve().parents[2] / "prompts"
#: Variables of each indexing prompt, as in Microsoft GraphRAG.
VARIABLES = {
    "extract_graph": {"entity_types", "input_text"},
    "extract_graph_json": {"entity_types", "input_text"},
    "extract_graph_continue": set(),
    "extract_graph_loop": set(),
    "extract_claims": {"entity_specs", "claim_description", "input_text"},
    "extract_claims_continue": set(),
    "extract_claims_loop": set(),
    "summarize_descriptions": {"entity_name", "description_list", "max_length"},
    "community_report_graph": {"input_text", "max_report_length"},
    "resolve_entities": {"pairs"},
}


def test_render_replaces_known_names_only() -> None:
    assert render("{a} {{b}} {c} {0} {a!r} }", {"a": "1"}) == "1 {b} {c} {0} {a!r} }"


def test_values_are_not_looked_into() -> None:
    hostile = "{entity_types} {{x}} %s %(a)s {0.__class__} <|endoftext|>"
    assert (
        render("<{input_text}|{entity_types}>", {"input_text": hostile, "entity_types": "person"})
        == f"<{hostile}|person>"
    )


@given(st.text(), st.text())
def test_any_value_comes_through(before: str, value: str) -> None:
    template = before.replace("{", "{{").replace("}", "}}") + "{x}"
    assert render(template, {"x": value}) == before + value


def test_check_names_what_is_wrong() -> None:
    assert check("{a} {b}", required=["a"], allowed=["b"]) == []
    problems = check("{a} {typo}", required=["a", "input_text"])
    assert len(problems) == 2
    assert any("{input_text} is missing" in p for p in problems)
    assert any("{typo} is unknown" in p for p in problems)
    assert check("  ", required=[]) == ["the template is empty"]


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_shipped_prompts(name: str) -> None:
    template = (PROMPTS / f"{name}.txt").read_text(encoding="utf-8")
    assert placeholders(template) == VARIABLES[name]
    assert check(template, VARIABLES[name]) == []
    assert template.format(**dict.fromkeys(VARIABLES[name], "x")) == render(
        template, dict.fromkeys(VARIABLES[name], "x")
    )
