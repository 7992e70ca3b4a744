"""The models that answer: embeddings of the question, and, where one is configured, a language model."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from graphrag_assets.indexing.asking import Ask, Message
from graphrag_assets.query.context import TokenCounter
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.extractive import Scorer
from graphrag_assets.query.index import Index
from graphrag_assets.settings import Settings

if TYPE_CHECKING:
    from graphrag_assets.llm.embedded import Reranker
    from graphrag_assets.llm.embeddings import Embedder

STAGE_EMBEDDING = "query_embedding"

#: Cross-encoder logits: above 0 a passage probably answers; sentences out of their text score lower than passages.
RERANK_THRESHOLD, RERANK_MARGIN = -3.0, 5.0

#: Cosine similarity from which a sentence counts as an answer, by embedding model: their scales differ.
COSINE_THRESHOLDS = {"bge-small-en-v1.5": 0.62, "use-multilingual": 0.35}
COSINE_THRESHOLD, COSINE_MARGIN = 0.4, 0.12


class Chat(Protocol):
    """A language model behind the gateway."""

    def ask(self, stage: str, model_id: str) -> Ask:
        """How to ask a model on behalf of a stage."""
        ...

    def chat_stream(self, stage: str, model_id: str, messages: Sequence[Message]) -> AsyncIterator[str]:
        """The answer in pieces of text, as they come."""
        ...

    def usage(self) -> Mapping[str, Any]:
        """Calls, tokens and price by stage."""
        ...


@dataclass(frozen=True)
class Models:
    """What a question needs of models.

    Args:
        embedder: Embeds questions; its vectors must be comparable with those of the index.
        chat: Language model; None: answers are extractive.
        tokenizer: Counts what fits.
        scorer: Judges sentences for extractive answers; None: by similarity of embeddings.
    """

    embedder: Embedder
    chat: Chat | None
    tokenizer: TokenCounter
    scorer: Scorer | None = None

    async def embed(self, index: Index, texts: Sequence[str], tables: Sequence[str]) -> np.ndarray[Any, Any]:
        """Embed questions.

        Args:
            index: The snapshot whose vectors they are compared with.
            texts: Questions.
            tables: Names of the vector tables that are searched.

        Returns:
            Array (questions, dimension).

        Raises:
            QueryError: The vectors of the index come from another model, or the model failed.
        """
        for name in tables:
            index.vectors(name).described  # noqa: B018 (raises for a table that is missing)
        try:
            vectors = await self.embedder.embed(texts, "query", STAGE_EMBEDDING)
        except Exception as error:  # the client's own errors
            raise QueryError(f"the question could not be embedded by {self.embedder.model}: {error}") from error
        for name in tables:
            index.vectors(name).check(self.embedder.model, self.embedder.dimension)
        return vectors

    async def sentence_scorer(self, question: str) -> Scorer:
        """What judges sentences for an extractive answer."""
        if self.scorer is not None:
            return self.scorer
        return _cosine_scorer(self)


@asynccontextmanager
async def open_models(index: Index) -> AsyncIterator[Models]:
    """The models that the workspace of an index names, for as long as questions are asked."""
    from graphrag_assets.llm.embeddings import embedder
    from graphrag_assets.llm.gateway import Gateway
    from graphrag_assets.llm.tokens import tokenizer

    settings = index.settings
    async with Gateway(index.workspace) as gateway:
        chat = gateway if settings.completion_models else None
        yield Models(
            embedder(index.workspace, gateway),
            chat,
            tokenizer(settings.chunking.encoding_model),
            reranking_scorer(settings),
        )
