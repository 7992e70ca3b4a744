"""From the mentions of a text unit to its entities, relationships and status, without a language model.

Two entities are related where one sentence names both; the weight counts the sentences. The description of an entity is
the sentence that says most about it, that of a relationship the sentence that names both ends, so that every row can be
read and checked in the source.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

from graphrag_assets.indexing.noun_phrases import NOUN_PHRASE, Mention

Row = dict[str, Any]
Span = Literal["sentence", "text_unit"]

#: Words above which a sentence is too long for a description, and is cut around what it describes.
LONGEST_DESCRIPTION = 60
#: In a sentence with more mentions than this (a list, a table, a text without stops) only near ones are related.
_NEAR = 24
_NOT_BLANK = re.compile(r"\S+")
_PRONOUN = re.compile(r"(?:he|she|it|they|this|that|these|those|we|i|you|there|and|but|so|or|because)\b", re.IGNORECASE)


@dataclass(frozen=True)
class TextUnitRows:
    """What one text unit gives.

    Args:
        entities: Rows of extracted_entities, by title.
        relationships: Rows of extracted_relationships, by source and target; source is the first in the alphabet, as a
            sentence that names both has no direction.
        status: Row of extraction_status: ok, or empty where nothing was found.
    """

    entities: list[Row]
    relationships: list[Row]
    status: Row


def text_unit_rows(
    text_unit_id: str, text: str, mentions: Sequence[Mention], spans: Sequence[tuple[int, int]], span: Span = "sentence"
) -> TextUnitRows:
    """Rows of one text unit.

    Args:
        text_unit_id: Its id.
        text: Its text.
        mentions: What it names, in order.
        spans: Its sentences.
        span: Relate what one sentence names, or all that the text unit names.
    """
    by_sentence = _group(mentions, spans)
    sentences = [_Sentence(text, spans[i], named) for i, named in by_sentence.items()]
    entities = _entities(text_unit_id, sentences)
    relationships = _relationships(text_unit_id, sentences, span)
    status = {
        "text_unit_id": text_unit_id,
        "status": "ok" if entities else "empty",
        "reason": "" if entities else "no names and no noun phrases were found",
        "entities": len(entities),
        "relationships": len(relationships),
        "claims": 0,
    }
    return TextUnitRows(entities, relationships, status)


def _group(mentions: Sequence[Mention], spans: Sequence[tuple[int, int]]) -> dict[int, list[Mention]]:
    """Mentions by the sentence in which they begin."""
    starts = [start for start, _ in spans]
    grouped: dict[int, list[Mention]] = defaultdict(list)
    for mention in mentions:
        grouped[max(0, bisect_right(starts, mention.start) - 1)].append(mention)
    return grouped


class _Sentence:
    """A sentence with what it names."""

    def __init__(self, text: str, span: tuple[int, int], mentions: list[Mention]) -> None:
        self.start, self.end = span
        self.mentions = mentions
        self._text = text
        body = text[self.start : self.end]
        words = len(body.split())
        statement = not body.rstrip("\"'”’)]» ").endswith(("?", "？", "؟"))
        #: What speaks for the sentence as a description: a statement that can be read alone, of a fair length.
        self.quality = (
            statement,
            words <= LONGEST_DESCRIPTION,
            not _PRONOUN.match(body),
            min(words, LONGEST_DESCRIPTION),
            -self.start,
        )

    @cached_property
    def _word_starts(self) -> list[int]:
        return [match.start() for match in _NOT_BLANK.finditer(self._text, self.start, self.end)]

    def excerpt(self, first: int, last: int) -> str:
        """The sentence on one line; of one that is too long, the words around two places, with … where it was cut."""
        starts = self._word_starts
        if len(starts) <= LONGEST_DESCRIPTION:
            return " ".join(self._text[self.start : self.end].split())
        left, right = max(0, bisect_right(starts, first) - 1), max(0, bisect_right(starts, last) - 1)
        right = min(right, left + LONGEST_DESCRIPTION - 1)
        margin = (LONGEST_DESCRIPTION - (right - left + 1)) // 2
        begin = max(0, min(left - margin, len(starts) - LONGEST_DESCRIPTION))
        end = begin + LONGEST_DESCRIPTION
        stop = starts[end] if end < len(starts) else self.end
        cut = " ".join(self._text[starts[begin] : stop].split())
        return f"{'… ' if begin else ''}{cut}{' …' if end < len(starts) else ''}"

    def pairs(self) -> Iterator[tuple[Mention, Mention]]:
        """Mentions of different titles that stand near enough to be related, each pair of titles once."""
        seen = set()
        first: dict[str, Mention] = {}
        for mention in self.mentions:
            first.setdefault(mention.title, mention)
        named = list(first.values()) if len(first) <= _NEAR else self.mentions
        pairs = combinations(named, 2) if len(named) <= _NEAR else _near_pairs(named)
        for a, b in pairs:
            a, b = (a, b) if a.title < b.title else (b, a)
            if a.title != b.title and (a.title, b.title) not in seen:
                seen.add((a.title, b.title))
                yield a, b


def _near_pairs(mentions: Sequence[Mention]) -> Iterator[tuple[Mention, Mention]]:
    for i, mention in enumerate(mentions):
        for other in mentions[i + 1 : i + _NEAR]:
            yield mention, other


def _entities(text_unit_id: str, sentences: Sequence[_Sentence]) -> list[Row]:
    places: dict[str, list[tuple[_Sentence, Mention]]] = defaultdict(list)
    for sentence in sentences:
        for mention in sentence.mentions:
            places[mention.title].append((sentence, mention))
    return [_entity(text_unit_id, title, places[title]) for title in sorted(places)]


def _entity(text_unit_id: str, title: str, places: list[tuple[_Sentence, Mention]]) -> Row:
    sentence, mention = max(
        places, key=lambda place: (place[1].subject and place[0].quality[0], *place[0].quality, -place[1].start)
    )
    types = Counter(m.type for _, m in places if m.type not in ("", NOUN_PHRASE)) or Counter(m.type for _, m in places)
    return {
        "text_unit_id": text_unit_id,
        "title": title,
        "name": _commonest(Counter(m.name for _, m in places)),
        "type": _commonest(types),
        "description": sentence.excerpt(mention.start, mention.start),
        "mentions": len(places),
    }


def _commonest(counts: Counter[str]) -> str:
    """The commonest value; of several, the first in the alphabet."""
    return min(counts, key=lambda value: (-counts[value], value))


def _relationships(text_unit_id: str, sentences: Sequence[_Sentence], span: Span) -> list[Row]:
    shared: dict[tuple[str, str], list[tuple[_Sentence, Mention, Mention]]] = defaultdict(list)
    for sentence in sentences:
        for a, b in sentence.pairs():
            shared[a.title, b.title].append((sentence, a, b))
    if span == "sentence":
        pairs: list[tuple[str, str]] = sorted(shared)
    else:
        pairs = list(combinations(sorted({m.title for s in sentences for m in s.mentions}), 2))
    return [_relationship(text_unit_id, pair, shared.get(pair, []), span) for pair in pairs]


def _relationship(
    text_unit_id: str, pair: tuple[str, str], places: list[tuple[_Sentence, Mention, Mention]], span: Span
) -> Row:
    description = ""
    if places:
        sentence, a, b = max(places, key=lambda place: ((place[1].subject or place[2].subject), *place[0].quality))
        description = sentence.excerpt(min(a.start, b.start), max(a.start, b.start))
    return {
        "text_unit_id": text_unit_id,
        "source": pair[0],
        "target": pair[1],
        "description": description,
        "weight": float(len(places)) if span == "sentence" else 1.0,
    }
