"""Questions in batches of a provider: how they are collected, sent once, and completed whatever comes back."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphrag_assets.indexing.asking import Reply
from graphrag_assets.llm.batching import desk, lines
from graphrag_assets.llm.batching.records import Flight, Records, records_path
from graphrag_assets.llm.batching.waiting import BatchPending, waiting_for_batches
from graphrag_assets.llm.errors import GatewayError
from graphrag_assets.llm.gateway import Gateway
from graphrag_assets.llm.ledger import read_calls
from graphrag_assets.llm.limiting.budget import Budget, BudgetReached
from graphrag_assets.llm.limiting.day_budget import DayReached, open_day_budget
from graphrag_assets.settings import Workspace
from tests.batch_server import BatchServer
from tests.unit.llm_workspaces import QUICK, points, question, workspace

BATCH = {"min_requests": 3, "poll_seconds": 0.02}
PRICES = {"input_per_million": 1.0, "output_per_million": 4.0}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few ask here, and all at once: that nobody else does shows soon."""
    monkeypatch.setattr(desk, "LINGER", 0.05)


def batched(root: Path, server: BatchServer, batch: dict[str, Any] | None = None, **entry: Any) -> Workspace:
    both = {"api_base": server.base, "batch_api": BATCH | (batch or {}), "prices": PRICES, **entry}
    return workspace(root, server.llmsim, chat=both, embedding=both)


async def ask(
    space: Workspace, numbers: Sequence[int], budget: Budget | None = None
) -> tuple[list[Reply[list[Any]]], Any]:
    async with Gateway(space, budget, "run", batches=True) as gateway:
        asking = gateway.ask("stage", "chat")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asking(question(number), points, row=f"row {number}")) for number in numbers]
        return [task.result() for task in tasks], gateway.usage()["stage"]


def waited(space: Workspace, numbers: Sequence[int], budget: Budget | None = None) -> tuple[list[Any], Any]:
    with waiting_for_batches():
        return asyncio.run(ask(space, numbers, budget))


_DIRECT: dict[int, Any] = {}


def direct(root: Path, server: BatchServer, numbers: Sequence[int]) -> list[Any]:
    """Answers of ordinary calls; asked once for all tests, since the simulator always gives the same ones."""

    async def ask_new() -> None:
        async with Gateway(workspace(root / "direct", server.llmsim)) as gateway:
            asking = gateway.ask("stage", "chat")
            for number in numbers:
                if number not in _DIRECT:
                    _DIRECT[number] = (await asking(question(number), points)).value

    if not _DIRECT.keys() >= set(numbers):
        asyncio.run(ask_new())
    return [_DIRECT[number] for number in numbers]


def pending(space: Workspace, numbers: Sequence[int], budget: Budget | None = None) -> BatchPending:
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(ask(space, numbers, budget))
    first = caught.value.exceptions[0]
    assert isinstance(first, BatchPending), first
    return first


def test_answers_are_those_of_direct_calls_at_half_the_price(tmp_path: Path, batch_server: BatchServer) -> None:
    space = batched(tmp_path, batch_server)
    replies, usage = waited(space, range(20))
    assert [reply.value for reply in replies] == direct(tmp_path, batch_server, range(20))
    assert len(batch_server.batches) == 1
    assert batch_server.direct_calls == 0
    assert (usage.calls, usage.batched) == (20, 20)
    full = usage.prompt_tokens * 1e-6 + usage.completion_tokens * 4e-6
    assert usage.usd == pytest.approx(full / 2)
    rows = read_calls(space.path(space.settings.cache.path), space.uri(space.settings.storage.base))
    assert {(row.row, row.batched, row.cached) for row in rows} == {(f"row {n}", True, False) for n in range(20)}
    assert sum(row.usd or 0.0 for row in rows) == pytest.approx(usage.usd)
    assert batch_server.files == {}, "questions and answers are deleted at the provider"
    assert Records(records_path(space)).flights() == []


def test_a_run_that_does_not_wait_goes_on_where_it_was(tmp_path: Path, batch_server: BatchServer) -> None:
    space = batched(tmp_path, batch_server)
    error = pending(space, range(5))
    assert "5 questions of stage to completion_models.chat (batch_" in str(error)
    pending(space, range(5))
    assert len(batch_server.batches) == 1, "what is under way is not sent again"
    pending(space, range(9))
    assert [batch.requests for batch in batch_server.batches.values()] == [5, 4], "only what is new is sent"
    batch_server.finish()
    replies, usage = asyncio.run(ask(space, range(9)))
    assert [reply.value for reply in replies] == direct(tmp_path, batch_server, range(9))
    assert usage.calls == 9
    replies, usage = asyncio.run(ask(space, range(9)))
    assert (usage.calls, usage.cached) == (0, 9)


def test_few_questions_are_asked_at_once(tmp_path: Path, batch_server: BatchServer) -> None:
    _, usage = asyncio.run(ask(batched(tmp_path, batch_server), range(2)))
    assert (usage.calls, usage.batched) == (2, 0)
    assert batch_server.batches == {}


def test_equal_questions_travel_once(tmp_path: Path, batch_server: BatchServer) -> None:
    _, usage = waited(batched(tmp_path, batch_server), [1, 1, 2, 2, 3, 3, 4])
    assert [batch.requests for batch in batch_server.batches.values()] == [4]
    assert (usage.calls, usage.cached) == (4, 3)


def test_files_keep_to_the_limits_of_the_provider(tmp_path: Path, batch_server: BatchServer) -> None:
    waited(batched(tmp_path / "lines", batch_server, {"max_requests": 4}), range(10))
    assert [batch.requests for batch in batch_server.batches.values()] == [4, 4, 2]
    batch_server.batches.clear()
    waited(batched(tmp_path / "bytes", batch_server, {"max_bytes": 1500}), range(10))
    assert len(batch_server.batches) > 2


def test_a_turn_of_a_conversation_becomes_the_next_batch(tmp_path: Path, batch_server: BatchServer) -> None:
    async def conversation(asking: Any, number: int) -> None:
        first = await asking(question(number), points)
        said = [*question(number), {"role": "assistant", "content": first.text}, *question(number + 100)]
        await asking(said, points)

    async def all_of_them() -> None:
        async with Gateway(batched(tmp_path, batch_server), None, "run", batches=True) as gateway:
            asking = gateway.ask("stage", "chat")
            await asyncio.gather(*(conversation(asking, number) for number in range(6)))

    with waiting_for_batches():
        asyncio.run(all_of_them())
    assert [batch.requests for batch in batch_server.batches.values()] == [6, 6]
    assert batch_server.direct_calls == 0


# -- what comes back ---------------------------------------------------------------------------------------------------


def test_lines_may_come_in_any_order_twice_or_damaged(tmp_path: Path, batch_server: BatchServer) -> None:
    def spoil(output: list[bytes], errors: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        foreign = json.dumps({"custom_id": "00" * 32, "response": {"status_code": 200, "body": {}}}).encode()
        odd = [b"", b"not JSON", b'{"custom_id": 7}', b'{"custom_id": "zz"}', b"[1]", b"null", foreign]
        return [*odd, *reversed(output[2:]), output[5], b'{"custom_id": "' + b"0" * 9], errors

    batch_server.spoil = spoil
    replies, usage = waited(batched(tmp_path, batch_server), range(10))
    assert [reply.value for reply in replies] == direct(tmp_path, batch_server, range(10))
    assert usage.batched == 8
    assert batch_server.direct_calls == 2, "what did not come is asked by ordinary calls"


def test_failed_lines_are_asked_by_ordinary_calls(tmp_path: Path, batch_server: BatchServer) -> None:
    def spoil(output: list[bytes], errors: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        failed = [json.loads(line) for line in output[:3]]
        for row, status in zip(failed, (500, 429, 400), strict=True):
            row["response"] = {"status_code": status, "body": {"error": {"message": "no"}}}
        return output[3:], [json.dumps(row).encode() for row in failed]

    batch_server.spoil = spoil
    replies, usage = waited(batched(tmp_path, batch_server), range(10))
    assert [reply.value for reply in replies] == direct(tmp_path, batch_server, range(10))
    assert (usage.batched, batch_server.direct_calls) == (7, 3)


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{"message": {"content": "no JSON"}}]}])
def test_answers_that_cannot_be_used_are_not_kept(tmp_path: Path, batch_server: BatchServer, body: Any) -> None:
    def spoil(output: list[bytes], errors: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        rows = [json.loads(line) for line in output]
        rows[0]["response"]["body"] = body
        return [json.dumps(row).encode() for row in rows], errors

    batch_server.spoil = spoil
    space = batched(tmp_path, batch_server)
    replies, _ = waited(space, range(5))
    assert [reply.value for reply in replies] == direct(tmp_path, batch_server, range(5))
    assert batch_server.direct_calls == 1
    assert Records(records_path(space)).answered() == []


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_what_a_batch_did_not_come_to_is_sent_again(tmp_path: Path, batch_server: BatchServer, end: str) -> None:
    batch_server.ends = [end]
    batch_server.share = 0.4
    replies, usage = waited(batched(tmp_path, batch_server), range(10))
    assert [reply.value for reply in replies] == direct(tmp_path, batch_server, range(10))
    assert [batch.requests for batch in batch_server.batches.values()] == [10, 6]
    assert (usage.batched, batch_server.direct_calls) == (10, 0)


def test_few_that_are_left_are_asked_at_once(tmp_path: Path, batch_server: BatchServer) -> None:
    batch_server.ends = ["expired"]
    batch_server.share = 0.8
    _, usage = waited(batched(tmp_path, batch_server), range(10))
    assert (usage.batched, batch_server.direct_calls, len(batch_server.batches)) == (8, 2, 1)


def test_what_expires_twice_is_asked_by_ordinary_calls(tmp_path: Path, batch_server: BatchServer) -> None:
    batch_server.ends = ["expired", "expired", "expired"]
    batch_server.share = 0.0
    _, usage = waited(batched(tmp_path, batch_server), range(10))
    assert (usage.batched, batch_server.direct_calls, len(batch_server.batches)) == (0, 10, 2)


def test_a_refused_batch_ends_with_its_reason(tmp_path: Path, batch_server: BatchServer) -> None:
    batch_server.ends = ["failed:invalid_model:the model has no batch API"]
    space = batched(tmp_path, batch_server)
    with pytest.raises(ExceptionGroup) as caught:
        waited(space, range(10))
    (error, *_) = caught.value.exceptions
    assert isinstance(error, GatewayError)
    assert (
        "completion_models.chat: the provider refused batch batch_2: invalid_model: the model has no batch API"
        in str(error)
    )
    assert Records(records_path(space)).flights() == []
    _, usage = waited(space, range(10))
    assert usage.batched == 10, "nothing stays in the way of the next run"


def test_a_full_queue_makes_smaller_batches(tmp_path: Path, batch_server: BatchServer) -> None:
    batch_server.ends = ["failed:token_limit_exceeded:Enqueued token limit reached"]
    _, usage = waited(batched(tmp_path, batch_server), range(12))
    assert [batch.requests for batch in batch_server.batches.values()] == [12, 6, 6]
    assert usage.batched == 12


def test_batches_grow_again_after_a_full_queue(tmp_path: Path, batch_server: BatchServer) -> None:
    batch_server.ends = ["failed:token_limit_exceeded:Enqueued token limit reached"] * 3
    _, usage = waited(batched(tmp_path, batch_server), range(32))
    assert [batch.requests for batch in batch_server.batches.values()] == [32, 16, 8, 4, 8, 16, 4]
    assert usage.batched == 32


def test_a_batch_that_the_provider_lost_is_sent_again(tmp_path: Path, batch_server: BatchServer) -> None:
    space = batched(tmp_path, batch_server)
    pending(space, range(5))
    batch_server.batches.clear()
    pending(space, range(5))
    assert len(batch_server.batches) == 1


def test_a_batch_that_takes_too_long_is_cancelled(tmp_path: Path, batch_server: BatchServer) -> None:
    space = batched(tmp_path, batch_server, {"max_hours": 1e-9})
    batch_server.share = 0.5
    _, usage = waited(space, range(10))
    assert usage.calls == 10
    assert sum(request.endswith("/cancel") for request in batch_server.requests) >= 1


# -- a provider that is not well ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["POST /files", "POST /batches", "GET /batches", "GET /files"])
def test_refusals_are_repeated(tmp_path: Path, batch_server: BatchServer, kind: str) -> None:
    batch_server.refusals = {kind: [500, 429, 503]}
    replies, usage = waited(batched(tmp_path, batch_server), range(6))
    assert [reply.value for reply in replies] == direct(tmp_path, batch_server, range(6))
    assert (usage.batched, len(batch_server.batches)) == (6, 1)


def test_a_batch_that_was_made_although_nobody_heard_is_not_made_twice(
    tmp_path: Path, batch_server: BatchServer
) -> None:
    batch_server.refusals = {"POST /batches": [0]}
    _, usage = waited(batched(tmp_path, batch_server), range(6))
    assert (usage.batched, len(batch_server.batches)) == (6, 1)


def test_polls_that_fail_for_long_do_not_end_the_wait(tmp_path: Path, batch_server: BatchServer) -> None:
    space = batched(tmp_path, batch_server, retry={**QUICK, "max_retries": 1})
    batch_server.refusals = {"GET /batches": [500] * 12}
    _, usage = waited(space, range(6))
    assert usage.batched == 6


@pytest.mark.parametrize("kind", ["POST /files", "POST /batches"])
def test_a_wrong_key_is_told(tmp_path: Path, batch_server: BatchServer, kind: str) -> None:
    batch_server.refusals = {kind: [401]}
    space = batched(tmp_path, batch_server)
    with pytest.raises(ExceptionGroup) as caught:
        waited(space, range(6))
    assert "completion_models.chat: could not send a batch: HTTP 401" in str(caught.value.exceptions[0])
    assert Records(records_path(space)).flights() == []


# -- processes that die, and several at once ---------------------------------------------------------------------------


def killed_while_sending(space: Workspace, server: BatchServer, kind: str) -> None:
    """End a run as a kill does: nothing of it happens after a request of this kind has been carried out."""
    dead = threading.Event()

    def hold(asked: str) -> None:
        if asked != kind or server.requests.count(kind) > 1:  # what a killed run does not live to ask
            dead.wait(10)

    async def stopped() -> None:
        task = asyncio.create_task(ask(space, range(6)))
        while not any(request == kind for request in server.requests):  # noqa: ASYNC110 (a thread serves)
            await asyncio.sleep(0.005)
        for other in asyncio.all_tasks() - {asyncio.current_task()}:
            other.cancel()
        await asyncio.gather(task, return_exceptions=True)

    server.before = lambda asked: hold(asked) if kind in server.requests else None
    asyncio.run(stopped())
    server.before = lambda asked: None
    dead.set()


@pytest.mark.parametrize(("at", "batches"), [("POST /files", 0), ("POST /batches", 1)])
def test_a_run_that_died_while_sending(tmp_path: Path, batch_server: BatchServer, at: str, batches: int) -> None:
    space = batched(tmp_path, batch_server)
    batch_server.refusals = {at: [0]}
    killed_while_sending(space, batch_server, at)
    assert [flight.state for flight in Records(records_path(space)).flights()] == ["writing"]
    _, usage = waited(space, range(6))
    assert usage.batched == 6
    assert len(batch_server.batches) == 1, "no question is sent twice"


def test_two_runs_at_once_send_once(tmp_path: Path, batch_server: BatchServer) -> None:
    space = batched(tmp_path, batch_server)

    async def both() -> list[Any]:
        return await asyncio.gather(ask(space, range(8)), ask(space, range(4, 12)))

    with waiting_for_batches():
        one, two = asyncio.run(both())
    assert len(one[0]) == len(two[0]) == 8
    assert len(batch_server.sent) == len(set(batch_server.sent)) == 12


def test_answers_that_were_collected_by_a_run_that_died(tmp_path: Path, batch_server: BatchServer) -> None:
    space = batched(tmp_path, batch_server)
    pending(space, range(6))
    batch_server.finish()
    records = Records(records_path(space))

    async def collects_and_dies() -> None:
        async with Gateway(space, None, "run", batches=True) as gateway:
            waiting = gateway._chat("chat")._desk
            assert waiting is not None
            (flight,) = records.flights()
            assert await waiting._channel.collect(flight, records)

    asyncio.run(collects_and_dies())
    assert len(records.answered()) == 6
    _, usage = asyncio.run(ask(space, range(6)))
    assert (usage.batched, len(batch_server.batches)) == (6, 1)
    assert records.flights() == []


def test_answers_that_another_run_takes_at_the_same_time(tmp_path: Path, batch_server: BatchServer) -> None:
    space = batched(tmp_path, batch_server)
    pending(space, range(6))
    batch_server.finish()
    records = Records(records_path(space))
    (flight,) = records.flights()

    def take_before(kind: str) -> None:
        if kind == "GET /files" and batch_server.files:
            told = lines.read([data for name, data in batch_server.files.values() if name == "output.jsonl"])
            records.collect(flight.token, "completed", told.answers.items(), whole=True)
            batch_server.files.clear()

    batch_server.before = take_before
    _, usage = asyncio.run(ask(space, range(6)))
    assert (usage.batched, len(batch_server.batches), batch_server.direct_calls) == (6, 1, 0)


# -- budgets -----------------------------------------------------------------------------------------------------------


def test_a_budget_is_kept_when_a_batch_is_sent_and_settled_when_it_comes(
    tmp_path: Path, batch_server: BatchServer
) -> None:
    space = batched(tmp_path, batch_server, call_args={"max_tokens": 500})
    budget = Budget(tokens=3000, whole=True)
    with pytest.raises(ExceptionGroup):
        asyncio.run(ask(space, range(30), budget))
    (batch,) = batch_server.batches.values()
    assert 3 <= batch.requests < 6, "as many as the budget allows"
    assert 2000 < budget.spent_tokens <= 3000, "what they may cost at most is set aside"


def test_what_was_set_aside_and_not_used_is_for_the_next_batch(tmp_path: Path, batch_server: BatchServer) -> None:
    space = batched(tmp_path, batch_server, call_args={"max_tokens": 500})
    budget = Budget(usd=0.02, whole=True)
    replies, usage = waited(space, range(30), budget)
    assert len(replies) == 30
    assert len(batch_server.batches) > 1
    assert budget.spent_usd == pytest.approx(usage.usd)


def of_a_day(space: Workspace, tokens: int) -> Workspace:
    """The workspace with a budget of the day."""
    budget = space.settings.budget.model_copy(update={"tokens_per_day": tokens})
    return space.model_copy(update={"settings": space.settings.model_copy(update={"budget": budget})})


def spent_today(space: Workspace) -> int:
    day = open_day_budget(space)
    assert day is not None
    return day.spent().tokens


def test_the_budget_of_a_day_is_kept_when_a_batch_is_sent_and_settled_when_it_comes(
    tmp_path: Path, batch_server: BatchServer
) -> None:
    space = batched(tmp_path, batch_server, call_args={"max_tokens": 500})
    few = of_a_day(space, 6_000)
    with pytest.raises(ExceptionGroup):
        asyncio.run(ask(few, range(30)))
    (batch,) = batch_server.batches.values()
    assert 3 <= batch.requests < 12, "as many as the day allows"
    assert batch.requests * 500 <= spent_today(few) <= 6_000, "what they may cost at most counts as spent"
    many = of_a_day(space, 300_000)
    replies, usage = waited(many, range(30))
    assert len(replies) == 30
    assert spent_today(many) == usage.prompt_tokens + usage.completion_tokens


def test_a_day_that_allows_nothing_sends_nothing(tmp_path: Path, batch_server: BatchServer) -> None:
    space = of_a_day(batched(tmp_path, batch_server, call_args={"max_tokens": 500}), 100)
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(ask(space, range(30)))
    assert caught.group_contains(DayReached)
    assert not batch_server.batches
    assert spent_today(space) == 0


def test_a_budget_of_nothing_sends_nothing(tmp_path: Path, batch_server: BatchServer) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        waited(batched(tmp_path, batch_server), range(30), Budget(usd=0.0, whole=True))
    assert isinstance(caught.value.exceptions[0], BudgetReached)
    assert batch_server.batches == {}


# -- vectors -----------------------------------------------------------------------------------------------------------


def test_vectors_are_those_of_direct_calls(tmp_path: Path, batch_server: BatchServer) -> None:
    texts = [f"Text {number} about the quarry. " * (1 + 400 * (number == 3)) for number in range(9)] + ["", "Text 2"]
    small = {"context_window": 600}

    async def embed(space: Workspace, batches: bool) -> Any:
        async with Gateway(space, None, "run", batches=batches) as gateway:
            vectors = await gateway.embed("stage", "vectors", texts, rows=[str(i) for i in range(len(texts))])
            return vectors, gateway.usage()["stage"]

    with waiting_for_batches():
        vectors, usage = asyncio.run(embed(batched(tmp_path, batch_server, **small), True))
    expected, whole = asyncio.run(embed(workspace(tmp_path / "direct", batch_server.llmsim, embedding=small), False))
    assert np.array_equal(vectors, expected)
    assert usage.batched == usage.calls > 9, "one question for each window"
    assert usage.prompt_tokens == whole.prompt_tokens
    assert batch_server.direct_calls == 0


def test_vectors_that_did_not_come_are_asked_for(tmp_path: Path, batch_server: BatchServer) -> None:
    def spoil(output: list[bytes], errors: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        bad = json.loads(output[0])
        bad["response"]["body"]["data"][0]["embedding"] = [float("nan")] * 3
        return [json.dumps(bad).encode(), *output[2:]], errors

    batch_server.spoil = spoil

    async def embed() -> Any:
        async with Gateway(batched(tmp_path, batch_server), None, "run", batches=True) as gateway:
            return await gateway.embed("stage", "vectors", [f"Text {number}" for number in range(8)])

    with waiting_for_batches():
        vectors = asyncio.run(embed())
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
    assert batch_server.direct_calls == 1


# -- through LiteLLM ---------------------------------------------------------------------------------------------------


def test_through_litellm(tmp_path: Path, batch_server: BatchServer) -> None:
    space = batched(tmp_path, batch_server, client="litellm")
    batch_server.ends = ["expired"]
    replies, usage = waited(space, range(10))
    assert [reply.value for reply in replies] == direct(tmp_path, batch_server, range(10))
    assert (usage.batched, len(batch_server.batches)) == (10, 2)
    assert batch_server.files == {}


# -- files and records -------------------------------------------------------------------------------------------------


def test_a_file_has_one_line_for_each_question() -> None:
    asked = [lines.question(bytes([n]) * 32, "/v1/chat/completions", {"model": "m", "n": n}) for n in range(5)]
    assert [[each.key[0] for each in part] for part in lines.files(asked, 2, 10**6)] == [[0, 1], [2, 3], [4]]
    assert [len(part) for part in lines.files(asked, 10, 1)] == [1] * 5, "a longer line stands alone"
    row = json.loads(asked[3].line)
    assert row == {
        "custom_id": "03" * 32,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "m", "n": 3},
    }


def test_one_process_at_a_time_may_send(tmp_path: Path) -> None:
    records = Records(tmp_path / "batches.sqlite")
    right = records.right_to_send()
    assert right is not None
    assert records.right_to_send() is None
    right.close()
    again = records.right_to_send()
    assert again is not None
    again.close()


def test_a_question_belongs_to_one_batch(tmp_path: Path) -> None:
    records = Records(tmp_path / "batches.sqlite")
    records.claim(Flight("a", "place", "entry", "stage", 1), [b"key"])
    with pytest.raises(Exception, match="UNIQUE"):
        records.claim(Flight("b", "place", "entry", "stage", 1), [b"key"])
    assert [flight.token for flight in records.flights("place")] == ["a"]
    assert records.flights("elsewhere") == []
