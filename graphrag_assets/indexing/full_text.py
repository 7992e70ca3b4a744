"""The full-text index of a snapshot: which text units hold which terms, and how often."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from graphrag_assets.text.terms import plain, terms

Integers = np.ndarray[Any, np.dtype[np.int32]]

#: The empty term stands before every character: how often a text unit holds it is its length.
LENGTH = ""


def term_tables(text_units: pa.Table) -> dict[str, pa.Table]:
    """Terms with the text units that hold them, as BM25 needs them.

    Args:
        text_units: Columns human_readable_id and text.

    Returns:
        terms, sorted, each with the place of its first posting; and postings, those of one term after those of the one
        before it, each term's in the order of text units. The empty term leads, with the lengths of all text units.
    """
    known: dict[str, int] = {LENGTH: 0}
    codes, counts, sizes = array("i"), array("i"), array("i")
    numbers = text_units["human_readable_id"].to_numpy().astype(np.int32)
    for text in _texts(text_units["text"]):
        held = Counter(terms(text))
        held[LENGTH] = len(text)
        for term in held:
            if term not in known:
                known[term] = len(known)
        codes.extend([known[term] for term in held])
        counts.extend(held.values())
        sizes.append(len(held))
    return _sorted(known, np.asarray(codes), np.asarray(counts), np.repeat(numbers, np.asarray(sizes)))


def _texts(column: pa.ChunkedArray) -> Iterator[str]:
    """Texts one by one, never all of them as Python strings at once."""
    for chunk in column.chunks:
        for value in chunk:
            yield value.as_py()


def _sorted(known: dict[str, int], codes: Integers, counts: Integers, units: Integers) -> dict[str, pa.Table]:
    """Both tables from postings in the order in which they were found."""
    names = sorted((plain(term), term) for term in known)
    place = np.empty(len(names), np.int32)
    place[[known[term] for _, term in names]] = np.arange(len(names), dtype=np.int32)
    held_by = np.bincount(place[codes], minlength=len(names))
    order = np.argsort(place[codes], kind="stable")
    return {
        "terms": pa.table(
            {
                "plain": pa.array([name for name, _ in names], pa.string()),
                "term": pa.array([term for _, term in names], pa.string()),
                "text_units": pa.array(held_by, pa.int32()),
                "first": pa.array(np.cumsum(held_by) - held_by, pa.int64()),
            }
        ),
        "postings": pa.table({"text_unit": pa.array(units[order]), "count": pa.array(counts[order])}),
    }
