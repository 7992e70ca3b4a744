"""Models for tests: they answer from a list or by a function, through the parser as the gateway does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from graphrag_assets.indexing.asking import AnswerError, Message, Reply

T = TypeVar("T")


@dataclass
class Scripted:
    """An Ask that gives one answer after another; an exception in the list is raised.

    An answer that the parser refuses is asked for once more, that is, it costs two attempts and fails.
    """

    answers: list[str | Exception | Callable[[Sequence[Message]], str]]
    truncated: bool = False
    asked: list[list[Message]] = field(default_factory=list)
    schemas: list[Mapping[str, Any] | None] = field(default_factory=list)

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
        self.asked.append(list(messages))
        self.schemas.append(schema)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        text = answer if isinstance(answer, str) else answer(messages)
        try:
            value = parse(text)
        except ValueError as error:
            status = "refused" if getattr(error, "status", "") == "refused" else "failed"
            raise AnswerError(status, str(error), 2, text) from error  # type: ignore[arg-type]
        return Reply(value, text, 1, self.truncated and partial)
