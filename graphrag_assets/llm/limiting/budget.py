"""A ceiling on tokens and price, kept before a call is sent: what it may cost at most is reserved, then settled.

One budget serves a run (:class:`graphrag_assets.llm.gateway.Gateway` takes it) or one question (:func:`limited_by`); that
of a day, which all processes share, is :class:`graphrag_assets.llm.limiting.day_budget.DayBudget`. A
call whose prompt alone is known to fit, but not the longest possible answer, is sent with a limit on its answer, so that
the ceiling holds whatever the model does. Where calls in flight have reserved what is missing, a call waits for them to
be settled: they seldom use all of it.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from graphrag_assets.llm.errors import GatewayError

#: Tokens of an answer that are reserved where its longest length is not known or does not fit.
USUAL_ANSWER = 4096

#: An answer limited to less is not worth asking for.
SHORTEST_ANSWER = 256


#: USD below which sums of prices differ by rounding only.
_ROUNDING = 1e-9


class BudgetReached(GatewayError):  # noqa: N818 (an end, not a fault)
    """A call was not sent, since with it a budget might be exceeded; the message says how much is spent."""


class UnknownPrice(GatewayError):  # noqa: N818
    """A call was not sent, since its price is not known and a budget limits the price."""


@dataclass(frozen=True)
class Estimate:
    """What a call may cost.

    Args:
        model: Name for messages, such as the entry of the settings.
        prompt: Tokens of the prompt.
        completion: Most tokens of the answer; None: no limit is known. 0 for embeddings.
        input_usd: USD per prompt token; None: not known.
        output_usd: USD per token of the answer; None: not known.
    """

    model: str
    prompt: int
    completion: int | None = 0
    input_usd: float | None = None
    output_usd: float | None = None

    def usd(self, completion: int) -> float | None:
        """Price with an answer of so many tokens; None where it is not known."""
        if self.input_usd is None or self.output_usd is None:
            return None
        return self.prompt * self.input_usd + completion * self.output_usd


@dataclass(frozen=True, eq=False)
class Ticket:
    """Leave to send one call.

    Args:
        estimate: What was asked for.
        completion: Tokens of the answer that are reserved.
        limited: True where the call must be sent with ``completion`` as the limit of its answer.
    """

    estimate: Estimate
    completion: int
    limited: bool

    @property
    def tokens(self) -> int:
        """Tokens reserved."""
        return self.estimate.prompt + self.completion

    @property
    def usd(self) -> float:
        """Price reserved; 0 where no price is known, which only a budget without a price takes."""
        return self.estimate.usd(self.completion) or 0.0


class Budget:
    """A ceiling for any number of calls, also from several threads and event loops.

    Args:
        usd: Most USD; None: no limit.
        tokens: Most tokens, of prompts and answers together; None: no limit.
        whole: Answers are never limited to what is left (an answer that is cut is of no use to an index; one longer than
            :data:`USUAL_ANSWER` may exceed the budget by what it is longer), and after the first call that does not fit
            none is sent any more, so that those in flight end in peace and the next run goes on from there.
        part_of: The budget that this one is a share of; see :meth:`share`.
    """

    def __init__(
        self,
        usd: float | None = None,
        tokens: int | None = None,
        *,
        whole: bool = False,
        part_of: Budget | None = None,
    ) -> None:
        self.usd = usd
        self.tokens = tokens
        self.whole = whole
        self.part_of = part_of
        self.spent_usd = 0.0
        self.spent_tokens = 0
        self.refused = 0
        self._open: set[Ticket] = set()
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    @property
    def limited(self) -> bool:
        """Whether there is a ceiling at all."""
        return self.usd is not None or self.tokens is not None

    @property
    def reached(self) -> bool:
        """Whether a call was not sent because of it or of a share of it."""
        return self.refused > 0

    def share(self, part: float) -> Budget:
        """A budget of a part of what is left, for the steps before the last one; charge calls to both."""
        with self._lock:
            usd = None if self.usd is None else max(0.0, self.usd - self.spent_usd) * part
            tokens = None if self.tokens is None else int(max(0, self.tokens - self.spent_tokens) * part)
        return Budget(usd, tokens, whole=self.whole, part_of=self)

    def room(self, input_usd: float | None, output_usd: float | None, completion: int) -> int | None:
        """Tokens of a prompt that may be sent now with an answer of so many tokens; None: any number.

        Args:
            input_usd: USD per prompt token; None: not known, only tokens count.
            output_usd: USD per token of the answer.
            completion: Tokens of the answer.
        """
        rooms: list[float] = []
        with self._lock:
            if self.tokens is not None:
                held = sum(ticket.tokens for ticket in self._open)
                rooms.append(self.tokens - self.spent_tokens - held - completion)
            if self.usd is not None and input_usd:
                left = self.usd - self.spent_usd - sum(ticket.usd for ticket in self._open)
                rooms.append((left - completion * (output_usd or 0.0)) / input_usd)
        return math.floor(min(rooms)) if rooms else None

    async def reserve(self, estimate: Estimate) -> Ticket:
        """Set aside what a call may cost; every ticket must be settled.

        Returns:
            A ticket; the answer must be limited where it says so.

        Raises:
            BudgetReached: It does not fit, also after all calls in flight are settled.
            UnknownPrice: The budget limits the price, and that of the call is not known.
        """
        if self.usd is not None:
            require_price(estimate)
        while True:
            loop = asyncio.get_running_loop()
            with self._lock:
                ticket = None if self.whole and self.refused else self._ticket(estimate)
                if ticket is not None:
                    self._open.add(ticket)
                    return ticket
                if not self._open:
                    self._refuse()
                    raise BudgetReached(self._told(estimate))
                future: asyncio.Future[None] = loop.create_future()
                self._waiting.append((loop, future))
            await future

    def settle(self, ticket: Ticket, tokens: int | None = None, usd: float | None = None) -> None:
        """Replace what was reserved by what was used.

        Args:
            ticket: From :meth:`reserve`.
            tokens: Tokens used; None: not known, the reservation counts as used.
            usd: Price; None: not known, the reservation counts as used.
        """
        with self._lock:
            if ticket not in self._open:
                return
            self._open.discard(ticket)
            self.spent_tokens += ticket.tokens if tokens is None else tokens
            self.spent_usd += ticket.usd if usd is None else usd
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            # A loop that was closed in the meantime waits for nothing any more.
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, future)

    def reserve_now(self, estimate: Estimate) -> Ticket | None:
        """Spend what a question may cost that is answered much later; see :meth:`correct`.

        Returns:
            A ticket, which is not to be settled; None where it does not fit.

        Raises:
            UnknownPrice: As :meth:`reserve`.
        """
        if self.usd is not None:
            require_price(estimate)
        with self._lock:
            ticket = None if self.whole and self.refused else self._ticket(estimate)
            if ticket is None or ticket.limited:
                return None
            self.spent_tokens += ticket.tokens
            self.spent_usd += ticket.usd
            return ticket

    def correct(self, ticket: Ticket, tokens: int | None, usd: float | None) -> None:
        """Replace what :meth:`reserve_now` spent by what was used; None: not known, it stays."""
        with self._lock:
            self.spent_tokens += 0 if tokens is None else tokens - ticket.tokens
            self.spent_usd += 0.0 if usd is None else usd - ticket.usd

    def reached_by(self, estimate: Estimate) -> BudgetReached:
        """Note that a question was not sent; returns what to raise."""
        with self._lock:
            self._refuse()
            return BudgetReached(self._told(estimate))

    def _refuse(self) -> None:
        self.refused += 1
        if self.part_of is not None:
            self.part_of._refuse()

    def _ticket(self, estimate: Estimate) -> Ticket | None:
        """Leave to send a call now, if it fits."""
        usd = None if self.usd is None else self.usd - self.spent_usd - sum(ticket.usd for ticket in self._open)
        held = sum(ticket.tokens for ticket in self._open)
        tokens = None if self.tokens is None else self.tokens - self.spent_tokens - held
        return granted(estimate, usd, tokens, whole=self.whole, in_flight=bool(self._open))

    def _told(self, estimate: Estimate) -> str:
        parts = []
        if self.usd is not None:
            parts.append(f"{self.spent_usd:.4f} of {plain_usd(self.usd)} USD")
        if self.tokens is not None:
            parts.append(f"{self.spent_tokens:,} of {self.tokens:,} tokens")
        which = "the budget" if self.part_of is None else "the budget for the steps before the last one"
        return f"{which} is reached: {' and '.join(parts)} are spent, and the prompt of the next call has {cost_told(estimate)}"


def granted(
    estimate: Estimate, usd: float | None, tokens: int | None, *, whole: bool, in_flight: bool
) -> Ticket | None:
    """Leave to send a call, with the longest answer that fits; None where none does.

    Args:
        estimate: What the call may cost.
        usd: USD that are left; None: any number.
        tokens: Tokens that are left.
        whole: Whether answers are never limited to what is left; see :class:`Budget`.
        in_flight: Whether calls are in flight, which may give back some of what they reserved: as long as they are, an
            answer gets no less room than usual.
    """
    most = estimate.completion
    room = _room(estimate, usd, tokens)
    if room is None or (most is not None and most <= room):
        return Ticket(estimate, USUAL_ANSWER if most is None else most, limited=False)
    usual = USUAL_ANSWER if most is None else min(most, USUAL_ANSWER)
    if usual <= room:
        return Ticket(estimate, usual, limited=not whole)
    if not whole and not in_flight and room >= min(usual, SHORTEST_ANSWER):
        return Ticket(estimate, room, limited=True)
    return None


def _room(estimate: Estimate, usd: float | None, tokens: int | None) -> int | None:
    """Tokens of an answer that fit beside the prompt; below 0 where the prompt does not; None: any number."""
    room: float | None = None if tokens is None else tokens - estimate.prompt
    price = estimate.usd(0)
    if usd is not None and price is not None:
        left = usd - price
        per_token = estimate.output_usd or 0.0
        if left < -_ROUNDING:
            room = -1
        elif per_token:
            affordable = (left + _ROUNDING) / per_token
            room = affordable if room is None else min(room, affordable)
    return None if room is None else math.floor(room)


def all_of(estimates: Sequence[Estimate]) -> Estimate:
    """What several calls to one model may cost together, all of it as a prompt; answers of usual length at most."""
    tokens, usd = 0, 0.0
    priced = True
    for estimate in estimates:
        answer = USUAL_ANSWER if estimate.completion is None else min(estimate.completion, USUAL_ANSWER)
        price = estimate.usd(answer)
        tokens += estimate.prompt + answer
        usd += price or 0.0
        priced = priced and price is not None
    each = usd / tokens if priced and tokens else (0.0 if priced else None)
    return Estimate(estimates[0].model if estimates else "", tokens, 0, each, each)


def require_price(estimate: Estimate) -> None:
    """Refuse a call whose price is not known, where a limit in USD is to be kept.

    Raises:
        UnknownPrice: There is no price.
    """
    if estimate.usd(0) is None:
        raise UnknownPrice(
            f"{estimate.model}: the price of the model is not known, so that a limit in USD cannot be kept; set its "
            "prices (input_per_million, output_per_million) in the entry, or limit tokens instead"
        )


def cost_told(estimate: Estimate) -> str:
    """Tokens of a prompt, and what is set aside for its answer, with the price of both where it is known."""
    answer = USUAL_ANSWER if estimate.completion is None else min(estimate.completion, USUAL_ANSWER)
    price = estimate.usd(answer)
    told = f"{estimate.prompt:,} tokens" + (f" and its answer up to {answer:,}" if answer else "")
    return told + ("" if price is None else f", {price:.4f} USD{' together' if answer else ''}")


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_CURRENT: ContextVar[tuple[Budget, ...]] = ContextVar("budgets", default=())


@contextmanager
def limited_by(budget: Budget) -> Iterator[None]:
    """Charge all calls that are made inside to a budget too, those of tasks and threads begun inside included."""
    token = _CURRENT.set((*_CURRENT.get(), budget))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_budgets() -> tuple[Budget, ...]:
    """The budgets that calls made here are charged to beside that of their gateway."""
    return _CURRENT.get()


def plain_usd(usd: float) -> str:
    """A price without an exponent and without zeros at its end."""
    return f"{usd:.10f}".rstrip("0").rstrip(".")
