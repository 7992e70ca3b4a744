"""Basic search: the text units nearest to the question, by meaning and by words."""

from __future__ import annotations

from collections.abc import Sequence

from graphrag_assets.query.context import Context, TokenCounter, join
from graphrag_assets.query.history import Turn, history_section
from graphrag_assets.query.index import Index
from graphrag_assets.query.lexical import search_text_units
from graphrag_assets.query.lookups import text_unit_sizes
from graphrag_assets.query.rows import fill_sources
from graphrag_assets.query.vectors import Hit
from graphrag_assets.storage.tables import TEXT_UNIT_VECTORS

#: Rank offset of reciprocal-rank fusion (Cormack, Clarke and Buettcher 2009).
RRF_OFFSET = 60

#: Candidates of each ranking per wanted text unit.
OVERSAMPLE = 3


def fuse(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Reciprocal-rank fusion: rows that several rankings put high come first; ties in the order of ids."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, start=1):
            scores[hit.id] = scores.get(hit.id, 0.0) + 1.0 / (RRF_OFFSET + rank)
    return sorted((Hit(i, s) for i, s in scores.items()), key=lambda hit: (-hit.score, hit.id))


def retrieve(index: Index, question: str, vector: Sequence[float] | None, k: int) -> list[Hit]:
    """The k text units for a question: vectors and BM25, fused.

    Args:
        index: The snapshot.
        question: The question.
        vector: Its embedding; None: words only.
        k: Text units wanted.
    """
    if not index.count("text_units"):
        return []
    rankings = [search_text_units(index, question, OVERSAMPLE * k)]
    if vector is not None:
        rankings.append(index.vectors(TEXT_UNIT_VECTORS).nearest(vector, OVERSAMPLE * k))
    return fuse(rankings)[:k]


def build_basic_context(
    index: Index,
    question: str,
    vector: Sequence[float] | None,
    k: int,
    max_tokens: int,
    tokenizer: TokenCounter,
    history: Sequence[Turn] = (),
    max_turns: int = 5,
) -> Context:
    """The context of a basic search: the best text units first, in at most ``max_tokens`` tokens."""
    spoken = history_section(history, max_turns, tokenizer, max_tokens)
    budget = max_tokens - (join([spoken], tokenizer).tokens + 1 if spoken else 0)
    hits = retrieve(index, question, vector, k)
    ids = [hit.id for hit in hits]
    sizes = text_unit_sizes(index, ids)
    candidates = [sizes[i] for i in ids if i in sizes]
    sources = fill_sources(index, candidates, tokenizer, budget).section()
    found = [{"id": sizes[h.id][0], "score": round(h.score, 5)} for h in hits if h.id in sizes]
    return join([spoken, sources], tokenizer, {"text_units": found})
