"""Places where a document may be cut: between paragraphs, sentences and, in over-long sentences, words and tokens."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Ranks of a boundary: the lower, the better to cut there.
PARAGRAPH, SENTENCE, WORD, TOKEN = 0, 1, 2, 3

#: Inside an over-long sentence about one word start (one token, where there are no words) in so many is a boundary.
_THINNING = 16
_HASHED_CHARACTERS = 32
_HASH_BLOCK = 16_384
_DENSE_SPAN = 4_000_000
#: Most characters that a border is moved back so as not to split what is read as one character.
_LONGEST_CLUSTER = 32
#: Flag letters in a row of which is counted whether they are paired.
_LONGEST_FLAG_RUN = 2_048

_WORD_START = re.compile(r"(?<=\s)\S|(?<=[,;:，、；：])(?=\w)")


@dataclass(frozen=True)
class Boundaries:
    """Boundaries of a document, the first at its beginning and the last at its end.

    Args:
        positions: Character index of each boundary, ascending. Shape (n,).
        tokens: Index of the first token that begins at or after each boundary. Shape (n,).
        ranks: PARAGRAPH, SENTENCE, WORD or TOKEN. Shape (n,).
        hashes: Hash of the characters before each boundary, wherever they stand. Shape (n,).
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
    text: str, token_starts: NDArray[np.int32 | np.int64], sentences: Sequence[tuple[int, int]], size: int
) -> Boundaries:
    """All boundaries of a document, close enough to keep every piece between two within a size.

    Args:
        text: Document text.
        token_starts: Character index at which each token begins, and the length of the text at the end.
        sentences: Spans of its sentences.
        size: Tokens above which a sentence is over-long and is given boundaries inside.
    """
    import numpy as np

    begins = [start for start, _ in sentences[1:]]
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
    return (
        (end, end)
        if not piece.strip()
        else (start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip()))
    )


def boundary_hashes(text: str, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hash of the characters just before each position.

    A polynomial over code points with the finaliser of SplitMix64; in blocks, so that memory stays small.

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
        mixed = (_characters_before(text, block) * powers).sum(axis=1, dtype=np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes[first : first + len(block)] = mixed ^ (mixed >> np.uint64(31))
    return hashes


def _characters_before(text: str, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Code points of the characters before each position, zero before the text. Shape (n, _HASHED_CHARACTERS)."""
    import numpy as np

    begin, end = int(positions[0]) - _HASHED_CHARACTERS, int(positions[-1])
    if end - begin <= _DENSE_SPAN:
        padding = "\0" * max(0, -begin)
        codes = np.frombuffer(
            (padding + text[max(0, begin) : end]).encode("utf-32-le", "surrogatepass"), dtype=np.uint32
        )
        views = np.lib.stride_tricks.sliding_window_view(codes, _HASHED_CHARACTERS)
        return views[positions - begin - _HASHED_CHARACTERS].astype(np.uint64)
    windows = np.zeros((len(positions), _HASHED_CHARACTERS), dtype=np.uint64)
    for row, position in enumerate(positions.tolist()):
        local = text[max(0, position - _HASHED_CHARACTERS) : position].rjust(_HASHED_CHARACTERS, "\0")
        windows[row] = np.frombuffer(local.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return windows


def _ends_paragraph(text: str, position: int) -> bool:
    """Whether a blank line stands before a position."""
    begin = position
    while begin > 0 and position - begin < 256 and text[begin - 1].isspace():
        begin -= 1
    return text.count("\n", begin, position) >= 2


def _inside(
    text: str, token_starts: NDArray[np.int32 | np.int64], start: int, end: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Boundaries inside an over-long sentence and their ranks: word starts, and tokens where words are over-long."""
    import numpy as np

    words = np.fromiter((m.start() for m in _WORD_START.finditer(text, start + 1, end)), dtype=np.int64)
    chosen = _thin(text, words, token_starts, start, end, size)
    tokens = [
        _thin(text, _token_borders(text, token_starts, gap_start, gap_end), token_starts, gap_start, gap_end, size)
        for gap_start, gap_end in _gaps(chosen, token_starts, start, end, size)
    ]
    positions = np.concatenate([chosen, *tokens])
    ranks = np.full(len(positions), TOKEN, dtype=np.int8)
    ranks[: len(chosen)] = WORD
    return positions, ranks


def _thin(
    text: str,
    candidates: NDArray[np.int64],
    token_starts: NDArray[np.int32 | np.int64],
    start: int,
    end: int,
    size: int,
) -> NDArray[np.int64]:
    """Some of the candidates, chosen by the text before them so that an edit elsewhere does not move the choice.

    Where the chosen ones lie more than a size apart, all candidates between them are taken.
    """
    import numpy as np

    chosen = candidates[boundary_hashes(text, candidates) % np.uint64(_THINNING) == 0]
    between = [
        candidates[candidates.searchsorted(a, side="right") : candidates.searchsorted(b, side="left")]
        for a, b in _gaps(chosen, token_starts, start, end, size)
    ]
    return np.unique(np.concatenate([chosen, *between])) if between else chosen


def _gaps(
    chosen: NDArray[np.int64], token_starts: NDArray[np.int32 | np.int64], start: int, end: int, size: int
) -> list[tuple[int, int]]:
    """Stretches between neighbouring positions that hold more tokens than a size."""
    import numpy as np

    borders = np.concatenate([[start], chosen, [end]])
    wide = np.flatnonzero(np.diff(token_starts.searchsorted(borders, side="left")) > size)
    return [(int(borders[i]), int(borders[i + 1])) for i in wide.tolist()]


def _token_borders(text: str, token_starts: NDArray[np.int32 | np.int64], start: int, end: int) -> NDArray[np.int64]:
    """Beginnings of tokens strictly inside a stretch, none inside what is read as one character."""
    import numpy as np

    first, last = token_starts.searchsorted([start, end], side="left").tolist()
    inside = np.fromiter((cluster_start(text, p) for p in token_starts[first:last].tolist()), dtype=np.int64)
    return np.unique(inside[(inside > start) & (inside < end)])


def cluster_start(text: str, index: int) -> int:
    """The border at or before an index that does not split what is read as one character.

    Combining marks, variation selectors, skin tones, joined emoji, flags and Hangul jamo stay together. What is longer
    than 32 characters is cut where it was to be cut.
    """
    if index <= 0 or index >= len(text) or (text[index] < "\u0300" and text[index - 1] < "\u0300"):
        return index
    border = index
    while border > max(0, index - _LONGEST_CLUSTER):
        if not _joins(text, border):
            return border
        border -= 1
    return border if border == 0 else index


def _joins(text: str, index: int) -> bool:
    """Whether the character at an index is read as part of the one before it."""
    character, before = text[index], text[index - 1]
    if before == "\u200d" or character == "\u200d" or unicodedata.category(character) in ("Mn", "Mc", "Me"):
        return True
    if "\U0001f3fb" <= character <= "\U0001f3ff" or "\u1160" <= character <= "\u11ff":
        return True
    if _is_flag_letter(character):
        preceding = 0
        while preceding < min(index, _LONGEST_FLAG_RUN) and _is_flag_letter(text[index - 1 - preceding]):
            preceding += 1
        return preceding % 2 == 1
    return False


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
