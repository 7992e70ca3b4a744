"""Statements: the sentences of the corpus, each with the entities it names.

They are what the fast method writes descriptions and reports from, and where contradictions are looked for. A sentence
that stands in two overlapping text units is one statement; text that is no sentence (headings, addresses, table rows)
is marked, so that it is used only where nothing better says something about an entity.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from graphrag_assets.text.names import readable
from graphrag_assets.text.sentences import sentences

Row = Mapping[str, Any]

_FUNCTION_WORDS = """
a about above after again all also although am among an and any are as at be because been before being below between
both but by can could did do does doing done down dr during each either else ever every few for from further get got
had has have having he her here hers herself him himself his how however i if in into is it its itself just let like
made make many may me might miss more most mr mrs ms much must my myself of off on once one ones only or other ought
our ours out over own per put quite rather said same say says shall she should since sir so some still such tell tells
than that the their theirs them then there therefore these they this those though through thus to told too under until
up upon us very was we were what when where whether which while who whom whose why will with within would yet you your
yours
"""
#: Words that join and point, and say nothing by themselves. A corpus adds its own by their frequency.
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
_WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]{2,}")
#: Characters of a word that count: inflections mostly differ behind them (inspected, inspection).
_STEM = 7
_END = re.compile(r"[.!?…。！？｡؟।॥][\"'”’»›)\]}」』*_]*$")
#: What opens a heading, a quote or a list item.
_OPENING = re.compile(r"(?:\s*(?:#{1,6}|>|[-*+•])\s+)+|\s*[(\[]?(?:\d{1,3}|[a-z])[.)\]]\s+(?=\S)")
_EMPHASIS = re.compile(r"\*\*|__|(?<![\w\s])\*(?=\s|$)|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_MIN_WORDS, _MAX_CHARACTERS = 4, 700


@dataclass(frozen=True)
class Statement:
    """One sentence.

    Args:
        text: The sentence as written, white space collapsed, without list and emphasis marks.
        text_unit_id: Text unit that holds it; of several that overlap, the first.
        document_id: Document of the text unit.
        order: Position among all statements, in the order of text units.
        titles: Entities that it names, sorted.
        complete: Whether it is a whole sentence and not a heading, an address or a row of a table.
    """

    text: str
    text_unit_id: str
    document_id: str
    order: int
    titles: tuple[str, ...]
    complete: bool

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Content words in their order, see :func:`content_words`."""
        return tuple(content_words(self.text))


@dataclass(frozen=True)
class Statements:
    """All statements of a corpus.

    Args:
        all: Statements in the order of text units.
        names: How each entity is written where it is named: the most frequent spelling by title.
    """

    all: tuple[Statement, ...]
    names: Mapping[str, str]

    @cached_property
    def by_title(self) -> Mapping[str, tuple[Statement, ...]]:
        """Statements that name an entity, by its title."""
        found: dict[str, list[Statement]] = defaultdict(list)
        for statement in self.all:
            for title in statement.titles:
                found[title].append(statement)
        return {title: tuple(items) for title, items in found.items()}

    @cached_property
    def weights(self) -> Mapping[str, float]:
        """Rarity of each content word: the logarithm of the inverse share of sentences that have it."""
        frequency: Counter[str] = Counter()
        for statement in self.all:
            frequency.update(set(statement.words))
        return {word: math.log(1 + len(self.all) / count) for word, count in sorted(frequency.items())}

    @cached_property
    def first_of_document(self) -> Mapping[str, int]:
        """Order of the first statement of each document."""
        first: dict[str, int] = {}
        for statement in self.all:
            first.setdefault(statement.document_id, statement.order)
        return first

    def name(self, title: str) -> str:
        """A title in readable case."""
        return self.names.get(title) or readable(title)


def content_words(text: str) -> list[str]:
    """Stems of the words that carry meaning.

    Args:
        text: Text in any language.

    Returns:
        Lower-cased words cut to seven characters, without function words and without single letters; Chinese, Japanese
        and Korean text as pairs of characters. Numbers are kept.
    """
    return [stem for word in _WORD.findall(text) for stem in _stems(word)]


@lru_cache(maxsize=200_000)
def _stems(word: str) -> tuple[str, ...]:
    """Stems of one word: one, none for a function word, several for a run of Chinese, Japanese or Korean text."""
    word = word.casefold().replace("’", "'").removesuffix("'s")
    if _CJK.fullmatch(word):
        return tuple(word[i : i + 2] for i in range(len(word) - 1))
    return (_stem(word),) if word not in FUNCTION_WORDS and (len(word) > 1 or word.isdigit()) else ()


def _stem(word: str) -> str:
    """Cut a word; English plurals and verb endings of short words go too."""
    if len(word) > 4 and word.isascii() and word.isalpha():
        for ending in ("ing", "ed", "es", "s"):
            if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
                word = word[: -len(ending)]
                break
        word = word.removesuffix("e")
    return word[:_STEM]


def find_statements(text_units: Iterable[Row], entities: Sequence[Row]) -> Statements:
    """Split text units into statements and find the entities that each names.

    Args:
        text_units: Rows with id, text and document_id, in the order of documents and positions.
        entities: Rows with title, aliases and text_unit_ids; an entity is looked for only in its own text units.
    """
    names_in: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for entity in entities:
        wanted = [(name, entity["title"]) for name in [entity["title"], *(entity.get("aliases") or [])]]
        for text_unit_id in entity["text_unit_ids"]:
            names_in[text_unit_id] += wanted
    for known in names_in.values():
        known.sort(key=lambda item: (-len(item[0]), item))
    statements: list[Statement] = []
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    seen: set[tuple[str, str]] = set()
    for unit in text_units:
        for text in _split(unit["text"]):
            key = (unit["document_id"], text)
            if key in seen:
                continue
            seen.add(key)
            titles = _named(text, names_in.get(unit["id"], ()), spellings)
            complete = _is_complete(text)
            statements.append(Statement(text, unit["id"], unit["document_id"], len(statements), titles, complete))
    names = {title: min(counts, key=lambda name: (-counts[name], name)) for title, counts in spellings.items()}
    return Statements(tuple(statements), names)


def _split(text: str) -> Iterable[str]:
    for start, end in sentences(text):
        sentence = text[start:end]
        if "<" in sentence:
            sentence = _TAG.sub("", sentence)
        if opening := _OPENING.match(sentence):
            sentence = sentence[opening.end() :]
        if "*" in sentence or "__" in sentence:
            sentence = _EMPHASIS.sub("", sentence)
        if sentence := " ".join(sentence.split()):
            yield sentence


def _is_complete(text: str) -> bool:
    """Whether a text is a sentence that can stand by itself."""
    spaced = len(text.split()) >= _MIN_WORDS or bool(_CJK.search(text))
    first = next((c for c in text if c.isalnum()), "")
    return spaced and len(text) <= _MAX_CHARACTERS and bool(_END.search(text)) and not first.islower()


def _named(text: str, names: Sequence[tuple[str, str]], spellings: dict[str, Counter[str]]) -> tuple[str, ...]:
    """Titles of the entities named in a text; their spelling there is counted.

    Longer names come first and hide what lies inside them: Skarne Stone Company does not name Skarne.
    """
    plain = unicodedata.normalize("NFC", text)
    upper = plain.upper()
    aligned = len(upper) == len(plain)
    found = set()
    # Most names of a text unit stand in few of its sentences. What is hidden below takes names away, and adds none.
    for name, title in [item for item in names if item[0] in upper]:
        start = _find_name(upper, name)
        while start >= 0:
            end = start + len(name)
            upper = f"{upper[:start]}{chr(0) * len(name)}{upper[end:]}"
            if aligned and name == title:
                spellings[title][plain[start:end]] += title not in found
            found.add(title)
            start = _find_name(upper, name)
    return tuple(sorted(found))


def _find_name(text: str, name: str) -> int:
    """Position of a name that is not part of a longer word, or -1."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before = start > 0 and text[start - 1].isalnum() and name[0].isalnum() and not _CJK.match(name[:1] * 2)
        after = end < len(text) and text[end].isalnum() and name[-1:].isalnum() and not _CJK.match(name[-1:] * 2)
        if not before and not after:
            return start
        start = text.find(name, start + 1)
    return -1
