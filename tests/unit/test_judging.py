"""What an extractive answer is judged by: relevance, coverage, kind; and which model reads which language."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.query import QueryError, ask
from graphrag_assets.query.index import Index
from graphrag_assets.query.judging import MOST_READ, Judge, Scorer, Signs, Weights
from graphrag_assets.query.models import RERANKER_WEIGHTS
from graphrag_assets.query.quotable import Sentence
from tests.unit.query_doubles import FakeChat, good_answers, models, small_index, small_rows

pytestmark = pytest.mark.storage

TEXTS = [
    "Ada Finch bought the mill at Brook End in 1931.",
    "The mill had forty looms and a wheel.",
    "Tom Finch asked the council for a loan of 900 crowns.",
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return small_index(tmp_path_factory.mktemp("small"))


def scorer(name: str, value: float, language: str = "", seen: list[str] | None = None) -> Scorer:
    async def score(question: str, passages: Sequence[str]) -> list[float]:
        if seen is not None:
            seen.extend(passages)
        return [value] * len(passages)

    return Scorer(score, RERANKER_WEIGHTS, name, language)


def sentences(texts: Sequence[str], **fields: Any) -> list[Sentence]:
    return [Sentence("Sources", i, 0, text, **fields) for i, text in enumerate(texts)]


def judged(index: Index, question: str, found: Sequence[Sentence]) -> list[Signs]:
    judge = Judge(index, scorer("first", 5.0), scorer("second", 0.0), None)
    return asyncio.run(judge.signs(question, found))


def test_what_covers_the_question_and_holds_the_kind_comes_first(index: Index) -> None:
    best = judged(index, "In which year was the mill bought by Ada Finch?", sentences(TEXTS))[0]
    assert best.sentence.text == TEXTS[0]
    assert best.coverage > 0.5
    assert not best.no_kind


def test_a_number_that_the_question_says_is_no_answer(index: Index) -> None:
    best = judged(index, "How many looms did Ada Finch buy in 1931?", sentences(TEXTS[:1]))[0]
    assert best.no_kind


def test_a_title_stands_for_the_name_that_a_sentence_leaves_out(index: Index) -> None:
    question = "When did Josiah Enderley die?"
    bare = judged(index, question, sentences(["He died in 1871."]))[0]
    titled = judged(index, question, sentences(["He died in 1871."], title="Josiah Enderley, surveyor"))[0]
    assert titled.odds > bare.odds + 1


def test_a_place_is_no_answer_to_who(tmp_path: Path) -> None:
    rows = small_rows()
    rows["entities"][1]["type"] = "GEO"  # Brook End
    index = small_index(tmp_path, rows)
    assert judged(index, "Who kept the mill?", sentences(["The keeper lived at Brook End."]))[0].no_kind
    assert not judged(index, "Who kept the mill?", sentences(["The keeper was Ada Finch."]))[0].no_kind


@pytest.mark.parametrize(
    ("question", "language", "reader"),
    [
        ("Who bought the mill?", "en", "english"),
        ("Who bought the mill?", "", "english"),
        ("Who bought the mill?", "de", "any"),
        ("Wer hat die Mühle gekauft?", "en", "any"),
        ("Wer hat die Mühle gekauft?", "de", "any"),
        ("谁买了磨坊？", "", "any"),
    ],
)
def test_the_english_model_reads_english_only(index: Index, question: str, language: str, reader: str) -> None:
    english: list[str] = []
    other: list[str] = []
    judge = Judge(index, scorer("english", 9.0, "en", english), scorer("any", 0.0, "", other), None)
    asyncio.run(judge.signs(question, sentences(TEXTS, language=language)))
    assert (len(english), len(other)) == ((3, 0) if reader == "english" else (0, 3))


def test_sentences_of_two_languages_are_read_by_two_models(index: Index) -> None:
    found = [*sentences(TEXTS[:1], language="en"), *sentences(["Ada Finch kaufte die Mühle."], language="de")]
    cosine = Scorer(scorer("any", 0.5).score, Weights(-7.0, 14.0, 7.5, -3.0), "any")
    signs = asyncio.run(Judge(index, scorer("english", 5.0, "en"), cosine, None).signs("Who bought the mill?", found))
    assert {s.sentence.language: s.relevance for s in signs} == {"en": 5.0, "de": 0.5}


def test_inflected_words_of_other_languages_match_by_their_beginning(index: Index) -> None:
    found = sentences(["Der Wärter öffnete die Schleusentore des Dammes."], language="de")
    near = judged(index, "Wann wurden die Schleusentore geöffnet?", found)[0]
    far = judged(index, "Wann wurden die Aktien verkauft?", found)[0]
    assert near.coverage > far.coverage


def test_the_ranking_model_reads_a_bounded_number_of_sentences(index: Index) -> None:
    seen: list[str] = []
    many = sentences([f"Sentence number {i} is about nothing." for i in range(3 * MOST_READ)] + TEXTS)
    judge = Judge(index, scorer("first", 0.0, seen=seen), scorer("second", 0.0), None)
    asyncio.run(judge.signs("Who bought the mill at Brook End?", many))
    assert len(seen) == MOST_READ
    assert TEXTS[0] in seen


@pytest.mark.parametrize("method", ["basic", "local", "global", "drift"])
def test_a_very_long_question_is_refused_with_the_bound(index: Index, method: str) -> None:
    question = "Who bought the mill? " * 5000
    with pytest.raises(QueryError, match=r"105,000 characters; at most 2,000 are read without a language model"):
        asyncio.run(ask(index, question, method, models=models(None)))  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"105,000 characters; at most 10,000 are read: ask a shorter"):
        asyncio.run(ask(index, question, method, models=models(FakeChat(good_answers))))  # type: ignore[arg-type]
