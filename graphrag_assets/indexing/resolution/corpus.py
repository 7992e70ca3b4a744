"""What the rules may know of the corpus beyond the two titles of a pair."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from graphrag_assets.indexing.resolution.keys import fold

_HE = re.compile(r"\b(?:he|him|his|himself)\b", re.IGNORECASE)
_SHE = re.compile(r"\b(?:she|her|hers|herself)\b", re.IGNORECASE)


def _nothing(title: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Corpus:
    """What scoring knows of the corpus.

    Args:
        frequency: Number of distinct text units by title.
        token_titles: Number of titles by token; a token of many titles is a word and no slip of the pen.
        descriptions: A few descriptions of a title.
    """

    frequency: Mapping[str, int] = field(default_factory=dict)
    token_titles: Mapping[str, int] = field(default_factory=dict)
    descriptions: Callable[[str], Sequence[str]] = _nothing

    def gender(self, title: str) -> str:
        """m or f where the descriptions of a title speak of a he or a she throughout, else empty."""
        texts = self.descriptions(title)
        he = sum(len(_HE.findall(text)) for text in texts)
        she = sum(len(_SHE.findall(text)) for text in texts)
        if he + she < 2 or min(he, she) * 4 > max(he, she):
            return ""
        return "m" if he > she else "f"

    def says(self, title: str, name: str) -> bool:
        """Whether a description of ``title`` holds ``name`` as words of its own, in any case."""
        pattern = re.compile(rf"(?<!\w){re.escape(fold(name.upper()))}(?!\w)")
        return any(pattern.search(fold(text.upper())) for text in self.descriptions(title))
