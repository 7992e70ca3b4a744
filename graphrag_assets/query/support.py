"""Which sentences of an answer nothing stands behind: no citation, or one whose rows do not say it by their words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphrag_assets.query.citations import KINDS, Cited
from graphrag_assets.query.context import Context
from graphrag_assets.query.matching import terms
from graphrag_assets.text.asked import FUNCTION_WORDS, stem
from graphrag_assets.text.citations import Citation, find_citations
from graphrag_assets.text.sentences import sentences

NO_CITATION = "it has no citation"
NOT_BY_WORDS = "its citation does not say it in these words"

#: Share of the words of a sentence, by their length, that the cited rows must hold.
SHARE = 0.5

_MARKUP = re.compile(r"^\s*(?:[-*+•>]|\d+[.)])\s+|[*_`]{1,3}")
_HEADING = re.compile(r"^\s*#{1,6}\s|^\s*(?:\*\*|__).{1,120}(?:\*\*|__):?\s*$|^\s*\|?[\s|:\-]*$")


@dataclass(frozen=True)
class Unsupported:
    """A sentence without support.

    Args:
        sentence: The sentence, without markers and markup.
        why: What is missing.
    """

    sentence: str
    why: str


def unsupported(text: str, citations: Sequence[Cited], contexts: Sequence[Context]) -> list[Unsupported]:
    """Sentences of an answer without support, in their order.

    Words are compared, not meanings: a sentence in another language than its source, or in quite other words, is listed
    too. Headings and lines that only lead to a list are no statements.

    Args:
        text: A checked answer.
        citations: Its resolved citations.
        contexts: What was shown to the model.
    """
    rows = {
        (section.name, row.number): " ".join((*row.cells, row.text))
        for context in contexts
        for section in context.sections
        for row in section.rows
    }
    quotes: dict[tuple[str, int], list[str]] = {}
    datasets = {kind: dataset for dataset, kind in KINDS.items()}
    for cited in citations:
        quotes.setdefault((datasets[cited.kind], cited.id), []).append(f"{cited.title} {cited.quote}")
    found: list[Unsupported] = []
    for sentence, marks in _statements(text):
        if not marks:
            found.append(Unsupported(sentence, NO_CITATION))
            continue
        named = [(mark.dataset, int(i)) for mark in marks for i in mark.ids if i.isascii() and i.isdigit()]
        said = " ".join([*(rows.get(key, "") for key in named), *(q for key in named for q in quotes.get(key, ()))])
        if _held(sentence, said) < SHARE:
            found.append(Unsupported(sentence, NOT_BY_WORDS))
    return found


def _held(sentence: str, text: str) -> float:
    """Share of the words of content of a sentence that a text holds, longer words counting more."""
    wanted = {stem(word) for word in terms(sentence) if word not in FUNCTION_WORDS}
    held = {stem(word) for word in terms(text)}
    total = sum(map(len, wanted))
    return sum(len(word) for word in wanted if word in held) / total if total else 1.0


def _statements(text: str) -> Iterator[tuple[str, list[Citation]]]:
    """Sentences with the citations that belong to them: those inside of it or right behind it."""
    in_code = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
            continue
        if in_code or _HEADING.match(line):
            continue
        yield from _line_statements(line)


def _line_statements(line: str) -> Iterator[tuple[str, list[Citation]]]:
    marks = find_citations(line)
    plain, places = _without(line, marks)
    spans = sentences(plain)
    for i, (start, end) in enumerate(spans):
        sentence = _MARKUP.sub("", plain[start:end]).strip()
        if not any(c.isalnum() for c in sentence) or sentence.endswith((":", "：")):
            continue
        following = spans[i + 1][0] if i + 1 < len(spans) else len(plain) + 1
        # A marker stands at the end of its sentence, or behind its full stop.
        yield sentence, [mark for mark, place in places if start < place <= end or end < place < following]


def _without(line: str, marks: Sequence[Citation]) -> tuple[str, list[tuple[Citation, int]]]:
    """A line without its markers, and where in it each of them stood."""
    parts: list[str] = []
    places: list[tuple[Citation, int]] = []
    end = size = 0
    for mark in sorted(marks, key=lambda m: m.start):
        if mark.start >= end:
            parts.append(line[end : mark.start].rstrip())
            size += len(parts[-1])
            end = mark.end
        places.append((mark, size))
    parts.append(line[end:])
    return "".join(parts), places
