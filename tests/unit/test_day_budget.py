"""The ceiling of a day: kept by all processes together, whatever becomes of one of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.llm.errors import GatewayError
from graphrag_assets.llm.gateway import Gateway
from graphrag_assets.llm.limiting import day_budget
from graphrag_assets.llm.limiting.budget import Estimate, UnknownPrice
from graphrag_assets.llm.limiting.day_budget import DayBudget, DayReached
from graphrag_assets.llm.limiting.stores import ProcessLimits
from tests.llmsim_server import LlmSim
from tests.unit.llm_workspaces import points, question, workspace
from tests.unit.test_limits import open_store

PRICE = 0.001

#: 10:00 on 17 May 2031 UTC.
MORNING = 1_936_778_400.0


@pytest.fixture(params=["file", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A kind of store that processes share, and where it is."""
    if request.param == "redis":
        return "redis", str(request.getfixturevalue("redis_server"))
    return "file", str(tmp_path / "limits.sqlite")


@pytest.fixture
def account(request: pytest.FixtureRequest) -> str:
    """An account of its own for each test: the Redis server lives longer."""
    return request.node.name


def estimate(prompt: int, completion: int | None = 0, price: float | None = PRICE) -> Estimate:
    return Estimate("m", prompt, completion, price, price)


def use(budget: DayBudget, prompt: int, used: int | None = None) -> None:
    """One call from beginning to end."""

    async def main() -> None:
        held = await budget.reserve(estimate(prompt), 60)
        await budget.settle(held, used, None if used is None else used * PRICE)

    asyncio.run(main())


def test_what_is_spent_is_kept_and_refused(store: tuple[str, str], account: str) -> None:
    budget = DayBudget(open_store(*store), account, usd=1.0, tokens=None)
    use(budget, 600, 400)
    use(budget, 600)  # of unknown use: what was set aside counts
    other = DayBudget(open_store(*store), account, usd=1.0, tokens=None)
    assert (round(other.spent().usd, 9), other.spent().tokens) == (1.0, 1000)
    with pytest.raises(DayReached, match=r"1\.0000 of 1 USD of \d{4}-\d\d-\d\d \(UTC\) are spent by all processes"):
        use(other, 1)
    use(DayBudget(open_store(*store), f"{account} other", usd=1.0, tokens=None), 1)


def test_another_day_begins_with_nothing() -> None:
    now = [MORNING]
    store = ProcessLimits(lambda: now[0])
    budget = DayBudget(store, "a", None, 100)
    use(budget, 100)
    with pytest.raises(DayReached, match=r"100 of 100 tokens of 2031-05-17"):
        use(budget, 1)
    now[0] += 86_400
    use(budget, 100)
    assert budget.spent().day == "2031-05-18"


def test_a_call_counts_for_the_day_on_which_it_was_sent() -> None:
    now = [MORNING + 13 * 3600 + 3599]
    budget = DayBudget(ProcessLimits(lambda: now[0]), "a", None, 100)

    async def main() -> None:
        held = await budget.reserve(estimate(60), 60)
        now[0] += 10
        await budget.settle(held, 60, 0.06)

    asyncio.run(main())
    assert (budget.spent().day, budget.spent().tokens) == ("2031-05-18", 0)
    now[0] -= 10
    assert budget.spent().tokens == 60


def test_an_unknown_price_is_said() -> None:
    with pytest.raises(UnknownPrice, match="price of the model is not known"):
        asyncio.run(DayBudget(ProcessLimits(), "a", 5.0, None).reserve(estimate(1, 0, None), 60))
    budget = DayBudget(ProcessLimits(), "a", None, 500)

    async def main() -> None:
        await budget.settle(await budget.reserve(estimate(100, 0, None), 60), 80, None)

    asyncio.run(main())
    assert (budget.spent().usd, budget.spent().tokens, budget.spent().unpriced_tokens) == (0.0, 80, 80)


def test_a_call_waits_for_those_of_others(store: tuple[str, str], account: str) -> None:
    async def main() -> None:
        one, other = (DayBudget(open_store(*store), account, None, 1000) for _ in range(2))
        held = await one.reserve(estimate(800), 60)
        waiting = asyncio.create_task(other.reserve(estimate(600), 60))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await one.settle(held, 100, 0.1)
        await other.settle(await asyncio.wait_for(waiting, 5))
        assert one.spent().tokens == 700

    asyncio.run(main())


def test_a_call_that_is_overdue_counts_and_is_not_waited_for() -> None:
    now = [MORNING]
    store = ProcessLimits(lambda: now[0])

    async def main() -> None:
        one, other = DayBudget(store, "a", None, 1000), DayBudget(store, "a", None, 1000)
        held = await one.reserve(estimate(800), 60)
        now[0] += 60 + day_budget.GRACE + 1
        assert (other.spent().tokens, other.spent().reserved_tokens) == (800, 0)
        with pytest.raises(DayReached):
            await other.reserve(estimate(600), 60)
        await one.settle(held, 100, 0.1)  # it was alive after all: what it did not use is free again
        assert other.spent().tokens == 100
        await other.reserve(estimate(900), 60)

    asyncio.run(main())


@given(
    st.integers(0, 20_000),
    st.lists(
        st.tuples(st.integers(0, 3000), st.none() | st.integers(0, 6000), st.floats(0, 1), st.booleans()), max_size=12
    ),
)
def test_never_exceeded_by_calls_that_keep_to_their_limits(
    limit: int, calls: list[tuple[int, int | None, float, bool]]
) -> None:
    async def main() -> None:
        store = ProcessLimits()
        budgets = [DayBudget(store, "a", limit / 1000, limit) for _ in range(2)]
        stack = pytest.MonkeyPatch()
        stack.setattr(day_budget, "LOOK_AGAIN", 0.001)

        async def call(budget: DayBudget, prompt: int, completion: int | None, share: float, known: bool) -> None:
            try:
                held = await budget.reserve(Estimate("m", prompt, completion, 0.0005, 0.001), 60)
            except DayReached:
                return
            await asyncio.sleep(0)
            answer = int(held.ticket.completion * share)
            if known:
                await budget.settle(held, prompt + answer, prompt * 0.0005 + answer * 0.001)
            else:
                await budget.settle(held)

        await asyncio.gather(*(call(budgets[i % 2], *c) for i, c in enumerate(calls)))
        spent = budgets[0].spent()
        assert spent.tokens <= limit
        assert spent.usd <= limit / 1000 + 1e-6
        assert spent.reserved_tokens == 0
        stack.undo()

    asyncio.run(main())


SPENDER = """
import asyncio, sys, os
from graphrag_assets.llm.limiting.budget import Estimate
from graphrag_assets.llm.limiting.day_budget import DayBudget, DayReached
from tests.unit.test_limits import open_store

async def main(kind, place, account, whole, hang):
    budget = DayBudget(open_store(kind, place), account, 1.0, None, whole=whole == "1")
    sent = 0
    async def caller():
        nonlocal sent
        while True:
            held = await budget.reserve(Estimate("m", 5, 20, 0.0001, 0.0001), 60)
            sent += 25
            if hang == "1":
                print("holding", flush=True)
                await asyncio.sleep(600)
            await asyncio.sleep(0.005)
            await budget.settle(held, 25, 0.0025)
    try:
        await asyncio.gather(*(caller() for _ in range(4)))
    except DayReached:
        print(sent, flush=True)

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main(*sys.argv[1:]))
"""


def spender(store: tuple[str, str], account: str, *, whole: bool = True, hang: bool = False) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SPENDER, *store, account, str(int(whole)), str(int(hang))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("begin\n")
    process.stdin.flush()


def test_two_processes_never_exceed_the_day(store: tuple[str, str], account: str) -> None:
    both = [spender(store, account) for _ in range(2)]
    for process in both:
        begin(process)
    sent = [int(process.communicate(timeout=60)[0]) for process in both]
    assert sum(sent) == 10_000, "all of the day was used, and nothing more"
    assert min(sent) > 0
    spent = DayBudget(open_store(*store), account, 1.0, None).spent()
    assert (round(spent.usd, 6), spent.reserved_tokens) == (1.0, 0)


def test_a_killed_process_neither_blocks_the_day_nor_lets_it_be_exceeded(store: tuple[str, str], account: str) -> None:
    process = spender(store, account, hang=True)
    begin(process)
    assert process.stdout is not None
    for _ in range(4):
        assert process.stdout.readline() == "holding\n"
    budget = DayBudget(open_store(*store), account, 1.0, None)
    assert budget.spent().reserved_tokens == 100
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert (budget.spent().tokens, budget.spent().reserved_tokens) == (100, 0), "what was in flight counts as spent"
    began = time.monotonic()
    after = spender(store, account)
    begin(after)
    assert int(after.communicate(timeout=60)[0]) == 9_900
    assert time.monotonic() - began < 30
    assert round(budget.spent().usd, 6) == 1.0


def test_the_gateway_keeps_it(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    chat = {"prices": {"input_per_million": 1000, "output_per_million": 1000}, "call_args": {"max_tokens": 100}}
    place = workspace(tmp_path, llmsim, chat=chat, budget={"usd_per_day": 1.0})

    async def ask(first: int, runs: bool) -> int:
        """Questions until the day is spent."""
        asked = 0
        async with Gateway(place, run="run" if runs else None, must_keep=runs) as gateway:
            with suppress(DayReached):
                for number in range(first, first + 30):
                    await gateway.ask("stage", "chat")(question(number), points)
                    asked += 1
        return asked

    before = llmsim.requests
    first = asyncio.run(ask(0, runs=True))
    assert 0 < first < 30
    assert asyncio.run(ask(100, runs=True)) == 0, "the next run of this day sends nothing"
    asyncio.run(ask(200, runs=False))  # a question may take what is left, with a shorter answer
    assert llmsim.requests > before
    budget = day_budget.open_day_budget(place)
    assert budget is not None
    assert budget.spent().usd <= 1.0
    assert budget.spent().reserved_tokens == 0


def test_refused_calls_cost_nothing(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset(faults={"error500": 1.0})
    place = workspace(
        tmp_path, llmsim, chat={"retry": {"max_retries": 1, "base_delay": 0.01}}, budget={"tokens_per_day": 10**6}
    )

    async def main() -> None:
        async with Gateway(place) as gateway:
            with pytest.raises(Exception, match="500"):
                await gateway.ask("stage", "chat")(question(1), points)

    asyncio.run(main())
    budget = day_budget.open_day_budget(place)
    assert budget is not None
    assert budget.spent().tokens == 0


def test_where_it_cannot_be_kept_nothing_is_sent(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    (tmp_path / "taken").write_text("a file")
    place = workspace(tmp_path, llmsim, budget={"tokens_per_day": 10**6}, limits={"path": "taken/limits.sqlite"})

    async def main() -> None:
        async with Gateway(place) as gateway:
            await gateway.ask("stage", "chat")(question(1), points)

    before = llmsim.requests
    with pytest.raises(GatewayError, match=r"limits\.path"):
        asyncio.run(main())
    assert llmsim.requests == before


def test_an_answer_that_cannot_be_noted_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ProcessLimits):
        broken = False

        def update(self, name, changed):  # type: ignore[no-untyped-def]
            if self.broken:
                raise GatewayError("gone")
            return super().update(name, changed)

    store = Broken()
    budget = DayBudget(store, "a", None, 1000)

    async def main() -> None:
        held = await budget.reserve(estimate(100), 60)
        store.broken = True
        await budget.settle(held, 10, 0.1)
        store.broken = False

    asyncio.run(main())
    assert "counts as its ceiling" in caplog.text
    assert budget.spent().reserved_tokens == 100
