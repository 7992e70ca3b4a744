"""The gateway against the simulator over HTTP: every kind of fault, validation, limits, fail-fast, streaming."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.indexing.asking import AnswerError, Reply
from graphrag_assets.llm.gateway import Gateway, GatewayError, StageUsage
from tests.llmsim_server import LlmSim
from tests.unit.llm_workspaces import KEY, points, question, workspace

CHAT_FAULTS = [
    *("error429", "error500", "error502", "error503", "bad_json_body", "slow", "drop", "drop_mid", "timeout"),
    *("truncated", "length", "malformed_json", "fenced", "prose", "garbage", "wrong_delims", "empty", "null_content"),
    *("refusal", "content_filter", "bad_schema", "error400", "context_length"),
]
STATUS = {"length": "truncated", "refusal": "refused", "content_filter": "refused"}


class RefusalError(ValueError):
    """As parsers raise it for a refusal in words."""

    status = "refused"


def refusing(text: str) -> list[Any]:
    if text.startswith("I'm sorry") or "cannot assist" in text:
        raise RefusalError("a refusal")
    return points(text)


async def ask_all(
    gateway: Gateway, numbers: Sequence[int], parse: Callable[[str], Any] = points, **options: Any
) -> list[Reply[Any] | BaseException]:
    ask = gateway.ask("stage", "chat")
    return await asyncio.gather(
        *(ask(question(n), parse, row=str(n), **options) for n in numbers), return_exceptions=True
    )


def run(
    root: Any, numbers: Sequence[int], parse: Callable[[str], Any] = points, **options: Any
) -> tuple[Any, StageUsage]:
    async def main() -> tuple[Any, StageUsage]:
        async with Gateway(root) as gateway:
            answers = await ask_all(gateway, numbers, parse, **options)
            return answers, gateway.usage()["stage"]

    return asyncio.run(main())


def test_importing_the_gateway_is_cheap() -> None:
    heavy = "('litellm', 'aiohttp', 'openai', 'pandas')"
    code = f"import sys, graphrag_assets.llm.gateway; print([m for m in {heavy} if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


@pytest.mark.parametrize("fault", CHAT_FAULTS)
def test_a_fifth_of_the_calls_at_fault(fault: str, llmsim: LlmSim, tmp_path: Path) -> None:
    """What succeeds is the same as without faults, the rest is an AnswerError of the right status, nothing hangs."""
    numbers = range(40)
    space = workspace(tmp_path, llmsim, chat={"timeout": 0.5}, cache={"enabled": False})
    right, _ = run(space, numbers)
    llmsim.reset(faults={fault: 0.2}, seed=3, retry_after=0.02, latency=0.002)
    answers, usage = run(space, numbers, refusing)
    stats = llmsim.stats()
    assert stats["faults"][fault] >= 3
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    for answer, expected in zip(answers, right, strict=True):
        if isinstance(answer, AnswerError):
            assert answer.status == STATUS.get(fault, "failed")
            assert KEY not in answer.reason
        else:
            assert isinstance(answer, Reply)
            assert answer.value == expected.value
    assert usage.failed == len(failed)
    assert usage.calls - usage.retries == len(numbers)
    assert len(failed) <= 4
    assert (usage.retries > 0) is (fault != "slow")
    if fault != "drop":  # the server does not always see a connection that it cut itself as a request
        assert usage.calls == stats["requests"]


@pytest.mark.parametrize(
    ("fault", "words"), [("error401", ("api_key", "HTTP 401")), ("error404", ("api_base", "HTTP 404"))]
)
def test_a_lasting_error_ends_the_run_at_once(
    fault: str, words: tuple[str, ...], llmsim: LlmSim, tmp_path: Path
) -> None:
    llmsim.reset(faults={fault: 1.0})
    answers, _ = run(workspace(tmp_path, llmsim, concurrent_requests=5), range(200))
    assert all(isinstance(answer, GatewayError) for answer in answers)
    assert llmsim.requests <= 5
    message = str(answers[-1])
    assert "completion_models.chat" in message
    assert all(word in message for word in words)
    assert KEY not in message


def test_a_wrong_key_is_told_without_showing_it(
    llmsim: LlmSim, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    llmsim.reset(api_key="another")
    caplog.set_level(logging.DEBUG)
    answers, _ = run(workspace(tmp_path, llmsim), range(3))
    assert "completion_models.chat" in str(answers[0])
    assert KEY not in caplog.text + repr(answers)


def test_no_key_for_openai_is_told_before_any_call(
    llmsim: LlmSim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    space = workspace(tmp_path, llmsim, chat={"api_base": None, "api_key": None})
    with pytest.raises(GatewayError, match=r"completion_models\.chat: no key for openai; set .*OPENAI_API_KEY"):
        run(space, [1])


@pytest.mark.parametrize(
    "entry",
    [
        {"api_base": "localhost:8000"},
        {"api_base": "http://me:pass-in-address@localhost/v1"},
        {"call_args": {"api_key": "pass-in-address"}},
        {"model_provider": "hosted_vllm", "api_base": None},
    ],
)
def test_an_entry_that_cannot_work_is_told_before_any_call(
    entry: dict[str, Any], llmsim: LlmSim, tmp_path: Path
) -> None:
    with pytest.raises(GatewayError, match=r"completion_models\.chat: .*(api_base|api_key)") as error:
        run(workspace(tmp_path, llmsim, chat=entry), [1])
    assert "pass-in-address" not in str(error.value)


def test_a_provider_that_nobody_knows_ends_the_run_at_once(llmsim: LlmSim, tmp_path: Path) -> None:
    answers, _ = run(workspace(tmp_path, llmsim, chat={"model_provider": "opena"}, concurrent_requests=2), range(5))
    assert all(isinstance(answer, GatewayError) for answer in answers)
    assert "LiteLLM knows no model_provider 'opena', perhaps openai is meant" in str(answers[0])


def test_key_and_address_from_the_environment(llmsim: LlmSim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", llmsim.base + "/")
    llmsim.reset(api_key="from-environment")
    answers, _ = run(workspace(tmp_path, llmsim, chat={"api_base": None, "api_key": None}), [1])
    assert isinstance(answers[0], Reply)


def test_an_endpoint_that_is_not_there_ends_the_run(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim, chat={"api_base": "http://127.0.0.1:9/v1"})
    started = time.monotonic()
    answers, _ = run(space, range(300))
    assert time.monotonic() - started < 20
    assert any("http://127.0.0.1:9/v1): connection refused" in str(answer) for answer in answers)
    assert all(isinstance(answer, GatewayError | AnswerError) for answer in answers)


def test_one_unlucky_question_does_not_end_the_run(llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(poison="on day 7[.]", poison_fault="error500")
    answers, _ = run(workspace(tmp_path, llmsim), range(20))
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    assert len(failed) == 1
    assert isinstance(failed[0], AnswerError)
    assert "HTTP 500" in failed[0].reason


def test_retry_after_is_honoured(llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(faults={"error429": 1.0}, fault_attempts=1, retry_after=0.6)
    started = time.monotonic()
    answers, usage = run(workspace(tmp_path, llmsim), [1])
    assert isinstance(answers[0], Reply)
    assert time.monotonic() - started >= 0.6
    assert usage.retries == 1


def test_a_waiting_call_holds_no_slot(llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(poison="on day 0[.]", poison_fault="error500")
    slow = {"retry": {"type": "exponential_backoff", "base_delay": 1.0, "max_retries": 2, "jitter": False}}
    space = workspace(tmp_path, llmsim, chat=slow, concurrent_requests=1)

    async def main() -> None:
        async with Gateway(space) as gateway:
            ask = gateway.ask("stage", "chat")
            unlucky = asyncio.create_task(ask(question(0), points))
            await asyncio.sleep(0.3)
            await ask(question(1), points)
            assert not unlucky.done()
            with pytest.raises(AnswerError):
                await unlucky

    asyncio.run(main())


def test_no_more_calls_in_flight_than_set(llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(latency=0.02)
    run(workspace(tmp_path, llmsim, concurrent_requests=4), range(40))
    assert llmsim.stats()["peak_concurrency"] == 4


def test_rate_limit_of_the_entry(llmsim: LlmSim, tmp_path: Path) -> None:
    limit = {"rate_limit": {"period_in_seconds": 1, "requests_per_period": 10}}
    started = time.monotonic()
    answers, _ = run(workspace(tmp_path, llmsim, chat=limit), range(25))
    assert all(isinstance(answer, Reply) for answer in answers)
    assert time.monotonic() - started >= 2.0


@pytest.mark.parametrize("fault", ["length", "empty", "malformed_json", "refusal"])
def test_asked_again_and_told_when_it_does_not_help(fault: str, llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(faults={fault: 1.0})
    answers, usage = run(workspace(tmp_path, llmsim), [1], refusing)
    error = answers[0]
    assert isinstance(error, AnswerError)
    assert error.status == STATUS.get(fault, "failed")
    assert error.attempts == llmsim.requests == usage.calls == (2 if fault in STATUS else 4)
    assert bool(error.answer) is (fault != "empty")


def test_the_parsers_objection_is_told_where_asking_alike_cannot_help(llmsim: LlmSim, tmp_path: Path) -> None:
    def never(text: str) -> str:
        raise ValueError("expected something else")

    for call_args, repeated in (({}, 2), ({"temperature": 0}, 2)):
        llmsim.reset()
        answers, _ = run(workspace(tmp_path, llmsim, chat={"call_args": call_args}), [1], never)
        assert answers[0].reason == "expected something else"
        stats = llmsim.stats()
        assert (stats["requests"], stats["repeated_requests"]) == (4, repeated)


def test_a_cut_answer_where_a_part_is_of_use(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim)
    llmsim.reset(faults={"length": 1.0})
    answers, _ = run(space, [1], len, partial=True)
    assert answers[0].truncated
    assert answers[0].value > 0
    llmsim.reset()
    answers, _ = run(space, [1], len, partial=True)
    assert answers[0].attempts == 1, "a cut answer must not be stored"
    assert not answers[0].truncated


def test_more_tokens_after_a_cut_answer_only_where_a_limit_is_set(llmsim: LlmSim, tmp_path: Path) -> None:
    answers, _ = run(workspace(tmp_path, llmsim), [1])
    size = -(-len(answers[0].text) // 4)
    limited = workspace(tmp_path, llmsim, chat={"call_args": {"max_tokens": size - 5}})
    answers, usage = run(limited, [1])
    assert answers[0].attempts == 2
    assert usage.calls == 2
    tight = workspace(tmp_path, llmsim, chat={"call_args": {"max_tokens": size // 4}})
    answers, _ = run(tight, [1])
    assert answers[0].status == "truncated"


def test_reasoning_is_stripped_before_parsing(llmsim: LlmSim, tmp_path: Path) -> None:
    seen = []

    async def main() -> None:
        async with Gateway(workspace(tmp_path, llmsim)) as gateway:
            calls = gateway._chat("chat").calls
            plain = calls.client.chat

            async def thinking(*args: Any) -> Any:
                answer = await plain(*args)
                return type(answer)(
                    f"<think>\n{{let me see}}</think>\n{answer.text}", answer.finish, None, answer.usage
                )

            calls.client.chat = thinking
            seen.append(await gateway.ask("stage", "chat")(question(1), points))

    asyncio.run(main())
    assert seen[0].text.startswith("{")


def test_structured_output(llmsim: LlmSim, tmp_path: Path) -> None:
    schema = {
        "title": "verdict",
        "type": "object",
        "properties": {"verdict": {"type": "boolean"}},
        "required": ["verdict"],
    }

    def verdict(text: str) -> bool:
        value = json.loads(text)
        if not isinstance(value.get("verdict"), bool):
            raise ValueError("expected a verdict")
        return bool(value["verdict"])

    async def ask(structured: bool | None, model: str) -> Any:
        entry = {"structured_output": structured, "model": model, "answer_attempts": 1}
        async with Gateway(workspace(tmp_path, llmsim, chat=entry)) as gateway:
            return await gateway.ask("stage", "chat")(question(1, "chat"), verdict, schema=schema)

    assert isinstance(asyncio.run(ask(None, "gpt-4o-mini")).value, bool), "known to LiteLLM's table"
    with pytest.raises(AnswerError):
        asyncio.run(ask(False, "gpt-4o-mini"))
    with pytest.raises(AnswerError):
        asyncio.run(ask(None, "model-that-nobody-knows"))


def test_streaming(llmsim: LlmSim, tmp_path: Path) -> None:
    async def main() -> tuple[str, str, StageUsage]:
        async with Gateway(workspace(tmp_path, llmsim)) as gateway:
            pieces = [piece async for piece in gateway.chat_stream("answer", "chat", question(1))]
            reply = await gateway.ask("stage", "chat")(question(1), str)
            return "".join(pieces), reply.text, gateway.usage()["answer"]

    streamed, whole, usage = asyncio.run(main())
    assert streamed == whole
    assert usage.completion_tokens > 0
    assert usage.usd is not None
    assert usage.usd > 0


def test_a_streamed_answer_is_kept_and_taken(llmsim: LlmSim, tmp_path: Path) -> None:
    async def stream(gateway: Gateway, number: int) -> str:
        return "".join([piece async for piece in gateway.chat_stream("answer", "chat", question(number))])

    async def main(*, cached: bool = True) -> tuple[list[str], StageUsage]:
        async with Gateway(workspace(tmp_path, llmsim), cached=cached) as gateway:
            whole = (await gateway.ask("answer", "chat")(question(2), str)).text
            return [await stream(gateway, 1), await stream(gateway, 2), whole], gateway.usage()["answer"]

    first, usage = asyncio.run(main())
    assert (usage.calls, usage.cached) == (2, 1)
    assert first[1] == first[2], "streamed or not, it is one answer"
    again, usage = asyncio.run(main())
    assert again == first
    assert (usage.calls, usage.cached) == (0, 3)
    before = llmsim.requests
    anew, usage = asyncio.run(main(cached=False))
    assert anew == first
    assert (usage.calls, usage.cached) == (3, 0)
    assert llmsim.requests == before + 3


def test_an_answer_that_was_cut_or_left_is_not_kept(llmsim: LlmSim, tmp_path: Path) -> None:
    async def main() -> int:
        async with Gateway(workspace(tmp_path, llmsim)) as gateway:
            async with aclosing(gateway.chat_stream("answer", "chat", question(1))) as pieces:
                await anext(pieces)
            llmsim.reset(faults={"length": 1.0})
            with pytest.raises(AnswerError):
                _ = [piece async for piece in gateway.chat_stream("answer", "chat", question(2))]
            llmsim.reset()
            for number in (1, 2):
                _ = [piece async for piece in gateway.chat_stream("answer", "chat", question(number))]
            return llmsim.requests

    assert asyncio.run(main()) == 2


@pytest.mark.parametrize("fault", ["error500", "error429", "drop", "drop_mid", "empty", "content_filter", "length"])
def test_streaming_with_faults(fault: str, llmsim: LlmSim, tmp_path: Path) -> None:
    async def one(gateway: Gateway, number: int) -> str:
        text = ""
        try:
            async for piece in gateway.chat_stream("answer", "chat", question(number)):
                text += piece
        except AnswerError as error:
            return error.status
        return text

    async def main() -> list[str]:
        async with Gateway(workspace(tmp_path, llmsim), cached=False) as gateway:
            return await asyncio.gather(*(one(gateway, n) for n in range(20)))

    right = asyncio.run(main())
    llmsim.reset(faults={fault: 0.3}, retry_after=0.02, seed=5)
    answers = asyncio.run(main())
    assert llmsim.stats()["faults"][fault] > 0
    expected = {"drop_mid": "failed", "content_filter": "refused", "length": "truncated"}.get(fault)
    for answer, good in zip(answers, right, strict=True):
        assert answer in (good, expected)


def test_cancelling_leaves_nothing_behind(llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(latency=5.0)

    async def main() -> None:
        async with Gateway(workspace(tmp_path, llmsim, concurrent_requests=3)) as gateway:
            tasks = [asyncio.create_task(ask_all(gateway, range(10))), asyncio.create_task(ask_all(gateway, range(10)))]
            tasks.append(asyncio.create_task(gateway.embed("stage", "vectors", [f"text {n}" for n in range(100)])))
            await asyncio.sleep(0.3)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert gateway._slots._value == 3
            llmsim.reset()
            assert isinstance((await ask_all(gateway, [1]))[0], Reply), "the gateway works on"
            assert (await gateway.embed("stage", "vectors", ["text 1"])).shape == (1, 1536)

    asyncio.run(main())


def test_a_deadline_around_a_question(llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(latency=5.0)

    async def main() -> None:
        async with Gateway(workspace(tmp_path, llmsim)) as gateway:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await gateway.ask("stage", "chat")(question(1), points)

    asyncio.run(main())


def test_usage_and_prices(llmsim: LlmSim, tmp_path: Path) -> None:
    _, usage = run(workspace(tmp_path, llmsim), range(5))
    stats = llmsim.stats()
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (
        5,
        stats["chat_prompt_tokens"],
        stats["chat_completion_tokens"],
    )
    assert usage.usd == pytest.approx(usage.prompt_tokens * 0.15e-6 + usage.completion_tokens * 0.6e-6)
    own = {"model": "nobody-knows", "prices": {"input_per_million": 1, "output_per_million": 2}}
    _, usage = run(workspace(tmp_path, llmsim, chat=own), range(5))
    assert usage.usd == pytest.approx((usage.prompt_tokens + 2 * usage.completion_tokens) / 1e6)
    _, usage = run(workspace(tmp_path, llmsim, chat={"model": "nobody-knows-either"}), range(5))
    assert usage.usd is None
    assert usage.unpriced_calls == 5


def test_titles_of_entities_are_in_no_warning(llmsim: LlmSim, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A pair of entities is named by its titles, which are text of documents, where it is asked about anew in vain."""
    place = workspace(tmp_path, llmsim)

    async def ask(row: str, anew: dict[str, float]) -> None:
        async with Gateway(place, anew=anew) as gateway:
            await gateway.ask("resolve_entities", "chat")(question(1), points, row=row)

    llmsim.reset()
    asyncio.run(ask("SCROOGE | MARLEY", {}))
    llmsim.reset(faults={"refusal": 1.0})
    for row, told in (("SCROOGE | MARLEY\nA | B", "a question"), ("SCROOGE | MARLEY", "a question"), ("ab12", "ab12")):
        caplog.clear()
        asyncio.run(ask(row, {"resolve_entities": time.time() + 60}))
        assert f"resolve_entities: the earlier answer for {told} stays" in caplog.text
        assert "SCROOGE" not in caplog.text


def test_no_key_and_no_text_in_the_logs(llmsim: LlmSim, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    llmsim.reset(faults={"error500": 0.2, "error400": 0.1, "malformed_json": 0.3})
    answers, _ = run(workspace(tmp_path, llmsim), range(40))
    own = "\n".join(r.getMessage() for r in caplog.records if r.name.startswith("graphrag_assets"))
    assert own
    assert "Scrooge" not in own
    assert KEY not in caplog.text + repr(answers) + repr([getattr(a, "__context__", None) for a in answers])


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["", "error500", "error429", "bad_json_body", "empty", "length", "error401", "drop"])
def test_through_litellm(fault: str, llmsim: LlmSim, tmp_path: Path) -> None:
    """The same behaviour on the long way."""
    litellm = {"client": "litellm"}
    right, _ = run(workspace(tmp_path, llmsim, cache={"enabled": False}), range(20))
    llmsim.reset(faults={fault: 0.2} if fault else {}, retry_after=0.02, seed=3)
    answers, usage = run(workspace(tmp_path, llmsim, chat=litellm, cache={"enabled": False}), range(20))
    if fault == "error401":
        assert any(isinstance(answer, GatewayError) and "api_key" in str(answer) for answer in answers)
        return
    for answer, expected in zip(answers, right, strict=True):
        if isinstance(answer, AnswerError):
            assert answer.status == STATUS.get(fault, "failed")
        else:
            assert answer.value == expected.value
    assert usage.usd is not None
    assert usage.usd > 0


@pytest.mark.slow
def test_vectors_and_streams_through_litellm(llmsim: LlmSim, tmp_path: Path) -> None:
    async def main(client: str) -> tuple[Any, str]:
        entry = {"client": client}
        space = workspace(tmp_path, llmsim, chat=entry, embedding=entry, cache={"enabled": False})
        async with Gateway(space) as gateway:
            vectors = await gateway.embed("stage", "vectors", ["one text", "another"])
            return vectors, "".join([piece async for piece in gateway.chat_stream("answer", "chat", question(1))])

    direct, long = asyncio.run(main("direct")), asyncio.run(main("litellm"))
    assert (direct[0] == long[0]).all()
    assert direct[1] == long[1]
