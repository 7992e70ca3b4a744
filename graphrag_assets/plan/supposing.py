"""What a model may answer, where nobody has asked it yet: supposed from the texts, in the form that the parsers read.

The names of a text are found by the look of its words, and what is said of them is the sentence that names them first.
So the stages that come after an extraction work on a graph of about the size that a model would find.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from graphrag_assets.indexing.phrases_by_rules import find_mentions_by_rules
from graphrag_assets.settings_sections import TextAnalyzerSettings
from graphrag_assets.text.sentences import sentences

#: Letters of a description: about what models write of an entity in one text unit.
_DESCRIPTION = 220

#: Most names of one sentence that are taken to be related with each other.
_IN_SENTENCE = 5

#: Share of the entities and relationships of a first answer that a gleaning adds at most.
GLEANED_ENTITIES, GLEANED_RELATIONSHIPS = 0.5, 0.25

#: Words of a summary and of an explanation in a report, and findings in a report.
_SUMMARY_WORDS, _EXPLANATION_WORDS, _FINDINGS = 120, 52, 5

_PHRASES = TextAnalyzerSettings()


@dataclass(frozen=True)
class Density:
    """How much a model finds in a text unit.

    Args:
        entities: Entities of a first answer.
        relationships: Relationships.
        claims: Claims.
    """

    entities: int = 16
    relationships: int = 20
    claims: int = 4


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
    spans = sentences(text)
    mentions = find_mentions_by_rules(text, _PHRASES)
    count: Counter[str] = Counter(mention.title for mention in mentions)
    first: dict[str, str] = {}
    together: Counter[tuple[str, str]] = Counter()
    shared: dict[tuple[str, str], str] = {}
    at = 0
    for start, end in spans:
        here: dict[str, None] = {}
        while at < len(mentions) and mentions[at].start < end:
            here[mentions[at].title] = None
            at += 1
        said = " ".join(text[start:end].split())[:_DESCRIPTION]
        for name in here:
            first.setdefault(name, said)
        for pair in combinations(list(here)[:_IN_SENTENCE], 2):
            ends = (min(pair), max(pair))
            together[ends] += 1
            shared.setdefault(ends, said)
    return Names(
        tuple((name, first.get(name, name)) for name, _ in count.most_common()),
        tuple((a, b, shared[a, b]) for (a, b), _ in together.most_common()),
    )


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
    records = [f'("entity"<|>{name}<|>ORGANIZATION<|>{name.title()}: {said})' for name, said in entities]
    records += [f'("relationship"<|>{a}<|>{b}<|>{a.title()} and {b.title()}: {said}<|>5)' for a, b, said in pairs]
    return "\n##\n".join(records) + "\n<|COMPLETE|>"


def claims(text: str, density: Density, gleaning: bool) -> str:
    """Records of the claims of a text unit; a gleaning finds none."""
    pairs = () if gleaning else names_in(text).pairs[: density.claims]
    records = [
        f"({a}<|>{b}<|>ASSOCIATION<|>TRUE<|>NONE<|>NONE<|>{a.title()} is associated with {b.title()}<|>{said})"
        for a, b, said in pairs
    ]
    return "\n##\n".join(records) + "\n<|COMPLETE|>"


def summary(descriptions: str) -> str:
    """A summary of descriptions: their own words, up to the usual length."""
    return " ".join(descriptions.split()[:_SUMMARY_WORDS]) or "nothing"


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
