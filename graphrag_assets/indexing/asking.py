"""How an algorithm asks a language model without knowing one.

Algorithms take an :class:`Ask`: they hand over messages and a parser, and get the parsed value of a validated answer.
What is behind it (provider, cache, retries, limits, prices) is none of their business; the gateway implements it, tests
replay recorded answers through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

Message = Mapping[str, str]
T = TypeVar("T")

#: Why there is no usable answer.
AnswerStatus = Literal["failed", "truncated", "refused"]


class AnswerError(Exception):
    """The model gave no usable answer, although it was asked as often as allowed.

    Args:
        status: failed (error, or nothing that could be parsed), truncated (cut at the token limit) or refused.
        reason: What went wrong, in one line, without any document text or key.
        attempts: Answers that were asked for.
        answer: The last raw answer, empty if there was none.
        passing: Whether there was no answer at all for a reason that may pass, such as a busy server; an answer that
            could not be used is likely to come again.
        too_long: Whether a smaller input may help: the answer was cut, or the prompt is longer than the model can read.
    """

    def __init__(
        self,
        status: AnswerStatus,
        reason: str,
        attempts: int = 1,
        answer: str = "",
        *,
        passing: bool = False,
        too_long: bool = False,
    ) -> None:
        super().__init__(f"{status}: {reason}")
        self.status: AnswerStatus = status
        self.reason = reason
        self.attempts = attempts
        self.answer = answer
        self.passing = passing
        self.too_long = too_long


@dataclass(frozen=True)
class Reply(Generic[T]):
    """A validated answer.

    Args:
        value: What the parser made of the text.
        text: The answer, without reasoning text; what a following turn of the conversation repeats.
        attempts: Answers that were asked for, 0 when it came from the cache.
        truncated: True where the answer was cut and the parser could still use the part (only with ``partial=True``).
    """

    value: T
    text: str
    attempts: int = 1
    truncated: bool = False


class Ask(Protocol):
    """Asks a model and returns a validated answer."""

    async def __call__(
        self,
        messages: Sequence[Message],
        parse: Callable[[str], T],
        *,
        schema: Mapping[str, Any] | None = None,
        row: str = "",
        partial: bool = False,
        smaller: bool = False,
    ) -> Reply[T]:
        """Ask once, and again while the answer cannot be used.

        Args:
            messages: Conversation, each with role and content.
            parse: Turns the text of the answer into a value; raises ValueError for an answer that cannot be used (its
                message says what was expected, and may be shown to the model when it is asked again).
            schema: JSON schema of the answer, for models that support structured output.
            row: Id of the row that the call serves, for the accounts; several are joined by line breaks.
            partial: Take a cut answer where the parser accepts it, after asking again did not help.
            smaller: The caller can ask with less, and wants to be told that the input is too long rather than have another
                model asked, or part of an answer.

        Raises:
            AnswerError: No usable answer.
        """
        ...
