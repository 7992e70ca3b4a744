"""Citation markers in answers and reports: ``[Data: Reports (1, 2); Entities (5, 7, +more)]``.

The grammar is the one that Microsoft GraphRAG's prompts ask models for. Models vary it: singular names, other case,
missing spaces, full-width brackets, semicolons between ids. All of that is read; text in brackets that names no data
set is no citation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

#: Data sets that can be cited, as they are written.
DATASETS = ("Reports", "Entities", "Relationships", "Claims", "Sources")

_NAMES = {
    "report": "Reports",
    "reports": "Reports",
    "community report": "Reports",
    "community reports": "Reports",
    "entity": "Entities",
    "entities": "Entities",
    "relationship": "Relationships",
    "relationships": "Relationships",
    "relation": "Relationships",
    "relations": "Relationships",
    "claim": "Claims",
    "claims": "Claims",
    "covariate": "Claims",
    "covariates": "Claims",
    "source": "Sources",
    "sources": "Sources",
    "text unit": "Sources",
    "text units": "Sources",
}
_KNOWN = "|".join(sorted((name.replace(" ", "[ _]") for name in _NAMES), key=len, reverse=True))
# Ids hold no brackets; 400 characters are some 60 ids, more is not a citation but text. No two \s* stand side by side,
# so that long blanks cost linear time.
_IDS = r"\s*(?:ids?\s*)?(?:[:：]\s*)?[(（]([^()（）\[\]［］【】]{0,400})[)）]"
_PART = re.compile(rf"(?<!\w)({_KNOWN}){_IDS}", re.IGNORECASE)


def _groups(name: str) -> str:
    group = rf"(?>(?:{name}){_IDS})".replace(
        "([^", "(?:[^"
    )  # atomic: one way to read a group, so no backtracking into it
    return rf"{group}(?>\s*(?:[;；,，、]\s*)?(?:and\s+)?{group})*+\s*(?:[.;；]\s*)?"


# After the word Data any name may stand (an unknown data set is cited in vain, and can be dropped); without it only
# known ones.
_ANY = r"[^\W\d][\w/&-]{0,40}+(?: [\w/&-]{1,40}+){0,4}"
_MARKER = re.compile(
    rf"[\[［【(（]\s*(?:data|数据|資料)\s*[:：]\s*{_groups(_ANY)}[\]］】)）]|[\[［【]\s*{_groups(_KNOWN)}[\]］】]",
    re.IGNORECASE,
)
_OPENING = re.compile(r"[\[［【(（]")
_SEPARATOR = re.compile(r"[\s,，、;；]+|\band\b|\bids?\b|#", re.IGNORECASE)
_MORE = re.compile(r"\+\s*more|\bmore\b|…|\.\.\.", re.IGNORECASE)


@dataclass(frozen=True)
class Citation:
    """One data set cited in one marker.

    Args:
        dataset: One of :data:`DATASETS`.
        ids: Cited ids as written, each once, without "+more".
        more: True where the marker says that there are more.
        start: First character of the marker in the text.
        end: Character after the marker.
    """

    dataset: str
    ids: tuple[str, ...]
    more: bool
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        """Place of the marker in the text."""
        return self.start, self.end


def find_citations(text: str) -> list[Citation]:
    """All citations of a text in their order; a marker that names two data sets gives two.

    Args:
        text: Answer or report.
    """
    return [citation for match in _MARKER.finditer(text) for citation in _parts(match)]


def map_citations(text: str, translate: Callable[[str, str], str | None]) -> str:
    """Rewrite the ids of all citations.

    Args:
        text: Answer or report.
        translate: Takes data set and id, returns the new id or None to drop it.

    Returns:
        The text with markers in the standard form; a marker that lost all of its ids is removed with the blank before
        it.
    """

    def rewrite(match: re.Match[str]) -> str:
        groups = []
        for citation in _parts(match):
            new = (translate(citation.dataset, id_) for id_ in citation.ids)
            groups.append((citation.dataset, [id_ for id_ in new if id_ is not None], citation.more))
        return format_citation(groups)

    return _substitute(text, rewrite)


def strip_citations(text: str) -> str:
    """The text without its citations."""
    return _substitute(text, lambda match: "")


def format_citation(groups: list[tuple[str, list[str], bool]]) -> str:
    """Write a marker.

    Args:
        groups: Data set, ids and whether there are more, for each data set; groups of one data set are joined, repeated
            ids are left out, a group without ids is dropped.

    Returns:
        ``[Data: Reports (1, 2); Entities (5, +more)]``, or nothing when no id is left.
    """
    joined: dict[str, tuple[dict[str, None], bool]] = {}
    for dataset, ids, more in groups:
        seen, any_more = joined.get(dataset, ({}, False))
        joined[dataset] = (seen | dict.fromkeys(ids), any_more or more)
    parts = [
        f"{dataset} ({', '.join([*ids, *(['+more'] if more else [])])})"
        for dataset, (ids, more) in joined.items()
        if ids
    ]
    return f"[Data: {'; '.join(parts)}]" if parts else ""


def _parts(marker: re.Match[str]) -> list[Citation]:
    return [Citation(*group, marker.start(), marker.end()) for group in _groups_in(marker.group())]


@lru_cache(maxsize=4096)
def _groups_in(marker: str) -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """Data set, ids and whether there are more, for each group of a marker; the same markers come back often."""
    groups = []
    for part in _PART.finditer(marker):
        name, listed = part.groups()
        dataset = _NAMES[name.lower().replace("_", " ")]
        ids = tuple(dict.fromkeys(id_ for id_ in _SEPARATOR.split(_MORE.sub(" ", listed)) if id_))
        groups.append((dataset, ids, bool(_MORE.search(listed))))
    return tuple(groups)


def _substitute(text: str, replacement: Callable[[re.Match[str]], str]) -> str:
    """Replace markers; where nothing replaces one, the blanks before it go too."""
    if not _OPENING.search(text):
        return text
    pieces: list[str] = []
    position = 0
    for match in _MARKER.finditer(text):
        new = replacement(match)
        before = text[position : match.start()]
        pieces += [before if new else before.rstrip(" \t"), new]
        position = match.end()
    pieces.append(text[position:])
    return "".join(pieces)
