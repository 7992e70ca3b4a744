"""Read a snapshot with Microsoft GraphRAG's own code, and tell as JSON what it saw.

    $GRAPHRAG_REFERENCE_PYTHON reference_reader.py ROOT --entity ID --text-unit ID --levels 0,1,2

ROOT holds a settings.yaml of Microsoft GraphRAG that points at the snapshot and at its vector database, with models of
type ``offline``: they answer every prompt with one fixed object, and give every question the vector of the row that it
shall be like. All else is the reference's own: table readers, vector store, context builders, searches. It runs in the
reference's Python and imports nothing of this project.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import re
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from graphrag import api
from graphrag.config.load_config import load_config
from graphrag.data_model.data_reader import DataReader
from graphrag.query import indexer_adapters as adapters
from graphrag.utils.api import get_embedding_store
from graphrag_llm.completion import LLMCompletion, create_completion, register_completion
from graphrag_llm.embedding import LLMEmbedding, register_embedding
from graphrag_llm.types import LLMChoiceChunk, LLMChoiceDelta, LLMCompletionChunk
from graphrag_llm.utils import create_completion_response, create_embedding_response, structure_completion_response
from graphrag_storage import create_storage
from graphrag_storage.tables.table_provider_factory import create_table_provider

TABLES = ("documents", "text_units", "entities", "relationships", "covariates", "communities", "community_reports")
VECTORS = {
    "text_unit_text": "text_units",
    "entity_description": "entities",
    "community_full_content": "community_reports",
}
GRAPH = ("entities", "communities", "community_reports")
ASKED = {"query": "What is known about it?", "response_type": "Multiple Paragraphs"}

#: Answers every prompt of the four searches: map, DRIFT primer, DRIFT local; elsewhere it is the answer's text.
ANSWER = json.dumps(
    {
        "points": [{"description": "A point of the map step.", "score": 70}],
        "intermediate_answer": "An answer of the primer.",
        "response": "An answer of a local search.",
        "score": 70,
        "follow_up_queries": ["What else?"],
        "reason": "A rating of dynamic selection.",
        "rating": 5,
    }
)


class OfflineCompletion(LLMCompletion):
    """Answers every prompt with the same object and keeps the prompts."""

    prompts: list[str] = []  # noqa: RUF012 (one list for all instances: the reference makes them)

    def __init__(self, **parts: Any) -> None:
        self._parts = parts

    def completion(self, **call: Any) -> Any:
        messages = call["messages"]
        self.prompts.append(messages if isinstance(messages, str) else messages[0]["content"])
        if call.get("stream"):
            return self._stream()
        response = create_completion_response(ANSWER)
        if call.get("response_format") is not None:
            response.formatted_response = structure_completion_response(response.content, call["response_format"])
        return response

    async def completion_async(self, **call: Any) -> Any:
        return self.completion(**call)

    @staticmethod
    async def _stream() -> AsyncIterator[LLMCompletionChunk]:
        choice = LLMChoiceChunk(index=0, delta=LLMChoiceDelta(content=ANSWER), finish_reason=None)
        yield LLMCompletionChunk(id="0", object="chat.completion.chunk", created=0, model="offline", choices=[choice])

    @property
    def metrics_store(self) -> Any:
        return self._parts["metrics_store"]

    @property
    def tokenizer(self) -> Any:
        return self._parts["tokenizer"]


class OfflineEmbedding(LLMEmbedding):
    """Gives every text the same vector."""

    vector: list[float] = []  # noqa: RUF012 (set from outside before each search)

    def __init__(self, **parts: Any) -> None:
        self._parts = parts

    def embedding(self, **call: Any) -> Any:
        return create_embedding_response(OfflineEmbedding.vector, batch_size=len(call["input"]))

    async def embedding_async(self, **call: Any) -> Any:
        return self.embedding(**call)

    @property
    def metrics_store(self) -> Any:
        return self._parts["metrics_store"]

    @property
    def tokenizer(self) -> Any:
        return self._parts["tokenizer"]


class Reading:
    """One snapshot seen by the reference.

    Args:
        root: Folder with settings.yaml.
        levels: Community levels to search at.
        entity: Id of the entity whose vector the questions of local and DRIFT search have.
        text_unit: Id of the text unit whose vector the question of basic search has.
    """

    def __init__(self, root: Path, levels: list[int], entity: str, text_unit: str) -> None:
        self.config = load_config(root)
        self.levels, self.entity, self.text_unit = levels, entity, text_unit
        storage = create_storage(self.config.output_storage)
        self.reader = DataReader(create_table_provider(self.config.table_provider, storage=storage))
        self.seen: dict[str, Any] = {"graphrag": importlib.metadata.version("graphrag"), "errors": {}}

    async def frames(self, *names: str) -> dict[str, Any]:
        """Data frames of the reference's reader, fresh ones each time: its code changes some in place."""
        return {name: await getattr(self.reader, name)() for name in names}

    async def rows(self) -> dict[str, int]:
        """Rows of every table."""
        return {name: len(frame) for name, frame in (await self.frames(*TABLES)).items()}

    async def objects(self) -> dict[str, Any]:
        """Objects of the reference's data model, by level where a level selects them."""
        f = await self.frames(*TABLES)
        communities = adapters.read_indexer_communities(f["communities"], f["community_reports"])
        counts: dict[str, Any] = {
            "text_units": len(adapters.read_indexer_text_units(f["text_units"])),
            "relationships": len(adapters.read_indexer_relationships(f["relationships"])),
            "covariates": len(adapters.read_indexer_covariates(f["covariates"])),
            "communities": len(communities),
            "parents": {c.short_id: c.parent for c in communities},
            "children": {c.short_id: [int(child) for child in c.children] for c in communities},
        }
        for level in self.levels:
            entities = adapters.read_indexer_entities(f["entities"], f["communities"], level)
            reports = adapters.read_indexer_reports(f["community_reports"], f["communities"], level)
            counts[f"level {level}"] = {"entities": len(entities), "reports": len(reports)}
        return counts

    async def vectors(self) -> dict[str, Any]:
        """Every row of every vector table: found by its id, and nearest to itself."""
        found = {}
        for name, table in VECTORS.items():
            store = get_embedding_store(self.config.vector_store, name)
            ids = (await self.frames(table))[table]["id"].tolist()
            itself = 0
            for identifier in ids:
                stored = store.search_by_id(identifier)
                nearest = store.similarity_search_by_vector(stored.vector, k=1)[0]
                itself += nearest.document.id == identifier or nearest.document.vector == stored.vector
            found[name] = {"rows": store.count(), "ids": len(ids), "nearest_is_itself": itself}
        return found

    def ask_like(self, table: str, identifier: str) -> None:
        """Give the questions that follow the vector of a row."""
        OfflineEmbedding.vector = get_embedding_store(self.config.vector_store, table).search_by_id(identifier).vector
        OfflineCompletion.prompts.clear()

    def told(self, answer: Any, records: Any) -> dict[str, Any]:
        """What a search answered, and from which context."""
        tokenizer = create_completion(self.config.get_completion_model_config("default_completion_model")).tokenizer
        prompts = list(OfflineCompletion.prompts)
        headings = [s for prompt in prompts for s in re.findall(r"^-----(.+?)-----$", prompt, re.MULTILINE)]
        named = {"id", "entity", "title", "source", "target", "text"}
        return {
            "answer": str(answer),
            "prompts": len(prompts),
            "tokens": [len(tokenizer.encode(prompt)) for prompt in prompts],
            "sections": list(dict.fromkeys(headings)),
            "records": {
                name: frame[[c for c in frame.columns if c in named]].astype(str).to_dict("records")
                for name, frame in records.items()
            },
        }

    async def local(self, level: int) -> dict[str, Any]:
        """Local search at one level."""
        self.ask_like("entity_description", self.entity)
        frames = await self.frames(*GRAPH, "text_units", "relationships", "covariates")
        return self.told(*await api.local_search(self.config, **frames, community_level=level, **ASKED))

    async def global_(self, level: int, dynamic: bool = False) -> dict[str, Any]:
        """Global search over the reports of one level, or walking down to it."""
        self.ask_like("entity_description", self.entity)
        frames = await self.frames(*GRAPH)
        return self.told(
            *await api.global_search(
                self.config, **frames, community_level=level, dynamic_community_selection=dynamic, **ASKED
            )
        )

    async def drift(self, level: int) -> dict[str, Any]:
        """DRIFT search at one level."""
        self.ask_like("entity_description", self.entity)
        frames = await self.frames(*GRAPH, "text_units", "relationships")
        return self.told(*await api.drift_search(self.config, **frames, community_level=level, **ASKED))

    async def basic(self) -> dict[str, Any]:
        """Basic search."""
        self.ask_like("text_unit_text", self.text_unit)
        return self.told(*await api.basic_search(self.config, **await self.frames("text_units"), **ASKED))

    async def step(self, name: str, read: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """Take one step; what it raises is told under errors."""
        try:
            self.seen[name] = await read(*arguments)
        except Exception:
            self.seen["errors"][name] = traceback.format_exc(limit=-4)

    async def all(self) -> dict[str, Any]:
        """Take all steps."""
        for name in ("rows", "objects", "vectors", "basic"):
            await self.step(name, getattr(self, name))
        for level in self.levels:
            await self.step(f"local {level}", self.local, level)
            await self.step(f"global {level}", self.global_, level)
            await self.step(f"drift {level}", self.drift, level)
        await self.step("dynamic", self.global_, self.levels[-1], True)
        return self.seen


def main() -> None:
    """Read, then print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--entity", required=True)
    parser.add_argument("--text-unit", required=True)
    parser.add_argument("--levels", default="0,1,2")
    options = parser.parse_args()
    register_completion("offline", OfflineCompletion)
    register_embedding("offline", OfflineEmbedding)
    levels = [int(level) for level in options.levels.split(",")]
    seen = asyncio.run(Reading(options.root, levels, options.entity, options.text_unit).all())
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
