"""What a model may answer, where nobody has asked it yet: supposed from the texts, in the form that the parsers read.

The names of a text are found by the look of its words, and what is said of them is the sentence that names them first.
So the stages that come after an extraction work on a graph of about the size that a model would find.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from graphrag_assets.ids import digest
from graphrag_assets.indexing.phrases_by_rules import find_mentions_by_rules
from graphrag_assets.settings_sections import TextAnalyzerSettings
from graphrag_assets.text.names import canonical_title
from graphrag_assets.text.sentences import sentences


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Letters of a description: about what models write of an entity in one text unit.
_DESCRIPTION = 220

#: Most names of one sentence that are taken to be related with each other.
_IN_SENTENCE = 5

#: Share of the entities and relationships of a first answer that a gleaning adds at most.
GLEANED_ENTITIES, GLEANED_RELATIONSHIPS = 0.5, 0.25

#: Share of the words of descriptions that a summary keeps.
_SUMMARY_SHARE = 0.85

#: Words of a summary and of an explanation in a report, and findings in a report.
_SUMMARY_WORDS, _EXPLANATION_WORDS, _FINDINGS = 120, 52, 5

#: Words in the longest name.
_LONGEST_NAME = 5

#: Words that are no names, also where they open a sentence or are written in capitals.
_FUNCTION_WORDS = _words(
    "a an and are as at be but by did do does for from had has have he her his how i if in into is it its may no nor not "
    "of on or our she so than that the their then there these they this those to under was we were what when where which "
    "while who why will with would you your"
)
#: Small words inside names, as in University of Carrowby.
_INSIDE_NAMES = _words("of de da di von van der la le")

#: Letters of an initial or a title before a name, as in Mrs.
_LONGEST_TITLE = 3
_POSSESSIVE = re.compile("['’]S$")
_WORD = re.compile(r"[^\W\d_](?:[\w'’.&-]*\w)?")

_PHRASES = TextAnalyzerSettings()


@dataclass(frozen=True)
class Density:
    """How much a model finds in a text unit.

    Args:
        entities: Entities of a first answer.
        relationships: Relationships.
        claims: Claims.
        agreement: Share of the supposed names that the model calls by the same name; the others are taken for names that
            no other text unit has.
    """

    entities: int = 16
    relationships: int = 20
    claims: int = 4
    agreement: float = 1.0


@dataclass(frozen=True)
class Names:
    """What a text names.

    Args:
        entities: Name and the sentence that names it first, the most frequent first.
        pairs: Two names and the first sentence with both, the most frequent first.
    """

    entities: tuple[tuple[str, str], ...]
    pairs: tuple[tuple[str, str, str], ...]


@lru_cache(maxsize=256)
def names_in(text: str) -> Names:
    """The names in a text, and those that share a sentence."""
    count: Counter[str] = Counter()
    first: dict[str, str] = {}
    together: Counter[tuple[str, str]] = Counter()
    shared: dict[tuple[str, str], str] = {}
    for (start, end), names in _by_sentence(text):
        said = " ".join(text[start:end].split())[:_DESCRIPTION]
        count.update(names)
        distinct = list(dict.fromkeys(names))
        for name in distinct:
            first.setdefault(name, said)
        for pair in combinations(distinct[:_IN_SENTENCE], 2):
            ends = (min(pair), max(pair))
            together[ends] += 1
            shared.setdefault(ends, said)
    return Names(
        tuple((name, first[name]) for name, _ in count.most_common()),
        tuple((a, b, shared[a, b]) for (a, b), _ in together.most_common()),
    )


def _by_sentence(text: str) -> list[tuple[tuple[int, int], list[str]]]:
    """The names of each sentence: runs of capitalised words, or where a script has no capitals, frequent phrases.

    A single word that opens a sentence is a name only where it is one inside another sentence too. Unlike a language
    analysis, a model takes any capitalised word inside a sentence for worth telling of.
    """
    spans = sentences(text)
    runs = [list(_runs(text, start, end)) for start, end in spans]
    inside = {name for found in runs for name, opens in found if not opens or " " in name}
    named = [[name for name, _ in found if name in inside] for found in runs]
    if any(named):
        return list(zip(spans, named, strict=True))
    mentions = find_mentions_by_rules(text, _PHRASES)
    return [(span, [m.title for m in mentions if span[0] <= m.start < span[1]]) for span in spans]


def _runs(text: str, start: int, end: int) -> Iterator[tuple[str, bool]]:
    """Runs of capitalised words of a sentence as titles, and whether they open it."""
    run: list[re.Match[str]] = []
    pending: re.Match[str] | None = None
    opens, at_start = True, True
    for word in [*_WORD.finditer(text, start, end), None]:
        capital = word is not None and word.group()[0].isupper() and word.group().lower() not in _FUNCTION_WORDS
        joins = run and word is not None and _joins(text, pending or run[-1], word)
        if joins and not capital and pending is None and word is not None and word.group() in _INSIDE_NAMES:
            pending = word
            continue
        if run and not (joins and capital and len(run) < _LONGEST_NAME):
            title = _POSSESSIVE.sub("", canonical_title(text[run[0].start() : run[-1].end()]))
            if len(title) > 2:
                yield title, at_start
            run = []
        pending = None
        if word is not None and capital:
            at_start = at_start if run else opens
            run.append(word)
        opens = False


def _joins(text: str, word: re.Match[str], following: re.Match[str]) -> bool:
    """Whether two words stand side by side in one name, as in Marten Pryce, G. Maske and Dr. Halsel."""
    gap = text[word.end() : following.start()]
    return gap == " " or (gap == ". " and len(word.group()) <= _LONGEST_TITLE)


def extraction(text: str, density: Density, gleaning: bool) -> str:
    """Records of the graph of a text unit; in a gleaning those that the first answer has left."""
    found = names_in(text)
    more_entities = int(density.entities * GLEANED_ENTITIES)
    more_pairs = int(density.relationships * GLEANED_RELATIONSHIPS)
    entities = found.entities[: density.entities]
    known = {name for name, _ in entities}
    first = [pair for pair in found.pairs if pair[0] in known and pair[1] in known]
    pairs: Sequence[tuple[str, str, str]] = first[: density.relationships]
    if gleaning:
        entities = found.entities[density.entities : density.entities + more_entities]
        all_known = known | {name for name, _ in entities}
        rest = [p for p in found.pairs if p[0] in all_known and p[1] in all_known and p not in set(first)]
        pairs = [*first[density.relationships :][:more_pairs], *rest[:more_pairs]]
    names = {name: _called(name, text, density.agreement) for pair in pairs for name in pair[:2]}
    names |= {name: _called(name, text, density.agreement) for name, _ in entities}
    pairs = [(names[a], names[b], said) for a, b, said in pairs]
    entities = tuple((names[name], said) for name, said in entities)
    records = [f'("entity"<|>{name}<|>ORGANIZATION<|>{name.title()}: {said})' for name, said in entities]
    records += [f'("relationship"<|>{a}<|>{b}<|>{a.title()} and {b.title()}: {said}<|>5)' for a, b, said in pairs]
    return "\n##\n".join(records) + "\n<|COMPLETE|>"


def _called(name: str, text: str, agreement: float) -> str:
    """A name as the model may call it, which is its own affair in the share of names that it finds otherwise."""
    if agreement >= 1 or int(digest(name, text)[:6], 16) < agreement * 16**6:
        return name
    return f"{name} {digest(text)[:4].upper()}"


def claims(text: str, density: Density, gleaning: bool) -> str:
    """Records of the claims of a text unit; a gleaning finds none."""
    pairs = () if gleaning else names_in(text).pairs[: density.claims]
    records = [
        f"({a}<|>{b}<|>ASSOCIATION<|>TRUE<|>NONE<|>NONE<|>{a.title()} is associated with {b.title()}<|>{said})"
        for a, b, said in pairs
    ]
    return "\n##\n".join(records) + "\n<|COMPLETE|>"


def summary(descriptions: str) -> str:
    """A summary of descriptions: most of their own words, up to the usual length; what is said twice is left out."""
    words = descriptions.split()
    return " ".join(words[: min(_SUMMARY_WORDS, round(len(words) * _SUMMARY_SHARE))]) or "nothing"


def report(context: str) -> str:
    """A report of the usual length."""
    words = context.split() or ["nothing"]
    said = (words * (1 + _EXPLANATION_WORDS // len(words)))[:_EXPLANATION_WORDS]
    explanation = " ".join(said)
    finding = {"summary": "One of the members and its place in the community", "explanation": explanation}
    told = {
        "title": "The community and its members",
        "summary": explanation,
        "findings": [finding] * _FINDINGS,
        "rating": 5.0,
        "rating_explanation": "The rating reflects how many records mention the members of the community.",
    }
    return json.dumps(told, ensure_ascii=False)


def verdicts(pairs: int) -> str:
    """Verdicts on pairs of titles: none is the same."""
    rows = [
        {"pair": number, "same": False, "reason": "They are two different things."} for number in range(1, pairs + 1)
    ]
    return json.dumps({"verdicts": rows})
