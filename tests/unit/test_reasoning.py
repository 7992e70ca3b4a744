"""Reasoning text is taken off answers, whole and streamed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.text.reasoning import ReasoningFilter, strip_reasoning

CASES = [
    ("plain answer", "plain answer"),
    ("<think>let me see</think>\nanswer", "answer"),
    ("\n <THINKING>\na\nb</THINKING>answer", "answer"),
    ("<think></think><think>again</think> answer", "answer"),
    ("<think>never ends", ""),
    ("answer with <think>inside</think>", "answer with <think>inside</think>"),
    ("<b>bold</b> answer", "<b>bold</b> answer"),
    ("<", "<"),
    ("<thin", "<thin"),
    ('("entity"<|>A<|>B<|>C)', '("entity"<|>A<|>B<|>C)'),
    ("", ""),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_whole_answers(text: str, expected: str) -> None:
    assert strip_reasoning(text) == expected


def test_a_block_whose_beginning_the_chat_template_took() -> None:
    assert strip_reasoning("I should look.\n</think>\n\nanswer") == "answer"
    assert strip_reasoning("a tag </think> within a line") == "a tag </think> within a line"


@pytest.mark.parametrize(("text", "expected"), CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_streamed_answers(text: str, expected: str, size: int) -> None:
    reasoning = ReasoningFilter()
    shown = [reasoning.feed(text[i : i + size]) for i in range(0, len(text), size)]
    assert "".join([*shown, reasoning.close()]).strip() == expected


@given(st.text(alphabet="<>/think a\n", max_size=60), st.integers(1, 9))
def test_streamed_in_any_pieces_alike(text: str, size: int) -> None:
    def streamed(step: int) -> str:
        reasoning = ReasoningFilter()
        return "".join([*(reasoning.feed(text[i : i + step]) for i in range(0, len(text), step)), reasoning.close()])

    assert streamed(size).strip() == streamed(1000).strip()
