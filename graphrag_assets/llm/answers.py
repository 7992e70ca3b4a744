"""From a question to a validated answer: cache, equal questions in flight, and asking again while an answer is of no use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from graphrag_assets.indexing.asking import AnswerError, AnswerStatus, Message, Reply
from graphrag_assets.llm.cache import AnswerCache, answer_key
from graphrag_assets.llm.calls import ModelCalls
from graphrag_assets.llm.clients import ChatAnswer
from graphrag_assets.llm.errors import PassingError, PermanentError
from graphrag_assets.llm.reasoning import strip_reasoning
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.llm.wire import clean, dumps

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Longest reason in an error or in a hint to the model, in characters.
MAX_REASON = 300

_HINT = (
    "\n\n(An earlier answer to this could not be used: {reason}. Answer again, completely and exactly in the form that is "
    "asked for above.)"
)


@dataclass(frozen=True)
class _Question:
    """A conversation and the key of its answer."""

    messages: list[dict[str, str]]
    schema: Mapping[str, Any] | None
    key: bytes


@dataclass(frozen=True)
class _Outcome:
    """What an equal question in flight came to: a text, or the error; both None where it was cancelled."""

    text: str | None = None
    truncated: bool = False
    error: AnswerError | None = None


@dataclass
class _Attempt(Generic[T]):
    """One answer, judged."""

    text: str
    value: T | None = None
    status: AnswerStatus | None = None
    reason: str = ""


class Answers:
    """Questions to one model.

    Args:
        calls: The model.
        cache: Answers of earlier runs.
    """

    def __init__(self, calls: ModelCalls, cache: AnswerCache) -> None:
        self.calls = calls
        self._cache = cache
        self._flights: dict[bytes, asyncio.Future[_Outcome]] = {}
        self._structured = calls.facts.structured_output
        self._identity = {**calls.identity, "structured": self._structured}

    async def ask(
        self,
        stage: str,
        account: StageUsage,
        messages: Sequence[Message],
        parse: Callable[[str], T],
        *,
        schema: Mapping[str, Any] | None = None,
        row: str = "",
        partial: bool = False,
    ) -> Reply[T]:
        """See :class:`graphrag_assets.indexing.asking.Ask`.

        Args:
            stage: Name of the stage, kept with the cached answer.
            account: Where the stage's usage is booked.
            messages: Conversation.
            parse: Turns the text into a value, or raises ValueError.
            schema: JSON schema of the answer.
            row: Id of the row that the question serves.
            partial: Take a cut answer where the parser accepts it.

        Raises:
            AnswerError: No usable answer.
            GatewayError: The model cannot be used.
        """
        question = self._question(messages, schema)
        reply = self._cached(question, parse)
        if reply is None:
            reply = await self._from_flight(question, account, parse, partial)
        if reply is not None:
            account.cached += 1
            return reply
        flight: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        self._flights[question.key] = flight
        outcome = _Outcome()
        try:
            reply = await self._answer(stage, account, question, parse, partial)
            outcome = _Outcome(reply.text, reply.truncated)
            return reply
        except AnswerError as error:
            account.failed += 1
            outcome = _Outcome(error=error)
            logger.info("%s: no usable answer for %s: %s (%d asked)", stage, row or "a question", error, error.attempts)
            raise
        finally:
            if self._flights.get(question.key) is flight:
                del self._flights[question.key]
            flight.set_result(outcome)

    def _question(self, messages: Sequence[Message], schema: Mapping[str, Any] | None) -> _Question:
        sent = [{"role": message["role"], "content": message["content"]} for message in messages]
        return _Question(sent, schema if self._structured else None, answer_key(self._identity, sent, schema))

    def _cached(self, question: _Question, parse: Callable[[str], T]) -> Reply[T] | None:
        """The stored answer; one that today's parser does not accept counts as none."""
        data = self._cache.answer(question.key)
        if data is None:
            return None
        try:
            text = orjson.loads(data)["text"]
            return Reply(parse(text), text, attempts=0)
        except (ValueError, KeyError, TypeError):
            return None

    async def _from_flight(
        self, question: _Question, account: StageUsage, parse: Callable[[str], T], partial: bool
    ) -> Reply[T] | None:
        """The answer to an equal question that is being asked already; None where this one must ask itself."""
        while (flight := self._flights.get(question.key)) is not None:
            outcome = await asyncio.shield(flight)
            error = outcome.error
            if outcome.truncated and not partial:
                error = AnswerError("truncated", "the answer was cut at the token limit", answer=outcome.text or "")
            if error is not None:
                account.failed += 1
                raise AnswerError(error.status, error.reason, error.attempts, error.answer)
            if outcome.text is not None:
                try:
                    return Reply(parse(outcome.text), outcome.text, attempts=0, truncated=outcome.truncated)
                except ValueError:
                    return None
        return None

    async def _answer(
        self, stage: str, account: StageUsage, question: _Question, parse: Callable[[str], T], partial: bool
    ) -> Reply[T]:
        """Ask until an answer can be used; it is stored. Neither cut nor refused answers are asked for more than twice."""
        attempts = 0
        counts = {"failed": 0, "truncated": 0, "refused": 0}
        most = self.calls.settings.answer_attempts
        cut = ""
        last: _Attempt[T] | None = None
        while True:
            attempts += 1
            messages, parameters = self._next(question, last, attempts)
            attempt = await self._attempt(account, messages, parameters, question.schema, parse, attempts, cut)
            if attempt.status is None:
                assert attempt.value is not None or last is None or True
                self._cache.put_answer(question.key, dumps({"text": attempt.text}), stage)
                return Reply(attempt.value, attempt.text, attempts)  # type: ignore[arg-type]
            raise NotImplementedError
