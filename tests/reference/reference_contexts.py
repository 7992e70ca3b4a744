"""Build contexts with Microsoft GraphRAG's own context builders, and tell as JSON what they hold.

    $GRAPHRAG_REFERENCE_PYTHON reference_contexts.py ROOT < REQUEST

ROOT holds a settings.yaml of Microsoft GraphRAG that points at tables and vectors. The request names the vectors of
questions, community levels, the parameters of the builders, and texts whose tokens are counted. It runs in the
reference's Python and imports nothing of this project.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from graphrag.config.load_config import load_config
from graphrag.data_model.data_reader import DataReader
from graphrag.query import indexer_adapters as adapters
from graphrag.query.structured_search.basic_search.basic_context import BasicSearchContext
from graphrag.query.structured_search.global_search.community_context import GlobalCommunityContext
from graphrag.query.structured_search.local_search.mixed_context import LocalSearchMixedContext
from graphrag.tokenizer.get_tokenizer import get_tokenizer
from graphrag.utils.api import get_embedding_store
from graphrag_llm.utils import create_embedding_response
from graphrag_storage import create_storage
from graphrag_storage.tables.table_provider_factory import create_table_provider

csv.field_size_limit(10**9)


class Embedding:
    """Gives every question the vector of the request."""

    def __init__(self, vector: list[float]) -> None:
        self.vector = vector

    def embedding(self, **call: Any) -> Any:
        return create_embedding_response(self.vector, batch_size=len(call["input"]))


class Contexts:
    """Context builders over one index; their objects are made anew for each context, since they keep marks on them."""

    def __init__(self, root: Path) -> None:
        self.config = load_config(root)
        storage = create_storage(self.config.output_storage)
        self.reader = DataReader(create_table_provider(self.config.table_provider, storage=storage))
        self.tokenizer = get_tokenizer(encoding_model="o200k_base")

    async def objects(self, level: int | None) -> dict[str, Any]:
        """Objects of the reference's data model at a level; None: all levels, and entities without a community."""
        names = ("text_units", "entities", "relationships", "covariates", "communities", "community_reports")
        f = {name: await getattr(self.reader, name)() for name in names}
        reports = f["community_reports"]
        return {
            "entities": adapters.read_indexer_entities(f["entities"], f["communities"], level),
            "reports": adapters.read_indexer_reports(reports, f["communities"], level),
            "text_units": adapters.read_indexer_text_units(f["text_units"]),
            "relationships": adapters.read_indexer_relationships(f["relationships"]),
            "claims": adapters.read_indexer_covariates(f["covariates"]),
            "communities": adapters.read_indexer_communities(f["communities"], reports),
        }

    async def local(self, vector: list[float], level: int | None, parameters: dict[str, Any]) -> dict[str, Any]:
        """A context of local search."""
        o = await self.objects(level)
        builder = LocalSearchMixedContext(
            entities=o["entities"],
            entity_text_embeddings=get_embedding_store(self.config.vector_store, "entity_description"),
            text_embedder=Embedding(vector),
            text_units=o["text_units"],
            community_reports=o["reports"],
            relationships=o["relationships"],
            covariates={"claims": o["claims"]},
            tokenizer=self.tokenizer,
        )
        shown = {"include_entity_rank": True, "include_relationship_weight": True}
        made = builder.build_context(query="asked", **shown, **parameters)
        records = {name: frame for name, frame in made.context_records.items() if len(frame)}
        return {
            "tokens": len(self.tokenizer.encode(made.context_chunks)),
            "ids": {name: [int(own) for own in frame["id"]] for name, frame in records.items()},
        }

    async def basic(self, vector: list[float], k: int) -> list[int]:
        """Text units of basic search."""
        o = await self.objects(None)
        builder = BasicSearchContext(
            text_embedder=Embedding(vector),
            text_unit_embeddings=get_embedding_store(self.config.vector_store, "text_unit_text"),
            text_units=o["text_units"],
            tokenizer=self.tokenizer,
        )
        made = builder.build_context("asked", k=k, max_context_tokens=10**9)
        return [int(own) for own in made.context_records["sources"]["id"]]

    async def global_(self, level: int, max_tokens: int) -> list[list[dict[str, str]]]:
        """Batches of global search, as rows of the tables that a model reads."""
        o = await self.objects(level)
        builder = GlobalCommunityContext(o["reports"], o["communities"], o["entities"], self.tokenizer)
        made = await builder.build_context(
            "asked",
            use_community_summary=False,
            include_community_rank=True,
            community_weight_name="occurrence weight",
            max_context_tokens=max_tokens,
        )
        return [list(csv.DictReader(io.StringIO(chunk), delimiter="|")) for chunk in made.context_chunks]

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Everything that a request asks for."""
        told: dict[str, Any] = {"counts": [len(self.tokenizer.encode(text)) for text in request["count"]]}
        told["local"] = [
            await self.local(asked["vector"], asked["level"], asked["parameters"]) for asked in request["local"]
        ]
        told["basic"] = [await self.basic(asked["vector"], asked["k"]) for asked in request["basic"]]
        told["global"] = [await self.global_(asked["level"], asked["max_tokens"]) for asked in request["global"]]
        return told


if __name__ == "__main__":
    json.dump(asyncio.run(Contexts(Path(sys.argv[1])).answer(json.load(sys.stdin))), sys.stdout)
