"""How fast a model may be called: a set limit on requests and tokens, and the pace, or the number of calls at once, that its
refusals teach.

All are plain states that one function after another changes, with the time given, so that they serve one process or, kept
in a store (:mod:`graphrag_assets.llm.limiting.stores`), many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

#: Seconds between the first calls to a model, up to so many calls: where its limit is low, the refusal of one call comes
#: before many others have left. They cost a model without a limit .6 s in all.
FIRST_GAPS = ((16, 0.02), (32, 0.01), (64, 0.005))

#: Shares of the pace that was measured until a refusal: few calls tell it but roughly, and the first ones were let through on
#: credit. Chosen by simulating limits of 120 and 1,200 a minute, with and without credit, at latencies of .2 to 5 s: 1 to 2 %
#: of 240 to 1,500 calls are refused, and 95 % or more of the allowed pace is used.
FIRST_SHARE, ROUGH_SHARE, SHARE = 0.5, 0.95, 0.97

#: A pace that was measured over fewer calls is rough.
ROUGH = 20

#: So many refusals in a row of a pace that was let through before are no limit on the pace: an overloaded or faulty server
#: refuses at random, and slower calls would only be slower. For so many calls only the pauses that it asks for are kept.
RANDOM_REFUSALS, RANDOM_CALLS = 4, 200

#: Where that was seen before, fewer tell.
AGAIN_RANDOM = 2

#: After so many calls without a refusal (fewer where the pace is rough) a faster pace is tried …
CALM = 60

#: … by these factors, one after another.
SLOWEST_STEP, FASTEST_STEP = 1.05, 1.5

#: A limit on calls at once is one where refusals come at the same number in flight; one more, and this share, since answers
#: that the provider has sent may still be on their way.
CROWD = 0.1

#: After so many calls without a refusal, more at once are tried: twice CALM first, then, each time in vain,
#: eight times as many.
LONGEST_PATIENCE = 8_000

#: Fewer calls at once than that are in flight at any pace that is met, so that they tell nothing of a limit.
LEAST_CROWD = 4

#: Calls in which a limit on calls at once proves itself: none is refused, and they are no slower than the pace before.
PROOF = 30

#: Refusals close to each other, each within CALM calls, after which it was no limit on calls at once …
CLOSE = 3

#: … and calls until that is thought of again.
UNCROWDED_CALLS = 2_000

#: Longest wait between tries where a provider refuses and does not say for how long, in seconds.
LONGEST_SILENT_WAIT = 60.0

#: Waits are longer than asked for by this share and so many seconds: clocks differ, and times are rounded.
MARGIN = 0.02

#: Parts of a window in which its calls are counted together.
SLICES = 60


@dataclass
class Pace:
    """What the refusals of a provider (HTTP 429) teach.

    Between two refusals a provider lets through what its limit allows in that time, whatever kind of limit it is. So the
    calls that were let through, by the time since the refusal before, are the pace; it is kept, and now and then raised.

    Where a provider limits the calls at once, their number at one refusal is that at the next, and was never exceeded between
    them. From then on that number is kept, and no pace: a pace that never meets such a limit is far below what it allows,
    since answers take different times.

    Args:
        rate: Calls a second; 0 as long as none was refused.
        next_at: When the next call may start.
        paused_until: When the pause ends that the provider asked for.
        since: The last refusal that taught something, or the first call; 0 before it.
        refused_at: The last refusal.
        started: Calls since then.
        calm: Calls since the pace last changed.
        proven: The pace before it was last raised, where enough calls kept it.
        base: Calls over which the pace was measured.
        step: Factor of the next try of a faster pace.
        silent_wait: Seconds to wait at the next refusal without a time.
        unprovoked: Refusals in a row, before each of which the pace had not been raised.
        unpaced_until: Number of calls up to which refusals are taken as random.
        total: All calls.
        crowd: Calls in flight at the first refusal, that one included, as long as a limit on calls at once may be the reason; 0:
            none was refused.
        peak: Most calls in flight since.
        most: Calls at once that the provider allows (to each of those that share this state); 0: no such limit is known.
        patience: Calls without a refusal after which more at once are tried; 0: it is not proven yet that the limit is one.
        uncrowded_until: Number of calls up to which no limit on calls at once is supposed.
        floor: Calls a second that the provider let through before: a limit on calls at once is no slower.
    """

    rate: float = 0.0
    next_at: float = 0.0
    paused_until: float = 0.0
    since: float = 0.0
    refused_at: float = 0.0
    started: int = 0
    calm: int = 0
    proven: float = 0.0
    base: int = 1
    step: float = SLOWEST_STEP
    silent_wait: float = 2.0
    unprovoked: int = 0
    unpaced_until: int = 0
    total: int = 0
    crowd: int = 0
    peak: int = 0
    most: int = 0
    patience: int = 0
    uncrowded_until: int = 0
    floor: float = 0.0

    def wait(self, now: float, flying: int = 0) -> float:
        """Seconds until a call may start, with so many in flight; infinite where one of them has to end before."""
        if self.most and flying >= self.most:
            return math.inf
        return max(0.0, self.paused_until - now, self.next_at - now)

    def start(self, now: float, flying: int = 1) -> None:
        """Count a call that starts now, with so many in flight, itself included."""
        if not self.since:
            self.since = now
        self.peak = max(self.peak, flying)
        if self.most:
            self._start_in_crowd(now, flying)
            return
        if self.rate and self.calm >= min(CALM, max(4, 2 * self.base)):
            self.proven = self.rate if self.calm >= ROUGH else 0.0
            self.rate *= self.step
            self.step = min(FASTEST_STEP, 1 + 2 * (self.step - 1))
            self.calm = 0
        gap = 1 / self.rate if self.rate else next((gap for most, gap in FIRST_GAPS if self.total < most), 0.0)
        self.next_at = max(self.next_at, now - gap) + gap
        self.started += 1
        self.calm += 1
        self.total += 1

    def _start_in_crowd(self, now: float, flying: int) -> None:
        self.started += 1
        self.calm += 1
        self.total += 1
        if flying < self.most or self.calm < (self.patience or PROOF):
            return
        if not self.patience and self.calm / max(now - self.since, 1e-3) < self.floor:
            self._uncrowd(now)
            return
        if self.patience:  # only a limit that was kept for a while is tried
            self.most += max(1, self.most // 8)
        self.patience = max(2 * CALM, self.patience // 4)
        self.calm = self.unprovoked = 0

    def _uncrowd(self, now: float) -> None:
        """It was no limit on calls at once: back to the pace."""
        self.most, self.crowd, self.patience, self.unprovoked = 0, 0, 0, 0
        self.uncrowded_until = self.total + UNCROWDED_CALLS
        self.started, self.calm, self.since, self.step = 0, 0, now, SLOWEST_STEP

    def refused(self, now: float, started_at: float, retry_after: float | None, flying: int = 1) -> None:
        """Learn from a call that the provider refused.

        Args:
            now: The present time.
            started_at: When the call started.
            retry_after: Seconds that the provider asks to wait; None: it does not say.
            flying: Calls in flight when it started, itself included.
        """
        wait = self.silent_wait if retry_after is None else retry_after
        # Those that were under way at the last refusal tell nothing new.
        if started_at >= self.refused_at:
            self.refused_at = now
            self.silent_wait = min(LONGEST_SILENT_WAIT, 2 * wait) if retry_after is None else 2.0
            waited = retry_after is not None and started_at >= self.paused_until
            known = self.most
            if not self._crowded(now, flying, waited=waited):
                self._learn(now, max(0, self.started - 1), wait, told=retry_after is not None)
            if self.most and not known:
                self.since = 0.0  # measured anew from the first call on
        self.paused_until = max(self.paused_until, now + wait * (1 + MARGIN) + MARGIN)
        self.next_at = max(self.next_at, self.paused_until)

    def _crowded(self, now: float, flying: int, *, waited: bool) -> bool:
        """Learn a limit on calls at once; whether it was known, so that a refusal tells nothing of the pace."""
        if self.most:
            close = self.started <= CALM
            self.unprovoked = self.unprovoked + 1 if close else 1
            if close and (not self.patience or self.unprovoked >= CLOSE):
                self._uncrowd(now)
                return True
            if not close:
                tried = flying >= self.most
                self.patience = min(LONGEST_PATIENCE, 8 * self.patience) if tried else 2 * CALM
            # Half as many where another process has begun.
            self.most = max(1, flying - 1, self.most // 2)
            self.started, self.calm = 0, 0
            return True
        if self.total < max(self.uncrowded_until, self.unpaced_until):
            return False
        if not self.crowd:
            self.crowd = self.peak = flying
            return False
        if flying < 2 or not self.crowd <= flying <= self.crowd * (1 + CROWD) + 1 or self.peak > flying:
            self.crowd, self.uncrowded_until = 0, self.total + UNCROWDED_CALLS
            return False
        through = max(0, self.started - 1)
        # After the pause that it asks for, a limit on the pace lets one through.
        if not (waited and not through) and (self.crowd < LEAST_CROWD or through < 2 * self.crowd):
            return False
        self.floor = max(0.0, (through - self.crowd) / max(now - self.since, 1e-3))
        self.most, self.patience = flying - 1, 0
        return False

    def _learn(self, now: float, let_through: int, wait: float, *, told: bool) -> None:
        first, raised = not self.rate, self.step != SLOWEST_STEP
        self.started, self.calm, self.step = 0, 0, SLOWEST_STEP
        if self.total < self.unpaced_until:
            self.since = now
            return
        if first or (raised and let_through >= ROUGH):
            self.unprovoked = 0
        elif not raised and (let_through or told):
            self.unprovoked += 1
        if self.unprovoked >= (AGAIN_RANDOM if self.unpaced_until else RANDOM_REFUSALS):
            self.rate, self.unprovoked, self.since, self.unpaced_until = 0.0, 0, now, self.total + RANDOM_CALLS
        elif not let_through:
            # The limit is not open yet: what it allows shows only when it is.
            self.rate = self.rate or 1 / max(wait, 0.1)
        else:
            share = SHARE if let_through >= ROUGH else FIRST_SHARE if first else ROUGH_SHARE
            # The first calls may have been a minute's worth: the time until the limit opens belongs to them.
            measured = share * let_through / max(now - self.since + (wait if first else 0.0), 1e-3)
            self.rate = max(measured, self.proven if raised else 0.0)
            self.since, self.base = now, let_through


@dataclass
class Window:
    """Requests and tokens of the last period.

    Args:
        period: Its length in seconds.
        slices: Calls that started close together: time of the first and of the last, calls, tokens. A slice is forgotten
            as a whole, a period after its last call.
    """

    period: float
    slices: list[list[float]] = field(default_factory=list)

    def wait(self, now: float, tokens: int, most_requests: int | None, most_tokens: int | None) -> float:
        """Seconds until a call with so many tokens may start; one that expects more than the limit waits for an empty window."""
        while self.slices and self.slices[0][1] <= now - self.period:
            del self.slices[0]
        requests_over = sum(s[2] for s in self.slices) + 1 - most_requests if most_requests is not None else 0.0
        tokens_over = sum(s[3] for s in self.slices) + tokens - most_tokens if most_tokens is not None else 0.0
        wait = 0.0
        for _, last, requests, used in self.slices:
            if requests_over <= 0 and tokens_over <= 0:
                break
            requests_over -= requests
            tokens_over -= used
            wait = last + self.period - now
        return max(0.0, wait)

    def start(self, now: float, tokens: int) -> None:
        """Count a call that starts now."""
        if not self.slices or now - self.slices[-1][0] > self.period / SLICES:
            self.slices.append([now, now, 0, 0])
        last = self.slices[-1]
        last[1] = now
        last[2] += 1
        last[3] += tokens

    def correct(self, started_at: float, tokens: int) -> None:
        """Add tokens to (or take them from) a call that is in the window."""
        for first, last, *_ in reversed(self.slices):
            if first <= started_at <= last:
                found = next(s for s in self.slices if s[0] == first)
                found[3] = max(0, found[3] + tokens)
                return


@dataclass
class Meter:
    """All that is known of how fast one model may be called.

    Args:
        window: Calls of the last period.
        pace: What refusals taught.
    """

    window: Window
    pace: Pace

    def state(self) -> list[Any]:
        """The meter as a list of plain values; see :meth:`of`."""
        return [self.window.slices, *vars(self.pace).values()]

    @classmethod
    def of(cls, state: list[Any] | None, period: float, now: float) -> Meter:
        """A meter from its state; None: a new one. One from the future, as where a clock was set back, is forgotten.

        Args:
            state: From :meth:`state`.
            period: Length of the window in seconds.
            now: The present time.
        """
        if state is None:
            return cls(Window(period), Pace())
        pace = Pace(*state[1:])
        latest = max([pace.since, *(s[1] for s in state[0])])
        if latest > now + period:
            return cls(Window(period), Pace())
        return cls(Window(period, state[0]), pace)
