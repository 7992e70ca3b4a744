"""Content-defined chunks: an edit changes the text units around it and no others.

The idea of rsync and FastCDC (Xia et al. 2016), with the local-extremum rule of Bjørner, Blass and Gurevich
("Content-dependent chunking for differential compression, the local maximum approach", 2010): a boundary between
sentences is a cut when its key is the least of all boundaries within ``min_size`` tokens to both sides. So whether a
boundary is a cut depends on the text within ``min_size`` tokens of it, and cuts are at least ``min_size`` apart. What
lies between two cuts and is longer than ``size`` is cut further by a rule that sees nothing outside of it.

The key is the rank (paragraph ends before sentence ends before words) and then a hash of the text before the boundary.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from graphrag_assets.indexing.boundaries import Boundaries, strip_span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def stable_spans(
    text: str, count: Callable[[str], int], boundaries: Boundaries, size: int, min_size: int
) -> Iterator[tuple[int, int]]:
    """Content-defined spans of a document.

    Args:
        text: Document text.
        count: Number of tokens of a text.
        boundaries: Where it may be cut.
        size: Most tokens of a span.
        min_size: Fewest tokens of a span, where the document has as many and its sentences allow it.

    Yields:
        Character spans in order, without white space at their ends.
    """
    keys = _keys(boundaries)
    tokens: list[int] = boundaries.tokens.tolist()
    cuts = [0, *_local_minima(keys, tokens, min_size), len(tokens) - 1]
    for first, last in itertools.pairwise(cuts):
        for start, stop in _pieces(keys, tokens, first, last, size, min_size):
            yield from _fitting(text, count, boundaries, keys, start, stop, size, min_size)


def _keys(boundaries: Boundaries) -> list[int]:
    """Rank in the upper bits, hash in the lower ones: the least key is the best place to cut."""
    import numpy as np

    ranks: NDArray[np.uint64] = boundaries.ranks.astype(np.uint64)
    keys: list[int] = ((ranks << np.uint64(61)) | (boundaries.hashes >> np.uint64(3))).tolist()
    return keys


def _local_minima(keys: list[int], tokens: list[int], radius: int) -> list[int]:
    """Inner boundaries whose key is the least within a radius, in tokens; of equal keys within it the first counts.

    Boundaries nearer than the radius to an end of the document never qualify, so no span is shorter than it. Linear:
    a stack keeps, for each boundary, the nearest earlier one with a key as small.
    """
    n = len(keys)
    qualifies = [tokens[i] - tokens[0] >= radius and tokens[-1] - tokens[i] >= radius for i in range(n)]
    stack: list[int] = []
    for i in range(1, n - 1):
        while stack and keys[stack[-1]] > keys[i]:
            beaten = stack.pop()
            if tokens[i] - tokens[beaten] < radius:
                qualifies[beaten] = False
        if stack and tokens[i] - tokens[stack[-1]] < radius:
            qualifies[i] = False
        stack.append(i)
    return [i for i in range(1, n - 1) if qualifies[i]]


def _pieces(
    keys: list[int], tokens: list[int], first: int, last: int, size: int, min_size: int
) -> Iterator[tuple[int, int]]:
    """What lies between two cuts, cut at least keys into pieces between the least and the greatest size."""
    while tokens[last] - tokens[first] > size:
        lower, upper = tokens[first] + min_size, min(tokens[first] + size, tokens[last] - min_size)
        best = -1
        fallback = first + 1
        for i in range(first + 1, last):
            if tokens[i] > tokens[first] + size:
                break
            fallback = i
            # Of equal keys the last: in text that repeats itself, fewer and larger pieces.
            if lower <= tokens[i] <= upper and (best < 0 or keys[i] <= keys[best]):
                best = i
        stop = best if best > 0 else min(fallback, last)
        yield first, stop
        first = stop
        if first >= last:
            return
    yield first, last


def _fitting(
    text: str,
    count: Callable[[str], int],
    boundaries: Boundaries,
    keys: list[int],
    first: int,
    last: int,
    size: int,
    min_size: int,
) -> Iterator[tuple[int, int]]:
    """A piece as a span; cut at its best inner boundary should it, alone, count a token more than allowed.

    The best one of those that leave at least the least size on both sides, if there is any.
    """
    start, end = strip_span(text, boundaries.position(first), boundaries.position(last))
    if start == end:
        return
    if last - first > 1 and count(text[start:end]) > size:
        inner, tokens = range(first + 1, last), boundaries.tokens
        balanced = [i for i in inner if min(tokens[i] - tokens[first], tokens[last] - tokens[i]) >= min_size]
        middle = min(balanced or inner, key=keys.__getitem__)
        yield from _fitting(text, count, boundaries, keys, first, middle, size, min_size)
        yield from _fitting(text, count, boundaries, keys, middle, last, size, min_size)
    else:
        yield start, end
