"""Which entities a question is about: the seeds of local search."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from graphrag_assets.query import lookups
from graphrag_assets.query.index import Index
from graphrag_assets.query.lexical import best_text_units
from graphrag_assets.query.matching import terms
from graphrag_assets.query.records import Entity
from graphrag_assets.storage.tables import ENTITY_VECTORS
from graphrag_assets.text.names import canonical_title

#: Longest name looked for, in words, and in characters for scripts that write no spaces.
MAX_NAME_WORDS = 8
MAX_NAME_CHARACTERS = 16

#: Candidates per wanted entity that vector search brings, so that names of the question can be found among them.
OVERSAMPLE = 2

#: Letters of a word that may stand for a name that it is a part of, and text units among whose entities such are looked for.
SHORTEST_PART = 3
PASSAGES = 10

#: Letters of scripts that write no spaces: Thai, Lao, Burmese, Khmer, Japanese, Chinese. A word of another script ends
#: where they begin, as in "Tom Finchとは誰ですか".
_NO_SPACES = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f"
    r"\U00020000-\U0003ffff"
)
_UNSPACED = re.compile(f"[{_NO_SPACES}]")
_LETTERS = rf"(?:[{_NO_SPACES}]+|[^\W_{_NO_SPACES}]+)"
_WORD = re.compile(rf"{_LETTERS}(?:['’.\-&/]{_LETTERS})*\.?")
_PIECE = re.compile(_LETTERS)
_RUN = re.compile(rf"{_LETTERS}+")


@dataclass(frozen=True)
class Seed:
    """An entity that a question is about.

    Args:
        entity: The entity.
        how: name (the question names it), text (it names a part of the name), vector, graph (a walk from the others
            reaches it), or degree (there was no question).
        score: Cosine similarity to the question; 1.0 for a name that is not among the nearest.
    """

    entity: Entity
    how: str
    score: float


@dataclass(frozen=True)
class Mention:
    """A name of an entity in a question.

    Args:
        entity: The entity.
        start: First character of the name.
        end: Character after the last one.
        proper: Whether it is written as a name: several words, a capital letter beyond the start of the question, or
            a script without capitals.
    """

    entity: Entity
    start: int
    end: int
    proper: bool


def mentions(index: Index, question: str) -> list[Mention]:
    """Names and aliases of entities in the question, longest first match, in the order of the question.

    A shorter name inside a longer one that is also an entity is left out.
    """
    spans = _candidate_spans(question)
    titles = {span: canonical_title(question[span[0] : span[1]]) for span in spans}
    found = lookups.entities_by_title(index, sorted({title for title in titles.values() if title}))
    taken: list[Mention] = []
    for start, end in sorted(spans, key=lambda span: (span[0] - span[1], span[0])):
        entity = found.get(titles[start, end])
        if entity and not any(m.start < end and start < m.end for m in taken):
            taken.append(Mention(entity, start, end, _is_proper(question, start, end)))
    return sorted(taken, key=lambda mention: mention.start)


@dataclass(frozen=True)
class Found:
    """Entities that a question is about.

    Args:
        named: Those that it names, in its order.
        near: Those whose vectors are nearest, best first.
        partly: Those of whose name it holds a part, such as a surname, in its order.
    """

    named: tuple[Mention, ...]
    near: tuple[Seed, ...]
    partly: tuple[Seed, ...] = ()


def find_entities(index: Index, question: str, vector: Sequence[float], k: int) -> Found:
    """The entities that a question names, and the nearest ones by vector, ``OVERSAMPLE * k`` of them.

    Args:
        index: The snapshot.
        question: The question.
        vector: Its embedding.
        k: Entities wanted.
    """
    hits = index.vectors(ENTITY_VECTORS).nearest(vector, OVERSAMPLE * k) if index.count("entities") else []
    known = lookups.entities_by_id(index, [hit.id for hit in hits])
    near = tuple(Seed(known[hit.id], "vector", hit.score) for hit in hits if hit.id in known)
    named = mentions(index, question)
    return Found(tuple(named), near, tuple(_partly_named(index, question, named)))


def _partly_named(index: Index, question: str, named: Sequence[Mention]) -> list[Seed]:
    """Entities of whose name a capitalised word of the question is a part, one for each word that is no name by itself.

    They are looked for by full text: among the entities of the text units that match these words best. Of several the
    one with the shortest name is taken, then the one with the most relationships.
    """
    words = [
        word.group()
        for word in _WORD.finditer(question)
        if word.group()[0].isupper()
        and any(c.isalnum() for c in question[: word.start()])
        and not any(mention.start < word.end() and word.start() < mention.end for mention in named)
    ]
    wanted = {term for word in words for term in terms(word)[:1] if len(term) >= SHORTEST_PART}
    if not wanted:
        return []
    units = [number for number, _ in best_text_units(index, " ".join(words), PASSAGES)]
    held = [(terms(title), degree, number) for number, title, degree in lookups.titles_in(index, units)]
    found: list[int] = []
    for word in words:
        term = {*terms(word)[:1]} & wanted
        fitting = [(len(title), -degree, number) for title, degree, number in held if term & {*title}]
        if fitting:
            found.append(min(fitting)[-1])
    return [Seed(entity, "text", 0.0) for entity in lookups.entities(index, list(dict.fromkeys(found)))]


def seed_entities(index: Index, question: str, vector: Sequence[float] | None, k: int) -> list[Seed]:
    """The entities that local search starts from: those of :func:`find_entities` and :func:`choose_seeds`.

    Without a question the entities with the most relationships.

    Args:
        index: The snapshot.
        question: The question.
        vector: Its embedding; None when there is no question.
        k: Entities wanted.
    """
    if vector is None or not question.strip():
        return degree_seeds(index, k)
    return choose_seeds(find_entities(index, question, vector, k), k)


def degree_seeds(index: Index, k: int) -> list[Seed]:
    """Where there is no question: the entities with the most relationships."""
    return [Seed(entity, "degree", 0.0) for entity in lookups.top_entities(index, k)]


def choose_seeds(found: Found, k: int) -> list[Seed]:
    """The k entities to start from.

    Proper names of the question lead, in its order, then names of which it holds a part; then the nearest entities by
    vector, those that the question names in lower case before the others; then further lower-case names. Never more
    than k.
    """
    near = {seed.entity.number: seed for seed in found.near}

    def seed(mention: Mention) -> Seed:
        number = mention.entity.number
        return Seed(mention.entity, "name", near[number].score if number in near else 1.0)

    proper = [seed(m) for m in found.named if m.proper]
    plain = [seed(m) for m in found.named if not m.proper]
    plain_near = sorted((s for s in plain if s.entity.number in near), key=lambda s: (-s.score, s.entity.number))
    plain_far = [s for s in plain if s.entity.number not in near]
    ordered: dict[int, Seed] = {}
    partly = [
        replace(seed, score=near[seed.entity.number].score) if seed.entity.number in near else seed
        for seed in found.partly
    ]
    for candidate in [*proper, *partly, *plain_near, *near.values(), *plain_far]:
        ordered.setdefault(candidate.entity.number, candidate)
    return list(ordered.values())[:k]


def _candidate_spans(question: str) -> list[tuple[int, int]]:
    """Character spans that may be a name: runs of words, and pieces of runs of unspaced scripts."""
    words = [(m.start(), m.end()) for m in _WORD.finditer(question)]
    spans = {
        (words[i][0], end)
        for i in range(len(words))
        for j in range(i, min(i + MAX_NAME_WORDS, len(words)))
        for end in _name_ends(question, words[i][0], words[j][1])
    }
    for run in _RUN.finditer(question):
        if _UNSPACED.search(run.group()):
            spans.update(_pieces(question, run.start(), run.end()))
    return sorted(spans)


def _pieces(question: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Pieces of a run of letters without spaces, of two characters or more; words of other scripts in it stay whole."""
    cuts = [start]
    for piece in _PIECE.finditer(question, start, end):
        cuts += range(piece.start() + 1, piece.end() + 1) if _UNSPACED.match(piece.group()) else [piece.end()]
    for i, first in enumerate(cuts):
        for last in cuts[i + 1 : i + 1 + MAX_NAME_CHARACTERS]:
            if 2 <= last - first <= MAX_NAME_CHARACTERS:
                yield first, last


def _name_ends(question: str, start: int, end: int) -> list[int]:
    """Where a run of words may end as a name: with and without a final stop or a possessive ending."""
    ends = [end]
    text = question[start:end]
    if text.endswith("."):
        ends.append(end - 1)
    for ending in ("'s", "’s", "'", "’"):
        if text.endswith(ending):
            ends.append(end - len(ending))
    return ends


def _is_proper(question: str, start: int, end: int) -> bool:
    name = question[start:end]
    if len(name.split()) > 1 or not any(unicodedata.category(c) in {"Lu", "Ll", "Lt"} for c in name):
        return True
    capital = name[0] != name[0].lower()
    # Where the sentence is of a script without capitals, one at its start tells a name as well.
    at_start = not any(c.isalnum() for c in question[:start]) and not _UNSPACED.search(question)
    return capital and (not at_start or (name == name.upper() and len(name) > 1))
