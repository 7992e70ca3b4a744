"""When the next call to a model may start: limits that are set, what refusals teach, pauses that the provider asks for."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from graphrag_assets.llm.limiting.pace import Meter
from graphrag_assets.llm.limiting.stores import LimitStore
from graphrag_assets.settings import RateLimitSettings

T = TypeVar("T")


@dataclass(slots=True)
class Reservation:
    """One call that started.

    Args:
        time: When, by the clock of the store.
        tokens: Tokens that it takes of the window: expected, then as counted.
        flying: Calls in flight when it started, itself included.
    """

    time: float
    tokens: int
    flying: int = 1


class Limiter(Protocol):
    """Decides when the next call to a model may start."""

    async def enter(self, tokens: int, slots: asyncio.Semaphore) -> Reservation:
        """Wait until a call may start and a slot is free; take the slot and return with it.

        Args:
            tokens: Tokens that the call is expected to take.
            slots: Slots for calls in flight, shared by all models; none is held while waiting for the limit.
        """
        ...

    async def settle(self, reservation: Reservation, tokens: int) -> None:
        """Put the counted tokens in the place of the expected ones."""
        ...

    async def refused(self, reservation: Reservation, retry_after: float | None) -> None:
        """The provider refused a call, since there are too many.

        Args:
            reservation: The call.
            retry_after: Seconds that it asks to wait; None: it does not say.
        """
        ...

    def leave(self) -> None:
        """A call ended, whatever came of it."""
        ...


class ModelLimits:
    """The limits of one model: calls start in order of asking, those of other processes in between.

    Only the first in the queue waits for time, so that ten thousand waiting calls cost nothing. A single call that
    expects more tokens than the limit starts when the window is empty.

    Args:
        name: The model, by which processes share what they know; no key.
        settings: The limits that are set; None: only the pace that the provider's refusals teach.
        store: Where calls are counted.
    """

    def __init__(self, name: str, settings: RateLimitSettings | None, store: LimitStore) -> None:
        self._name = name
        self._requests = settings.requests_per_period if settings else None
        self._tokens = settings.tokens_per_period if settings else None
        self._limited = self._requests is not None or self._tokens is not None
        self._period = float(settings.period_in_seconds) if settings else 60.0
        self._store = store
        self._queue = asyncio.Lock()
        self._waits_for_slot = False
        self._corrections: list[tuple[float, int]] = []
        self._flying = 0
        self._left = asyncio.Event()

    async def enter(self, tokens: int, slots: asyncio.Semaphore) -> Reservation:
        """See :class:`Limiter`."""
        async with self._queue:
            while True:
                self._waits_for_slot = True
                try:
                    await slots.acquire()
                finally:
                    self._waits_for_slot = False
                self._left.clear()
                try:
                    started_at, wait = await self._change(lambda meter, now: self._start(meter, now, tokens))
                except BaseException:
                    slots.release()
                    raise
                if wait <= 0:
                    self._flying += 1
                    return Reservation(started_at, tokens, self._flying)
                slots.release()
                await (self._left.wait() if math.isinf(wait) else asyncio.sleep(wait))

    async def settle(self, reservation: Reservation, tokens: int) -> None:
        """See :class:`Limiter`."""
        more, reservation.tokens = tokens - reservation.tokens, tokens
        if self._tokens is None or not more:
            return
        self._corrections.append((reservation.time, more))
        if not self._waits_for_slot:  # else the call that takes the slot of this one corrects the window as it starts
            await self._change(lambda meter, now: None)

    async def refused(self, reservation: Reservation, retry_after: float | None) -> None:
        """See :class:`Limiter`."""
        await self._change(
            lambda meter, now: meter.pace.refused(now, reservation.time, retry_after, reservation.flying)
        )

    def leave(self) -> None:
        """See :class:`Limiter`."""
        self._flying -= 1
        self._left.set()

    def _start(self, meter: Meter, now: float, tokens: int) -> tuple[float, float]:
        """Start a call, or tell the seconds until it may be tried again; infinite: when one in flight has ended."""
        wait = meter.pace.wait(now, self._flying)
        if self._limited:
            wait = max(wait, meter.window.wait(now, tokens, self._requests, self._tokens))
        if wait <= 0:
            meter.pace.start(now, self._flying + 1)
            if self._limited:
                meter.window.start(now, tokens)
        return now, wait

    async def _change(self, changed: Callable[[Meter, float], T]) -> T:
        corrections, self._corrections = self._corrections, []

        def corrected(meter: Meter, now: float) -> T:
            for started_at, tokens in corrections:
                meter.window.correct(started_at, tokens)
            return changed(meter, now)

        if self._store.remote:
            return await asyncio.to_thread(self._store.change, self._name, self._period, corrected)
        return self._store.change(self._name, self._period, corrected)
