"""How near text units are to a question: by meaning, with what their words add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from graphrag_assets.query.lexical import best_text_units, search_text_units
from graphrag_assets.query.row_numbers import numbers_of
from graphrag_assets.query.vectors import Hit
from graphrag_assets.storage.tables import TEXT_UNIT_VECTORS

if TYPE_CHECKING:
    from graphrag_assets.query.index import Index

Key = TypeVar("Key", int, str)

#: What the text unit that matches the words best gains, as cosine similarity; the others gain in proportion. Chosen among
#: .05, .1, .15, .2 and .3 on two sets (bench/retrieval.py).
WORDS_GAIN = 0.15

#: Power of the weight of a word in BM25: in long questions the many common words would outweigh the few that tell. Chosen
#: among 1, 1.5 and 2.
RARITY = 2.0

#: Least text units of either ranking that are compared: one that only the words found is as near as the last by vector.
LEAST_DEPTH = 100


def relevance(index: Index, question: str, vector: Sequence[float] | None, depth: int = LEAST_DEPTH) -> list[Hit]:
    """Text units near to a question, best first.

    Cosine similarity, and a gain for words by BM25. Sums of scores keep what ranks lose: by how much the
    first is nearer than the second, and that no text unit holds the words of a question that asks for two things.

    Args:
        index: The snapshot.
        question: The question.
        vector: Its embedding; None: words only.
        depth: Text units of each ranking.

    Returns:
        Each text unit once, equal scores in the order of ids.
    """
    if not index.count("text_units"):
        return []
    depth = max(depth, LEAST_DEPTH)
    near, words = _nearest(index, vector, depth), search_text_units(index, question, depth, RARITY)
    scores = _sums([(hit.id, hit.score) for hit in near], [(hit.id, hit.score) for hit in words])
    return sorted((Hit(i, s) for i, s in scores.items()), key=lambda hit: (-hit.score, hit.id))


def relevance_by_number(index: Index, question: str, vector: Sequence[float] | None) -> dict[int, float]:
    """The scores of :func:`relevance` by the numbers of text units."""
    if not index.count("text_units"):
        return {}
    near = _nearest(index, vector, LEAST_DEPTH)
    numbers = numbers_of(index, "text_units", [hit.id for hit in near])
    known = [(numbers[hit.id], hit.score) for hit in near if hit.id in numbers]
    return _sums(known, best_text_units(index, question, LEAST_DEPTH, RARITY))


def _nearest(index: Index, vector: Sequence[float] | None, depth: int) -> list[Hit]:
    return index.vectors(TEXT_UNIT_VECTORS).nearest(vector, depth) if vector is not None else []


def _sums(near: Sequence[tuple[Key, float]], words: Sequence[tuple[Key, float]]) -> dict[Key, float]:
    """Nearness and the gain for words; both best first. One that only the words found is as near as the last."""
    scores = dict(near)
    floor = near[-1][1] if near else 0.0
    for key, score in words:
        scores[key] = scores.get(key, floor) + WORDS_GAIN * score / words[0][1]
    return scores
