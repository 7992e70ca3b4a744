"""From a question to a validated answer: cache, equal questions in flight, asking again while an answer is no use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from graphrag_assets.indexing.asking import AnswerError, Message, Reply
from graphrag_assets.llm.asking.attempts import Attempt, book, copied, hinted, longest
from graphrag_assets.llm.asking.calls import ModelCalls
from graphrag_assets.llm.batching.model_desk import ModelDesk
from graphrag_assets.llm.caching.local import AnswerCache, answer_key
from graphrag_assets.llm.errors import PassingError, PermanentError
from graphrag_assets.llm.ledger import SEVERAL, About, Ledger, Making, Prompts, making
from graphrag_assets.llm.providers.clients import ChatAnswer
from graphrag_assets.llm.providers.wire import clean, dumps
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.text.reasoning import strip_reasoning

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: A stored answer, and what its making took where that is known.
_Found = tuple[Reply[T], Making | None]

_CUT = "the answer was cut at the token limit"

#: Questions that a model answers twice without end mark, and none with one, before it counts as one that writes none.
ANSWERS_WITHOUT_END = 3

#: Longest reason in an error or in a hint to the model, in characters.
MAX_REASON = 300


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
        since: Stored answers that were made before this moment count as none (seconds since 1970).
    """

    stage: str
    account: StageUsage
    ledger: Ledger | None = None
    prompts: Prompts = Prompts(())  # noqa: RUF009 (never changes)
    since: float = 0.0


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
        self._ends: dict[str, list[int]] = {}
        self._structured = calls.facts.structured_output
        self._identity = {**calls.identity, "structured": self._structured}
        self.model = f"{calls.settings.model_provider}/{calls.settings.model}"

    async def ask(
        self,
        booking: Booking,
        messages: Sequence[Message],
        parse: Callable[[str], T],
        *,
        schema: Mapping[str, Any] | None = None,
        row: str = "",
        partial: bool = False,
        smaller: bool = False,
    ) -> Reply[T]:
        """See :class:`graphrag_assets.indexing.asking.Ask`.

        Args:
            booking: Where the question is booked.
            messages: Conversation.
            parse: Turns the text into a value, or raises ValueError.
            schema: JSON schema of the answer.
            row: Id of the row that the question serves; several are joined by line breaks.
            partial: Take a cut answer where the parser accepts it.
            smaller: Of a cut answer, no part is wanted, since the caller can ask with less.

        Raises:
            AnswerError: No usable answer.
            GatewayError: The model cannot be used.
        """
        question = self._question(messages, schema)
        account, partial = booking.account, partial and not smaller
        found = await self._cached(question, parse)
        found = found if _made_since(found, booking.since) else None
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
            reply = await self._answer(booking, used, question, parse, partial)
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
        self,
        messages: Sequence[Message],
        parse: Callable[[str], T],
        schema: Mapping[str, Any] | None = None,
        since: float = 0.0,
    ) -> tuple[bytes, Reply[T] | None]:
        """Key of a question, and its stored answer where there is one; nothing is asked, nothing is booked."""
        question = self._question(messages, schema)
        found = await self._cached(question, parse)
        return question.key, found[0] if found and _made_since(found, since) else None

    def keep(self, key: bytes, text: str, stage: str, used: StageUsage) -> None:
        """Keep a complete answer that was streamed, as one that was not is kept."""
        self._cache.put_answer(key, dumps({"text": text, "made": making(used)}), stage)

    def _about(self, booking: Booking, messages: Sequence[Message], row: str) -> About:
        return About(booking.stage, row, self.model, booking.prompts.version(messages), (len(messages) + 1) // 2)

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
                error = AnswerError("truncated", _CUT, answer=outcome.text or "", too_long=True)
            if error is not None:
                account.failed += 1
                raise copied(error)
            if outcome.text is not None:
                try:
                    reply = Reply(parse(outcome.text), outcome.text, attempts=0, truncated=outcome.truncated)
                    return reply, outcome.made
                except ValueError:
                    return None
        return None

    async def _answer(
        self, booking: Booking, account: StageUsage, question: _Question, parse: Callable[[str], T], partial: bool
    ) -> Reply[T]:
        """Ask until an answer can be used; else take a cut one where that is allowed, else raise."""
        tries: list[Attempt[T]] = []
        sent = _texts(question.messages, question.schema)
        # What is asked anew is asked at once: a kept answer to the same question would be taken for that of the batch.
        desk = None if booking.since or self.calls.window.over(sent) else self._desk
        if desk is not None and (answer := await self._from_batch(desk, booking.stage, account, question)):
            tries.append(self._read(answer, sent, parse, tries, ""))
        elif desk is not None and (found := await self._cached(question, parse)):
            raise _ElsewhereError(found)
        while not tries or (tries[-1].reply is None and self._again(tries)):
            tries.append(await self._attempt(account, question, parse, tries))
        last = tries[-1]
        reply = last.reply or longest(tries)
        book(account, tries, reply)
        if reply is not None:
            return reply
        if partial and (cut := [a.text for a in tries if a.status == "truncated" and a.text]):
            most = max(cut, key=len)
            try:
                value = parse(most)
                account.step("part_kept", recovered=True)
                return Reply(value, most, len(tries), truncated=True)
            except ValueError:
                pass
        raise AnswerError(last.status, last.reason, len(tries), last.text, passing=last.passing, too_long=last.too_long)

    def _again(self, tries: Sequence[Attempt[T]]) -> bool:
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
        self, account: StageUsage, question: _Question, parse: Callable[[str], T], tries: Sequence[Attempt[T]]
    ) -> Attempt[T]:
        """Ask once, and judge the answer."""
        told = self._is_told(tries)
        messages = hinted(question.messages, tries[-1].reason) if told else question.messages
        parameters = self._more_tokens(tries)
        step = "asked_with_error" if told else "asked_again" if tries else ""
        sent = _texts(messages, question.schema)

        if over := self.calls.window.over(sent):
            return Attempt("", "failed", over, final=True, too_long=True, step=step)

        async def call(allowed: Mapping[str, Any]) -> ChatAnswer:
            return await self.calls.client.chat(messages, allowed, question.schema)

        try:
            answer = await self.calls.send(account, sent, call, parameters=parameters, repeat=bool(tries))
        except PassingError as error:
            reason = f"no answer after all repeats, last: {error}"
            return Attempt("", "failed", reason, final=True, passing=True, step=step)
        except PermanentError as error:
            return self._not_answered(error, sent, step)
        return self._read(answer, sent, parse, tries, step)

    def _read(
        self,
        answer: ChatAnswer,
        sent: Sequence[str],
        parse: Callable[[str], T],
        tries: Sequence[Attempt[T]],
        step: str,
    ) -> Attempt[T]:
        """Whether an answer can be used."""
        text = strip_reasoning(answer.text or "")
        if answer.refusal or answer.finish == "content_filter":
            return Attempt(text, "refused", "the model refused to answer", step=step)
        if cut := self.calls.window.silently_cut(sent, answer.usage.prompt if answer.usage else 0):
            return Attempt(text, "failed", cut, final=True, too_long=True, step=step)
        if answer.finish == "length":
            return Attempt(text, "truncated", _CUT, too_long=True, step=step)
        if not text:
            return Attempt(text, "failed", "the answer was empty", told=True, step=step)
        try:
            reply = Reply(parse(text), text, len(tries) + 1)
            return self._judged(reply, tries, step, getattr(parse, "__qualname__", ""))
        except ValueError as error:
            refused = getattr(error, "status", None) == "refused"
            return Attempt(text, "refused" if refused else "failed", _one_line(str(error)), told=True, step=step)

    def _judged(self, reply: Reply[T], tries: Sequence[Attempt[T]], step: str, kind: str) -> Attempt[T]:
        """A readable answer; one without the end mark that was asked for is taken when it comes a second time.

        An answer that was cut between two records cannot be told from a whole one otherwise. A model that does not write
        end marks is known after a few answers, and not asked twice any more.
        """
        ends = self._ends.setdefault(kind, [0, 0])  # answers of this kind with and without end
        if not getattr(reply.value, "unended", False):
            ends[0] += 1
            return Attempt(reply.text, reply=reply, step=step)
        if not ends[0] and ends[1] >= ANSWERS_WITHOUT_END:
            return Attempt(reply.text, reply=reply, step=step)
        if before := [attempt.unended for attempt in tries if attempt.unended is not None]:
            ends[1] += 1
            longer = max([*before, reply], key=lambda each: len(each.text))
            return Attempt(reply.text, reply=longer, step=step)
        return Attempt(reply.text, "failed", "the answer breaks off", unended=reply, step=step)

    def _not_answered(self, error: PermanentError, sent: Sequence[str], step: str) -> Attempt[T]:
        """A question that the provider turned down; asked again where others of its kind are answered."""
        if error.kind == "content_filter":
            return Attempt("", "refused", "the provider's content filter stopped the question", final=True, step=step)
        if error.kind == "context_length":
            reason = f"the prompt is longer than the model's context: {error}"
            final = self.calls.window.may_be_over(sent, str(error))
            return Attempt("", "failed", reason, final=final, too_long=True, step=step)
        return Attempt("", "failed", str(error), final=not self.calls.answered, step=step)

    def _is_told(self, tries: Sequence[Attempt[T]]) -> bool:
        """Whether to tell the model what was wrong with its last answer.

        That is the last thing to ask, or, at temperature 0, what to do once the same useless answer has come twice. Before,
        the question stays as it is, so that the answer is the one that would have come without the mishap.
        """
        if not tries or not tries[-1].told:
            return False
        alike = len(tries) > 1 and tries[-1].text == tries[-2].text
        same = alike and self.calls.settings.call_args.get("temperature") == 0
        return same or len(tries) == self.calls.settings.answer_attempts - 1

    def _more_tokens(self, tries: Sequence[Attempt[T]]) -> dict[str, Any]:
        """Twice the tokens that the settings allow, after an answer was cut; nothing where they set no limit."""
        if not any(attempt.status == "truncated" for attempt in tries):
            return {}
        own = self.calls.settings.call_args
        return {
            name: own[name] * 2 for name in ("max_tokens", "max_completion_tokens") if isinstance(own.get(name), int)
        }


def _texts(messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None) -> list[str]:
    """What counts as the prompt."""
    return [message["content"] for message in messages] + ([] if schema is None else [dumps(schema).decode()])


def _made_since(found: _Found[Any] | None, since: float) -> bool:
    """Whether a stored answer was made at or after a moment; of one of an early release nobody knows."""
    made = found[1] if found else None
    return not since or bool(made and made[0] is not None and made[0] >= since)


def _one_line(reason: str) -> str:
    line = " ".join(clean(reason).split())
    return line if len(line) <= MAX_REASON else line[: MAX_REASON - 1] + "…"
