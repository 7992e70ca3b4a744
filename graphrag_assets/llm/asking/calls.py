"""All calls to one model: limits, repeats after passing failures, fail-fast for lasting ones, and the accounts."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol, TypeVar

from graphrag_assets.llm.asking.notices import RetryNotices
from graphrag_assets.llm.asking.turns import Size, Turn
from graphrag_assets.llm.errors import FATAL, GatewayError, PassingError, PermanentError
from graphrag_assets.llm.limiting.budget import Budget, Estimate, Ticket, current_budgets
from graphrag_assets.llm.limiting.day_budget import DayBudget
from graphrag_assets.llm.limiting.limits import Limiter, ModelLimits
from graphrag_assets.llm.limiting.stores import LimitStore, ProcessLimits
from graphrag_assets.llm.prices import ModelFacts, facts
from graphrag_assets.llm.providers.clients import (
    Client,
    Endpoint,
    StreamEnd,
    TokenUsage,
    answer_identity,
    connect,
    endpoint,
)
from graphrag_assets.llm.providers.context_window import Window
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.settings import ModelSettings, RetrySettings
from graphrag_assets.settings_telemetry import TelemetrySettings

logger = logging.getLogger(__name__)

#: An endpoint that never answered counts as unusable after so many failures, of which one call has used up its repeats.
FAILURES_BEFORE_FIRST_ANSWER = 8

#: An endpoint of which this process never had an answer counts as not there when one call could not connect so often …
UNREACHABLE_BEFORE_FIRST_ANSWER = 3

#: … or when that took so many seconds, as where every try has to wait in vain.
UNREACHABLE_SECONDS = 15.0

#: An endpoint that never answered counts as unusable when one call waited so often for an answer in vain.
TIMEOUTS_BEFORE_FIRST_ANSWER = 3

#: Seconds without the first answer of a model after which a line says so.
SILENCE = 30.0

#: An endpoint that did answer counts as gone after so many calls in a row that could not connect, to the last repeat.
UNREACHABLE_IN_A_ROW = 10

#: A call that is refused because there are too many has as many tries for each of those of a call that failed.
REFUSALS_PER_RETRY = 4

#: A provider that asks to wait longer than this is out of quota rather than busy, in seconds.
LONGEST_RETRY_AFTER = 900.0

#: Tokens that a message takes beside its text, and that begin the answer.
_MESSAGE_TOKENS = 4

_MENDS: Mapping[str, str] = {
    "authentication": "check api_key of this entry, or the environment variable it is read from",
    "not_found": "check model and api_base of this entry",
    "bad_request": "check model and call_args of this entry",
    "unreachable": "check api_base of this entry, that the server is up, and the network or proxy between",
    "quota": "the account has no credit or quota left; raise it at the provider, then run again (answers are kept)",
}


class Answered(Protocol):
    """What a call gives: anything that knows its tokens."""

    @property
    def usage(self) -> TokenUsage | None:
        """Tokens of the call."""
        ...


R = TypeVar("R", bound=Answered)

#: Addresses that answered this process: there an outage is ridden out, in whichever step it comes.
_ANSWERED: set[str] = set()


class ModelCalls:
    """The calls to one entry of the settings.

    Args:
        entry: Name of the entry, such as completion_models.default_completion_model.
        settings: The entry.
        slots: Slots for calls in flight, shared by all models.
        completes: True for a chat model, whose answers take tokens too; False for an embedding model.
        count: Counts the tokens of a prompt, at least; only asked where a budget is to be kept, or a prompt may be longer
            than the window.
        share: How much more than the tokenizer of the settings finds it counts, as a share.
        budget: Ceiling of the run; None: none.
        day: Ceiling of the day; None: none.
        limits: Where calls are counted; None: here, for this object only.
        telemetry: Who else is told of the calls; None: nobody.

    Raises:
        GatewayError: The entry cannot work as it stands (no key, no address).
    """

    def __init__(
        self,
        entry: str,
        settings: ModelSettings,
        slots: asyncio.Semaphore,
        *,
        completes: bool,
        count: Callable[[str], int] = len,
        share: float = 1.0,
        budget: Budget | None = None,
        day: DayBudget | None = None,
        limits: LimitStore | None = None,
        telemetry: TelemetrySettings | None = None,
    ) -> None:
        self.entry = entry
        self.settings = settings
        self.endpoint: Endpoint = endpoint(entry, settings)
        self.client: Client = connect(self.endpoint, settings, telemetry)
        self.facts: ModelFacts = facts(settings)
        self._slots = slots
        name = f"{settings.model_provider}/{settings.model}@{self.endpoint.identity}"
        self._limiter: Limiter = ModelLimits(name, settings.rate_limit, limits or ProcessLimits())
        self._broken: GatewayError | None = None
        self._answered = False
        self._failures = 0
        self._unreachable = 0
        self._refused = 0
        self._notices = RetryNotices()
        self._silence: asyncio.TimerHandle | None = None
        self._mean_completion = 500.0 if completes else 0.0
        self._completes = completes
        self._count = count
        self.window = Window(entry, settings, self.facts, lambda text: math.floor(count(text) * share))
        self._budget = budget
        self.day = day

    @property
    def identity(self) -> dict[str, Any]:
        """What tells the answers of this model from those of any other; goes into cache keys."""
        return {**answer_identity(self.settings), "endpoint": self.endpoint.identity}

    @property
    def vector_identity(self) -> str:
        """What tells the vectors of this model from those of any other."""
        dimensions = self.settings.call_args.get("dimensions")
        suffix = f"#{dimensions}" if dimensions else ""
        return f"{self.settings.model_provider}/{self.settings.model}@{self.endpoint.identity}{suffix}"

    @property
    def answered(self) -> bool:
        """Whether the model has answered a call of this run."""
        return self._answered

    async def send(
        self,
        account: StageUsage,
        texts: Sequence[str],
        call: Callable[[Mapping[str, Any]], Awaitable[R]],
        *,
        parameters: Mapping[str, Any] | None = None,
        repeat: bool = False,
    ) -> R:
        """Send one call, again while it fails for a passing reason.

        Args:
            account: Where calls and tokens are booked.
            texts: The prompt, for the limits and the budget.
            call: Sends one request with the parameters that it is given; a PassingError from it, for whatever reason,
                repeats it.
            parameters: Parameters beside those of the entry.
            repeat: True where this call repeats an earlier one whose answer could not be used.

        Raises:
            PassingError: The last failure, after all repeats.
            PermanentError: This call cannot succeed.
            GatewayError: No call to this model can; BudgetReached: the budget does not allow this one.
        """
        size = self._size(texts)
        failures, started = 0, time.monotonic()
        while True:
            self._check()
            try:
                async with self._turn(account, size, parameters or {}, repeat=repeat or failures > 0) as turn:
                    answer = await call(turn.parameters)
                    turn.usage = answer.usage
                    return answer
            except (PassingError, PermanentError) as error:
                failures += 1
                wait = self._next_wait(error, failures, time.monotonic() - started)
            await asyncio.sleep(wait)

    async def stream(
        self,
        account: StageUsage,
        messages: Sequence[Mapping[str, str]],
        parameters: Mapping[str, Any],
        end: StreamEnd,
        *,
        repeat: bool = False,
    ) -> AsyncGenerator[str]:
        """Like :meth:`send` for a streamed answer; repeated only as long as nothing was yielded.

        Args:
            account: Where calls and tokens are booked.
            messages: Role and content of each turn.
            parameters: Parameters beside those of the entry.
            end: Filled with how the answer ended.
            repeat: True where this call repeats an earlier one whose answer could not be used.

        Raises:
            PassingError, PermanentError, GatewayError: As :meth:`send`.
        """
        failures, started = 0, time.monotonic()
        begun = False
        size = self._size([message["content"] for message in messages])
        while True:
            self._check()
            try:
                async with self._turn(account, size, parameters, repeat=repeat or failures > 0) as turn:
                    async with aclosing(self.client.stream(messages, turn.parameters, end)) as pieces:
                        async for piece in pieces:
                            begun = True
                            yield piece
                    turn.usage = end.usage
                    return
            except (PassingError, PermanentError) as error:
                if begun:
                    raise
                failures += 1
                wait = self._next_wait(error, failures, time.monotonic() - started)
            await asyncio.sleep(wait)

    async def close(self) -> None:
        """Close connections."""
        self._end_silence()
        await self.client.close()

    def set_down(self, texts: Sequence[str], price: float) -> tuple[Estimate, list[Budget]]:
        """What a question may cost that travels in a batch, and what it is charged to.

        Args:
            texts: The prompt.
            price: Price of a question in a batch, as a share of that of a call.
        """
        size = self._size(texts)
        usual = self._estimate(size, {})
        prices = (None if usd is None else usd * price for usd in (usual.input_usd, usual.output_usd))
        return Estimate(usual.model, usual.prompt, usual.completion, *prices), size.budgets

    def _check(self) -> None:
        if self._broken is not None:
            raise GatewayError(str(self._broken), passing=self._broken.passing)

    def _size(self, texts: Sequence[str]) -> Size:
        budgets = [b for b in (self._budget, *current_budgets()) if b is not None and b.limited]
        tokens = sum(map(self._count, texts)) + _MESSAGE_TOKENS * (len(texts) + 1) if budgets or self.day else 0
        return Size(sum(map(len, texts)), tokens, budgets)

    @asynccontextmanager
    async def _turn(
        self, account: StageUsage, size: Size, parameters: Mapping[str, Any], *, repeat: bool
    ) -> AsyncIterator[Turn]:
        """A slot within the limits and the budget for one request; it is booked, whatever comes of it."""
        turn = Turn(dict(parameters))
        async with self._paid(size, turn):
            reservation = await self._limiter.enter(size.characters // 4 + self._expected_completion(), self._slots)
            started = time.perf_counter()
            try:
                self._check()
                async with self._paid_of_the_day(size, turn):
                    account.calls += 1
                    account.retries += repeat
                    turn.sent = True
                    self._begin_silence()
                    yield turn
                self._succeeded(account, turn.usage)
                if turn.usage is not None:
                    await self._limiter.settle(reservation, turn.usage.prompt + turn.usage.completion)
            except PassingError as error:
                if error.kind == "rate_limit":
                    await self._limiter.refused(reservation, error.retry_after)
                raise
            finally:
                account.seconds += time.perf_counter() - started
                self._limiter.leave()
                self._slots.release()

    @asynccontextmanager
    async def _paid(self, size: Size, turn: Turn) -> AsyncIterator[None]:
        """Reserve what the request may cost, and settle what it did.

        One that was refused or never left costs nothing; of one that timed out or broke off nobody knows, so that the
        reservation counts.
        """
        tickets: list[tuple[Budget, Ticket]] = []
        try:
            for budget in size.budgets:
                ticket = await budget.reserve(self._estimate(size, turn.parameters))
                tickets.append((budget, ticket))
                if ticket.limited:
                    turn.parameters[self._limit_name] = ticket.completion
            yield
        except (PassingError, PermanentError) as error:
            turn.refused_by(error)
            raise
        finally:
            for budget, ticket in tickets:
                budget.settle(ticket, *turn.cost(self.facts))

    @asynccontextmanager
    async def _paid_of_the_day(self, size: Size, turn: Turn) -> AsyncIterator[None]:
        """The same with the ceiling of the day; only what is about to be sent is set aside, so that others go on."""
        if self.day is None:
            yield
            return
        timeout = self.settings.call_args.get("timeout", self.settings.timeout)
        held = await self.day.reserve(self._estimate(size, turn.parameters), float(timeout))
        if held.ticket.limited:
            turn.parameters[self._limit_name] = held.ticket.completion
        try:
            yield
        except (PassingError, PermanentError) as error:
            turn.refused_by(error)
            raise
        finally:
            await self.day.settle(held, *turn.cost(self.facts))

    def _estimate(self, size: Size, parameters: Mapping[str, Any]) -> Estimate:
        if not self._completes:
            return Estimate(self._name, size.tokens, 0, self.facts.input_usd, self.facts.output_usd)
        limit = {**self.settings.call_args, **parameters}.get(self._limit_name)
        most = limit if isinstance(limit, int) else self.facts.max_output
        return Estimate(self._name, size.tokens, most, self.facts.input_usd, self.facts.output_usd)

    @property
    def _limit_name(self) -> str:
        """The parameter by which the length of an answer is limited, as the entry calls it."""
        return "max_completion_tokens" if "max_completion_tokens" in self.settings.call_args else "max_tokens"

    def _succeeded(self, account: StageUsage, usage: TokenUsage | None) -> None:
        self._answered = True
        _ANSWERED.add(self.endpoint.address)
        self._end_silence()
        self._unreachable = 0
        account.answered(usage, self.facts.usd(usage))
        if usage is not None:
            self._mean_completion += (usage.completion - self._mean_completion) * 0.05

    def _expected_completion(self) -> int:
        own = self.settings.call_args
        limit = own.get("max_completion_tokens") or own.get("max_tokens")
        return int(min(self._mean_completion, limit) if isinstance(limit, int) else self._mean_completion)

    def _next_wait(self, error: PassingError | PermanentError, failures: int, seconds: float) -> float:
        """Seconds until the call is repeated; raises where it is not.

        Args:
            error: What happened.
            failures: How often this call failed.
            seconds: How long it is under way.
        """
        self._end_silence()
        if error.status is not None:
            _ANSWERED.add(self.endpoint.address)
        if isinstance(error, PermanentError):
            if error.kind in FATAL:
                raise self._break(str(error), _MENDS[error.kind]) from None
            self._refused += error.kind == "bad_request"
            if not self._answered and self._refused >= FAILURES_BEFORE_FIRST_ANSWER:
                raise self._break(f"all {self._refused} requests were refused, last: {error}", _MENDS["bad_request"])
            raise error
        self._failures += 1
        if error.kind != "unreachable":
            self._unreachable = 0
        if error.retry_after is not None and error.retry_after > LONGEST_RETRY_AFTER:
            raise self._break(
                f"the provider asks to wait {error.retry_after:.0f} s ({error})", _MENDS["quota"]
            ) from None
        patience = REFUSALS_PER_RETRY if error.kind == "rate_limit" else 1
        last = failures > self.settings.retry.max_retries * patience
        if self._never_was_there(error, failures, seconds):
            raise self._break(str(error), f"{_MENDS['unreachable']}, then run again") from None
        if last:
            self._unreachable += error.kind == "unreachable"
            never = not self._answered and self._failures >= FAILURES_BEFORE_FIRST_ANSWER
            if never or self._unreachable >= UNREACHABLE_IN_A_ROW:
                mend = f"{_MENDS['unreachable']}, then run again (answers so far are kept)"
                # Gone after it answered, it may come back; one that never did is rather a wrong address.
                raise self._break(f"no answer any more, last: {error}", mend, passing=self._answered) from None
            raise error
        # The pace of all calls follows from refusals: that of this call need not slow down too.
        wait = backoff(self.settings.retry, 1 if error.kind == "rate_limit" else failures, error.retry_after)
        self._notices.failed(self._name, str(error), wait, failures, self.settings.retry.max_retries + 1)
        return wait

    def _never_was_there(self, error: PassingError, failures: int, seconds: float) -> bool:
        """Whether waiting is in vain, since nothing ever answered at this address."""
        if self._answered or self.endpoint.address in _ANSWERED:
            return False
        if error.kind == "unreachable":
            return failures >= UNREACHABLE_BEFORE_FIRST_ANSWER or (failures > 1 and seconds >= UNREACHABLE_SECONDS)
        return error.kind == "timeout" and failures >= TIMEOUTS_BEFORE_FIRST_ANSWER

    @property
    def _name(self) -> str:
        """Entry, model and address, as messages name them."""
        return f"{self.entry} ({self.settings.model_provider}/{self.settings.model} at {self.endpoint.address})"

    def _begin_silence(self) -> None:
        """Tell people who wait for the first answer of a model what they wait for."""
        if self._answered or self._silence is not None:
            return
        timeout = self.settings.call_args.get("timeout", self.settings.timeout)
        words = "%s: no answer for %.0f s; a call is given up after %s s (timeout of the entry)"
        loop = asyncio.get_running_loop()
        self._silence = loop.call_later(SILENCE, logger.warning, words, self._name, SILENCE, timeout)

    def _end_silence(self) -> None:
        if self._silence is not None:
            self._silence.cancel()

    def _break(self, problem: str, mend: str, *, passing: bool = False) -> GatewayError:
        """From now on every call fails at once with this error."""
        if self._broken is None:
            self._broken = GatewayError(f"{self._name}: {problem}; {mend}", passing=passing)
            logger.info("no further call is made to %s", self._name)
        return GatewayError(str(self._broken), passing=self._broken.passing)


def backoff(settings: RetrySettings, failures: int, retry_after: float | None = None) -> float:
    """Seconds to wait before the next repeat.

    Args:
        settings: Waiting rule: base_delay to the power of the failures so far, at most max_delay.
        failures: Failures so far, at least 1.
        retry_after: What the provider asks for: never less than that is waited.
    """
    wait = 0.0
    if settings.type == "exponential_backoff":
        wait = settings.base_delay ** min(failures, 100)
        if settings.max_delay is not None:
            wait = min(wait, settings.max_delay)
    asked = retry_after or 0.0
    if settings.jitter:
        wait *= random.uniform(0.5, 1.0)
        asked *= random.uniform(1.0, 1.1)
    return max(wait, asked)
