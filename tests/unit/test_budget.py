"""A ceiling on tokens and price: kept before calls are sent, whatever the model does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.llm.gateway import Gateway
from graphrag_assets.llm.limiting.budget import (
    SHORTEST_ANSWER,
    USUAL_ANSWER,
    Budget,
    BudgetReached,
    Estimate,
    UnknownPrice,
    limited_by,
)
from tests.llmsim_server import LlmSim
from tests.unit.llm_workspaces import points, question, workspace


def reserve(budget: Budget, prompt: int, completion: int | None = 0, price: float | None = 0.001) -> int:
    """Reserve and leave it open; the tokens granted to the answer."""
    return asyncio.run(budget.reserve(Estimate("m", prompt, completion, price, price))).completion


def test_what_is_told_of_the_next_call_is_what_did_not_fit() -> None:
    price = 1e-4
    with pytest.raises(BudgetReached, match=r"1,000 tokens and its answer up to 4,096, 0\.5096 USD together"):
        asyncio.run(Budget(usd=0.5, whole=True).reserve(Estimate("m", 1000, None, price, price)))
    with pytest.raises(BudgetReached, match=r"1,000 tokens and its answer up to 50, 0\.1050 USD together"):
        asyncio.run(Budget(usd=0.1, whole=True).reserve(Estimate("m", 1000, 50, price, price)))
    with pytest.raises(BudgetReached, match=r"the next call has 1,000 tokens, 0\.1000 USD$"):
        asyncio.run(Budget(usd=0.05, whole=True).reserve(Estimate("m", 1000, 0, price, price)))


def test_without_a_limit_everything_is_granted() -> None:
    budget = Budget()
    assert reserve(budget, 10**9, 10**9, None) == 10**9
    assert not budget.limited


def test_an_answer_is_limited_to_what_is_left() -> None:
    assert reserve(Budget(tokens=1000), 300, 10_000) == 700
    assert reserve(Budget(usd=1.0), 300, 10_000) == 700
    assert reserve(Budget(usd=1.0, tokens=900), 300, 10_000) == 600


def test_a_prompt_that_does_not_fit_is_not_sent() -> None:
    budget = Budget(usd=1.0)
    with pytest.raises(BudgetReached, match=r"0\.0000 of 1 USD are spent.*1,001 tokens, 1\.0010 USD"):
        reserve(budget, 1001)
    with pytest.raises(BudgetReached, match=r"0 of 500 tokens are spent"):
        reserve(Budget(tokens=500), 500, None)
    assert budget.reached


def test_an_answer_too_short_to_be_of_use_is_not_asked_for() -> None:
    with pytest.raises(BudgetReached):
        reserve(Budget(tokens=1000), 1001 - SHORTEST_ANSWER, None)
    assert reserve(Budget(tokens=1000), 1000 - SHORTEST_ANSWER, None) == SHORTEST_ANSWER
    assert reserve(Budget(tokens=1000), 990, 10) == 10


def test_an_unknown_price_is_not_nothing() -> None:
    with pytest.raises(UnknownPrice, match="price of the model is not known"):
        reserve(Budget(usd=100.0), 1, 1, None)
    assert reserve(Budget(tokens=100), 1, 1, None) == 1


def test_what_was_used_takes_the_place_of_what_was_reserved() -> None:
    async def main() -> Budget:
        budget = Budget(tokens=1000)
        ticket = await budget.reserve(Estimate("m", 100, 800))
        budget.settle(ticket, 150)
        budget.settle(ticket, 150)  # once only
        ticket = await budget.reserve(Estimate("m", 100, 750))
        budget.settle(ticket)
        return budget

    budget = asyncio.run(main())
    assert budget.spent_tokens == 1000


def test_a_call_waits_for_those_in_flight_rather_than_being_refused() -> None:
    async def main() -> list[int]:
        budget = Budget(tokens=1000)
        first = await budget.reserve(Estimate("m", 100, 800))
        second = asyncio.create_task(budget.reserve(Estimate("m", 100, 600)))
        third = asyncio.create_task(budget.reserve(Estimate("m", 2000, 600)))
        await asyncio.sleep(0.01)
        assert not second.done()
        assert not third.done()
        budget.settle(first, 110)
        granted = [(await second).completion]
        budget.settle(await second, 110)
        with pytest.raises(BudgetReached):
            await third
        return granted

    assert asyncio.run(main()) == [600]


def test_an_answer_of_unknown_length_gets_the_usual_one() -> None:
    assert reserve(Budget(tokens=10**6), 10, None) == USUAL_ANSWER
    assert reserve(Budget(), 10, None) == USUAL_ANSWER


@given(
    st.integers(0, 30_000),
    st.lists(st.tuples(st.integers(0, 5000), st.none() | st.integers(0, 9000), st.floats(0, 1)), max_size=20),
)
def test_never_exceeded_by_calls_that_keep_to_their_limits(
    tokens: int, calls: list[tuple[int, int | None, float]]
) -> None:
    async def main() -> None:
        budget = Budget(tokens=tokens, usd=tokens / 1000)

        async def call(prompt: int, completion: int | None, share: float) -> None:
            try:
                ticket = await budget.reserve(Estimate("m", prompt, completion, 0.0005, 0.002))
            except BudgetReached:
                return
            await asyncio.sleep(0)
            used = int(ticket.completion * share)
            budget.settle(ticket, prompt + used, prompt * 0.0005 + used * 0.002)

        async with asyncio.timeout(5):
            await asyncio.gather(*(call(*c) for c in calls))
        assert budget.spent_tokens <= tokens
        assert budget.spent_usd <= tokens / 1000 + 1e-9

    asyncio.run(main())


def test_a_share_is_charged_beside_the_whole() -> None:
    async def main() -> None:
        whole = Budget(tokens=1000)
        whole.settle(await whole.reserve(Estimate("m", 100)), 100)
        part = whole.share(0.5)
        assert (part.tokens, part.usd) == (450, None)
        with pytest.raises(BudgetReached, match="the budget for the steps before the last one is reached"):
            await part.reserve(Estimate("m", 500))
        assert whole.reached

    asyncio.run(main())


def ask_under(budget: Budget | None, root: Path, llmsim: LlmSim, count: int, **chat: object) -> list[object]:
    async def main() -> list[object]:
        async with Gateway(workspace(root, llmsim, chat=dict(chat)), budget) as gateway:
            ask = gateway.ask("stage", "chat")
            return await asyncio.gather(*(ask(question(n), points) for n in range(count)), return_exceptions=True)

    return asyncio.run(main())


def test_the_gateway_of_a_run_stops_at_its_budget(llmsim: LlmSim, tmp_path: Path) -> None:
    budget = Budget(tokens=2000)
    answers = ask_under(budget, tmp_path, llmsim, 20)
    stopped = [a for a in answers if isinstance(a, BudgetReached)]
    assert len(stopped) + llmsim.requests == 20
    assert 1 <= llmsim.requests < 20
    assert budget.spent_tokens <= 2000
    assert all(isinstance(a, BudgetReached) or not isinstance(a, BaseException) for a in answers)
    # What was answered is kept, and costs nothing the next time, even when nothing may be spent.
    requests = llmsim.requests
    again = ask_under(Budget(tokens=0), tmp_path, llmsim, 20)
    assert [isinstance(a, BudgetReached) for a in again] == [isinstance(a, BudgetReached) for a in answers]
    assert llmsim.requests == requests


def test_price_of_the_budget_is_that_of_the_accounts(llmsim: LlmSim, tmp_path: Path) -> None:
    budget = Budget(usd=1.0)

    async def main() -> float | None:
        async with Gateway(workspace(tmp_path, llmsim), budget) as gateway:
            await gateway.ask("stage", "chat")(question(1), points)
            async for _ in gateway.chat_stream("stage", "chat", question(2)):
                pass
            await gateway.embed("stage", "vectors", ["a text", "another"])
            return gateway.usage()["stage"].usd

    assert budget.spent_usd == 0
    assert asyncio.run(main()) == pytest.approx(budget.spent_usd)
    assert budget.spent_usd > 0


def test_a_failed_call_costs_nothing_and_one_without_an_answer_what_was_reserved(
    llmsim: LlmSim, tmp_path: Path
) -> None:
    llmsim.reset(faults={"error500": 1.0})
    budget = Budget(tokens=10_000)
    ask_under(budget, tmp_path, llmsim, 1)
    assert budget.spent_tokens == 0
    llmsim.reset(faults={"timeout": 1.0})
    budget = Budget(tokens=10_000)
    ask_under(budget, tmp_path, llmsim, 1, timeout=0.1, call_args={"max_tokens": 500})
    assert budget.spent_tokens > 500


def test_the_budget_of_a_question_holds_beside_that_of_the_run(llmsim: LlmSim, tmp_path: Path) -> None:
    run, own = Budget(tokens=100_000), Budget(tokens=0)

    async def main() -> None:
        async with Gateway(workspace(tmp_path, llmsim), run) as gateway:
            ask = gateway.ask("stage", "chat")
            with limited_by(own), pytest.raises(BudgetReached):
                await asyncio.gather(ask(question(1), points))
            assert llmsim.requests == 0
            await ask(question(1), points)

    asyncio.run(main())
    assert own.reached
    assert not run.reached
    assert run.spent_tokens > 0


def test_a_model_without_a_price_is_named(llmsim: LlmSim, tmp_path: Path) -> None:
    (answer,) = ask_under(Budget(usd=1.0), tmp_path, llmsim, 1, model="own-model")
    assert isinstance(answer, UnknownPrice)
    assert "completion_models.chat" in str(answer)
    assert llmsim.requests == 0
