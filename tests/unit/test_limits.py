"""Limits, waits and the reading of a provider's errors."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.llm.calls import backoff
from graphrag_assets.llm.errors import PassingError, PermanentError, classify, redact, retry_after
from graphrag_assets.llm.limits import SlidingWindow
from graphrag_assets.settings import RateLimitSettings, RetrySettings


class Time:
    """A clock that sleeping moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        real_sleep = asyncio.sleep

        async def sleep(seconds: float, *args: Any) -> None:
            self.now += seconds
            await real_sleep(0)

        monkeypatch.setattr(asyncio, "sleep", sleep)

    def __call__(self) -> float:
        return self.now


def starts(limiter: SlidingWindow, clock: Time, tokens: list[int]) -> list[float]:
    async def main() -> list[float]:
        slots = asyncio.Semaphore(1000)

        async def call(size: int) -> float:
            await limiter.enter(size, slots)
            return clock.now - 1000.0

        return await asyncio.gather(*(call(size) for size in tokens))

    return asyncio.run(main())


def test_requests_in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time(monkeypatch)
    limiter = SlidingWindow(RateLimitSettings(period_in_seconds=60, requests_per_period=3), clock)
    assert starts(limiter, clock, [1] * 8) == [0, 0, 0, 60, 60, 60, 120, 120]


def test_tokens_in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time(monkeypatch)
    limiter = SlidingWindow(RateLimitSettings(period_in_seconds=60, tokens_per_period=100), clock)
    assert starts(limiter, clock, [60, 30, 30, 500, 10]) == [0, 0, 60, 120, 180]


def test_counted_tokens_replace_expected_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time(monkeypatch)
    limiter = SlidingWindow(RateLimitSettings(period_in_seconds=60, tokens_per_period=100), clock)

    async def main() -> float:
        slots = asyncio.Semaphore(10)
        limiter.settle(await limiter.enter(90, slots), 20)
        await limiter.enter(80, slots)
        return clock.now

    assert asyncio.run(main()) == 1000.0


def test_without_limits_only_pauses_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time(monkeypatch)
    limiter = SlidingWindow(None, clock)
    assert starts(limiter, clock, [10**9] * 5) == [0] * 5
    limiter.pause(7)
    limiter.pause(3)
    assert starts(limiter, clock, [1]) == [7]


def test_no_slot_is_held_while_waiting() -> None:
    async def main() -> None:
        limiter, slots = SlidingWindow(None), asyncio.Semaphore(1)
        limiter.pause(0.2)
        waiting = asyncio.create_task(limiter.enter(1, slots))
        await asyncio.sleep(0.05)
        assert not slots.locked()
        await waiting
        assert slots.locked()

    asyncio.run(main())


def test_a_cancelled_waiter_leaves_the_queue() -> None:
    async def main() -> None:
        limiter, slots = SlidingWindow(None), asyncio.Semaphore(0)
        waiting = [asyncio.create_task(limiter.enter(1, slots)) for _ in range(3)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        waiting[1].cancel()
        slots.release()
        await asyncio.wait_for(waiting[2], 1)

    asyncio.run(main())


@given(st.integers(1, 2000), st.floats(0.01, 10), st.floats(0.1, 100), st.none() | st.floats(0, 500))
def test_backoff_stays_within_its_bounds(failures: int, base: float, most: float, asked: float | None) -> None:
    wait = backoff(RetrySettings(base_delay=base, max_delay=most), failures, asked)
    assert wait >= (asked or 0)
    assert wait <= max(most, (asked or 0) * 1.1)


def test_backoff_grows_and_can_be_off() -> None:
    plain = RetrySettings(jitter=False)
    assert [backoff(plain, n) for n in (1, 2, 3, 10)] == [2, 4, 8, 60]
    assert backoff(RetrySettings(type="immediate"), 5) == 0
    assert backoff(RetrySettings(type="immediate", jitter=False), 5, 3) == 3


def test_retry_after() -> None:
    assert retry_after({"retry-after": "2"}) == 2
    assert retry_after({"retry-after-ms": "250", "retry-after": "1"}) == 0.25
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 25 < (retry_after({"retry-after": date}) or 0) < 31
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({}) is None


@pytest.mark.parametrize(
    ("status", "message", "code", "kind"),
    [
        (429, "Rate limit reached", "rate_limit_exceeded", "rate_limit"),
        (429, "You exceeded your current quota, please check your plan", "insufficient_quota", "quota"),
        (
            429,
            "You exceeded your current quota, please check your plan and billing. Please retry in 34s",
            "",
            "rate_limit",
        ),
        (429, "Rate limit reached. Add a payment method at platform.openai.com/account/billing", "", "rate_limit"),
        (429, "Insufficient balance", "", "quota"),
        (402, "Insufficient Balance", "", "quota"),
        (401, "Incorrect API key", "invalid_api_key", "authentication"),
        (403, "Country not supported", "", "authentication"),
        (404, "The model does not exist", "model_not_found", "not_found"),
        (301, "", "", "not_found"),
        (400, "maximum context length is 4096 tokens", "context_length_exceeded", "context_length"),
        (400, "the request exceeds the available context size", "", "context_length"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "", "context_length"),
        (500, "input is too large to process. increase the physical batch size", "", "context_length"),
        (413, "", "", "context_length"),
        (400, "filtered due to Azure's content management policy", "content_filter", "content_filter"),
        (400, "unknown parameter", "", "bad_request"),
        (400, "unknown parameter: safety_settings", "", "bad_request"),
        (500, "oops", "", "server"),
        (503, "Loading model", "", "server"),
        (529, "overloaded", "", "server"),
        (408, "", "", "timeout"),
    ],
)
def test_what_errors_mean(status: int, message: str, code: str, kind: str) -> None:
    error = classify(status, message, code=code)
    assert error.kind == kind
    passing = kind in ("rate_limit", "server", "timeout")
    assert isinstance(error, PassingError if passing else PermanentError)


def test_a_wait_that_only_the_message_tells() -> None:
    for message, wait in (("Please try again in 1.5s.", 1.5), ("try again in 20ms", 0.02), ("try again later", None)):
        error = classify(429, message)
        assert isinstance(error, PassingError)
        assert error.retry_after == wait


def test_redaction() -> None:
    key = "my-own-secret"
    shown = redact(
        f"key {key} and\nIncorrect API key provided: sk-abcdefghijkl. Bearer abcdefghijk " + "x" * 500, [key]
    )
    assert key not in shown
    assert "abcdefgh" not in shown
    assert "\n" not in shown
    assert len(shown) <= 300
    started = time.process_time()
    redact("sk-" * 100_000)
    assert time.process_time() - started < 1
