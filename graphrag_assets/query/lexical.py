"""Text units by the words of a question: BM25."""

# ruff: noqa: S608 (SQL is put together from names, integers and question marks only)

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from graphrag_assets.query.index import Index, Record
from graphrag_assets.query.matching import terms
from graphrag_assets.query.vectors import Hit

#: Saturation of the term frequency and weight of the length, the customary values (Robertson and Zaragoza 2009).
K1, B = 1.2, 0.75


def search_text_units(index: Index, question: str, k: int) -> list[Hit]:
    """The k text units whose words match the question best.

    One scan of the texts counts the words of the question in each of them; nothing but the counts leaves DuckDB.
    Words count whole; pairs of characters of unspaced scripts wherever they stand.

    Args:
        index: The snapshot.
        question: The question.
        k: Text units wanted.

    Returns:
        Hits by BM25, equal scores in the order of the table.
    """
    words = sorted(set(terms(question)))
    if not words or not index.count("text_units"):
        return []
    rows = _count(index, words)
    found = {i: sum(1 for row in rows if row["counts"][i]) for i in range(len(words))}
    total = index.count("text_units")
    idf = [math.log(1 + (total - found[i] + 0.5) / (found[i] + 0.5)) for i in range(len(words))]
    mean = (index.rows("select avg(length(text)) as mean from text_units")[0]["mean"]) or 1.0

    def score(row: Record) -> float:
        counts, length = row["counts"], row["length"]
        norm = K1 * (1 - B + B * length / mean)
        return float(sum(idf[i] * n * (K1 + 1) / (n + norm) for i, n in enumerate(counts) if n))

    ranked = sorted(((score(row), row) for row in rows), key=lambda pair: (-pair[0], pair[1]["number"]))
    return [Hit(row["id"], value) for value, row in ranked[:k]]


def _count(index: Index, words: Sequence[str]) -> list[Record]:
    """Text units that hold any of the words, with the number of times they hold each."""
    spaced = [not _is_pair(word) for word in words]
    texts = ["normalised" if s else "folded" for s in spaced]
    needles = [f" {word} " if s else word for word, s in zip(words, spaced, strict=True)]
    lengths = [len(word) + 1 if s else len(word) for word, s in zip(words, spaced, strict=True)]
    # Two equal words in a row share the blank between them, so only one blank is taken away with each.
    counts = ", ".join(
        f"(length({text}) - length(replace({text}, ?, {'chr(32)' if s else chr(39) * 2}))) // {n}"
        for text, s, n in zip(texts, spaced, lengths, strict=True)
    )
    sql = f"""
        with folded as (
            select id, human_readable_id as number, length(text) as length, lower(text) as folded from text_units),
        prepared as (
            select *, ' ' || regexp_replace(folded, '[^\\p{{L}}\\p{{N}}]+', ' ', 'g') || ' ' as normalised from folded),
        counted as (select id, number, length, [{counts}] as counts from prepared)
        select * from counted where list_sum(counts) > 0"""
    return index.rows(sql, needles)


def _is_pair(word: str) -> bool:
    return len(word) == 2 and ord(word[0]) >= 0x0E00


def occurrences(index: Index, beginnings: Sequence[str]) -> dict[str, int]:
    """In how many text units a word begins like this, for each beginning, in one scan of the texts."""
    if not beginnings or not index.count("text_units"):
        return dict.fromkeys(beginnings, 0)
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
