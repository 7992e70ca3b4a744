"""Calls of a model on behalf of a question: failures are outcomes with a reason, and a deadline ends the waiting."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from graphrag_assets.indexing.asking import AnswerError, Ask, Message
from graphrag_assets.llm.errors import GatewayError
from graphrag_assets.llm.limiting.budget import BudgetReached
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.plain import plain_text
from graphrag_assets.text.answer_objects import Words, find_object
from graphrag_assets.text.numbers import read_score

T = TypeVar("T")

_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)、])\s+")
#: Other words for the keys of a DRIFT step.
_ANSWER = [
    "response",
    "intermediate_answer",
    "answer",
    "intermediate_response",
    "text",
    "result",
    "回答",
    "答案",
    "回答文",
    "Antwort",
    "respuesta",
    "réponse",
    "ответ",
]
_STEP: Words = {
    "score": [
        "rating",
        "relevance_score",
        "relevance",
        "confidence",
        "分数",
        "评分",
        "スコア",
        "Punktzahl",
        "puntuación",
        "оценка",
    ],
    "follow_up_queries": [
        "follow_ups",
        "followups",
        "followup_queries",
        "follow_up_questions",
        "followup_questions",
        "next_questions",
        "queries",
        "questions",
        "后续问题",
        "追问",
        "フォローアップの質問",
        "Folgefragen",
        "preguntas_de_seguimiento",
        "questions_de_suivi",
    ],
}

TIMED_OUT = "the deadline passed before the model answered"


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What came of a call.

    Args:
        value: The parsed answer; None when there is none.
        reason: Why there is none, or why the value is not complete; else empty.
        stopped: True where the deadline or the budget ended it, not a fault.
    """

    value: T | None
    reason: str = ""
    stopped: bool = False


class Stopped(Exception):  # noqa: N818 (an end, not a fault)
    """The deadline or the budget ended a search before a model could be asked; the message says which."""


class Deadline:
    """A point in time after which no answer is waited for.

    Args:
        seconds: From now; None: never.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def remaining(self) -> float | None:
        """Seconds that are left, at least 0; None when there is no deadline."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def share(self, part: float) -> Deadline:
        """A deadline after a part of the remaining time, for the steps before the last one."""
        left = self.remaining()
        return Deadline(None if left is None else left * part)

    @property
    def passed(self) -> bool:
        """True when no time is left."""
        return self.remaining() == 0.0


async def call(
    ask: Ask,
    messages: Sequence[Message],
    parse: Callable[[str], T],
    schema: Mapping[str, Any] | None = None,
    row: str = "",
) -> Outcome[T]:
    """Ask a model; whatever its client raises becomes the reason of a failed outcome."""
    try:
        return Outcome((await ask(messages, parse, schema=schema, row=row)).value)
    except AnswerError as error:
        return Outcome(None, f"{error.status}: {error.reason}")
    except BudgetReached as error:
        return Outcome(None, str(error), stopped=True)
    except Exception as error:  # the client's own errors: connection, authorisation
        return Outcome(None, told(error))


def told(error: Exception) -> str:
    """An error in one line for people: the words of our own errors, with their kind where they are a library's."""
    words = " ".join(str(error).split())
    return words if isinstance(error, AnswerError | GatewayError | QueryError) else f"{type(error).__name__}: {words}"


async def call_all(calls: Sequence[Coroutine[Any, Any, Outcome[T]]], deadline: Deadline) -> list[Outcome[T]]:
    """Await calls together; those that are not done at the deadline are cancelled and count as failed.

    Returns:
        Outcomes in the order of the calls.
    """
    tasks = [asyncio.create_task(c) for c in calls]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=deadline.remaining())
    finally:
        late = [task for task in tasks if not task.done()]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    return [Outcome(None, TIMED_OUT, stopped=True) if task.cancelled() else task.result() for task in tasks]


def failures(outcomes: Sequence[Outcome[Any]]) -> tuple[int, str, bool]:
    """How many calls gave nothing, why (a fault is told before the deadline or the budget), and whether only those did."""
    lost = [outcome for outcome in outcomes if outcome.value is None]
    faults = [outcome for outcome in lost if not outcome.stopped]
    reason = (faults or lost)[0].reason if lost else ""
    return len(lost), reason, not faults


def parse_text(text: str) -> str:
    """The answer as text for people; one that came as JSON gives the text in it.

    Raises:
        ValueError: There is none.
    """
    if not text.strip():
        raise ValueError("the answer is empty; expected text")
    return plain_text(text)


@dataclass(frozen=True)
class StepAnswer:
    """The answer to one step of a DRIFT search.

    Args:
        text: Markdown; may be empty when the step found nothing.
        score: Usefulness from 0 to 100.
        follow_ups: Questions that it leads to.
    """

    text: str
    score: float
    follow_ups: tuple[str, ...]


def parse_step(text: str, answer_key: str) -> StepAnswer:
    """Read the answer to a DRIFT step.

    Args:
        text: JSON object with the answer, "score" and "follow_up_queries".
        answer_key: Key of the answer: response, or intermediate_answer.

    Raises:
        ValueError: No JSON object with an answer and a score.
    """
    found = find_object(text, {answer_key: _ANSWER, **_STEP})
    answer = found.get(answer_key)
    if isinstance(answer, list) and all(isinstance(part, str) for part in answer):
        answer = "\n\n".join(answer)
    if not isinstance(answer, str):
        raise ValueError(f'expected a JSON object with the text "{answer_key}"')
    follow_ups = found.get("follow_up_queries")
    questions = _questions(follow_ups)
    score = read_score(found.get("score"))
    if score is None:
        raise ValueError('expected a number from 0 to 100 as "score"')
    return StepAnswer(plain_text(answer) if answer.strip() else "", score, tuple(questions))


def _questions(value: Any) -> list[str]:
    """Questions out of a list of texts or of objects with a text, or out of text with one a line."""
    if isinstance(value, str):
        value = [_BULLET.sub("", line) for line in value.splitlines()]
    items = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
    texts = [next(iter(item.values()), "") if isinstance(item, dict) else item for item in items]
    return [text.strip() for text in texts if isinstance(text, str) and text.strip()]


def step_schema(answer_key: str) -> dict[str, Any]:
    """JSON schema of the answer to a DRIFT step."""
    return {
        "type": "object",
        "properties": {
            answer_key: {"type": "string"},
            "score": {"type": "integer"},
            "follow_up_queries": {"type": "array", "items": {"type": "string"}},
        },
        "required": [answer_key, "score", "follow_up_queries"],
        "additionalProperties": False,
    }
