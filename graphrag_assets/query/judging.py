"""How sure it is that a sentence answers a question, without a language model.

A model that ranks passages finds those on the subject of a question, whether or not they hold its answer: near misses
score as high as answers. So three signs are weighed together:

* relevance: what the ranking model says;
* coverage: how much of what the question says is said in the sentence, next to it, or in the title of its document,
  the rare words counting most, and words of near meaning counting in part;
* kind: whether the sentence holds what is asked for (a number, a date, a name) beyond what the question already says.

The weights are those of a logistic regression over questions with and without an answer: bench/answer_weights.py.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphrag_assets.query.index import Index
from graphrag_assets.query.lexical import occurrences
from graphrag_assets.query.quotable import Sentence
from graphrag_assets.text.asked import (
    content_words,
    holds_kind,
    kind_of_answer,
    may_be_english,
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

#: Part of a word's weight that counts where a neighbour of the sentence holds it and not the sentence itself, when it is
#: decided what is read.
NEIGHBOUR = 0.5


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
        """How relevant sentences are, by the weights of whatever model reads them."""
        scores = [0.0] * len(sentences)
        own = [i for i, s in enumerate(sentences) if self._reads(question, s)]
        other = sorted(set(range(len(sentences))) - set(own))
        for scorer, places in ((self._scorer, own), (self._fallback, other)):
            if places:
                found = await scorer.score(question, [sentences[i].text for i in places])
                for i, value in zip(places, found, strict=True):
                    scores[i] = scorer.weights.bias + scorer.weights.relevance * value
        return scores

    async def odds(self, question: str, sentences: Sequence[Sentence]) -> list[tuple[float, Sentence]]:
        """Log odds that each of the most relevant sentences answers the question, best first."""
        read = _most_words(question, sentences)
        relevance = await self.relevance(question, read)
        top = sorted(range(len(read)), key=lambda i: (-relevance[i], i))[:MOST_WEIGHED]
        coverage = await self._coverage(question, [read[i] for i in top])
        kind = kind_of_answer(question)
        found: list[tuple[float, Sentence]] = []
        for i, covered in zip(top, coverage, strict=True):
            weights = (self._scorer if self._reads(question, read[i]) else self._fallback).weights
            lacks = not holds_kind(kind, question, read[i].text)
            found.append((relevance[i] + weights.coverage * covered + weights.no_kind * lacks, read[i]))
        return sorted(found, key=lambda pair: -pair[0])

    def _reads(self, question: str, sentence: Sentence) -> bool:
        return not self._scorer.language or (
            may_be_english(question) and sentence.language in ("", self._scorer.language)
        )

    async def _coverage(self, question: str, sentences: Sequence[Sentence]) -> list[float]:
        """Share of what the question says that stands in or around each sentence."""
        wanted = words_to_find(question)
        if not wanted:
            return [0.0] * len(sentences)
        units = self._index.count("text_units")
        held_by = occurrences(self._index, [stem(word) for word in wanted])
        rarity = {word: math.log((units + 1) / (held_by[stem(word)] + 0.5)) for word in wanted}
        total = sum(rarity.values())
        return [sum(rarity[w] * m for w, m in (await self._found(wanted, s)).items()) / total for s in sentences]

    async def _found(self, wanted: Sequence[str], sentence: Sentence) -> dict[str, float]:
        """How far each word is matched in and around a sentence."""
        around = content_words(sentence.surroundings)
        stems = {stem(word) for word in around}
        found = {word: float(stem(word) in stems) for word in wanted}
        missing = [word for word in wanted if not found[word] and not word[0].isdigit()]
        if self._meaning is not None:
            plain = [word for word in around if not word[0].isdigit()]
            found |= zip(missing, await self._meaning.matches(missing, plain), strict=True)
        return found


def _most_words(question: str, sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences that share most with the question by their words and those around them, in the order given."""
    if len(sentences) <= MOST_READ:
        return list(sentences)
    wanted = {stem(word) for word in words_to_find(question)}

    def shared(sentence: Sentence) -> float:
        own = wanted & {stem(word) for word in words(sentence.text)}
        near = wanted & {stem(word) for word in words(sentence.surroundings)}
        return sum(map(len, own)) + NEIGHBOUR * sum(map(len, near - own))

    ranked = sorted(range(len(sentences)), key=lambda i: (-shared(sentences[i]), i))
    return [sentences[i] for i in sorted(ranked[:MOST_READ])]
