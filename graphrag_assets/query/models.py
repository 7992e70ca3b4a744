"""The models that answer: embeddings of the question, and, where one is configured, a language model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from graphrag_assets.indexing.asking import Ask, Message
from graphrag_assets.llm.limiting.budget import BudgetReached
from graphrag_assets.llm.prices import ModelFacts
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.query.context import TokenCounter
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.index import Index
from graphrag_assets.query.judging import Judge, Meaning, Scorer, Weights
from graphrag_assets.query.matching import overlap, terms

if TYPE_CHECKING:
    import numpy as np

    from graphrag_assets.llm.embedding.embedded import Reranker
    from graphrag_assets.llm.embedding.models import Embedder

STAGE_EMBEDDING = "query_embedding"

#: How the numbers of the cross-encoder count (bench/near_misses.py).
RERANKER_WEIGHTS = Weights(bias=-6.88, relevance=0.36, coverage=7.5, no_kind=-3.0)

#: How cosine similarities of questions and sentences count: by the slope (fitted with the embedded English model) around a
#: centre, the similarity at which they say nothing either way. Their scales differ by embedding model.
COSINE_SLOPE = 14.0
COSINE_CENTRES = {"bge-small-en-v1.5": 0.566, "use-multilingual": 0.3}
COSINE_CENTRE = 0.35

#: Similarities of single words by the embedded English model: fell and lost .69, wide and hole .65, cost and price .87.
UNLIKE, ALIKE = 0.62, 0.87


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
        meaning: Nearness of words for extractive answers; None: only forms of one word match.
        facts: Prices of an entry of completion_models; None: nothing is known.
        booking: Books apart what one question costs, so that others may be asked at the same time; None: what ``usage``
            says before and after.
    """

    embedder: Embedder
    tokenizer: TokenCounter
    chat: Chat | None = None
    reranker: Scorer | None = None
    usage: Callable[[], Mapping[str, StageUsage]] | None = None
    embedders: Mapping[str, Embedder] = field(default_factory=dict)
    meaning: Meaning | None = None
    facts: Callable[[str], ModelFacts] | None = None
    booking: Callable[[], AbstractContextManager[Callable[[], Mapping[str, StageUsage]]]] | None = None

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
            BudgetReached: The question may cost no more.
        """
        embedder = self.embedders.get(model_id, self.embedder)
        for name in tables:
            index.vectors(name).check(embedder.model)
        try:
            vectors = await embedder.embed(texts, "query", STAGE_EMBEDDING)
        except BudgetReached:
            raise
        except Exception as error:  # the client's own errors
            raise QueryError(f"the question could not be embedded by {embedder.model}: {error}") from error
        for name in tables:
            index.vectors(name).check(embedder.model, vectors.shape[1])
        return vectors

    def judge(self, index: Index, calls: bool = True) -> Judge:
        """What judges the sentences of an extractive answer: the reranker, else similarity of embeddings.

        Args:
            index: The snapshot.
            calls: Whether a model may be called; else words alone are compared.
        """
        if not calls:
            return Judge(index, WORDS_SCORER, WORDS_SCORER, None)
        by_similarity = cosine_scorer(self.embedder)
        return Judge(index, self.reranker or by_similarity, by_similarity, self.meaning)


async def _shared_words(question: str, passages: Sequence[str]) -> list[float]:
    wanted = terms(question)
    return [overlap(wanted, terms(passage)) for passage in passages]


#: Judges sentences by the share of the question's words that they hold: nothing is called, nothing waited for.
WORDS_SCORER = Scorer(_shared_words, Weights(-4.0, 2.0, 7.5, -3.0), "words in common")


def cosine_centre(model: str) -> float:
    """The cosine similarity at which vectors of a model say nothing either way."""
    return next((value for name, value in COSINE_CENTRES.items() if name in model), COSINE_CENTRE)


def cosine_scorer(embedder: Embedder) -> Scorer:
    """Judge sentences by the similarity of their embeddings to that of the question."""

    async def score(question: str, passages: Sequence[str]) -> list[float]:
        asked = await embedder.embed([question], "query", STAGE_EMBEDDING)
        vectors = await embedder.embed(passages, "document", STAGE_EMBEDDING)
        return [float(value) for value in vectors @ asked[0]]

    w = RERANKER_WEIGHTS
    weights = Weights(w.bias - COSINE_SLOPE * cosine_centre(embedder.model), COSINE_SLOPE, w.coverage, w.no_kind)
    return Scorer(score, weights, f"cosine similarity by {embedder.model}")


@lru_cache(maxsize=1)
def embedded_reranker(threads: int | None) -> Reranker:
    """The embedded cross-encoder, loaded once a process, at its first use."""
    from graphrag_assets.llm.embedding.embedded import Reranker

    return Reranker(threads)


@lru_cache(maxsize=1)
def reranking_scorer(threads: int | None) -> Scorer:
    """Judge sentences by the embedded cross-encoder; the model is loaded once a process, at its first use."""
    reranker = embedded_reranker(threads)

    async def score(question: str, passages: Sequence[str]) -> list[float]:
        return [float(value) for value in await asyncio.to_thread(reranker.score, question, passages)]

    return Scorer(score, RERANKER_WEIGHTS, f"reranker {reranker.model}", "en")


@lru_cache(maxsize=1)
def english_meaning(threads: int | None) -> Meaning:
    """Nearness of English words by the embedded model, which is loaded once a process; words are kept."""
    from graphrag_assets.llm.embedding.embedded import EmbeddedEmbedder

    encoder = EmbeddedEmbedder("bge-small-en-v1.5", threads)
    known: dict[str, np.ndarray[Any, Any]] = {}

    async def vectors(words: Sequence[str]) -> np.ndarray[Any, Any]:
        import numpy as np

        new = [word for word in dict.fromkeys(words) if word not in known]
        if new:
            known.update(zip(new, await asyncio.to_thread(encoder.encode, new, "document"), strict=True))
        return np.asarray([known[word] for word in words])

    return Meaning(vectors, UNLIKE, ALIKE)


def _reranker_of(index: Index) -> Scorer | None:
    """The embedded reranker where the settings want it and it is installed."""
    embedded = index.settings.embedded_models
    if not embedded.reranker:
        return None
    from graphrag_assets.llm.embedding.embedded import EmbeddedModelError

    try:
        return reranking_scorer(embedded.threads)
    except EmbeddedModelError:
        return None


@asynccontextmanager
async def open_models(index: Index) -> AsyncIterator[Models]:
    """The models that the workspace of an index names, for as long as questions are asked."""
    from graphrag_assets.llm.embedding.models import embedder
    from graphrag_assets.llm.gateway import Gateway
    from graphrag_assets.llm.tokens import tokenizer

    settings = index.settings
    async with Gateway(index.workspace, cached=settings.query.cache) as gateway:
        chat: Any = gateway if settings.completion_models else None
        reranker = None if chat else _reranker_of(index)
        yield Models(
            embedder(index.workspace, gateway),
            tokenizer(settings.chunking.encoding_model),
            chat,
            reranker,
            gateway.usage,
            {model_id: embedder(index.workspace, gateway, model_id) for model_id in settings.embedding_models},
            english_meaning(settings.embedded_models.threads) if reranker else None,
            gateway.facts if chat else None,
            gateway.booking,
        )
