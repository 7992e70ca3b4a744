"""Places where a document may be cut: between paragraphs, sentences and, inside over-long sentences, words and tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Ranks of a boundary: the lower, the better to cut there.
PARAGRAPH, SENTENCE, WORD, TOKEN = 0, 1, 2, 3

#: Inside an over-long sentence about one word start in so many is a boundary.
_WORDS_PER_BOUNDARY = 16
_HASHED_CHARACTERS = 32
_HASH_BLOCK = 16_384

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n[^\S\n]*\Z|\n[^\S\n]*\n\s*\Z")
_WORD_START = re.compile(r"(?<=\s)\S|(?<=[,;:，、；：])(?=\w)")


@dataclass(frozen=True)
class Boundaries:
    """Boundaries of a document, the first at its beginning and the last at its end.

    Args:
        positions: Character index of each boundary, ascending. Shape (n,).
        tokens: Index of the first token that begins at or after each boundary. Shape (n,).
        ranks: PARAGRAPH, SENTENCE, WORD or TOKEN. Shape (n,).
        hashes: Hash of the characters before each boundary: equal text gives equal hashes wherever it stands. Shape (n,).
    """

    positions: NDArray[np.int64]
    tokens: NDArray[np.int64]
    ranks: NDArray[np.int8]
    hashes: NDArray[np.uint64]

    def position(self, index: int) -> int:
        """Character index of a boundary."""
        return int(self.positions[index])

    def last_within(self, first: int, size: int) -> int:
        """The last boundary at most ``size`` tokens after a boundary (that boundary itself if there is none)."""
        return int(self.tokens.searchsorted(self.tokens[first] + size, side="right")) - 1

    def first_within(self, last: int, size: int) -> int:
        """The first boundary at most ``size`` tokens before a boundary (that boundary itself if there is none)."""
        return min(last, int(self.tokens.searchsorted(self.tokens[last] - size, side="left")))


def find_boundaries(
    text: str, token_starts: NDArray[np.int64], sentences: Sequence[tuple[int, int]], size: int
) -> Boundaries:
    """All boundaries of a document, close enough to keep every piece between two within a size.

    Args:
        text: Document text.
        token_starts: Character index at which each token begins, and the length of the text at the end.
        sentences: Spans of its sentences.
        size: Tokens above which a sentence is over-long and is given boundaries inside.
    """
    import numpy as np

    begins = [start for start, _ in sentences if start > 0]
    positions = np.unique(np.array([0, *begins, len(text)], dtype=np.int64))
    ranks = np.full(len(positions), SENTENCE, dtype=np.int8)
    for i, position in enumerate(positions[1:-1].tolist(), start=1):
        if _ends_paragraph(text, position):
            ranks[i] = PARAGRAPH
    tokens = token_starts.searchsorted(positions, side="left")
    extra = [
        _inside(text, token_starts, int(positions[i]), int(positions[i + 1]), size)
        for i in np.flatnonzero(np.diff(tokens) > size).tolist()
    ]
    if extra:
        more = np.concatenate([p for p, _ in extra])
        order = np.argsort(np.concatenate([positions, more]), kind="stable")
        ranks = np.concatenate([ranks, *[r for _, r in extra]])[order]
        positions = np.concatenate([positions, more])[order]
        tokens = token_starts.searchsorted(positions, side="left")
    return Boundaries(positions, tokens, ranks, boundary_hashes(text, positions))


def strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the white space at its ends; empty at its end when all is blank."""
    piece = text[start:end]
    return (end, end) if not piece.strip() else (start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip()))


def boundary_hashes(text: str, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hash of the last characters before each position, white space before it left out of nothing: a local function.

    A polynomial over the code points with a final mix (the finaliser of SplitMix64), in blocks so that memory stays
    small.

    Args:
        text: Document text.
        positions: Ascending character indices. Shape (n,).

    Returns:
        Hashes. Shape (n,).
    """
    import numpy as np

    hashes = np.zeros(len(positions), dtype=np.uint64)
    powers = np.array([pow(0x9E3779B97F4A7C15, k, 1 << 64) for k in range(_HASHED_CHARACTERS)], dtype=np.uint64)
    for first in range(0, len(positions), _HASH_BLOCK):
        block = positions[first : first + _HASH_BLOCK]
        windows = np.zeros((len(block), _HASHED_CHARACTERS), dtype=np.uint64)
        for row, position in enumerate(block.tolist()):
            local = text[max(0, position - _HASHED_CHARACTERS) : position]
            windows[row, : len(local)] = np.frombuffer(local.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        mixed = (windows * powers).sum(axis=1, dtype=np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes[first : first + len(block)] = mixed ^ (mixed >> np.uint64(31))
    return hashes


def _ends_paragraph(text: str, position: int) -> bool:
    """Whether a blank line stands before a position."""
    begin = position
    while begin > 0 and position - begin < 256 and text[begin - 1].isspace():
        begin -= 1
    return text.count("\n", begin, position) >= 2


def _inside(
    text: str, token_starts: NDArray[np.int64], start: int, end: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Boundaries inside an over-long sentence, and their ranks.

    Some of its word starts, chosen by the text before them so that an edit does not move the choice; where these
    lie more than a size apart, all word starts between; where there are none, tokens.
    """
    import numpy as np

    words = np.array([m.start() for m in _WORD_START.finditer(text, start + 1, end)], dtype=np.int64)
    chosen = words[boundary_hashes(text, words) % np.uint64(_WORDS_PER_BOUNDARY) == 0]
    chosen = _fill(chosen, words, token_starts, start, end, size)
    borders = np.concatenate([[start], chosen, [end]])
    at = token_starts.searchsorted(borders, side="left")
    tokens: list[NDArray[np.int64]] = []
    for i in np.flatnonzero(np.diff(at) > size).tolist():
        between = np.unique(token_starts[at[i] : at[i + 1]])
        between = between[(between > borders[i]) & (between < borders[i + 1])]
        tokens.append(between)
    more = np.concatenate(tokens) if tokens else np.zeros(0, dtype=np.int64)
    ranks = np.concatenate([np.full(len(chosen), WORD, dtype=np.int8), np.full(len(more), TOKEN, dtype=np.int8)])
    return np.concatenate([chosen, more]), ranks


def _fill(
    chosen: NDArray[np.int64], words: NDArray[np.int64], token_starts: NDArray[np.int64], start: int, end: int, size: int
) -> NDArray[np.int64]:
    """The chosen word starts, with all word starts wherever the chosen ones lie more than a size apart."""
    import numpy as np

    borders = np.concatenate([[start], chosen, [end]])
    at = token_starts.searchsorted(borders, side="left")
    gaps = np.flatnonzero(np.diff(at) > size)
    if len(gaps) == 0:
        return chosen
    between = [words[(words > borders[i]) & (words < borders[i + 1])] for i in gaps.tolist()]
    return np.unique(np.concatenate([chosen, *between]))
