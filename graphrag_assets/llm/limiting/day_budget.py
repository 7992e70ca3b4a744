"""The ceiling of a day, which all processes that share a store of limits keep together.

A day is one of UTC, by the clock of the store. A call is reserved in the store right before it is sent, and settled
when it is answered, on the day on which it was sent. What was reserved by a process that died is never settled: nobody
knows whether the provider got the call and charges for it. So it counts as spent, in full, until the day ends; it can only
be what was in flight, which is small, and the ceiling is never exceeded. Others wait for what is in flight, which seldom
uses all that it reserved; for a call of a dead process they do not, nor for one that is older than a call can get.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sqlite3
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

from graphrag_assets.llm.errors import GatewayError
from graphrag_assets.llm.limiting.budget import (
    BudgetReached,
    Estimate,
    Ticket,
    cost_told,
    granted,
    plain_usd,
    require_price,
)
from graphrag_assets.llm.limiting.stores import LimitStore, open_accounts
from graphrag_assets.settings import Workspace

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Days that a store keeps.
KEPT_DAYS = 3

#: Seconds between looks whether calls of other processes were settled.
LOOK_AGAIN = 0.5

#: Seconds beyond the timeout of a call after which it cannot be in flight any more.
GRACE = 60.0

_NO_DAY: dict[str, Any] = {"usd": 0.0, "tokens": 0, "unpriced": 0, "held": {}}


class DayReached(BudgetReached):
    """A call was not sent, since with it the budget of the day might be exceeded."""


@dataclass(frozen=True)
class Held:
    """What is set aside for one call.

    Args:
        ticket: How long its answer may be.
        day: Day that it counts for.
        name: Its name in the store.
    """

    ticket: Ticket
    day: str
    name: str

    def to_json(self) -> str:
        """As text, so that another process can settle it."""
        return json.dumps([self.day, self.name, self.ticket.estimate.prompt, self.ticket.estimate.input_usd])

    @classmethod
    def from_json(cls, text: str) -> Held:
        """From :meth:`to_json`."""
        day, name, tokens, usd = json.loads(text)
        return cls(Ticket(Estimate("", tokens, 0, usd, usd), 0, limited=False), day, name)


@dataclass(frozen=True)
class Spent:
    """What is used of a day.

    Args:
        day: The day, such as 2031-05-17 (UTC).
        usd: USD spent, those of calls whose process died included.
        tokens: Tokens spent.
        reserved_usd: USD set aside for calls in flight.
        reserved_tokens: Tokens set aside.
        unpriced_tokens: Tokens of calls whose price is not known; they are in ``tokens``, and in no figure in USD.
    """

    day: str
    usd: float
    tokens: int
    reserved_usd: float
    reserved_tokens: int
    unpriced_tokens: int


class DayBudget:
    """The ceiling as one gateway keeps it.

    Args:
        store: Where all keep it.
        account: Those that name the same account in the same store share a ceiling.
        usd: Most USD in a day; None: no limit.
        tokens: Most tokens in a day.
        whole: See :class:`graphrag_assets.llm.limiting.budget.Budget`.
    """

    def __init__(
        self, store: LimitStore, account: str, usd: float | None, tokens: int | None, *, whole: bool = False
    ) -> None:
        self.usd = usd
        self.tokens = tokens
        self._store = store
        self._name = f"spent: {account}"
        self._whole = whole
        self._refused = False
        self._settled = asyncio.Event()

    async def reserve(self, estimate: Estimate, seconds: float) -> Held:
        """Set aside what a call may cost; it must be settled.

        Args:
            estimate: The call.
            seconds: How long it may be in flight.

        Raises:
            DayReached: It does not fit, also after all calls in flight are settled.
            UnknownPrice: USD are limited, and the price of the call is not known.
            GatewayError: The store cannot be used.
        """
        if self.usd is not None:
            require_price(estimate)
        while not (self._whole and self._refused):
            settled = self._settled
            held, spent = await self._change(lambda state, now: self._take(state, now, estimate, seconds))
            if held is not None:
                return held
            if not (spent.reserved_tokens or spent.reserved_usd):
                self._refused = True
                raise DayReached(self._told(spent, estimate))
            try:
                await asyncio.wait_for(settled.wait(), LOOK_AGAIN)
            except TimeoutError:
                continue
        raise DayReached("the budget of the day is reached")

    async def reserve_now(self, estimate: Estimate) -> Held | None:
        """Set aside what a batch of questions may cost; None where it does not fit now.

        It counts as spent until it is settled, by whichever process takes the answers: nobody waits for it.

        Args:
            estimate: All that it may cost, as a prompt.

        Raises:
            UnknownPrice, GatewayError: As :meth:`reserve`.
        """
        if self.usd is not None:
            require_price(estimate)
        held, _ = await self._change(lambda state, now: self._take(state, now, estimate, -GRACE))
        return held

    async def reached_by(self, estimate: Estimate) -> DayReached:
        """What to raise where something is not sent."""
        return DayReached(self._told(await asyncio.to_thread(self.spent), estimate))

    async def settle(self, held: Held, tokens: int | None = None, usd: float | None = None) -> None:
        """Replace what was set aside by what was used; where the store fails, what was set aside counts as used.

        Args:
            held: From :meth:`reserve`.
            tokens: Tokens used; None: not known.
            usd: Price; None: not known.
        """
        try:
            await self._change(lambda state, now: (_put_back(state, held, tokens, usd), None))
        except GatewayError as error:
            logger.warning("what a call cost could not be noted, so that it counts as its ceiling: %s", error)
        self._settled.set()
        self._settled = asyncio.Event()

    def spent(self) -> Spent:
        """What is used of this day."""
        return self._store.update(self._name, lambda state, now: (state or {}, _spent(state or {}, now)))

    def _take(
        self, state: Any, now: float, estimate: Estimate, seconds: float
    ) -> tuple[Any, tuple[Held | None, Spent]]:
        spent = _spent(state or {}, now)
        usd = None if self.usd is None else self.usd - spent.usd - spent.reserved_usd
        tokens = None if self.tokens is None else self.tokens - spent.tokens - spent.reserved_tokens
        in_flight = bool(spent.reserved_tokens or spent.reserved_usd)
        ticket = granted(estimate, usd, tokens, whole=self._whole, in_flight=in_flight)
        if ticket is None:
            return state or {}, (None, spent)
        held = Held(ticket, spent.day, uuid.uuid4().hex[:16])
        book = (state or {}).get(spent.day, _NO_DAY)
        entry = [ticket.usd, ticket.tokens, now + seconds + GRACE, _owner()]
        days = {**(state or {}), spent.day: {**book, "held": {**book["held"], held.name: entry}}}
        return dict(sorted(days.items())[-KEPT_DAYS:]), (held, spent)

    def _told(self, spent: Spent, estimate: Estimate) -> str:
        parts = []
        if self.usd is not None:
            parts.append(f"{spent.usd:.4f} of {plain_usd(self.usd)} USD")
        if self.tokens is not None:
            parts.append(f"{spent.tokens:,} of {self.tokens:,} tokens")
        return (
            f"the budget of the day is reached: {' and '.join(parts)} of {spent.day} (UTC) are spent by all processes "
            f"together, and the prompt of the next call has {cost_told(estimate)}; the next day begins at 00:00 UTC, and "
            "budget.usd_per_day and budget.tokens_per_day of the settings set how much it may cost"
        )

    async def _change(self, changed: Callable[[Any, float], tuple[Any, T]]) -> T:
        try:
            if self._store.remote:
                return await asyncio.to_thread(self._store.update, self._name, changed)
            return self._store.update(self._name, changed)
        except sqlite3.Error as error:
            raise GatewayError(
                f"settings: limits.path: what is spent in a day cannot be written there ({error}); mend the disk, or set "
                "limits.path to another file",
                passing=True,
            ) from None


def open_day_budget(workspace: Workspace, *, whole: bool = False) -> DayBudget | None:
    """The ceiling that the settings set for a day; None where there is none.

    Raises:
        GatewayError: What is spent cannot be kept.
    """
    budget = workspace.settings.budget
    if budget.usd_per_day is None and budget.tokens_per_day is None:
        return None
    return DayBudget(open_accounts(workspace), budget.account, budget.usd_per_day, budget.tokens_per_day, whole=whole)


def nothing_spent() -> Spent:
    """This day, of which nothing is used."""
    return _spent({}, time.time())


def _spent(state: dict[str, Any], now: float) -> Spent:
    """What is used of the day: what nobody will settle any more among it."""
    day = datetime.fromtimestamp(now, UTC).date().isoformat()
    book = state.get(day, _NO_DAY)
    held = book["held"].values()
    living = {owner for owner in {entry[3] for entry in held} if _may_live(owner)}
    flying = [entry for entry in held if entry[2] > now and entry[3] in living]
    lost = [entry for entry in held if entry[2] <= now or entry[3] not in living]
    return Spent(
        day,
        book["usd"] + sum(entry[0] for entry in lost),
        book["tokens"] + sum(entry[1] for entry in lost),
        sum(entry[0] for entry in flying),
        sum(entry[1] for entry in flying),
        book["unpriced"],
    )


def _put_back(state: Any, held: Held, tokens: int | None, usd: float | None) -> Any:
    """The state without a call in flight, and with what it cost; also of one that was given up as lost."""
    book = (state or {}).get(held.day)
    if book is None or held.name not in book["held"]:
        return state or {}
    used = held.ticket.tokens if tokens is None else tokens
    priced = held.ticket.estimate.usd(0) is not None
    changed = {
        "usd": round(book["usd"] + (held.ticket.usd if usd is None else usd), 10),
        "tokens": book["tokens"] + used,
        "unpriced": book["unpriced"] + (0 if priced else used),
        "held": {name: entry for name, entry in book["held"].items() if name != held.name},
    }
    return {**state, held.day: changed}


def _owner() -> str:
    return f"{_host()} {os.getpid()}"


@cache
def _host() -> str:
    return socket.gethostname()


def _may_live(owner: str) -> bool:
    """False for a process of this host that is gone; of one of another host nobody knows here."""
    host, _, process = owner.rpartition(" ")
    if host != _host():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is there, and of another user
        return True
    return True
