"""CPU time of the gateway per call, beside LiteLLM alone and a bare HTTP client, against the simulator at zero latency.

    python bench/gateway.py [--calls 1000] [--entries 100000] [--json FILE]

CPU seconds are those of this process (all threads); the simulator has its own. Each way answers the same questions: a
prompt of about 1,200 tokens of text, and batches of 16 short texts to embed (1,536 numbers, base64). The gateway has all
that it can have: cache, limits of requests and tokens, accounts, the ledger of calls, and in a line of its own a budget of
the day. At last so many questions are asked whose answers are all in the cache.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from graphrag_assets.llm.gateway import Gateway
from graphrag_assets.llm.providers.clients import connect, endpoint
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.settings import ModelSettings, Settings, Workspace
from tests.llmsim_server import LlmSim

SENTENCES = "Ebenezer Scrooge met Jacob Marley in London. Bob Cratchit saw Tiny Tim near the Royal Exchange. " * 50
SLOTS = 25


def question(number: int) -> list[dict[str, str]]:
    """A prompt of about 1,200 tokens."""
    return [{"role": "user", "content": f"[[kind:basic]] Question {number}: who met whom?\nSources: {SENTENCES}"}]


def batch(number: int) -> list[str]:
    """16 short texts."""
    return [
        f"Entity {number}-{i}: a partner of Scrooge and Marley, seen near the Royal Exchange in London."
        for i in range(16)
    ]


def entry(sim: LlmSim, model: str, client: str) -> dict[str, Any]:
    """Settings of a model that is the simulator."""
    return {"model_provider": "openai", "model": model, "api_base": sim.base, "api_key": "sk-bench", "client": client}


async def in_slots(calls: int, call: Callable[[int], Awaitable[Any]]) -> None:
    """All calls, at most SLOTS at once."""
    slots = asyncio.Semaphore(SLOTS)

    async def one(number: int) -> None:
        async with slots:
            await call(number)

    await asyncio.gather(*(one(number) for number in range(calls)))


async def measure(calls: int, run: Callable[[int, int], Awaitable[None]]) -> dict[str, float]:
    """CPU and wall time per call; ``run(first, count)`` makes the calls. 20 calls warm up."""
    await run(10**6, 20)
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    await run(0, calls)
    return {
        "cpu_ms": round((time.process_time() - cpu) / calls * 1000, 3),
        "wall_ms": round((time.perf_counter() - wall) / calls * 1000, 3),
    }


async def client_alone(sim: LlmSim, client: str, calls: int) -> dict[str, dict[str, float]]:
    """A client without the gateway."""
    result = {}
    for kind, model in (("chat", "gpt-4o-mini"), ("embedding of 16", "text-embedding-3-small")):
        settings = ModelSettings.model_validate(entry(sim, model, client))
        one = connect(endpoint("bench", settings), settings)

        async def chat(first: int, count: int, one: Any = one) -> None:
            await in_slots(count, lambda i: one.chat(question(first + i), {}, None))

        async def vectors(first: int, count: int, one: Any = one) -> None:
            await in_slots(count, lambda i: one.embed(batch(first + i), "document"))

        result[kind] = await measure(calls, chat if kind == "chat" else vectors)
        await one.close()
    return result


async def litellm_alone(sim: LlmSim, calls: int, floats: bool) -> dict[str, dict[str, float]]:
    """LiteLLM as its documentation says, its usual logging work included."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    common = {"api_base": sim.base, "api_key": "sk-bench"}
    encoding = {} if floats else {"encoding_format": "base64"}

    async def chat(first: int, count: int) -> None:
        await in_slots(
            count, lambda i: litellm.acompletion(model="openai/gpt-4o-mini", messages=question(first + i), **common)
        )

    async def vectors(first: int, count: int) -> None:
        model = "openai/text-embedding-3-small"
        await in_slots(count, lambda i: litellm.aembedding(model=model, input=batch(first + i), **encoding, **common))

    if floats:
        return {"embedding of 16": await measure(max(20, calls // 10), vectors)}
    return {"chat": await measure(calls, chat), "embedding of 16": await measure(calls, vectors)}


def settings_of(sim: LlmSim, client: str, day: bool) -> Settings:
    """Limits that are counted and never reached."""
    limit = {"rate_limit": {"requests_per_period": 10**7, "tokens_per_period": 10**10}}
    return Settings.model_validate(
        {
            "completion_models": {"chat": entry(sim, "gpt-4o-mini", client) | limit},
            "embedding_models": {"vectors": entry(sim, "text-embedding-3-small", client) | limit},
            "concurrent_requests": SLOTS,
            "budget": {"usd_per_day": 1e6, "tokens_per_day": 10**12} if day else {},
        }
    )


async def all_cached(sim: LlmSim, entries: int, root: Path) -> dict[str, dict[str, float]]:
    """One pass over so many answers that are in the cache."""
    async with Gateway(Workspace(root=root, settings=settings_of(sim, "direct", day=False)), run="bench") as gateway:
        answers = gateway._chat("chat")
        for number in range(entries):
            key, _ = await answers.known(question(number), str)
            answers.keep(key, f"Ebenezer Scrooge met Jacob Marley, says answer {number}. " * 20, "bench", StageUsage())
            if number % 1000 == 0:
                await asyncio.to_thread(gateway._cache.flush)
        await asyncio.to_thread(gateway._cache.flush)
        ask = gateway.ask("bench", "chat")

        async def chat(first: int, count: int) -> None:
            await asyncio.gather(*(ask(question(first % entries + i), str, row=str(i)) for i in range(count)))

        found = await measure(entries, lambda first, count: chat(0 if first else first, count))
        assert gateway.usage()["bench"].calls == 0
    return {f"chat, {entries} cached": found}


async def through_gateway(
    sim: LlmSim, client: str, calls: int, root: Path, *, day: bool = False
) -> dict[str, dict[str, float]]:
    """The gateway with cache, limits, accounts and ledger; and the same again, out of the cache."""
    settings = settings_of(sim, client, day)
    result = {}
    for name in ("", ", cached"):
        async with Gateway(Workspace(root=root, settings=settings), run="bench") as gateway:
            ask = gateway.ask("bench", "chat")

            async def chat(first: int, count: int, ask: Any = ask) -> None:
                await asyncio.gather(*(ask(question(first + i), str) for i in range(count)))

            async def vectors(first: int, count: int, gateway: Gateway = gateway) -> None:
                texts = [text for i in range(count) for text in batch(first + i)]
                await gateway.embed("bench", "vectors", texts)

            result["chat" + name] = await measure(calls, chat)
            result["embedding of 16" + name] = await measure(calls, vectors)
            assert (gateway.usage()["bench"].calls == 0) is bool(name)
    return result


def main() -> None:
    """Measure all ways and show them as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sim = LlmSim()
    rows: dict[str, dict[str, dict[str, float]]] = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            ways: list[tuple[str, Callable[[], Awaitable[dict[str, dict[str, float]]]]]] = [
                ("direct client alone", lambda: client_alone(sim, "direct", arguments.calls)),
                ("gateway, direct", lambda: through_gateway(sim, "direct", arguments.calls, Path(folder, "direct"))),
                (
                    "gateway, direct, budget",
                    lambda: through_gateway(sim, "direct", arguments.calls, Path(folder, "day"), day=True),
                ),
                ("gateway, all cached", lambda: all_cached(sim, arguments.entries, Path(folder, "cached"))),
                ("LiteLLM alone", lambda: litellm_alone(sim, arguments.calls, floats=False)),
                ("LiteLLM alone, JSON floats", lambda: litellm_alone(sim, arguments.calls, floats=True)),
                ("our LiteLLM client alone", lambda: client_alone(sim, "litellm", arguments.calls)),
                ("gateway, LiteLLM", lambda: through_gateway(sim, "litellm", arguments.calls, Path(folder, "litellm"))),
            ]
            for name, way in ways:
                rows[name] = asyncio.run(way())  # type: ignore[arg-type]
    finally:
        sim.stop()
    print(
        f"{arguments.calls} calls, {SLOTS} slots, zero latency; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    print(f"{'way':28} {'call':24} {'CPU ms':>8} {'wall ms':>8}")
    for name, calls in rows.items():
        for call, figures in calls.items():
            print(f"{name:28} {call:24} {figures['cpu_ms']:8.2f} {figures['wall_ms']:8.2f}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB (LiteLLM included)")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
