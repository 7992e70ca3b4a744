"""Summaries of descriptions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.indexing import summaries
from graphrag_assets.indexing.asking import AnswerError, Message
from graphrag_assets.indexing.summaries import Summary, summarize
from graphrag_assets.text.templates import render
from tests.unit.asking_doubles import Scripted

PROMPT = (Path(__file__).resolve().parents[2] / "prompts" / "summarize_descriptions.txt").read_text(encoding="utf-8")
EMPTY = len(render(PROMPT, {"entity_name": '"N"', "max_length": "500", "description_list": "[]"}))


def run(descriptions: Sequence[str], ask: Scripted, budget: int = 100_000, name: str | list[str] = "N") -> Summary:
    return asyncio.run(
        summarize(
            name,
            descriptions,
            ask,
            prompt=PROMPT,
            max_input_tokens=budget,
            max_length=500,
            count_tokens=len,
            truncate=lambda text, n: text[:n],
        )
    )


def listed(messages: Sequence[Message]) -> list[str]:
    (line,) = [line for line in messages[0]["content"].splitlines() if line.startswith("Description list: ")]
    value: list[str] = json.loads(line.removeprefix("Description list: "))
    return value


def test_few_descriptions_cost_no_call() -> None:
    assert run([], Scripted([])) == Summary("")
    assert run(["only ", "only", " "], Scripted([])) == Summary("only")


def test_descriptions_are_sorted_and_distinct() -> None:
    ask = Scripted(["  One\n text. "])
    assert run(["b", "a", "b"], ask, name=["X", "Y"]) == Summary("One text.", calls=1)
    assert listed(ask.asked[0]) == ["a", "b"]
    assert 'Name: ["X", "Y"]' in ask.asked[0][0]["content"]


def test_rounds_begin_with_the_summary_of_the_one_before() -> None:
    descriptions = [f"{i:02d} " + "x" * 40 for i in range(10)]
    ask = Scripted([f"summary {i}" for i in range(10)])
    run(descriptions, ask, budget=EMPTY + 200)
    rounds = [listed(messages) for messages in ask.asked]
    assert [d for r in rounds for d in r if not d.startswith("summary")] == descriptions
    assert [r[0] for r in rounds[1:]] == [f"summary {i}" for i in range(len(rounds) - 1)]


def test_a_failure_keeps_what_fits() -> None:
    found = run(["b" * 30, "a" * 50, "c" * 400], Scripted([AnswerError("failed", "500")]), budget=EMPTY + 100)
    assert found.failed == "failed: 500"
    assert found.text == "a" * 50 + "\n" + "b" * 30


@given(
    st.lists(st.text(alphabet='abc é"\\', min_size=1, max_size=300), max_size=12),
    st.integers(100, 600),
    st.integers(1, 700),
)
def test_no_prompt_is_over_the_budget(descriptions: list[str], room: int, length: int) -> None:
    ask = Scripted(["s" * length] * 100)
    run(descriptions, ask, budget=EMPTY + room)
    for messages in ask.asked:
        assert len(messages[0]["content"]) <= EMPTY + room
        assert len(listed(messages)) >= 2


@given(st.lists(st.text('abcé"日 ', max_size=30), max_size=6), st.integers(64, 400))
def test_what_fits_by_its_bytes_is_not_counted_and_asked_for_alike(descriptions: list[str], room: int) -> None:
    by_bytes, by_tokens = Scripted(["s"] * 100), Scripted(["s"] * 100)
    found = run(descriptions, by_bytes, budget=EMPTY + room)
    with patch.object(summaries, "_bytes", lambda text: 10**9):
        assert run(descriptions, by_tokens, budget=EMPTY + room) == found
    assert by_bytes.asked == by_tokens.asked


def test_what_the_descriptions_say_is_no_refusal() -> None:
    said = ["I'm sorry, Hal, I can't do that.", "He serves as an AI expert."]
    ask = Scripted(["HAL: I'm sorry, Hal, I can't do that. He serves as an AI expert."])
    found = run(said, ask)
    assert not found.failed
    assert found.text.startswith("HAL: I'm sorry")
