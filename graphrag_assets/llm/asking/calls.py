"""All calls to one model: limits, repeats after passing failures, and the accounts."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol, TypeVar

from graphrag_assets.llm.asking.patience import Patience
from graphrag_assets.llm.asking.turns import Size, Turn
from graphrag_assets.llm.errors import PassingError, PermanentError
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
from graphrag_assets.settings import ModelSettings
from graphrag_assets.settings_telemetry import TelemetrySettings

logger = logging.getLogger(__name__)

#: Tokens that a message takes beside its text, and that begin the answer.
_MESSAGE_TOKENS = 4


class Answered(Protocol):
    """What a call gives: anything that knows its tokens."""

    @property
    def usage(self) -> TokenUsage | None:
        """Tokens of the call."""
        ...


R = TypeVar("R", bound=Answered)


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
        self._name = f"{entry} ({settings.model_provider}/{settings.model} at {self.endpoint.address})"
        self._patience = Patience(self._name, settings, self.endpoint.address)
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
        return self._patience.answered

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
            self._patience.check()
            try:
                async with self._turn(account, size, parameters or {}, repeat=repeat or failures > 0) as turn:
                    answer = await call(turn.parameters)
                    turn.usage = answer.usage
                    return answer
            except (PassingError, PermanentError) as error:
                failures += 1
                wait = self._patience.wait(error, failures, time.monotonic() - started)
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
            self._patience.check()
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
                wait = self._patience.wait(error, failures, time.monotonic() - started)
            await asyncio.sleep(wait)

    async def close(self) -> None:
        """Close connections."""
        self._patience.close()
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
                self._patience.check()
                async with self._paid_of_the_day(size, turn):
                    account.calls += 1
                    account.retries += repeat
                    turn.sent = True
                    self._patience.begin()
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
        self._patience.succeeded()
        account.answered(usage, self.facts.usd(usage))
        if usage is not None:
            self._mean_completion += (usage.completion - self._mean_completion) * 0.05

    def _expected_completion(self) -> int:
        own = self.settings.call_args
        limit = own.get("max_completion_tokens") or own.get("max_tokens")
        return int(min(self._mean_completion, limit) if isinstance(limit, int) else self._mean_completion)
