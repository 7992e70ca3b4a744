"""A model's verdicts on the doubtful pairs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphrag_assets.ids import digest
from graphrag_assets.indexing.asking import AnswerError, Ask
from graphrag_assets.text.templates import render

#: Most pairs in one question, and how many there are on average before a question ends by itself.
MOST_PAIRS = 20
_USUAL_PAIRS = 12
#: Letters of a description shown to the model; an ellipsis marks the cut.
_SHOWN = 300
_DESCRIPTIONS_SHOWN = 2

#: Form of the answer, for models that support structured output.
SCHEMA: Mapping[str, Any] = {
    "title": "entity_verdicts",
    "type": "object",
    "additionalProperties": False,
    "required": ["verdicts"],
    "properties": {
        "verdicts": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["pair", "same", "reason"],
                "properties": {
                    "pair": {"type": "integer"},
                    "same": {"type": "boolean"},
                    "reason": {"type": "string"},
                },
            },
        }
    },
}

_YES = frozenset({"true", "yes", "same", "y", "1", "merge", "merged", "equal", "identical"})
_NO = frozenset({"false", "no", "different", "n", "0", "separate", "distinct", "not same", "not the same"})
_LINE = re.compile(
    r"^\W*(?:pair\W*)?(\d+)\W+(yes|no|true|false|same|different|not(?: the)? same)\b\W*(.*)$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Described:
    """A title as the model sees it.

    Args:
        title: The title.
        type: Its type; may be empty.
        descriptions: What texts say of it.
    """

    title: str
    type: str
    descriptions: Sequence[str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the model said of a pair.

    Args:
        same: Whether both are one entity; None where no verdict could be used.
        reason: Its reason, or why there is no verdict.
    """

    same: bool | None
    reason: str


async def ask_verdicts(pairs: Sequence[tuple[Described, Described]], ask: Ask, prompt: str) -> list[Verdict]:
    """Ask a model which pairs are one entity.

    Pairs are sorted and cut into questions by their own content: a question ends after a pair whose hash says so. One
    more pair so changes one question, and the answers to all others are found in the cache.

    Args:
        pairs: The doubtful pairs, each sorted by title.
        ask: Asks the model.
        prompt: Template with the variable {pairs}.

    Returns:
        A verdict for each pair, in the order of ``pairs``. Where the model gives no usable answer, it says why.
    """
    order = sorted(range(len(pairs)), key=lambda i: (pairs[i][0].title, pairs[i][1].title))
    questions = _questions([pairs[i] for i in order])
    answers = await asyncio.gather(*(_ask_once(question, ask, prompt) for question in questions))
    verdicts = [verdict for answer in answers for verdict in answer]
    by_position = dict(zip(order, verdicts, strict=True))
    return [by_position[i] for i in range(len(pairs))]


def describe_pairs(pairs: Sequence[tuple[Described, Described]]) -> str:
    """The pairs as the prompt shows them: numbered from 1, both titles with type and descriptions."""
    return "\n\n".join(f"Pair {i}\nA: {_shown(a)}\nB: {_shown(b)}" for i, (a, b) in enumerate(pairs, start=1))


def parse_verdicts(answer: str, count: int) -> dict[int, Verdict]:
    """Read verdicts out of an answer: the JSON that was asked for, or lines such as ``3: different, two towns``.

    Args:
        answer: Text of the answer.
        count: Number of pairs asked about.

    Returns:
        Verdict by number of the pair, from 1; pairs without a usable verdict are left out.

    Raises:
        ValueError: No verdict at all.
    """
    verdicts = _from_json(answer) or _from_lines(answer)
    verdicts = {number: verdict for number, verdict in verdicts.items() if 1 <= number <= count}
    if not verdicts:
        raise ValueError('expected {"verdicts": [{"pair": 1, "same": true or false, "reason": "..."}, ...]}')
    return verdicts


def _questions(pairs: list[tuple[Described, Described]]) -> list[list[tuple[Described, Described]]]:
    questions: list[list[tuple[Described, Described]]] = []
    current: list[tuple[Described, Described]] = []
    for pair in pairs:
        current.append(pair)
        ends = int(digest("verdicts", pair[0].title, pair[1].title), 16) % _USUAL_PAIRS == 0
        if ends or len(current) == MOST_PAIRS:
            questions.append(current)
            current = []
    return [*questions, current] if current else questions


async def _ask_once(pairs: list[tuple[Described, Described]], ask: Ask, prompt: str) -> list[Verdict]:
    content = render(prompt, {"pairs": describe_pairs(pairs)})
    row = "\n".join(f"{a.title} | {b.title}" for a, b in pairs)
    try:
        reply = await ask(
            [{"role": "user", "content": content}],
            partial(parse_verdicts, count=len(pairs)),
            schema=SCHEMA,
            row=row,
            partial=True,
        )
    except AnswerError as error:
        return [Verdict(None, f"no usable answer ({error.status}: {error.reason})")] * len(pairs)
    missing = Verdict(None, "the answer has no usable verdict on this pair")
    return [reply.value.get(number, missing) for number in range(1, len(pairs) + 1)]


def _shown(entity: Described) -> str:
    texts = [text if len(text) <= _SHOWN else text[:_SHOWN] + "…" for text in entity.descriptions[:_DESCRIPTIONS_SHOWN]]
    said = " / ".join(" ".join(text.split()) for text in texts) or "no description"
    return f"{entity.title} ({entity.type or 'type unknown'}): {said}"


def _from_json(answer: str) -> dict[int, Verdict]:
    from graphrag_assets.text.json_answers import parse_json_object

    try:
        data: Any = parse_json_object(answer)
    except ValueError:
        return {}
    items = next((v for k, v in data.items() if isinstance(v, list)), None)
    if items is None:
        items = [{"pair": key, "same": value} for key, value in data.items()] if "pair" not in data else [data]
    verdicts: dict[int, Verdict] = {}
    for position, item in enumerate(items, start=1):
        if not isinstance(item, dict):
            item = {"pair": position, "same": item}
        number, same = (
            _number(item.get("pair", item.get("id", position))),
            _boolean(item.get("same", item.get("verdict"))),
        )
        if number is not None and same is not None:
            verdicts[number] = Verdict(same, " ".join(str(item.get("reason") or "").split()))
    return verdicts


def _from_lines(answer: str) -> dict[int, Verdict]:
    matches = [_LINE.match(line) for line in answer.splitlines()]
    return {
        int(match[1]): Verdict(same, match[3].strip())
        for match in matches
        if match is not None and (same := _boolean(match[2])) is not None
    }


def _number(value: Any) -> int | None:
    match = re.search(r"\d{1,9}", str(value))
    return int(match.group()) if match and not isinstance(value, bool) else None


def _boolean(value: Any) -> bool | None:
    text = str(value).strip().lower()
    return True if text in _YES else False if text in _NO else None
