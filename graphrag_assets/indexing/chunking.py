"""Cutting documents into text units with exact character spans.

Three chunkers:

* ``tokens``: windows of ``size`` tokens, each ``size - overlap`` after the last, as Microsoft GraphRAG makes them (no
  trailing window that repeats only overlap); a window never splits a character.
* ``sentence``: whole sentences packed up to ``size`` tokens, neighbours sharing whole sentences up to ``overlap``.
* ``stable``: content-defined, so that an edit changes the text units around it and no others
  (:mod:`graphrag_assets.indexing.stable_chunking`); no overlap.

For every chunk, ``chunk.text == document[chunk.start:chunk.end]``. Time and memory are linear in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from graphrag_assets.indexing.boundaries import Boundaries, cluster_start, find_boundaries, strip_span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ChunkerType = Literal["tokens", "sentence", "stable"]
Sentences = Callable[[str], Sequence[tuple[int, int]]]


class TokenLocator(Protocol):
    """What chunking needs of a tokenizer (:class:`graphrag_assets.llm.tokens.Tokenizer`)."""

    def count(self, text: str) -> int:
        """Number of tokens of a text."""
        ...

    def starts(self, text: str) -> NDArray[np.int32 | np.int64]:
        """Character index at which each token begins, and the length of the text at the end."""
        ...

    def truncate(self, text: str, max_tokens: int) -> str:
        """The longest beginning of a text with at most so many tokens."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of a document.

    Args:
        text: The piece, ``document[start:end]``.
        start: First character in the document.
        end: Character after the last one.
        n_tokens: Tokens of the piece.
    """

    text: str
    start: int
    end: int
    n_tokens: int


def chunk(
    text: str,
    tokenizer: TokenLocator,
    *,
    type: ChunkerType = "tokens",
    size: int = 1200,
    overlap: int = 100,
    min_size: int | None = None,
    reserved: int = 0,
    sentences: Sentences | None = None,
) -> list[Chunk]:
    """Cut a document into chunks.

    Args:
        text: Document text.
        tokenizer: Counts and locates tokens.
        type: Chunker.
        size: Tokens of a window (``tokens``); the most tokens of a chunk (``sentence``, ``stable``).
        overlap: Tokens that neighbours share. Not used by ``stable``.
        min_size: Fewest tokens of a ``stable`` chunk (only a document shorter than that has a smaller one); None: a
            third of ``size``.
        reserved: Tokens of the text that will stand before every chunk (:func:`prepend`): they count into ``size``, but
            leave at least half of it to the document, so ask :func:`prepend` for no more than half. Of the rest, at
            most half is overlap.
        sentences: Finds sentence spans; None: :func:`graphrag_assets.text.sentences.sentences`.

    Returns:
        Chunks in the order of the document; none for blank text. All text but white space is covered.

    Raises:
        ValueError: size, overlap or min_size do not fit together, or the type is unknown.
    """
    _check_arguments(size, overlap, min_size)
    room = max(size - reserved, (size + 1) // 2)
    if room < size:
        overlap = min(overlap, room // 2)
    if not text or text.isspace():
        return []
    if type == "tokens":
        spans = _windows(text, tokenizer, room, overlap)
    elif type in ("sentence", "stable"):
        if sentences is None:
            from graphrag_assets.text.sentences import sentences as find_sentences

            sentences = find_sentences
        # Alone, a piece may count a token or two more than inside the document: pieces near the size get borders too.
        boundaries = find_boundaries(text, tokenizer.starts(text), sentences(text), max(1, room - 2))
        if type == "sentence":
            spans = _packed_sentences(text, tokenizer, boundaries, room, overlap)
        else:
            from graphrag_assets.indexing.stable_chunking import stable_spans

            least = min(min_size or max(1, size // 3), room)
            spans = stable_spans(text, tokenizer.count, boundaries, room, least)
    else:
        raise ValueError(f"chunking.type {type!r} is unknown; expected tokens, sentence or stable")
    return [Chunk(text[start:end], start, end, tokenizer.count(text[start:end])) for start, end in spans]


def prepend(
    metadata: Mapping[str, Any],
    fields: Sequence[str],
    tokenizer: TokenLocator | None = None,
    max_tokens: int | None = None,
) -> str:
    """The metadata text that stands before each text unit of a document.

    Lines ``name: value`` joined by a full stop and a new line, and ended by them: the format of Microsoft GraphRAG.

    Args:
        metadata: Values by name; a field may be a dotted path into nested values.
        fields: Names in their order; those without a value are left out.
        tokenizer: Needed with ``max_tokens``.
        max_tokens: Values are shortened (and end in an ellipsis) until the whole has at most so many tokens, so that a
            long value cannot fill a text unit; None: not shortened.

    Returns:
        The text, empty when no field has a value.
    """
    pairs = [(name, str(value)) for name in fields if (value := _lookup(metadata, name)) is not None]
    if not pairs:
        return ""
    written = _metadata_lines(pairs)
    if tokenizer is None or max_tokens is None or tokenizer.count(written) <= max_tokens:
        return written
    share = max_tokens // len(pairs)
    while share > 0:
        shortened = [(name, _shorten(value, tokenizer, share)) for name, value in pairs]
        written = _metadata_lines(shortened)
        if tokenizer.count(written) <= max_tokens:
            return written
        share //= 2
    return ""


def _metadata_lines(pairs: Sequence[tuple[str, str]]) -> str:
    return ".\n".join(f"{name}: {value}" for name, value in pairs) + ".\n"


def _shorten(value: str, tokenizer: TokenLocator, max_tokens: int) -> str:
    return value if tokenizer.count(value) <= max_tokens else tokenizer.truncate(value, max_tokens - 1) + "…"


def _lookup(metadata: Mapping[str, Any], name: str) -> Any:
    """A value by its name, else by a dotted path."""
    if name in metadata:
        return metadata[name]
    value: Any = metadata
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _check_arguments(size: int, overlap: int, min_size: int | None) -> None:
    if size < 1 or not 0 <= overlap < size:
        raise ValueError(f"chunking: size ({size}) must be positive and overlap ({overlap}) at least 0 and below size")
    if min_size is not None and not 1 <= min_size <= size:
        raise ValueError(f"chunking: min_size ({min_size}) must be at least 1 and at most size ({size})")


def _windows(text: str, tokenizer: TokenLocator, size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Windows of tokens as character spans."""
    starts = tokenizer.starts(text)
    n_tokens = len(starts) - 1
    step = size - overlap
    covered = 0
    for first in range(0, n_tokens, step):
        start = cluster_start(text, int(starts[first]))
        end = cluster_start(text, int(starts[min(first + size, n_tokens)]))
        # Borders inside a character move to its beginning, so a tiny window may be empty or hold nothing new.
        if end > covered and not text[start:end].isspace():
            yield start, end
        covered = max(covered, end)
        if first + size >= n_tokens:
            return


def _packed_sentences(
    text: str, tokenizer: TokenLocator, boundaries: Boundaries, size: int, overlap: int
) -> Iterator[tuple[int, int]]:
    """Whole sentences (parts of sentences where one is over-long) packed up to a size, with overlap."""
    first, last = 0, len(boundaries.positions) - 1
    covered = told = 0
    while first < last:
        stop = max(first + 1, boundaries.last_within(first, size))
        start, end = strip_span(text, boundaries.position(first), boundaries.position(stop))
        # Alone, a sentence may count a token more than inside the document.
        while stop > first + 1 and tokenizer.count(text[start:end]) > size:
            stop -= 1
            start, end = strip_span(text, boundaries.position(first), boundaries.position(stop))
        if stop <= covered:  # shortened to what the chunk before holds already: go on without an overlap
            first = covered
            continue
        covered = stop
        if end > max(start, told):  # what is new may be blank
            told = end
            yield start, end
        if stop >= last:
            return
        shared = boundaries.first_within(stop, overlap)
        while shared < stop and tokenizer.count(text[boundaries.position(shared) : end].strip()) > overlap:
            shared += 1
        # An overlap after which the next sentence would not fit any more would only repeat this chunk.
        repeats = shared <= first or boundaries.last_within(shared, size) <= stop
        first = stop if repeats else shared
