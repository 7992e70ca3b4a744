"""How near text units are to a question: by meaning, with what their words add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphrag_assets.query.lexical import search_text_units
from graphrag_assets.query.vectors import Hit
from graphrag_assets.storage.tables import TEXT_UNIT_VECTORS

if TYPE_CHECKING:
    from graphrag_assets.query.index import Index

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
    near = index.vectors(TEXT_UNIT_VECTORS).nearest(vector, depth) if vector is not None else []
    scores = {hit.id: hit.score for hit in near}
    floor = near[-1].score if near else 0.0
    words = search_text_units(index, question, depth, RARITY)
    for hit in words:
        scores[hit.id] = scores.get(hit.id, floor) + WORDS_GAIN * hit.score / words[0].score
    return sorted((Hit(i, s) for i, s in scores.items()), key=lambda hit: (-hit.score, hit.id))
