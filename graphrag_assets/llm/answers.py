"""From a question to a validated answer: cache, equal questions in flight, asking again while an answer is no use."""

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
from graphrag_assets.llm.ledger import SEVERAL, About, Ledger, Making, Prompts, making
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.llm.wire import clean, dumps
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


@dataclass(frozen=True)
class _Attempt(Generic[T]):
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
            reply = await self._answer(used, question, parse, partial)
            status = "truncated" if reply.truncated else "ok"
            made = note(status)
            if not reply.truncated:  # after its row in the ledger, so that none is ever without
                self._cache.put_answer(question.key, dumps({"text": reply.text, "made": made}), booking.stage)
            outcome = _Outcome(reply.text, reply.truncated, made=made)
            return reply
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
        self, account: StageUsage, question: _Question, parse: Callable[[str], T], partial: bool
    ) -> Reply[T]:
        """Ask until an answer can be used; else take a cut one where that is allowed, else raise."""
        tries: list[_Attempt[T]] = []
        while not tries or self._again(tries):
            attempt = await self._attempt(account, question, parse, tries)
            tries.append(attempt)
            if attempt.reply is not None:
                break
        last = tries[-1]
        reply = last.reply or _longest(tries)
        _book(account, tries, reply)
        if reply is not None:
            return reply
        if partial and (cut := [a.text for a in tries if a.status == "truncated" and a.text]):
            longest = max(cut, key=len)
            try:
                value = parse(longest)
                account.step("part_kept", recovered=True)
                return Reply(value, longest, len(tries), truncated=True)
            except ValueError:
                pass
        raise AnswerError(last.status, last.reason, len(tries), last.text, passing=last.passing, too_long=last.too_long)

    def _again(self, tries: Sequence[_Attempt[T]]) -> bool:
        """Whether to ask once more: neither cut nor refused answers are asked for more than twice."""
        last = tries[-1]
        if last.final or len(tries) >= self.calls.settings.answer_attempts:
            return False
        return last.status == "failed" or sum(a.status == last.status for a in tries) < 2

    async def _attempt(
        self, account: StageUsage, question: _Question, parse: Callable[[str], T], tries: Sequence[_Attempt[T]]
    ) -> _Attempt[T]:
        """Ask once, and judge the answer."""
        told = self._is_told(tries)
        messages = _hinted(question.messages, tries[-1].reason) if told else question.messages
        parameters = self._more_tokens(tries)
        step = "asked_with_error" if told else "asked_again" if tries else ""
        sent = [message["content"] for message in messages]
        if question.schema is not None:
            sent.append(dumps(question.schema).decode())

        if over := self.calls.window.over(sent):
            return _Attempt("", "failed", over, final=True, too_long=True, step=step)

        async def call(allowed: Mapping[str, Any]) -> ChatAnswer:
            return await self.calls.client.chat(messages, allowed, question.schema)

        try:
            answer = await self.calls.send(account, sent, call, parameters=parameters, repeat=bool(tries))
        except PassingError as error:
            reason = f"no answer after all repeats, last: {error}"
            return _Attempt("", "failed", reason, final=True, passing=True, step=step)
        except PermanentError as error:
            return self._not_answered(error, sent, step)
        text = strip_reasoning(answer.text or "")
        if answer.refusal or answer.finish == "content_filter":
            return _Attempt(text, "refused", "the model refused to answer", step=step)
        if cut := self.calls.window.silently_cut(sent, answer.usage.prompt if answer.usage else 0):
            return _Attempt(text, "failed", cut, final=True, too_long=True, step=step)
        if answer.finish == "length":
            return _Attempt(text, "truncated", _CUT, too_long=True, step=step)
        if not text:
            return _Attempt(text, "failed", "the answer was empty", told=True, step=step)
        try:
            reply = Reply(parse(text), text, len(tries) + 1)
            return self._judged(reply, tries, step, getattr(parse, "__qualname__", ""))
        except ValueError as error:
            refused = getattr(error, "status", None) == "refused"
            return _Attempt(text, "refused" if refused else "failed", _one_line(str(error)), told=True, step=step)

    def _judged(self, reply: Reply[T], tries: Sequence[_Attempt[T]], step: str, kind: str) -> _Attempt[T]:
        """A readable answer; one without the end mark that was asked for is taken when it comes a second time.

        An answer that was cut between two records cannot be told from a whole one otherwise. A model that does not write
        end marks is known after a few answers, and not asked twice any more.
        """
        ends = self._ends.setdefault(kind, [0, 0])  # answers of this kind with and without end
        if not getattr(reply.value, "unended", False):
            ends[0] += 1
            return _Attempt(reply.text, reply=reply, step=step)
        if not ends[0] and ends[1] >= ANSWERS_WITHOUT_END:
            return _Attempt(reply.text, reply=reply, step=step)
        if before := [attempt.unended for attempt in tries if attempt.unended is not None]:
            ends[1] += 1
            longer = max([*before, reply], key=lambda each: len(each.text))
            return _Attempt(reply.text, reply=longer, step=step)
        return _Attempt(reply.text, "failed", "the answer breaks off", unended=reply, step=step)

    def _not_answered(self, error: PermanentError, sent: Sequence[str], step: str) -> _Attempt[T]:
        """A question that the provider turned down; asked again where others of its kind are answered."""
        if error.kind == "content_filter":
            return _Attempt("", "refused", "the provider's content filter stopped the question", final=True, step=step)
        if error.kind == "context_length":
            reason = f"the prompt is longer than the model's context: {error}"
            final = self.calls.window.may_be_over(sent, str(error))
            return _Attempt("", "failed", reason, final=final, too_long=True, step=step)
        return _Attempt("", "failed", str(error), final=not self.calls.answered, step=step)

    def _is_told(self, tries: Sequence[_Attempt[T]]) -> bool:
        """Whether to tell the model what was wrong with its last answer.

        That is the last thing to ask, or, at temperature 0, what to do once the same useless answer has come twice. Before,
        the question stays as it is, so that the answer is the one that would have come without the mishap.
        """
        if not tries or not tries[-1].told:
            return False
        alike = len(tries) > 1 and tries[-1].text == tries[-2].text
        same = alike and self.calls.settings.call_args.get("temperature") == 0
        return same or len(tries) == self.calls.settings.answer_attempts - 1

    def _more_tokens(self, tries: Sequence[_Attempt[T]]) -> dict[str, Any]:
        """Twice the tokens that the settings allow, after an answer was cut; nothing where they set no limit."""
        if not any(attempt.status == "truncated" for attempt in tries):
            return {}
        own = self.calls.settings.call_args
        return {
            name: own[name] * 2 for name in ("max_tokens", "max_completion_tokens") if isinstance(own.get(name), int)
        }


def _hinted(messages: list[dict[str, str]], reason: str) -> list[dict[str, str]]:
    """The conversation, with what was wrong with the last answer."""
    last = messages[-1]
    return [*messages[:-1], {**last, "content": last["content"] + _HINT.format(reason=reason)}]


def _longest(tries: Sequence[_Attempt[T]]) -> Reply[T] | None:
    """The longest of answers that lacked nothing but their end mark."""
    unended = [attempt.unended for attempt in tries if attempt.unended is not None]
    return max(unended, key=lambda reply: len(reply.text)) if unended else None


def _book(account: StageUsage, tries: Sequence[_Attempt[T]], reply: Reply[T] | None) -> None:
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


def _made_since(found: _Found[Any] | None, since: float) -> bool:
    """Whether a stored answer was made at or after a moment; of one of an early release nobody knows."""
    made = found[1] if found else None
    return not since or bool(made and made[0] is not None and made[0] >= since)


def _one_line(reason: str) -> str:
    line = " ".join(clean(reason).split())
    return line if len(line) <= MAX_REASON else line[: MAX_REASON - 1] + "…"
