"""One try at an answer, and what is made of several: the steps of the ladder within one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from graphrag_assets.indexing.asking import AnswerError, AnswerStatus, Reply
from graphrag_assets.llm.usage import StageUsage

T = TypeVar("T")

_HINT = (
    "\n\n(An earlier answer to this could not be used: {reason}. "
    "Answer completely, and exactly in the form that is asked for.)"
)


@dataclass(frozen=True)
class Attempt(Generic[T]):
    """One answer, judged.

    Args:
        text: Text without reasoning.
        status: Why it cannot be used.
        reason: The same in words.
        reply: The usable answer.
        final: True where asking again is pointless.
        told: True where the reason may help the model.
        passing: True where there was no answer for a reason that may pass.
        too_long: True where a smaller input may help.
        step: How this answer was asked for: asked_again or asked_with_error; empty at first.
        unended: What can be read of an answer without the end mark that was asked for: it may have been cut.
    """

    text: str
    status: AnswerStatus = "failed"
    reason: str = ""
    reply: Reply[T] | None = None
    final: bool = False
    told: bool = False
    passing: bool = False
    too_long: bool = False
    step: str = ""
    unended: Reply[T] | None = None


def hinted(messages: list[dict[str, str]], reason: str) -> list[dict[str, str]]:
    """The conversation, with what was wrong with the last answer."""
    last = messages[-1]
    return [*messages[:-1], {**last, "content": last["content"] + _HINT.format(reason=reason)}]


def longest(tries: Sequence[Attempt[T]]) -> Reply[T] | None:
    """The longest of answers that lacked nothing but their end mark."""
    unended = [attempt.unended for attempt in tries if attempt.unended is not None]
    return max(unended, key=lambda reply: len(reply.text)) if unended else None


def book(account: StageUsage, tries: Sequence[Attempt[T]], reply: Reply[T] | None) -> None:
    """Book which steps of the ladder a question came to, and the one that brought its answer."""
    mended = reply is not None and getattr(reply.value, "mended", False)
    if mended or tries[0].told:
        account.step("mended", recovered=bool(mended))
    for step in dict.fromkeys(attempt.step for attempt in tries if attempt.step):
        account.step(step, recovered=reply is not None and tries[-1].step == step)


def copied(error: AnswerError) -> AnswerError:
    """The same error for another question: one that is raised twice would keep both of its tracebacks."""
    return AnswerError(
        error.status, error.reason, error.attempts, error.answer, passing=error.passing, too_long=error.too_long
    )
