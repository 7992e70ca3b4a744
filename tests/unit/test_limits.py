"""Limits, waits and the reading of a provider's errors."""

from __future__ import annotations

import asyncio
import json
import math
import random
import subprocess
import sys
import time
from bisect import insort
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets.llm.asking.patience import backoff
from graphrag_assets.llm.errors import GatewayError, PassingError, PermanentError, classify, redact, retry_after
from graphrag_assets.llm.limiting.limits import ModelLimits
from graphrag_assets.llm.limiting.pace import CALM, Meter, Pace, Window
from graphrag_assets.llm.limiting.stores import FileLimits, LimitStore, ProcessLimits, RedisLimits, open_limits
from graphrag_assets.settings import RateLimitSettings, RetrySettings, Settings, Workspace


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


def limits(clock: Time, **limit: int) -> ModelLimits:
    settings = RateLimitSettings(period_in_seconds=60, **limit) if limit else None  # type: ignore[arg-type]
    return ModelLimits("model", settings, ProcessLimits(clock))


def starts(limiter: ModelLimits, clock: Time, tokens: list[int]) -> list[float]:
    async def main() -> list[float]:
        slots = asyncio.Semaphore(1000)

        async def call(size: int) -> float:
            await limiter.enter(size, slots)
            return round(clock.now - 1000.0)

        return await asyncio.gather(*(call(size) for size in tokens))

    return asyncio.run(main())


def test_requests_in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time(monkeypatch)
    assert starts(limits(clock, requests_per_period=3), clock, [1] * 8) == [0, 0, 0, 60, 60, 60, 120, 120]


def test_tokens_in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time(monkeypatch)
    assert starts(limits(clock, tokens_per_period=100), clock, [60, 30, 30, 500, 10]) == [0, 0, 60, 120, 180]


def test_counted_tokens_replace_expected_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time(monkeypatch)
    limiter = limits(clock, tokens_per_period=100)

    async def main() -> float:
        slots = asyncio.Semaphore(10)
        await limiter.settle(await limiter.enter(90, slots), 20)
        await limiter.enter(80, slots)
        return clock.now

    assert asyncio.run(main()) < 1001.0


@pytest.mark.parametrize("waiting", [True, False])
def test_who_waits_for_a_slot_corrects_the_window_as_it_starts(monkeypatch: pytest.MonkeyPatch, waiting: bool) -> None:
    clock = Time(monkeypatch)
    limiter, changes = limits(clock, tokens_per_period=100), 0
    change = limiter._change

    async def counted(changed: Any) -> Any:
        nonlocal changes
        changes += 1
        return await change(changed)

    monkeypatch.setattr(limiter, "_change", counted)

    async def main() -> int:
        slots = asyncio.Semaphore(1)
        first = await limiter.enter(90, slots)
        second = asyncio.create_task(limiter.enter(80, slots)) if waiting else None
        await asyncio.sleep(0)
        await limiter.settle(first, 20)
        slots.release()
        await (second or limiter.enter(80, slots))
        return changes

    assert asyncio.run(main()) == (2 if waiting else 3)
    assert clock.now < 1001.0, "what the first call took less was free for the second"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 30), st.integers(0, 60)), min_size=1, max_size=60),
    st.integers(1, 10),
    st.integers(40, 200),
)
def test_no_window_holds_more_than_is_set(calls: list[tuple[float, int]], most: int, tokens: int) -> None:
    window, now, started = Window(60.0), 0.0, []
    for gap, size in calls:
        now += gap
        while (wait := window.wait(now, size, most, tokens)) > 0:
            now += wait
        window.start(now, size)
        started.append((now, size))
    for begin, _ in started:
        inside = [size for at, size in started if begin <= at < begin + 60]
        assert len(inside) <= most
        assert sum(inside) <= tokens or len(inside) == 1


def test_without_limits_calls_wait_for_what_the_provider_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time(monkeypatch)
    limiter = limits(clock)
    assert starts(limiter, clock, [10**9] * 5) == [0] * 5

    async def main() -> None:
        reservation = await limiter.enter(1, asyncio.Semaphore(9))
        await limiter.refused(reservation, 7)
        await limiter.refused(reservation, 3)

    asyncio.run(main())
    assert starts(limiter, clock, [1]) == [7]


def test_no_slot_is_held_while_waiting() -> None:
    async def main() -> None:
        limiter, slots = ModelLimits("model", None, ProcessLimits()), asyncio.Semaphore(1)
        reservation = await limiter.enter(1, slots)
        slots.release()
        await limiter.refused(reservation, 0.2)
        waiting = asyncio.create_task(limiter.enter(1, slots))
        await asyncio.sleep(0.05)
        assert not slots.locked()
        await waiting
        assert slots.locked()

    asyncio.run(main())


def test_a_cancelled_waiter_leaves_the_queue() -> None:
    async def main() -> None:
        limiter, slots = ModelLimits("model", None, ProcessLimits()), asyncio.Semaphore(0)
        waiting = [asyncio.create_task(limiter.enter(1, slots)) for _ in range(3)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        waiting[1].cancel()
        slots.release()
        await asyncio.wait_for(waiting[2], 1)

    asyncio.run(main())


class Provider:
    """Lets calls through by a limit, and counts those that it refuses."""

    def __init__(self, per_minute: float, credit: float, tells: bool = True) -> None:
        self.rate, self.credit, self.tells = per_minute / 60, credit, tells
        self.left, self.at, self.refused = credit, 0.0, 0

    def refuses(self, now: float) -> bool:
        self.left = min(self.credit, self.left + (now - self.at) * self.rate)
        self.at = now
        if self.left >= 1:
            self.left -= 1
            return False
        self.refused += 1
        return True

    @property
    def retry_after(self) -> float | None:
        return (1 - self.left) / self.rate if self.tells else None


def time_of(provider: Provider, calls: int, pace: Pace | None = None) -> tuple[float, Pace]:
    """Seconds in which a provider takes so many calls, each refused one sent again."""
    pace, now = pace or Pace(), 1000.0
    provider.at = now
    while calls:
        while (wait := pace.wait(now)) > 0:
            now += wait
        pace.start(now)
        if provider.refuses(now):
            pace.refused(now, now, provider.retry_after)
        else:
            calls -= 1
    return now - 1000.0, pace


@pytest.mark.parametrize("credit", [1, 4, 120], ids=lambda n: f"{n} at once")
@pytest.mark.parametrize("per_minute", [20, 120, 3000])
def test_the_pace_of_a_provider_is_found(per_minute: int, credit: int) -> None:
    provider, calls = Provider(per_minute, credit), 600
    seconds, _ = time_of(provider, calls)
    assert provider.refused <= 0.02 * calls
    least = 0.85 if credit > 1 else 0.8  # without any credit a pace that is tried too fast costs more
    assert seconds <= (calls - credit) / per_minute * 60 / least + 5


def test_a_provider_that_does_not_say_how_long() -> None:
    provider, calls = Provider(120, 4, tells=False), 600
    seconds, _ = time_of(provider, calls)
    assert provider.refused <= 0.03 * calls
    assert seconds <= 600 / 2 / 0.6


def time_in_a_crowd(most: int, calls: int, latency: float, after: float | None = 1.0) -> tuple[float, int, Pace]:
    """Seconds and refusals with a provider that answers so many calls at once; answers take different times."""
    chance, pace, now, refused, flying = random.Random(1), Pace(), 1000.0, 0, list[float]()
    while calls:
        while flying and flying[0] <= now:
            flying.pop(0)
            calls -= 1
        if calls <= len(flying) or len(flying) == 25 or math.isinf(pace.wait(now, len(flying))):
            now = flying[0] if flying else now
        elif (wait := pace.wait(now, len(flying))) > 0:
            now += wait
        else:
            pace.start(now, len(flying) + 1)
            if len(flying) < most:
                insort(flying, now + latency * chance.uniform(0.7, 1.3))
            else:
                refused += 1
                pace.refused(now, now, after, len(flying) + 1)
    return now - 1000.0, refused, pace


@pytest.mark.parametrize(("most", "latency"), [(4, 1.0), (8, 1.0), (20, 1.0), (2, 5.0), (8, 5.0), (20, 5.0)])
def test_a_limit_on_calls_at_once_is_found(most: int, latency: float) -> None:
    """Of that limit a pace alone used half, or met it with every other call where answers take long."""
    calls = 600
    seconds, refused, pace = time_in_a_crowd(most, calls, latency)
    assert pace.most == most
    assert refused <= 0.02 * calls
    assert calls * latency / most / seconds >= 0.85


@pytest.mark.parametrize("credit", [1, 4, 120])
@pytest.mark.parametrize("latency", [0.2, 1.0, 5.0])
def test_a_limit_on_the_pace_is_not_taken_for_one_on_calls_at_once(credit: int, latency: float) -> None:
    provider, chance, pace, now, left = Provider(120, credit), random.Random(1), Pace(), 1000.0, 600
    flying: list[float] = []
    provider.at = now
    while left:
        flying = [end for end in flying if end > now]
        wait = pace.wait(now, len(flying))
        if wait > 0:
            now = min(flying) if math.isinf(wait) else now + wait
            continue
        pace.start(now, len(flying) + 1)
        if provider.refuses(now):
            pace.refused(now, now, provider.retry_after, len(flying) + 1)
        else:
            left -= 1
            flying.append(now + latency * chance.uniform(0.7, 1.3))
    assert pace.most == 0
    assert provider.refused <= 0.025 * 600
    assert now - 1000.0 <= (600 - credit) / 2 / 0.8


def test_a_limit_on_calls_at_once_that_changes() -> None:
    """Where another process begins, each takes half; when there is more room again, more at once are tried."""
    _, _, pace = time_in_a_crowd(8, 200, 1.0)
    now, most = 10_000.0, pace.most
    for _ in range(2 * CALM):
        pace.start(now, most)
    pace.refused(now, now, 1.0, 3)
    assert pace.most == most // 2
    for _ in range(10 * CALM):
        pace.start(now + 10, pace.most)
    assert pace.most > most // 2


def test_waiting_calls_start_when_one_in_flight_has_ended() -> None:
    async def main() -> None:
        store = ProcessLimits()
        limiter, slots = ModelLimits("model", None, store), asyncio.Semaphore(9)
        store.change("model", 60.0, lambda meter, _: setattr(meter.pace, "most", 1))
        await limiter.enter(1, slots)
        waiting = asyncio.create_task(limiter.enter(1, slots))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        assert slots._value == 8, "none is held while waiting"
        limiter.leave()
        slots.release()
        assert (await asyncio.wait_for(waiting, 1)).flying == 1

    asyncio.run(main())


def test_the_pace_follows_the_provider() -> None:
    _, pace = time_of(Provider(120, 4), 300)
    faster = Provider(480, 4)
    seconds, pace = time_of(faster, 1200, Pace(rate=pace.rate))
    assert seconds < 2 * 1200 / 8
    slower = Provider(30, 2)
    seconds, _ = time_of(slower, 100, Pace(rate=pace.rate))
    assert slower.refused <= 8
    assert seconds < 100 / 0.5 / 0.7


def test_random_refusals_do_not_slow_calls_for_good() -> None:
    chance, pace, now, refused = random.Random(5), Pace(), 1000.0, 0
    for _ in range(400):
        while (wait := pace.wait(now)) > 0:
            now += wait
        pace.start(now)
        if chance.random() < 0.2:
            refused += 1
            pace.refused(now, now, 1.0)
    assert now - 1000.0 < 2.5 * refused  # the pauses that were asked for are one second each


def test_calls_that_were_under_way_at_a_refusal_teach_nothing() -> None:
    pace = Pace()
    for i in range(10):
        pace.start(1000.0 + i)
    pace.refused(1009.5, 1009.0, 2.0)
    rate = pace.rate
    pace.refused(1009.6, 1008.0, 2.0)
    pace.refused(1009.7, 1007.0, 5.0)
    assert pace.rate == rate
    assert 5.0 <= pace.wait(1009.7) < 5.2


def test_a_meter_is_the_same_after_it_was_written_down() -> None:
    meter = Meter(Window(60.0), Pace())
    for i in range(CALM):
        meter.pace.start(1000.0 + i)
        meter.window.start(1000.0 + i, i)
    meter.pace.refused(1100.0, 1099.0, 2.5)
    again = Meter.of(json.loads(json.dumps(meter.state())), 60.0, 1100.0)
    assert again == meter
    assert Meter.of(meter.state(), 60.0, 10.0) == Meter(Window(60.0), Pace()), "a clock that was set back"


@pytest.fixture(params=["file", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A kind of store that processes share, and where it is."""
    if request.param == "file":
        return "file", str(tmp_path / "limits.sqlite")
    return "redis", request.getfixturevalue("redis_server")


def open_store(kind: str, place: str) -> LimitStore:
    return FileLimits(Path(place)) if kind == "file" else RedisLimits(place, prefix="test:")


CALLER = """
import asyncio, sys, time
from graphrag_assets.llm.limiting.limits import ModelLimits
from graphrag_assets.settings import RateLimitSettings
from tests.unit.test_limits import open_store
kind, place, name, calls = sys.argv[1:]
async def main():
    limiter = ModelLimits(name, RateLimitSettings(period_in_seconds=2, requests_per_period=10), open_store(kind, place))
    slots = asyncio.Semaphore(99)
    for _ in range(int(calls)):
        await limiter.enter(1, slots)
        print(time.time(), flush=True)
asyncio.run(main())
"""


def test_processes_share_limits(store: tuple[str, str]) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", CALLER, *store, "shared", "12"]
    callers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(3)]
    started = sorted(float(line) for caller in callers for line in caller.communicate()[0].split())
    assert [caller.returncode for caller in callers] == [0, 0, 0]
    assert len(started) == 36
    # The clock of the store is read a little before the caller prints.
    for i in range(len(started) - 10):
        assert started[i + 10] - started[i] > 2 - 0.3


def test_processes_share_what_refusals_taught(store: tuple[str, str]) -> None:
    async def main() -> None:
        one, other = (ModelLimits("taught", None, open_store(*store)) for _ in range(2))
        slots = asyncio.Semaphore(9)
        reservation = await one.enter(1, slots)
        await one.refused(reservation, 0.4)
        begin = time.monotonic()
        await other.enter(1, slots)
        assert time.monotonic() - begin > 0.3

    asyncio.run(main())


def test_without_redis_the_message_says_what_to_do() -> None:
    told = r"limits.redis_url: Redis cannot be used .*refused.*; check the address"
    with pytest.raises(GatewayError, match=told) as raised:
        RedisLimits("redis://:my-own-secret@127.0.0.1:1/0")
    assert not raised.value.passing, "it never answered: a step that waits and tries again hides a wrong address"


def test_a_folder_that_cannot_be_written_leaves_limits_to_this_process(tmp_path: Path) -> None:
    (tmp_path / ".cache").write_text("in the way")
    workspace = Workspace(root=tmp_path, settings=Settings.model_validate({}))
    assert isinstance(open_limits(workspace), ProcessLimits)


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
    assert time.process_time() - started < 60, "in proportion to the length"
