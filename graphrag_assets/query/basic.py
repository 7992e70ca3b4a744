"""Basic search: the text units nearest to the question, by meaning and by words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from graphrag_assets.query import lookups
from graphrag_assets.query.context import Context, TokenCounter, join
from graphrag_assets.query.history import Turn, history_section
from graphrag_assets.query.index import Index
from graphrag_assets.query.relevance import relevance
from graphrag_assets.query.row_numbers import numbers_of
from graphrag_assets.query.rows import fill_sources
from graphrag_assets.query.vectors import Hit

#: Scores of passages for a question, higher is better.
Score = Callable[[str, Sequence[str]], Iterable[float]]

#: Least text units that the reranker reads; it reads as many as are wanted where that is more.
RERANKED = 20


def retrieve(
    index: Index, question: str, vector: Sequence[float] | None, k: int, score: Score | None = None
) -> list[Hit]:
    """The k text units for a question: by vectors and words, and by a reranker where there is one.

    Args:
        index: The snapshot.
        question: The question.
        vector: Its embedding; None: words only.
        k: Text units wanted.
        score: The reranker; None: none.
    """
    hits = relevance(index, question, vector, k)
    return (rerank(index, question, hits[: max(k, RERANKED)], score) if score else hits)[:k]


def rerank(index: Index, question: str, hits: Sequence[Hit], score: Score) -> list[Hit]:
    """Text units in the order of a model that reads each with the question; equal scores stay as they were."""
    numbers = numbers_of(index, "text_units", [hit.id for hit in hits])
    units = lookups.text_units(index, [numbers[hit.id] for hit in hits if hit.id in numbers])
    scores = [float(value) for value in score(question, [unit.text for unit in units])] if units else []
    return sorted((Hit(unit.id, value) for unit, value in zip(units, scores, strict=True)), key=lambda hit: -hit.score)


def build_basic_context(
    index: Index,
    question: str,
    vector: Sequence[float] | None,
    k: int,
    max_tokens: int,
    tokenizer: TokenCounter,
    history: Sequence[Turn] = (),
    max_turns: int = 5,
    score: Score | None = None,
) -> Context:
    """The context of a basic search: the best text units first, in at most ``max_tokens`` tokens."""
    spoken = history_section(history, max_turns, tokenizer, max_tokens)
    budget = max_tokens - (join([spoken], tokenizer).tokens + 1 if spoken else 0)
    hits = retrieve(index, question, vector, k, score)
    numbers = numbers_of(index, "text_units", [hit.id for hit in hits])
    found = [{"id": numbers[h.id], "score": round(h.score, 5)} for h in hits if h.id in numbers]
    sources = fill_sources(index, [numbers[h.id] for h in hits if h.id in numbers], tokenizer, budget).section()
    return join([spoken, sources], tokenizer, {"text_units": found})
