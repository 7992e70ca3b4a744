"""Which sentences say most: extractive summarisation without a model.

Centrality of sentences in their similarity graph (LexRank: Erkan and Radev 2004, continuous form) finds what a set of
sentences is about; simple marks of a sentence that stands by itself (length, no reference backwards, names, place in
its document) make it readable; maximal marginal relevance (Carbonell and Goldstein 1998) keeps the choice from
repeating itself. Ties go to the earlier sentence, so equal input gives equal output.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from graphrag_assets.indexing.statements import Statement

#: Similarities of all pairs are computed for at most this many sentences; more are narrowed down first.
_MOST = 300
_DAMPING = 0.85
_ROUNDS = 50
#: Weight of a sentence's own worth against its difference from what is chosen already.
_OWN_WORTH = 0.7

_BACKWARD = re.compile(
    r"^[\"'“‘(]*(?:he|she|it|they|this|that|these|those|but|and|so|then|there|neither|such|his|her|their|its|him|them|or|nor|yet|"
    r"also|here|not|no|yes|because|which|asked|the (?:same|other|former|latter|second|third))\b",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:I|me|my|mine|we|our|us|you|your)\b")


class Ranked:
    """Sentences with their worth and similarities.

    Args:
        statements: Candidates, in the order of the corpus.
        weights: Rarity of content words.
        titles: Entities that the summary is about: sentences that name them count more.
        first_of_document: Order of the first sentence of each document: the first sentences of a document count more.
    """

    def __init__(
        self,
        statements: Sequence[Statement],
        weights: Mapping[str, float],
        titles: Collection[str] = (),
        first_of_document: Mapping[str, int] | None = None,
    ) -> None:
        about = frozenset(titles)
        first = first_of_document or {}
        readable = np.array([_readability(s, about, first.get(s.document_id, s.order)) for s in statements])
        chosen = _narrow(statements, weights, readable)
        self.statements = [statements[i] for i in chosen]
        self.similarity = _similarity(self.statements, weights)
        central = _centrality(self.similarity)
        self.worth = central * readable[chosen] if chosen else central

    def select(self, count: int, *, among: Collection[int] | None = None, seen: Collection[int] = ()) -> list[int]:
        """Choose sentences that say much and do not repeat each other.

        Args:
            count: Most sentences.
            among: Positions to choose from; None: all.
            seen: Positions that were chosen before; neither they nor what is much like them is chosen.

        Returns:
            Positions in :attr:`statements`, best first.
        """
        open_positions = sorted(set(range(len(self.statements)) if among is None else among) - set(seen))
        if not open_positions:
            return []
        top = max(float(self.worth[open_positions].max()), 1e-12)
        chosen: list[int] = []
        known = list(seen)
        while open_positions and len(chosen) < count:
            nearest = (
                self.similarity[np.ix_(open_positions, known)].max(axis=1) if known else np.zeros(len(open_positions))
            )
            gain = _OWN_WORTH * self.worth[open_positions] / top - (1 - _OWN_WORTH) * nearest
            gain[nearest > _REPEATS] = -np.inf
            best = int(np.argmax(gain))
            if not np.isfinite(gain[best]):
                break
            chosen.append(open_positions.pop(best))
            known.append(chosen[-1])
        return chosen


#: Sentences that are more alike than this say the same.
_REPEATS = 0.75


def _readability(statement: Statement, about: frozenset[str], first: int) -> float:
    """How well a sentence stands by itself, as a factor."""
    text = statement.text
    words = len(text.split())
    factor = 1.0 if statement.complete else 0.25
    if words < 7 and " " in text:
        factor *= 0.5
    elif words > 45:
        factor *= 0.7
    if text.rstrip("\"'”’").endswith("?"):
        factor *= 0.3
    if _is_list(text):
        factor *= 0.3
    if _BACKWARD.match(text):
        factor *= 0.5
    if _FIRST_PERSON.search(text):
        factor *= 0.65
    named = len(about & set(statement.titles)) if about else len(statement.titles)
    factor *= 1 + 0.15 * min(named, 4)
    return factor * (1 + 0.3 / (1 + (statement.order - first) / 3))


def _is_list(text: str) -> bool:
    """Whether a text mostly lists names, as an attendance list does."""
    words = [word for word in re.findall(r"[^\W\d_]+", text) if word.lower() != word or word.upper() != word]
    capital = sum(word[0].isupper() for word in words)
    return text.count(";") + text.count(",") >= 3 and capital > 0.6 * len(words)


def _narrow(statements: Sequence[Statement], weights: Mapping[str, float], readable: NDArray[np.float64]) -> list[int]:
    """The most promising sentences, by what their words weigh in the whole set, in their order."""
    if len(statements) <= _MOST:
        return list(range(len(statements)))
    total: dict[str, float] = {}
    for statement in statements:
        for word in set(statement.words):
            total[word] = total.get(word, 0.0) + weights.get(word, 1.0)
    share = np.array([sum(total[w] for w in sorted(set(s.words))) / (3 + len(set(s.words))) for s in statements])
    promise = share * readable
    return sorted(np.lexsort((np.arange(len(statements)), -promise))[:_MOST].tolist())


def _similarity(statements: Sequence[Statement], weights: Mapping[str, float]) -> NDArray[np.float64]:
    """Cosine similarities of TF-IDF vectors, zero on the diagonal."""
    from scipy.sparse import csr_array

    columns: dict[str, int] = {}
    rows, cols, values = [], [], []
    for i, statement in enumerate(statements):
        counts: dict[str, int] = {}
        for word in statement.words:
            counts[word] = counts.get(word, 0) + 1
        for word, count in counts.items():
            rows.append(i)
            cols.append(columns.setdefault(word, len(columns)))
            values.append(count * weights.get(word, 1.0))
    matrix = csr_array((values, (rows, cols)), shape=(len(statements), max(1, len(columns))), dtype=np.float64)
    product = np.asarray((matrix @ matrix.T).toarray(), dtype=np.float64)
    norms = np.sqrt(np.maximum(product.diagonal(), 1e-12))
    similarity = np.asarray(np.minimum(product / np.outer(norms, norms), 1.0), dtype=np.float64)
    np.fill_diagonal(similarity, 0.0)
    return similarity


def _centrality(similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stationary share of a random walk over similar sentences, scaled to a greatest value of 1."""
    count = len(similarity)
    if not count:
        return np.zeros(0)
    sums = similarity.sum(axis=1, keepdims=True)
    walk = np.where(sums > 0, similarity / np.where(sums > 0, sums, 1.0), 1.0 / count)
    share = np.full(count, 1.0 / count)
    for _ in range(_ROUNDS):
        share = (1 - _DAMPING) / count + _DAMPING * (share @ walk)
    return np.asarray(np.round(share / share.max(), 9), dtype=np.float64)
