"""A model that answers over HTTP with the recorded answers of a real GraphRAG run, whatever prompts ask for them."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

DIMENSION = 32


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _middle(text: str) -> str:
    """A stretch from the middle of a text unit, which neighbours that overlap at their ends do not hold.

    A product that drops the byte order mark cuts its windows one token later than the recorded run did.
    """
    centre = len(text) // 2
    return text[centre - 150 : centre + 150]


class RecordedModel:
    """Answers of a recorded run.

    Text units are found by their text in the prompt, summaries by the name in it, reports by the greatest overlap of
    entity sets (another Leiden draw gives other communities).

    Args:
        folder: Folder with llm_calls.parquet and expected/.
    """

    def __init__(self, folder: Path) -> None:
        calls = pq.read_table(folder / "llm_calls.parquet").to_pylist()
        units = pq.read_table(folder / "expected" / "text_units.parquet").to_pylist()
        self.units = {row["id"]: _squeeze(row["text"]) for row in units}
        self.answers = {(c["kind"], c["target"]): c["response"] for c in calls}
        entities = {r["id"]: r["title"] for r in pq.read_table(folder / "expected" / "entities.parquet").to_pylist()}
        communities = pq.read_table(folder / "expected" / "communities.parquet").to_pylist()
        members = {str(c["community"]): {entities[i] for i in c["entity_ids"]} for c in communities}
        self.members = {c: m for c, m in members.items() if ("community_report", c) in self.answers}
        self.asked: Counter[str] = Counter()

    def answer(self, messages: list[dict[str, str]]) -> str:
        """The recorded answer to a conversation."""
        first = _squeeze(messages[0]["content"])
        unit = next((i for i, text in self.units.items() if _middle(text) in first), None)
        if unit is not None:
            kind = "extract_graph_gleaning" if len(messages) > 1 else "extract_graph"
            self.asked[kind] += 1
            return self.answers[kind, unit]
        if "-----Entities-----" in messages[0]["content"]:
            self.asked["community_report"] += 1
            return self.answers["community_report", self._community(messages[0]["content"])]
        self.asked["summarize_descriptions"] += 1
        for (kind, target), answer in self.answers.items():
            if kind == "summarize_descriptions" and target in messages[0]["content"]:
                return answer
        return "A description that was not recorded."

    def _community(self, prompt: str) -> str:
        section = prompt.split("-----Entities-----", 1)[1].split("-----")[0].upper()
        found = {title for members in self.members.values() for title in members if f",{title}," in section}
        found |= {title for members in self.members.values() for title in members if f'"{title}"' in section}

        def overlap(community: str) -> float:
            members = self.members[community]
            return len(found & members) / max(1, len(found | members))

        return max(sorted(self.members), key=overlap)


@contextmanager
def serve(model: RecordedModel) -> Iterator[str]:
    """Serve the model on a free loopback port; yields the address of its OpenAI-compatible API."""
    from aiohttp import web

    async def chat(request: web.Request) -> web.Response:
        body = await request.json()
        text = model.answer(body["messages"])
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response(
            {"id": "1", "object": "chat.completion", "model": "recorded", "choices": [choice], "usage": usage}
        )

    async def embeddings(request: web.Request) -> web.Response:
        body = await request.json()
        texts: list[str] = body["input"] if isinstance(body["input"], list) else [body["input"]]
        data = [{"index": i, "object": "embedding", "embedding": _vector(t)} for i, t in enumerate(texts)]
        return web.json_response({"object": "list", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}})

    started, address = threading.Event(), ""
    loop = asyncio.new_event_loop()

    async def start() -> None:
        nonlocal address
        app = web.Application(client_max_size=2**28)
        app.add_routes([web.post("/v1/chat/completions", chat), web.post("/v1/embeddings", embeddings)])
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        started.set()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(start())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(10)
    yield address
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)


def _vector(text: str) -> list[float]:
    counts = [1e-3] * DIMENSION
    for word in re.findall(r"\w+", text.lower()):
        counts[sum(word.encode()) % DIMENSION] += 1.0
    return counts


def settings(address: str, **sections: Any) -> str:
    """settings.yaml for a workspace whose models are at this address."""
    entry = {"model_provider": "openai", "api_base": address, "api_key": "none", "prices": {"input_per_million": 1.0}}
    return json.dumps(
        {
            "completion_models": {"default_completion_model": entry | {"model": "recorded"}},
            "embedding_models": {"default_embedding_model": entry | {"model": "recorded-embedding"}},
            **sections,
        }
    )
