"""A model that misbehaves at any step of any search, over HTTP: an answer that says so, or a clear error."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.llm.gateway import Gateway
from graphrag_assets.query import Answer, QueryError, ask
from graphrag_assets.query.index import Index, open_index
from graphrag_assets.query.models import Models
from graphrag_assets.settings import Settings, Workspace
from tests.llmsim_server import LlmSim
from tests.published import HashEmbedder, publish
from tests.unit.query_doubles import TOKENS, small_rows

pytestmark = pytest.mark.storage

QUESTION = "Who bought the mill in 1931, and what did the council refuse?"
KEY = "sk-test-0123456789abcdef"

#: Every kind of call that a search makes.
STEPS = [
    ("basic", "basic"),
    ("local", "local"),
    ("global", "rate"),
    ("global", "map"),
    ("global", "reduce"),
    ("drift", "drift_primer"),
    ("drift", "drift_local"),
    ("drift", "reduce"),
    *((method, "embedding") for method in ("basic", "local", "drift")),
]
FAULTS = ["garbage", "empty", "malformed_json", "bad_schema", "timeout", "error429", "refusal"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Storage of the small snapshot."""
    base = tmp_path_factory.mktemp("small")
    publish(base / "output", small_rows())
    return base


def opened(base: Path, llmsim: LlmSim, chat: dict[str, Any] | None = None, **settings: Any) -> Index:
    """The small snapshot, with the simulator as its models."""
    entry = {
        "model_provider": "openai",
        "api_base": llmsim.base,
        "api_key": KEY,
        "timeout": 0.4,
        "retry": {"max_retries": 1, "base_delay": 0.01, "max_delay": 0.02},
    }
    sections = ("local_search", "global_search", "drift_search", "basic_search")
    parsed = Settings.model_validate(
        {
            "completion_models": {"chat": {**entry, "model": "gpt-4o-mini", **(chat or {})}},
            "embedding_models": {"vectors": {**entry, "model": "text-embedding-3-small", **(chat or {})}},
            "cache": {"enabled": False},
            **{name: {"completion_model_id": "chat"} for name in sections},
            **settings,
        }
    )
    return open_index(str(base / "output"), workspace=Workspace(root=base, settings=parsed))


@pytest.fixture
def index(base: Path, llmsim: LlmSim) -> Index:
    """The small snapshot with a model that is given up soon."""
    return opened(base, llmsim)


class Embedder(HashEmbedder):
    """Vectors by hashed words, after a call of the simulator that may fail."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def embed(self, texts: Sequence[str], kind: str, stage: str) -> Any:
        await self._gateway.embed(stage, "vectors", texts, kind)  # type: ignore[arg-type]
        return self.encode(texts)


def answer(index: Index, method: str, **options: Any) -> Answer:
    async def main() -> Answer:
        async with Gateway(index.workspace) as gateway:
            models = Models(Embedder(gateway), TOKENS, gateway, None, gateway.usage, facts=gateway.facts)
            return await ask(index, options.pop("question", QUESTION), method, models=models, **options)  # type: ignore[arg-type]

    return asyncio.run(main())


METHODS: list[Any] = ["basic", "local", "global", "drift"]


def tried(index: Index, method: str, **options: Any) -> tuple[Answer | None, str]:
    """The answer, or the message of the error in its place."""
    try:
        return answer(index, method, **options), ""
    except QueryError as error:
        return None, str(error)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("method", "kind"), STEPS)
def test_a_fault_at_any_step(index: Index, llmsim: LlmSim, method: str, kind: str, fault: str) -> None:
    """Never a trace, an empty answer, or one that looks whole although a step failed."""
    llmsim.reset(faults={fault: 1.0}, fault_kinds=[kind], retry_after=0.01, timeout_seconds=2)
    pieces: list[str] = []
    found, error = tried(index, method, dynamic=kind == "rate", on_text=pieces.append)
    if found is None:
        assert len(error) > 20
        assert "Traceback" not in error
        assert KEY not in error
        return
    assert found.answer.strip()
    assert "".join(pieces).strip() == found.answer.strip()
    assert '{"' not in found.answer
    if fault in ("timeout", "error429", "empty") and kind != "embedding":
        assert found.warnings, "a step failed, and nothing says so"
        assert "> Note: " in found.answer


@pytest.mark.parametrize(("method", "kind"), [("global", "map"), ("global", "rate"), ("drift", "drift_local")])
@pytest.mark.parametrize("fault", ["garbage", "timeout", "error429"])
def test_some_calls_at_fault_leave_an_answer(index: Index, llmsim: LlmSim, method: str, kind: str, fault: str) -> None:
    llmsim.reset(faults={fault: 0.5}, fault_kinds=[kind], retry_after=0.01, timeout_seconds=2, seed=5)
    found, error = tried(index, method, dynamic=kind == "rate")
    # One call, or none of them, came through.
    assert found.answer.strip() if found else "global search" in error


@pytest.mark.parametrize("fault", ["timeout", "error429", "error500", "garbage", "empty"])
def test_a_choice_that_fails_leaves_the_rules(index: Index, llmsim: LlmSim, fault: str) -> None:
    """The simulator knows no routing: the first call of all fails, and the search that the rules take goes on."""
    llmsim.reset(faults={fault: 1.0}, fault_kinds=["chat", "schema"], retry_after=0.01, timeout_seconds=2)
    found = answer(index, "auto", question="Mention something on looms, please.")
    assert found.method == "basic"
    assert "the model made no choice" in found.why
    assert found.answer.strip()


@pytest.mark.parametrize("method", ["basic", "local", "global", "drift"])
@pytest.mark.parametrize("kind", ["all", "embedding", "answers"])
def test_a_model_that_hangs_until_the_deadline(base: Path, llmsim: LlmSim, method: str, kind: str) -> None:
    kinds = {"all": [], "embedding": ["embedding"], "answers": ["basic", "local", "map", "reduce", "drift_primer"]}
    index = opened(base, llmsim, {"timeout": 30})
    llmsim.reset(faults={"timeout": 1.0}, fault_kinds=kinds[kind], timeout_seconds=30)
    found = answer(index, method, deadline=0.7)
    if (method, kind) != ("global", "embedding"):  # with a model, global search embeds nothing
        assert "deadline" in found.answer
        assert found.warnings
    assert found.seconds["total"] < 25, "nobody waited for what takes 30 s"


@pytest.mark.parametrize("method", ["auto", "basic", "local", "global", "drift"])
@pytest.mark.parametrize("limit", [{"max_tokens": 0}, {"max_tokens": 300}, {"max_usd": 0.0}, {"max_usd": 0.0001}])
def test_a_ceiling_gives_what_can_be_had_for_it(
    index: Index, llmsim: LlmSim, method: str, limit: dict[str, Any]
) -> None:
    found = answer(index, method, **limit)
    assert re.search(r"the budget( for the steps before the last one)? is reached", found.answer)
    assert found.warnings
    assert "Not in these documents" not in found.answer
    assert found.explanation["budget"]["reached"]
    used = llmsim.stats()
    if limit.get("max_tokens") == 0 or limit.get("max_usd") == 0.0:
        assert used["requests"] == 0
        assert found.extractive
    if "max_tokens" in limit:
        assert found.llm["prompt_tokens"] + found.llm["completion_tokens"] <= limit["max_tokens"]
    else:
        assert (found.llm["usd"] or 0.0) <= limit["max_usd"]


@pytest.mark.parametrize("tokens", [1500, 2500, 4000, 8000])
@pytest.mark.parametrize("method", ["global", "drift"])
def test_a_ceiling_amid_the_steps_leaves_what_was_found(index: Index, llmsim: LlmSim, method: str, tokens: int) -> None:
    found = answer(index, method, max_tokens=tokens)
    assert found.answer.strip()
    assert found.llm["prompt_tokens"] + found.llm["completion_tokens"] <= tokens * 1.1  # the simulator counts otherwise
    assert found.warnings or not found.explanation["budget"]["reached"]


@pytest.mark.parametrize(("method", "tokens"), [("basic", 1650), ("local", 1650)])
def test_a_ceiling_makes_the_context_smaller_before_it_gives_up(
    index: Index, llmsim: LlmSim, method: str, tokens: int
) -> None:
    found = answer(index, method, max_tokens=tokens)
    assert not found.extractive
    assert found.llm["by_stage"][f"query_{method}"]["calls"] == 1
    assert found.tokens < 500
    if any(section.left_out for context in found.contexts for section in context.sections):
        assert "the ceiling of the question left room for" in found.answer


def test_settings_hold_a_ceiling(base: Path, llmsim: LlmSim) -> None:
    index = opened(base, llmsim, query={"max_tokens": 0})
    assert "the budget is reached" in answer(index, "basic").answer
    assert answer(index, "basic", max_tokens=100_000).warnings == ()


def test_an_unknown_price_is_said(base: Path, llmsim: LlmSim) -> None:
    index = opened(base, llmsim, {"model": "house-model"})
    with pytest.raises(QueryError, match=r"models\.\w+ \(openai/house-model.*price of the model is not known"):
        answer(index, "basic", max_usd=1.0)


def test_questions_at_the_same_time_have_accounts_of_their_own(index: Index, llmsim: LlmSim) -> None:
    llmsim.reset(latency=0.05)

    async def main() -> tuple[list[Answer], int]:
        async with Gateway(index.workspace) as gateway:
            models = Models(
                Embedder(gateway), TOKENS, gateway, None, gateway.usage, facts=gateway.facts, booking=gateway.booking
            )
            answers = await asyncio.gather(
                *(ask(index, f"{QUESTION} ({i})", method, models=models) for i, method in enumerate(METHODS * 3))
            )
            return answers, sum(usage.calls for usage in gateway.usage().values())

    answers, calls = asyncio.run(main())
    assert [answer.llm["calls"] for answer in answers if answer.method == "basic"] == [2, 2, 2]
    assert sum(answer.llm["calls"] for answer in answers) == calls == llmsim.requests
