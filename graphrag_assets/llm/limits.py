"""Limits of a provider: requests and tokens in a window of time, and pauses that it asks for.

Now within one process. What sends calls knows only :class:`Limiter`; limits that processes share implement the same.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from graphrag_assets.settings import RateLimitSettings


@dataclass(slots=True)
class Reservation:
    """One request in the window.

    Args:
        time: When it started.
        tokens: Tokens that it takes of the window: estimated, then as counted.
        counted: True while it is in the window.
    """

    time: float
    tokens: int
    counted: bool = False


class Limiter(Protocol):
    """Decides when the next call to a model may start."""

    async def enter(self, tokens: int, slots: asyncio.Semaphore) -> Reservation:
        """Wait until a call may start and a slot is free; take the slot and return with it.

        Args:
            tokens: Tokens that the call is expected to take.
            slots: Slots for calls in flight, shared by all models; none is held while waiting for the limit.
        """
        ...

    def settle(self, reservation: Reservation, tokens: int) -> None:
        """Put the counted tokens in the place of the expected ones."""
        ...

    def pause(self, seconds: float) -> None:
        """Start no call for so long, since the provider asked for it."""
        ...


class SlidingWindow:
    """Requests and tokens of the last ``period_in_seconds`` stay within the limits; calls start in order of asking.

    Only the first in the queue waits for time, so that ten thousand waiting calls cost nothing. A single call that
    expects more tokens than the limit starts when the window is empty.

    Args:
        settings: The limits; None: only the pauses that the provider asks for.
        clock: Seconds, growing.
    """

    def __init__(self, settings: RateLimitSettings | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._requests = settings.requests_per_period if settings else None
        self._tokens = settings.tokens_per_period if settings else None
        self._period = float(settings.period_in_seconds) if settings else 0.0
        self._limited = self._requests is not None or self._tokens is not None
        self._clock = clock
        self._queue = asyncio.Lock()
        self._window: deque[Reservation] = deque()
        self._used = 0
        self._paused_until = float("-inf")

    async def enter(self, tokens: int, slots: asyncio.Semaphore) -> Reservation:
        """See :class:`Limiter`."""
        async with self._queue:
            while True:
                while (wait := self._wait(tokens)) > 0:  # noqa: ASYNC110 - once, unless a further pause is asked for
                    await asyncio.sleep(wait)
                await slots.acquire()
                # Waiting for a slot took time, in which the provider may have asked for a pause.
                if self._wait(tokens) <= 0:
                    break
                slots.release()
            reservation = Reservation(self._clock(), tokens)
            if self._limited:
                reservation.counted = True
                self._window.append(reservation)
                self._used += tokens
            return reservation

    def settle(self, reservation: Reservation, tokens: int) -> None:
        """See :class:`Limiter`."""
        if reservation.counted:
            self._used += tokens - reservation.tokens
        reservation.tokens = tokens

    def pause(self, seconds: float) -> None:
        """See :class:`Limiter`."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _wait(self, tokens: int) -> float:
        """Seconds until a call with so many tokens may start; 0 for now."""
        now = self._clock()
        wait = self._paused_until - now
        if not self._limited:
            return max(0.0, wait)
        while self._window and self._window[0].time <= now - self._period:
            oldest = self._window.popleft()
            oldest.counted = False
            self._used -= oldest.tokens
        if self._requests is not None and len(self._window) >= self._requests:
            wait = max(wait, self._window[-self._requests].time + self._period - now)
        if self._tokens is not None and self._window:
            over = self._used + tokens - self._tokens
            for reservation in self._window:
                if over <= 0:
                    break
                over -= reservation.tokens
                wait = max(wait, reservation.time + self._period - now)
        return max(0.0, wait)
