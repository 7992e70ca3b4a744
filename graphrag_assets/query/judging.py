"""How sure it is that a sentence answers a question, without a language model.

A model that ranks passages finds those on the subject of a question, whether or not they hold its answer: near misses
score as high as answers. So three signs are weighed together:

* relevance: what the ranking model says of the sentence after the title of its document;
* coverage: how much of what the question says is said in the sentence or next to it, and in part in the title or elsewhere
  in its text unit; rare words count most, and words of near meaning count in part;
* kind: whether the sentence holds what is asked for (a number, a date, a person) beyond what the question already says.

The weights come from logistic regressions over questions with and without an answer, rounded: bench/answers.py and
bench/near_misses.py measure them.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from graphrag_assets.query import lookups
from graphrag_assets.query.index import Index
from graphrag_assets.query.lexical import occurrences
from graphrag_assets.query.quotable import Sentence
from graphrag_assets.text.asked import (
    content_words,
    holds_kind,
    kind_of_answer,
    may_be_english,
    named_words,
    names_in,
    stem,
    words,
    words_to_find,
)

if TYPE_CHECKING:
    import numpy as np

#: Sentences that the ranking model reads: those with most words of the question. All others share fewer.
MOST_READ = 160

#: Sentences whose coverage is looked at: the most relevant ones.
MOST_WEIGHED = 12

#: Part of a word's weight that counts where only the title of the document holds it; or only another place of the text
#: unit, which need not name what it is about in every sentence: for words of names, and for other words.
IN_TITLE, NAME_IN_ROW, WORD_IN_ROW = 0.8, 0.8, 0.3

#: Letters that forms of one word share at least, in a language whose endings are not known.
SAME_BEGINNING = 4

#: Types of entities that are no persons and no organisations.
PLACE_TYPES = ("GEO", "LOCATION", "PLACE", "CITY", "COUNTRY", "FACILITY")


@dataclass(frozen=True)
class Weights:
    """Log odds that a sentence answers the question, as a sum.

    Args:
        bias: With nothing known.
        relevance: For each point of relevance.
        coverage: With everything that the question says; in part for a part.
        no_kind: Where the sentence does not hold what is asked for.
    """

    bias: float
    relevance: float
    coverage: float
    no_kind: float


@dataclass(frozen=True)
class Scorer:
    """How relevant sentences are to a question.

    Args:
        score: Takes the question and sentences, returns a number for each; higher is better.
        weights: How these numbers count.
        name: What scores, for explanations.
        language: The only language that it reads; empty: any.
    """

    score: Callable[[str, Sequence[str]], Awaitable[Sequence[float]]]
    weights: Weights
    name: str
    language: str = ""


@dataclass(frozen=True)
class Meaning:
    """How near words are in meaning.

    Args:
        vectors: Takes words, returns their vectors (words, dimension) at unit length.
        unlike: Cosine similarity up to which words have nothing in common.
        alike: Cosine similarity from which one stands for the other.
    """

    vectors: Callable[[Sequence[str]], Awaitable[np.ndarray[Any, Any]]]
    unlike: float
    alike: float

    async def matches(self, wanted: Sequence[str], held: Sequence[str]) -> list[float]:
        """For each wanted word, how far one of the held words stands for it: 0 to 1."""
        if not wanted or not held:
            return [0.0] * len(wanted)
        vectors = await self.vectors([*wanted, *held])
        nearest = (vectors[: len(wanted)] @ vectors[len(wanted) :].T).max(axis=1)
        return [min(1.0, max(0.0, (float(n) - self.unlike) / (self.alike - self.unlike))) for n in nearest]


@dataclass(frozen=True)
class Signs:
    """What speaks for a sentence as an answer.

    Args:
        sentence: The sentence.
        weights: How the signs count.
        relevance: What the ranking model says.
        coverage: Share of what the question says that is said in or around the sentence; 0 where it was not looked at.
        no_kind: True where the sentence does not hold what is asked for.
    """

    sentence: Sentence
    weights: Weights
    relevance: float
    coverage: float = 0.0
    no_kind: bool = False

    @property
    def odds(self) -> float:
        """Log odds that the sentence answers the question."""
        w = self.weights
        return w.bias + w.relevance * self.relevance + w.coverage * self.coverage + w.no_kind * self.no_kind


class Judge:
    """Judges the sentences of one index.

    Args:
        index: The snapshot: how rare words are in it.
        scorer: Finds relevant sentences.
        fallback: Does so for sentences in languages that the first one does not read.
        meaning: Nearness of words; None: only forms of one word match.
    """

    def __init__(self, index: Index, scorer: Scorer, fallback: Scorer, meaning: Meaning | None) -> None:
        self._index = index
        self._scorer = scorer
        self._fallback = fallback
        self._meaning = meaning

    async def relevance(self, question: str, sentences: Sequence[Sentence]) -> list[float]:
        """Log odds by relevance alone, by the weights of whatever model reads a sentence."""
        return [signs.odds for signs in await self._relevance(question, sentences)]

    async def signs(self, question: str, sentences: Sequence[Sentence]) -> list[Signs]:
        """What speaks for each of the most relevant sentences, the surest one first."""
        found = await self._relevance(question, _most_words(question, sentences))
        top = sorted(found, key=lambda signs: -signs.odds)[:MOST_WEIGHED]
        coverage = await self._coverage(question, [signs.sentence for signs in top])
        kind = kind_of_answer(question)
        places = self._places([signs.sentence for signs in top]) if kind == "person" else ()
        judged = [
            replace(signs, coverage=covered, no_kind=not holds_kind(kind, question, signs.sentence.text, places))
            for signs, covered in zip(top, coverage, strict=True)
        ]
        return sorted(judged, key=lambda signs: -signs.odds)

    async def _relevance(self, question: str, sentences: Sequence[Sentence]) -> list[Signs]:
        by_scorer: dict[str, list[int]] = {}
        scorers = [self._scorer if self._reads(question, sentence) else self._fallback for sentence in sentences]
        for i, scorer in enumerate(scorers):
            by_scorer.setdefault(scorer.name, []).append(i)
        found: dict[int, Signs] = {}
        for places in by_scorer.values():
            scorer = scorers[places[0]]
            scores = await scorer.score(question, [sentences[i].titled for i in places])
            found |= {i: Signs(sentences[i], scorer.weights, score) for i, score in zip(places, scores, strict=True)}
        return [found[i] for i in range(len(sentences))]

    def _reads(self, question: str, sentence: Sentence) -> bool:
        return not self._scorer.language or (
            may_be_english(question) and sentence.language in ("", self._scorer.language)
        )

    def _places(self, sentences: Sequence[Sentence]) -> set[str]:
        """Names in some sentences that the index knows as places, in upper case."""
        names = sorted({name.upper() for sentence in sentences for name in names_in(sentence.text)})
        found = lookups.entities_by_title(self._index, names)
        return {name for name, entity in found.items() if entity.type.upper() in PLACE_TYPES}

    async def _coverage(self, question: str, sentences: Sequence[Sentence]) -> list[float]:
        """Share of what the question says that is said in or around each sentence."""
        wanted = words_to_find(question)
        if not wanted:
            return [0.0] * len(sentences)
        units = self._index.count("text_units")
        held_by = occurrences(self._index, sorted({stem(word) for word in wanted}))
        rarity = {word: math.log((units + 1) / (held_by[stem(word)] + 0.5)) for word in wanted}
        total = sum(rarity.values())
        named = named_words(question)
        meaning = self._meaning if may_be_english(question) else None
        covered: list[float] = []
        for sentence in sentences:
            near = await _found(wanted, sentence.neighbours, meaning)
            title = await _found(wanted, sentence.title, meaning)
            row = {stem(word) for word in words(sentence.row)}
            elsewhere = {w: (NAME_IN_ROW if w in named else WORD_IN_ROW) * (stem(w) in row) for w in wanted}
            best = [max(near[w], IN_TITLE * title[w], elsewhere[w]) for w in wanted]
            covered.append(sum(rarity[w] * value for w, value in zip(wanted, best, strict=True)) / total)
        return covered


async def _found(wanted: Sequence[str], text: str, meaning: Meaning | None) -> dict[str, float]:
    """How far a text holds each word: 1 for a form of it, less for a word of near meaning."""
    held = content_words(text)
    stems = {stem(word) for word in held}
    found = {word: float(stem(word) in stems or (meaning is None and _begins_alike(word, held))) for word in wanted}
    if meaning is not None:
        missing = [word for word in wanted if not found[word] and not word[0].isdigit()]
        plain = [word for word in held if not word[0].isdigit()]
        found |= zip(missing, await meaning.matches(missing, plain), strict=True)
    return found


def _begins_alike(word: str, held: Sequence[str]) -> bool:
    """Whether a word is likely another form of a held one, in a language whose endings are not known."""
    least = max(SAME_BEGINNING, math.ceil(len(word) * 2 / 3))
    return len(word) >= least and any(
        other.startswith(word[:least]) and len(other) <= len(word) + SAME_BEGINNING for other in held
    )


def _most_words(question: str, sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences that share most with the question by their words and those around them, in the order given."""
    if len(sentences) <= MOST_READ:
        return list(sentences)
    wanted = {stem(word) for word in words_to_find(question)}

    def shared(sentence: Sentence) -> float:
        own = wanted & {stem(word) for word in words(sentence.text)}
        near = wanted & {stem(word) for word in words(f"{sentence.title} {sentence.neighbours}")}
        return sum(map(len, own)) + sum(map(len, near - own)) / 2

    ranked = sorted(range(len(sentences)), key=lambda i: (-shared(sentences[i]), i))
    return [sentences[i] for i in sorted(ranked[:MOST_READ])]
