"""Slips of the pen: what kind of misspelling turns one word into another, and how sure that is."""

from __future__ import annotations

from rapidfuzz.distance import OSA

from graphrag_assets.indexing.resolution import keys
from graphrag_assets.indexing.resolution.corpus import Corpus
from graphrag_assets.indexing.resolution.keys import Name

#: A misspelling is rare, and what it misspells is not.
_MOST_OF_A_SLIP = 2
_LEAST_RATIO = 3
_TITLES_OF_A_WORD = 3


def slip(a: str, b: str) -> str:
    """What kind of slip turns one word into the other.

    Returns:
        double (a letter doubled or not), swap (neighbours exchanged), inner (one letter between the first and the
        last), edge (one letter at an end, where endings carry meaning: MARTIN and MARTINE), two (two letters of a long
        word), or empty.
    """
    distance = OSA.distance(a, b, score_cutoff=2)
    if distance <= 2 and keys.single_letters(a) == keys.single_letters(b):
        return "double"
    if distance == 1:
        if sorted(a) == sorted(b):
            return "swap" if a[0] == b[0] and a[-1] == b[-1] else "edge"
        return "inner" if a[0] == b[0] and a[-1] == b[-1] else "edge"
    if distance == 2 and min(len(a), len(b)) >= 9 and a[0] == b[0] and a[-1] == b[-1]:
        return "two"
    return ""


def slip_score(kind_of_slip: str, length: int, *, alone: bool, rare: bool) -> float:
    """Certainty of a misspelling.

    Args:
        kind_of_slip: As :func:`slip` gives it.
        length: Letters of the shorter word.
        alone: Whether there is no other word that agrees.
        rare: Whether one of the titles is rare and the other is not, as it is with misspellings.
    """
    if kind_of_slip == "double":
        return 0.92 if length >= (7 if alone else 6) else 0.75
    if kind_of_slip == "swap":
        return 0.92 if length >= (8 if alone else 6) else 0.7
    if kind_of_slip == "inner":
        if not alone and rare and length >= 7:
            return 0.9
        return 0.8 if length >= 6 else 0.0
    return 0.65 if length >= 7 else 0.0


def one_is_rare(a: Name, b: Name, corpus: Corpus) -> bool:
    """Whether one of two titles is rare and the other is not."""
    low, high = sorted((corpus.frequency.get(a.title, 1), corpus.frequency.get(b.title, 1)))
    return low <= _MOST_OF_A_SLIP and high >= _LEAST_RATIO * low


def is_word(token: str, corpus: Corpus) -> bool:
    """Whether a token is found in so many titles that it is no slip itself."""
    return corpus.token_titles.get(token, 0) >= _TITLES_OF_A_WORD
