"""The models that answer: embeddings of the question, and, where one is configured, a language model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from graphrag_assets.indexing.asking import Ask, Message
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.query.context import TokenCounter
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.extractive import Scorer
from graphrag_assets.query.index import Index

if TYPE_CHECKING:
    import numpy as np

    from graphrag_assets.llm.embeddings import Embedder

STAGE_EMBEDDING = "query_embedding"

#: Logits of the cross-encoder for single sentences: from here on (more likely relevant than not) the best one counts as
#: an answer, and further ones may be this much worse. The best sentences for the demo's single-fact questions score 3.9
#: to 9.7.
RERANK_THRESHOLD, RERANK_MARGIN = 0.0, 5.0

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


@dataclass(frozen=True)
class Models:
    """What a question needs of models.

    Args:
        embedder: Embeds questions where a search names no model of its own, and sentences.
        tokenizer: Counts what fits.
        chat: Language model; None: answers are extractive.
        reranker: Judges sentences for extractive answers; None: similarity of embeddings does.
        usage: Calls, tokens and price by stage so far.
        embedders: Configured embedding models by id, for the searches that name one.
    """

    embedder: Embedder
    tokenizer: TokenCounter
    chat: Chat | None = None
    reranker: Scorer | None = None
    usage: Callable[[], Mapping[str, StageUsage]] | None = None
    embedders: Mapping[str, Embedder] = field(default_factory=dict)

    async def embed(
        self, index: Index, texts: Sequence[str], tables: Sequence[str], model_id: str = ""
    ) -> np.ndarray[Any, Any]:
        """Embed questions.

        Args:
            index: The snapshot whose vectors they are compared with.
            texts: Questions.
            tables: Names of the vector tables that are searched.
            model_id: Entry of embedding_models that the search names; its vectors must be comparable with those of
                the index.

        Returns:
            Array (questions, dimension).

        Raises:
            QueryError: The vectors of the index come from another model or are missing, or the model failed.
        """
        embedder = self.embedders.get(model_id, self.embedder)
        for name in tables:
            index.vectors(name).check(embedder.model)
        try:
            vectors = await embedder.embed(texts, "query", STAGE_EMBEDDING)
        except Exception as error:  # the client's own errors
            raise QueryError(f"the question could not be embedded by {embedder.model}: {error}") from error
        for name in tables:
            index.vectors(name).check(embedder.model, vectors.shape[1])
        return vectors

    def sentence_scorer(self) -> Scorer:
        """What judges sentences for an extractive answer: the reranker, else similarity of embeddings."""
        return self.reranker or cosine_scorer(self.embedder)


def cosine_scorer(embedder: Embedder) -> Scorer:
    """Judge sentences by the similarity of their embeddings to that of the question."""

    async def score(question: str, passages: Sequence[str]) -> list[float]:
        asked = await embedder.embed([question], "query", STAGE_EMBEDDING)
        vectors = await embedder.embed(passages, "document", STAGE_EMBEDDING)
        return [float(value) for value in vectors @ asked[0]]

    known = (limit for name, limit in COSINE_THRESHOLDS.items() if name in embedder.model)
    return Scorer(score, next(known, COSINE_THRESHOLD), COSINE_MARGIN, f"cosine similarity by {embedder.model}")


@lru_cache(maxsize=1)
def reranking_scorer(threads: int | None) -> Scorer:
    """Judge sentences by the embedded cross-encoder; the model is loaded once a process, at its first use."""
    from graphrag_assets.llm.embedded import Reranker

    reranker = Reranker(threads)

    async def score(question: str, passages: Sequence[str]) -> list[float]:
        return [float(value) for value in await asyncio.to_thread(reranker.score, question, passages)]

    return Scorer(score, RERANK_THRESHOLD, RERANK_MARGIN, f"reranker {reranker.model}")


def _reranker_of(index: Index) -> Scorer | None:
    """The embedded reranker where the settings want it and it is installed. It reads English only."""
    embedded = index.settings.embedded_models
    if not embedded.reranker or embedded.embedding == "use-multilingual" or index.settings.language not in (None, "en"):
        return None
    from graphrag_assets.llm.embedded import EmbeddedModelError

    try:
        return reranking_scorer(embedded.threads)
    except EmbeddedModelError:
        return None


@asynccontextmanager
async def open_models(index: Index) -> AsyncIterator[Models]:
    """The models that the workspace of an index names, for as long as questions are asked."""
    from graphrag_assets.llm.embeddings import embedder
    from graphrag_assets.llm.gateway import Gateway
    from graphrag_assets.llm.tokens import tokenizer

    settings = index.settings
    async with Gateway(index.workspace) as gateway:
        chat: Any = gateway if settings.completion_models else None
        yield Models(
            embedder(index.workspace, gateway),
            tokenizer(settings.chunking.encoding_model),
            chat,
            None if chat else _reranker_of(index),
            gateway.usage,
            {model_id: embedder(index.workspace, gateway, model_id) for model_id in settings.embedding_models},
        )
