"""From a question to a validated answer: cache, equal questions in flight, asking again while an answer is no use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from graphrag_assets.indexing.asking import AnswerError, AnswerStatus, Message, Reply
from graphrag_assets.llm.batching.model_desk import ModelDesk
from graphrag_assets.llm.cache import AnswerCache, answer_key
from graphrag_assets.llm.calls import ModelCalls
from graphrag_assets.llm.clients import ChatAnswer
from graphrag_assets.llm.errors import PassingError, PermanentError
from graphrag_assets.llm.ledger import SEVERAL, About, Ledger, Making, Prompts, making
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.llm.wire import clean, dumps
from graphrag_assets.text.reasoning import strip_reasoning

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: A stored answer, and what its making took where that is known.
_Found = tuple[Reply[T], Making | None]

#: Longest reason in an error or in a hint to the model, in characters.
MAX_REASON = 300

_HINT = (
    "\n\n(An earlier answer to this could not be used: {reason}. "
    "Answer completely, and exactly in the form that is asked for.)"
)


@dataclass(frozen=True)
class _Question:
    """A conversation, the schema that is sent with it, and the key of its answer."""

    messages: list[dict[str, str]]
    schema: Mapping[str, Any] | None
    key: bytes


@dataclass(frozen=True)
class _Outcome:
    """What an equal question in flight came to: a text, or the error; both None where it was cancelled."""

    text: str | None = None
    truncated: bool = False
    error: AnswerError | None = None
    made: Making | None = None


class _ElsewhereError(Exception):
    """While a question waited for a batch, another run of this host put its answer into the cache."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found


@dataclass(frozen=True)
class Booking:
    """Where a question is booked.

    Args:
        stage: Name of the stage, kept with the cached answer.
        account: The stage's usage.
        ledger: The rows of calls of this run; None: none are kept.
        prompts: Versions of the stage's prompts.
    """

    stage: str
    account: StageUsage
    ledger: Ledger | None = None
    prompts: Prompts = Prompts(())  # noqa: RUF009 (never changes)


@dataclass(frozen=True)
class _Attempt(Generic[T]):
    """One answer, judged.

    Args:
        text: Text without reasoning.
        status: Why it cannot be used.
        reason: The same in words.
        reply: The usable answer.
        final: True where asking again is pointless.
        told: True where the reason is the parser's and may help the model.
        passing: True where there was no answer for a reason that may pass.
    """

    text: str
    status: AnswerStatus = "failed"
    reason: str = ""
    reply: Reply[T] | None = None
    final: bool = False
    told: bool = False
    passing: bool = False


class Answers:
    """Questions to one model.

    Args:
        calls: The model.
        cache: Answers of earlier runs.
        desk: Where questions wait for a batch; None: they are asked at once.
    """

    def __init__(self, calls: ModelCalls, cache: AnswerCache, desk: ModelDesk | None = None) -> None:
        self.calls = calls
        self._desk = desk
        self._cache = cache
        self._flights: dict[bytes, asyncio.Future[_Outcome]] = {}
        self._structured = calls.facts.structured_output
        self._identity = {**calls.identity, "structured": self._structured}
        self._model = f"{calls.settings.model_provider}/{calls.settings.model}"

    async def ask(
        self,
        booking: Booking,
        messages: Sequence[Message],
        parse: Callable[[str], T],
        *,
        schema: Mapping[str, Any] | None = None,
        row: str = "",
        partial: bool = False,
    ) -> Reply[T]:
        """See :class:`graphrag_assets.indexing.asking.Ask`.

        Args:
            booking: Where the question is booked.
            messages: Conversation.
            parse: Turns the text into a value, or raises ValueError.
            schema: JSON schema of the answer.
            row: Id of the row that the question serves; several are joined by line breaks.
            partial: Take a cut answer where the parser accepts it.

        Raises:
            AnswerError: No usable answer.
            GatewayError: The model cannot be used.
        """
        question = self._question(messages, schema)
        account = booking.account
        found = await self._cached(question, parse)
        found = found or await self._from_flight(question, account, parse, partial)
        if found is not None:
            account.cached += 1
            if booking.ledger is not None:
                booking.ledger.taken(self._about(booking, messages, row), question.key, found[1])
            return found[0]
        flight: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        self._flights[question.key] = flight
        outcome, used, status = _Outcome(), StageUsage(), "interrupted"

        def note(status: str) -> Making:
            made = making(used)
            if booking.ledger is not None and used.calls:
                booking.ledger.asked(self._about(booking, messages, row), question.key, made, status)
            return made

        try:
            reply = await self._answer(booking.stage, used, question, parse, partial)
            status = "truncated" if reply.truncated else "ok"
            made = note(status)
            if not reply.truncated:  # after its row in the ledger, so that none is ever without
                self._cache.put_answer(question.key, dumps({"text": reply.text, "made": made}), booking.stage)
            outcome = _Outcome(reply.text, reply.truncated, made=made)
            return reply
        except _ElsewhereError as elsewhere:
            taken: Reply[T] = elsewhere.found[0]
            status, outcome = "ok", _Outcome(taken.text, made=elsewhere.found[1])
            account.cached += 1
            if booking.ledger is not None:
                booking.ledger.taken(self._about(booking, messages, row), question.key, elsewhere.found[1])
            return taken
        except AnswerError as error:
            used.failed += 1
            outcome, status = _Outcome(error=error), error.status
            note(status)
            name = row.partition(SEVERAL)[0] or "a question"
            logger.info("%s: no usable answer for %s: %s (%d asked)", booking.stage, name, error, error.attempts)
            raise
        finally:
            if status == "interrupted":
                note(status)
            account.add(used)
            if self._flights.get(question.key) is flight:
                del self._flights[question.key]
            flight.set_result(outcome)

    async def known(
        self, messages: Sequence[Message], parse: Callable[[str], T], schema: Mapping[str, Any] | None = None
    ) -> tuple[bytes, Reply[T] | None]:
        """Key of a question, and its stored answer where there is one; nothing is asked, nothing is booked."""
        question = self._question(messages, schema)
        found = await self._cached(question, parse)
        return question.key, found[0] if found else None

    def _about(self, booking: Booking, messages: Sequence[Message], row: str) -> About:
        return About(booking.stage, row, self._model, booking.prompts.version(messages), (len(messages) + 1) // 2)

    def _question(self, messages: Sequence[Message], schema: Mapping[str, Any] | None) -> _Question:
        sent = [{"role": message["role"], "content": message["content"]} for message in messages]
        return _Question(sent, schema if self._structured else None, answer_key(self._identity, sent, schema))

    async def _cached(self, question: _Question, parse: Callable[[str], T]) -> _Found[T] | None:
        """The stored answer; one that today's parser does not accept counts as none."""
        data = await self._cache.find_answer(question.key)
        if data is None:
            return None
        stored = orjson.loads(data)
        text = str(stored["text"])
        try:
            return Reply(parse(text), text, attempts=0), stored.get("made")
        except ValueError:
            return None

    async def _from_flight(
        self, question: _Question, account: StageUsage, parse: Callable[[str], T], partial: bool
    ) -> _Found[T] | None:
        """The answer to an equal question that is being asked already; None where this one must ask itself."""
        while (flight := self._flights.get(question.key)) is not None:
            with self._desk.idle() if self._desk is not None else nullcontext():
                outcome = await asyncio.shield(flight)
            error = outcome.error
            if outcome.truncated and not partial:
                error = AnswerError("truncated", "the answer was cut at the token limit", answer=outcome.text or "")
            if error is not None:
                account.failed += 1
                raise AnswerError(error.status, error.reason, error.attempts, error.answer, passing=error.passing)
            if outcome.text is not None:
                try:
                    reply = Reply(parse(outcome.text), outcome.text, attempts=0, truncated=outcome.truncated)
                    return reply, outcome.made
                except ValueError:
                    return None
        return None

    async def _answer(
        self, stage: str, account: StageUsage, question: _Question, parse: Callable[[str], T], partial: bool
    ) -> Reply[T]:
        """Ask until an answer can be used; else take a cut one where that is allowed, else raise."""
        tries: list[_Attempt[T]] = []
        if self._desk is not None and (answer := await self._from_batch(self._desk, stage, account, question)):
            tries.append(_judged(answer, parse, 1))
            if tries[0].reply is not None:
                return tries[0].reply
        elif self._desk is not None and (found := await self._cached(question, parse)):
            raise _ElsewhereError(found)
        while not tries or self._again(tries):
            attempt = await self._attempt(account, question, parse, tries)
            tries.append(attempt)
            if attempt.reply is not None:
                return attempt.reply
        if partial and (cut := [a.text for a in tries if a.status == "truncated" and a.text]):
            longest = max(cut, key=len)
            try:
                return Reply(parse(longest), longest, len(tries), truncated=True)
            except ValueError:
                pass
        last = tries[-1]
        raise AnswerError(last.status, last.reason, len(tries), last.text, passing=last.passing)

    def _again(self, tries: Sequence[_Attempt[T]]) -> bool:
        """Whether to ask once more: neither cut nor refused answers are asked for more than twice."""
        last = tries[-1]
        if last.final or len(tries) >= self.calls.settings.answer_attempts:
            return False
        return last.status == "failed" or sum(a.status == last.status for a in tries) < 2

    async def _from_batch(
        self, desk: ModelDesk, stage: str, account: StageUsage, question: _Question
    ) -> ChatAnswer | None:
        """The answer to a question that was set down; None where it is to be asked by an ordinary call."""
        body = self.calls.client.chat_body(question.messages, {}, question.schema)
        answer = await desk.chat(stage, question.key, body, _texts(question.messages, question.schema))
        if answer is not None:
            desk.book(account, question.key, answer.usage)
        return answer

    async def _attempt(
        self, account: StageUsage, question: _Question, parse: Callable[[str], T], tries: Sequence[_Attempt[T]]
    ) -> _Attempt[T]:
        """Ask once, and judge the answer."""
        messages, parameters = self._hinted(question.messages, tries), self._more_tokens(tries)
        sent = _texts(messages, question.schema)

        async def call(allowed: Mapping[str, Any]) -> ChatAnswer:
            return await self.calls.client.chat(messages, allowed, question.schema)

        try:
            answer = await self.calls.send(account, sent, call, parameters=parameters, repeat=bool(tries))
        except PassingError as error:
            return _Attempt("", "failed", f"no answer after all repeats, last: {error}", final=True, passing=True)
        except PermanentError as error:
            if error.kind == "content_filter":
                return _Attempt("", "refused", "the provider's content filter stopped the question", final=True)
            reason = "the prompt is longer than the model's context: " if error.kind == "context_length" else ""
            return _Attempt("", "failed", f"{reason}{error}", final=True)
        return _judged(answer, parse, len(tries) + 1)

    def _hinted(self, messages: list[dict[str, str]], tries: Sequence[_Attempt[T]]) -> list[dict[str, str]]:
        """The conversation, with the parser's objection where asking alike again cannot help.

        That is at temperature 0, once the same useless answer has come twice. Else the question stays as it is, so that
        the answer is the one that would have come without the mishap.
        """
        alike = len(tries) > 1 and tries[-1].told and tries[-1].text == tries[-2].text
        if not alike or self.calls.settings.call_args.get("temperature") != 0:
            return messages
        last = messages[-1]
        return [*messages[:-1], {**last, "content": last["content"] + _HINT.format(reason=tries[-1].reason)}]

    def _more_tokens(self, tries: Sequence[_Attempt[T]]) -> dict[str, Any]:
        """Twice the tokens that the settings allow, after an answer was cut; nothing where they set no limit."""
        if not any(attempt.status == "truncated" for attempt in tries):
            return {}
        own = self.calls.settings.call_args
        return {
            name: own[name] * 2 for name in ("max_tokens", "max_completion_tokens") if isinstance(own.get(name), int)
        }


def _judged(answer: ChatAnswer, parse: Callable[[str], T], attempts: int) -> _Attempt[T]:
    """Whether an answer can be used; ``attempts`` were asked for so far."""
    text = strip_reasoning(answer.text or "")
    if answer.refusal or answer.finish == "content_filter":
        return _Attempt(text, "refused", "the model refused to answer")
    if answer.finish == "length":
        return _Attempt(text, "truncated", "the answer was cut at the token limit")
    if not text:
        return _Attempt(text, "failed", "the answer was empty")
    try:
        return _Attempt(text, reply=Reply(parse(text), text, attempts))
    except ValueError as error:
        refused = getattr(error, "status", None) == "refused"
        return _Attempt(text, "refused" if refused else "failed", _one_line(str(error)), told=True)


def _texts(messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None) -> list[str]:
    """What counts as the prompt."""
    return [message["content"] for message in messages] + ([] if schema is None else [dumps(schema).decode()])


def _one_line(reason: str) -> str:
    line = " ".join(clean(reason).split())
    return line if len(line) <= MAX_REASON else line[: MAX_REASON - 1] + "…"
