"""Counting, cutting and locating tokens: tiktoken without a network and without a text that it cannot take.

The vocabularies are the files that the litellm wheel carries; they are found without importing litellm. Special-token
text in a document, such as ``<|endoftext|>``, is ordinary text here.
"""

from __future__ import annotations

import importlib.util
import os
import re
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import tiktoken
    from numpy.typing import NDArray

#: Characters that are encoded in one call where a safe place to cut is near; tiktoken fails (stack overflow of its
#: regular expression) on some runs of a million characters, and is fast and sure at this length.
SEGMENT = 65_536
#: Characters after which a segment is cut even where no safe place was found.
LONGEST_SEGMENT = 196_608

#: Bytes of a character, at most; a token has at least one byte.
LONGEST_CHARACTER = 4

# A letter before white space or punctuation: the splitting patterns of all tiktoken encodings end a piece there and
# never look back across it, so encoding the two sides apart gives the tokens of the whole. Apostrophes are left out
# (contractions), and so are marks and digits, which some of the patterns join to the letters before them.
_SAFE_CUT = re.compile(r"[^\W\d_](?=[ \n\t.,;:!?()\[\]。，、；：！？「」（）…–—])")
_SURROGATES = re.compile("[\ud800-\udfff]")

_load_lock = threading.Lock()


class Tokenizer:
    """Encodes text as a tiktoken encoding does, treating special-token text as ordinary text.

    For texts with ordinary words or punctuation the tokens are exactly those of the whole text. A run of more than
    ``LONGEST_SEGMENT`` characters without any such place (a word of 200,000 letters) is cut at that length.

    Args:
        encoding: Name of the tiktoken encoding, such as ``o200k_base`` or ``cl100k_base``.

    Raises:
        ValueError: The encoding is unknown, or its file is neither shipped nor to be had.
    """

    def __init__(self, encoding: str) -> None:
        self.name = encoding
        self._encoding = _load(encoding)

    def encode(self, text: str) -> list[int]:
        """Tokens of a text."""
        if len(text) <= LONGEST_SEGMENT:
            return self._encoding.encode_ordinary(text)
        return [token for segment in _segments(text) for token in self._encoding.encode_ordinary(segment)]

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of tokens; an incomplete character at an end becomes U+FFFD."""
        return self._encoding.decode(list(tokens), errors="replace")

    def count(self, text: str) -> int:
        """Number of tokens of a text."""
        if len(text) <= LONGEST_SEGMENT:
            return len(self._encoding.encode_ordinary(text))
        return sum(len(self._encoding.encode_ordinary(segment)) for segment in _segments(text))

    def truncate(self, text: str, max_tokens: int) -> str:
        """The longest beginning of a text, cut at a token, that has at most ``max_tokens`` tokens.

        Only as much of the text is encoded as is needed.
        """
        if max_tokens <= 0:
            return ""
        if len(text) * LONGEST_CHARACTER <= max_tokens:
            return text
        read, counted = 0, 0
        for segment in _segments(text):
            starts = self._segment_starts(segment)
            n = len(starts)
            if counted + n > max_tokens:
                end = read + int(starts[max_tokens - counted])
                # Alone, the last word of a cut text may need another token than inside the whole.
                while end > 0 and self.count(text[:end]) > max_tokens:
                    end -= 1
                return text[:end]
            read, counted = read + len(segment), counted + n
        return text

    def starts(self, text: str) -> NDArray[np.int32 | np.int64]:
        """Where each token begins.

        Args:
            text: Any text.

        Returns:
            Character index of the first character of each token, ascending, and the length of the text at the end, so
            that token i covers ``text[starts[i]:starts[i + 1]]``. A token that begins inside a code point counts from
            that code point, so equal neighbours occur. Shape (tokens + 1,), 32-bit where that is enough.
        """
        import numpy as np

        narrow = np.int32 if len(text) < 2**31 else np.int64
        parts: list[NDArray[Any]] = []
        base = 0
        for segment in _segments(text):
            parts.append((self._segment_starts(segment) + base).astype(narrow))
            base += len(segment)
        parts.append(np.array([base], dtype=narrow))
        return np.concatenate(parts)

    def _segment_starts(self, segment: str) -> NDArray[np.int64]:
        import numpy as np

        try:
            data = segment.encode("utf-8")
        except UnicodeEncodeError:
            segment = _SURROGATES.sub("\ufffd", segment)
            data = segment.encode("utf-8")
        tokens = self._encoding.encode_to_numpy(segment, disallowed_special=())
        lengths = self._lengths(tokens)
        begins: NDArray[np.int64] = np.cumsum(lengths) - lengths
        if len(data) == len(segment):
            return begins
        character_of_byte = np.cumsum((np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80) - 1
        located: NDArray[np.int64] = character_of_byte[begins]
        return located

    def _lengths(self, tokens: NDArray[Any]) -> NDArray[np.int64]:
        """Bytes of tokens; looked up once for each number of the vocabulary that occurs."""
        lengths: NDArray[np.int64] = self._byte_lengths[tokens]
        unknown = set(tokens[lengths == 0].tolist())
        for token in unknown:
            self._byte_lengths[token] = len(self._encoding.decode_single_token_bytes(token))
        return self._byte_lengths[tokens] if unknown else lengths

    @cached_property
    def _byte_lengths(self) -> NDArray[np.int64]:
        """Bytes of each token by its number, as far as they were looked up; the rest is zero."""
        import numpy as np

        return np.zeros(self._encoding.n_vocab, dtype=np.int64)


@lru_cache(maxsize=8)
def tokenizer(encoding: str) -> Tokenizer:
    """The tokenizer of an encoding, made once a process."""
    return Tokenizer(encoding)


def _segments(text: str) -> Iterator[str]:
    """Consecutive parts of a text that may be encoded apart."""
    position, length = 0, len(text)
    while length - position > SEGMENT:
        cut = _cut_near(text, position)
        yield text[position:cut]
        position = cut
    if position < length:
        yield text[position:]


def _cut_near(text: str, position: int) -> int:
    """Where to end the segment that begins at a position: a safe place, else the greatest length."""
    aim = position + SEGMENT
    for match in _SAFE_CUT.finditer(text, max(position, aim - 1_024), aim):
        return match.end()
    further = _SAFE_CUT.search(text, aim, min(len(text), position + LONGEST_SEGMENT))
    return further.end() if further else min(len(text), position + LONGEST_SEGMENT)


def _load(name: str) -> tiktoken.Encoding:
    """The tiktoken encoding, from the bundled files where they hold it.

    tiktoken takes the folder of its files from an environment variable only, so it is set for the time of loading.
    """
    import tiktoken

    if name not in tiktoken.list_encoding_names():
        known = ", ".join(sorted(tiktoken.list_encoding_names()))
        raise ValueError(f"chunking.encoding_model: {name!r} is no tiktoken encoding; it may be one of {known}")
    folder = _bundled_folder()
    with _load_lock:
        before: Any = os.environ.get("TIKTOKEN_CACHE_DIR")
        if folder is not None and before is None:
            os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
        try:
            encoding = tiktoken.get_encoding(name)
        except Exception as error:
            raise ValueError(
                f"tiktoken encoding {name!r} is not among the files shipped with litellm and could not be fetched "
                f"({error}); use o200k_base, cl100k_base or p50k_base, or set TIKTOKEN_CACHE_DIR to a folder with it"
            ) from error
        finally:
            if before is None:
                os.environ.pop("TIKTOKEN_CACHE_DIR", None)
    # The vocabulary as a dictionary (30 MB) only serves to make the encoder, which holds its own.
    getattr(encoding, "_mergeable_ranks", {}).clear()
    return encoding


def _bundled_folder() -> Path | None:
    """Folder of the vocabularies inside the installed litellm, found without importing it."""
    spec = importlib.util.find_spec("litellm")
    for location in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(location) / "litellm_core_utils" / "tokenizers"
        if folder.is_dir():
            return folder
    return None
