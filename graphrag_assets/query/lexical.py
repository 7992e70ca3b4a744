"""Text units by the words of a question: BM25 from the full-text index of the snapshot.

A snapshot of an earlier release has none: its texts are scanned, with the same result.
"""

# ruff: noqa: S608 (SQL is put together from names, integers and question marks only)

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphrag_assets.query.index import Index, Record
from graphrag_assets.query.matching import terms
from graphrag_assets.query.vectors import Hit
from graphrag_assets.text.terms import plain

#: Saturation of the term frequency and weight of the length, the customary values (Robertson and Zaragoza 2009).
K1, B = 1.2, 0.75


def search_text_units(index: Index, question: str, k: int, rarity: float = 1.0) -> list[Hit]:
    """The k text units whose words match the question best.

    Args and order as those of :func:`best_text_units`.

    Returns:
        Hits by BM25.
    """
    best = best_text_units(index, question, k, rarity)
    rows = index.take("text_units", "human_readable_id", [n for n, _ in best], ["human_readable_id", "id"])
    ids = dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    return [Hit(ids[number], score) for number, score in best]


def best_text_units(index: Index, question: str, k: int, rarity: float = 1.0) -> list[tuple[int, float]]:
    """The k text units whose words match the question best, by number.

    Words count whole; runs of unspaced scripts by their pairs of characters.

    Args:
        index: The snapshot.
        question: The question.
        k: Text units wanted.
        rarity: Power of the weight of a word; above 1 rare words count more than in BM25.

    Returns:
        (number, score by BM25), best first, equal scores in the order of the table.
    """
    words = sorted(set(terms(question)))
    if not words or not index.count("text_units"):
        return []
    if index.stored("terms") is None:
        return _search_by_scan(index, words, k, rarity)
    lengths = index.whole.kept("text_unit_lengths", lambda: _lengths(index))
    mean = lengths[:, 1].mean() or 1.0
    norm = K1 * (1 - B + B * lengths[:, 1] / mean)
    scores = np.zeros(len(lengths))
    for found_in, units, counts in _postings(index, words):
        places = units if lengths[-1, 0] == len(lengths) - 1 else np.searchsorted(lengths[:, 0], units)
        scores[places] += _idf(len(lengths), found_in) ** rarity * (counts * (K1 + 1) / (counts + norm[places]))
    if index.scope is not None:
        scores[~index.scope.has_text_units(lengths[:, 0])] = 0.0
    found = np.flatnonzero(scores)
    if len(found) > k:  # the best k, and all that are as good as the last one
        found = found[scores[found] >= np.partition(scores[found], len(found) - k)[len(found) - k]]
    best = sorted(found.tolist(), key=lambda place: (-scores[place], place))[:k]
    return [(int(lengths[place, 0]), float(scores[place])) for place in best]


def _idf(total: int, found_in: int) -> float:
    return math.log(1 + (total - found_in + 0.5) / (found_in + 0.5))


def _lengths(index: Index) -> Any:
    """Number and length of all text units: array (text units, 2), ascending by number."""
    (_, numbers, lengths), *_ = _postings(index, [""])
    return np.stack([numbers, lengths], axis=1).astype(np.int64)


def _postings(index: Index, words: Sequence[str]) -> list[tuple[int, Any, Any]]:
    """For each word that occurs: in how many text units, their numbers ascending, how often they hold it."""
    listed, postings = index.stored("terms"), index.stored("postings")
    if listed is None or postings is None:
        return []
    rows = listed.take("plain", sorted({plain(word) for word in words}), ["term", "text_units", "first"]).to_pylist()
    found = []
    for row in sorted((row for row in rows if row["term"] in words), key=lambda row: str(row["term"])):
        part = postings.slice(row["first"], row["text_units"], ["text_unit", "count"])
        found.append((row["text_units"], part["text_unit"].to_numpy(), part["count"].to_numpy()))
    return found


def _search_by_scan(index: Index, words: Sequence[str], k: int, rarity: float) -> list[tuple[int, float]]:
    """The same from the texts: one scan counts the words in each; nothing but the counts leaves DuckDB."""
    rows = _count(index, words)
    found = {i: sum(1 for row in rows if row["counts"][i]) for i in range(len(words))}
    total = index.count("text_units")
    idf = [_idf(total, found[i]) ** rarity for i in range(len(words))]
    mean = (index.rows("select avg(length(text)) as mean from text_units")[0]["mean"]) or 1.0

    def score(row: Record) -> float:
        counts, length = row["counts"], row["length"]
        norm = K1 * (1 - B + B * length / mean)
        return float(sum(idf[i] * n * (K1 + 1) / (n + norm) for i, n in enumerate(counts) if n))

    ranked = sorted(((score(row), row) for row in rows), key=lambda pair: (-pair[0], pair[1]["number"]))
    return [(row["number"], value) for value, row in ranked[:k]]


def _count(index: Index, words: Sequence[str]) -> list[Record]:
    """Text units that hold any of the words, with the number of times they hold each."""
    spaced = [not _is_pair(word) for word in words]
    texts = ["normalised" if s else "folded" for s in spaced]
    needles = [f" {word} " if s else word for word, s in zip(words, spaced, strict=True)]
    counts = ", ".join(
        f"(length({text}) - length(replace({text}, ?, ''))) // {len(needle)}"
        for text, needle in zip(texts, needles, strict=True)
    )
    sql = f"""
        with folded as (
            select human_readable_id as number, length(text) as length, lower(text) as folded from text_units),
        prepared as (
            -- two blanks between words, so that each has its own
            select *, ' ' || regexp_replace(folded, '[^\\p{{L}}\\p{{N}}]+', '  ', 'g') || ' ' as normalised from folded),
        counted as (select number, length, [{counts}] as counts from prepared)
        select * from counted where list_sum(counts) > 0"""
    return index.rows(sql, needles)


def _is_pair(word: str) -> bool:
    return len(word) == 2 and ord(word[0]) >= 0x0E00


def occurrences(index: Index, beginnings: Sequence[str]) -> dict[str, int]:
    """In how many text units a word begins like this, accents aside, for each beginning."""
    if not beginnings or not index.count("text_units"):
        return dict.fromkeys(beginnings, 0)
    if index.stored("terms") is None:
        return _occurrences_by_scan(index, beginnings)
    return {word: _beginning(index, word) for word in beginnings}


def _beginning(index: Index, word: str) -> int:
    listed, postings = index.stored("terms"), index.stored("postings")
    low = plain(word)
    if listed is None or postings is None or not low:
        return 0
    rows = listed.between("plain", low, f"{low}\U0010ffff", ["text_units", "first"]).to_pylist()
    if len(rows) == 1:
        return int(rows[0]["text_units"])
    # Terms with one beginning stand side by side, and so do their postings.
    parts = _spans([(row["first"], row["text_units"]) for row in rows])
    held = [postings.slice(first, count, ["text_unit"])["text_unit"].to_numpy() for first, count in parts]
    return len(np.unique(np.concatenate(held))) if held else 0


def _spans(parts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """(first, count) of rows, those that follow each other joined."""
    joined: list[tuple[int, int]] = []
    for first, count in parts:
        if joined and sum(joined[-1]) == first:
            joined[-1] = (joined[-1][0], joined[-1][1] + count)
        else:
            joined.append((first, count))
    return joined


def _occurrences_by_scan(index: Index, beginnings: Sequence[str]) -> dict[str, int]:
    needles = [word if _is_pair(word) else " " + re.sub(r"[\W_]+", " ", word) for word in beginnings]
    sums = ", ".join("count(*) filter (contains(normalised, ?))" for _ in needles)
    rows = index.rows(
        f"""with prepared as (
                select ' ' || regexp_replace(strip_accents(lower(text)), '[^\\p{{L}}\\p{{N}}]+', ' ', 'g') as normalised
                from text_units)
            select [{sums}] as counts from prepared""",
        needles,
    )
    return dict(zip(beginnings, rows[0]["counts"], strict=True))
