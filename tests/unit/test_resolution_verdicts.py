"""A model's verdicts on doubtful pairs: what is asked, how it is read, what comes of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from graphrag_assets.indexing.asking import AnswerError, Reply
from graphrag_assets.indexing.resolution import Overrides, Resolution, resolve_entities
from graphrag_assets.indexing.resolution.profiles import PROFILE_COLUMNS
from graphrag_assets.indexing.resolution.verdicts import MOST_PAIRS, Described, ask_verdicts, parse_verdicts

T = TypeVar("T")
PROMPT = "Same? Answer {{...}}\n\n{pairs}"
Answer = Callable[[list[tuple[str, str]]], str]


class Model:
    """Answers from a function of the pairs; keeps what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.questions: list[str] = []

    async def __call__(
        self,
        messages: Sequence[Mapping[str, str]],
        parse: Callable[[str], T],
        *,
        schema: Mapping[str, Any] | None = None,
        row: str = "",
        partial: bool = False,
        smaller: bool = False,
    ) -> Reply[T]:
        content = messages[0]["content"]
        self.questions.append(content)
        titles = re.findall(r"^A: (.*?) \(.*\nB: (.*?) \(", content, re.MULTILINE)
        text = self.answer(titles)
        try:
            return Reply(parse(text), text)
        except ValueError as error:
            raise AnswerError("failed", str(error)) from error


def says(same: bool) -> Answer:
    return lambda pairs: json.dumps(
        {"verdicts": [{"pair": i, "same": same, "reason": "so it is"} for i in range(1, len(pairs) + 1)]}
    )


def resolve(titles: Sequence[tuple[str, str]], ask: Model | None, **options: Any) -> Resolution:
    rows = [
        {
            "title": title,
            "type": kind,
            "votes": 1,
            "frequency": 1,
            "descriptions": [f"{title} is here."],
            "documents": [0],
        }
        for title, kind in titles
    ]
    profiles = pa.table({name: pa.array([r[name] for r in rows], type_) for name, type_ in PROFILE_COLUMNS.items()})
    return asyncio.run(resolve_entities(profiles, ask=ask, prompt=PROMPT, **options))


DOUBTFUL = [("BOB CRATCHIT", "PERSON"), ("ROBERT CRATCHIT", "PERSON")]


def test_same_merges_and_different_keeps_apart() -> None:
    model = Model(says(True))
    resolution = resolve(DOUBTFUL, model)
    assert resolution.mapping.num_rows == 1
    assert [(r["decision"], r["method"]) for r in resolution.aliases] == [("merged", "llm")]
    assert "so it is" in resolution.aliases[0]["evidence"]
    assert "BOB CRATCHIT (PERSON): BOB CRATCHIT is here." in model.questions[0]
    assert model.questions[0].startswith("Same? Answer {...}")
    resolution = resolve(DOUBTFUL, Model(says(False)))
    assert resolution.mapping.num_rows == 0
    assert [(r["decision"], r["method"], r["score"]) for r in resolution.aliases] == [("separate", "llm", 0.0)]


def test_sure_pairs_are_not_asked() -> None:
    model = Model(says(True))
    resolve([("INES HALLORAN", "PERSON"), ("DR. INES HALLORAN", "PERSON"), ("PIER", "GEO")], model)
    assert model.questions == []


@pytest.mark.parametrize(
    "answer", ["", "I cannot say.", '{"verdicts": []}', '{"verdicts": [{"pair": 7, "same": true}]}']
)
def test_an_unusable_answer_keeps_the_pair_apart(answer: str) -> None:
    resolution = resolve(DOUBTFUL, Model(lambda pairs: answer))
    assert resolution.mapping.num_rows == 0
    assert resolution.statistics.unusable == 1
    (row,) = resolution.aliases
    assert (row["decision"], row["method"]) == ("separate", "llm")
    assert "no usable answer" in row["evidence"]


def test_a_pair_that_the_answer_leaves_out_stays_apart() -> None:
    titles = [*DOUBTFUL, ("TOM TAYLOR", "PERSON"), ("THOMAS TAYLOR", "PERSON")]

    def first_only(pairs: list[tuple[str, str]]) -> str:
        named = [i for i, pair in enumerate(pairs, start=1) if "CRATCHIT" in pair[0]]
        return json.dumps({"verdicts": [{"pair": i, "same": True} for i in named] or [{"pair": 99, "same": True}]})

    resolution = resolve(titles, Model(first_only))
    assert resolution.mapping["title"].to_pylist() == ["BOB CRATCHIT"]
    assert resolution.statistics.unusable == 1


def test_the_model_overrules_no_override() -> None:
    overrides = Overrides(separate=frozenset({("BOB CRATCHIT", "ROBERT CRATCHIT")}))
    model = Model(says(True))
    assert resolve(DOUBTFUL, model, overrides=overrides).mapping.num_rows == 0
    assert model.questions == []


def test_a_verdict_can_settle_an_ambiguity() -> None:
    titles = [("HALLORAN", "PERSON"), ("INES HALLORAN", "PERSON"), ("INEZ HALLORAN", "PERSON")]
    assert resolve(titles, None).mapping.num_rows == 0
    assert resolve(titles, Model(says(True))).mapping.num_rows == 2


def test_verdicts_never_chain() -> None:
    titles = [("BOB CRATCHIT", "PERSON"), ("ROBERT CRATCHIT", "PERSON"), ("BOBBY CRATCHIT", "PERSON")]

    def not_bobby_and_robert(pairs: list[tuple[str, str]]) -> str:
        same = [{"BOBBY CRATCHIT", "ROBERT CRATCHIT"} != set(pair) for pair in pairs]
        return json.dumps({"verdicts": [{"pair": i, "same": s} for i, s in enumerate(same, start=1)]})

    resolution = resolve(titles, Model(not_bobby_and_robert))
    found = dict(zip(resolution.mapping["title"].to_pylist(), resolution.mapping["canonical"].to_pylist(), strict=True))
    assert found.get("BOBBY CRATCHIT", "BOBBY CRATCHIT") != found.get("ROBERT CRATCHIT", "ROBERT CRATCHIT")


def test_one_more_pair_changes_one_question() -> None:
    def pair(i: int) -> tuple[Described, Described]:
        return Described(f"A{i:04d}", "PERSON", ["said"]), Described(f"B{i:04d}", "PERSON", [])

    pairs = [pair(i) for i in range(0, 600, 2)]
    before, after, shuffled = (Model(says(True)) for _ in range(3))
    asyncio.run(ask_verdicts(pairs, before, PROMPT))
    asyncio.run(ask_verdicts(pairs[::-1], shuffled, PROMPT))
    asyncio.run(ask_verdicts([*pairs, pair(333)], after, PROMPT))
    assert sorted(before.questions) == sorted(shuffled.questions)
    assert len(set(after.questions) - set(before.questions)) <= 2
    assert all(question.count("Pair ") <= MOST_PAIRS for question in before.questions)
    assert len(before.questions) < 50


def test_verdicts_come_back_in_the_order_of_the_pairs() -> None:
    pairs = [(Described(f"A{i}", "", []), Described(f"B{i}", "", [])) for i in (3, 1, 2)]

    def only_two(asked: list[tuple[str, str]]) -> str:
        return json.dumps({"verdicts": [{"pair": i, "same": a == "A2"} for i, (a, _) in enumerate(asked, start=1)]})

    assert [v.same for v in asyncio.run(ask_verdicts(pairs, Model(only_two), PROMPT))] == [False, False, True]


@pytest.mark.parametrize(
    "answer",
    [
        '{"verdicts": [{"pair": 1, "same": true, "reason": "r"}, {"pair": 2, "same": false, "reason": ""}]}',
        'Here you are:\n```json\n{"verdicts": [{"pair": "1", "same": "yes"}, {"pair": "Pair 2", "same": "No"}]}\n```',
        '{"results": [{"same": true}, {"same": false}]}',
        '{"verdicts": [true, false]}',
        '{"1": true, "2": false}',
        "1: same, two spellings\n2: different, two towns",
        "Pair 1 - yes\nPair 2 - no (a river)",
        "**1.** Same\n**2.** not the same",
    ],
)
def test_answers_are_read_tolerantly(answer: str) -> None:
    verdicts = parse_verdicts(answer, 2)
    assert {number: verdict.same for number, verdict in verdicts.items()} == {1: True, 2: False}


@pytest.mark.parametrize(
    "answer", ["", "Sure!", '{"verdicts": [{"pair": 3, "same": true}]}', '{"verdicts": [{"pair": 1, "same": "maybe"}]}']
)
def test_answers_without_a_verdict_are_refused(answer: str) -> None:
    with pytest.raises(ValueError, match="verdicts"):
        parse_verdicts(answer, 2)
