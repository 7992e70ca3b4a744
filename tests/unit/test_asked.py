"""What a question asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.text.asked import (
    asks_for_an_account,
    content_words,
    holds_kind,
    kind_of_answer,
    may_be_english,
    stem,
    words,
    words_to_find,
)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("How many farms are members?", "number"),
        ("How long did the dye take?", "number"),
        ("What is the length of the bridge?", "number"),
        ("What share of voters turned out?", "number"),
        ("How much did the viaduct cost to build?", "money"),
        ("What did the operation cost?", "money"),
        ("How much rain fell?", "number"),
        ("When was the viaduct opened?", "date"),
        ("In what year was the paper founded?", "date"),
        ("Who is the mayor?", "person"),
        ("With whom did she speak?", "person"),
        ("Which surveyor made the plan?", "person"),
        ("What is the name of the doctor?", "person"),
        ("Which company built it?", "name"),
        ("What was the verdict?", ""),
        ("Why did the viaduct fall?", ""),
        ("Wie viele Höfe sind Mitglied?", ""),
    ],
)
def test_the_kind_of_answer_is_read_from_the_question(question: str, kind: str) -> None:
    assert kind_of_answer(question) == kind


@pytest.mark.parametrize(
    ("question", "text", "holds"),
    [
        ("How many farms are members?", "The Co-operative is 212 farms.", True),
        ("How many farms are members?", "The farms had a bad year.", False),
        ("How many men worked on 3 May 1931?", "On 3 May 1931 the men worked.", False),
        ("How much did it cost?", "It has 212 members.", False),
        ("How much did it cost?", "It was 212 crowns.", True),
        ("When did the keeper retire?", "The keeper retired with a clock.", False),
        ("When did the keeper retire?", "He retired in March 2032.", True),
        ("When did the keeper retire?", "He retired on 31 March.", True),
        ("Who became keeper after Pieter Hask?", "The keeper is Mr. Pieter Hask.", False),
        ("Who became keeper after Pieter Hask?", "Then Jonas Reed kept the dam.", True),
        ("Who was the duty engineer?", "The duty engineer followed the level by telephone.", False),
        ("Why did it fall?", "Nobody knows.", True),
    ],
)
def test_a_text_holds_the_kind_only_beyond_the_question(question: str, text: str, holds: bool) -> None:
    assert holds_kind(kind_of_answer(question), question, text) is holds


def test_questions_that_ask_for_an_account() -> None:
    assert asks_for_an_account("Why did pier 3 fail, and who knew of the mine?")
    assert asks_for_an_account("How did the loss of the railway affect the town?")
    assert not asks_for_an_account("How many farms are members?")
    assert not asks_for_an_account("Who is the mayor?")


def test_a_place_is_no_person() -> None:
    question, text = "Who was the duty engineer?", "The duty engineer at Ostrey followed the level."
    assert holds_kind("person", question, text)
    assert not holds_kind("person", question, text, {"OSTREY"})
    assert holds_kind("name", question, text, {"OSTREY"})


@pytest.mark.parametrize(
    ("one", "other"),
    [("mines", "mine"), ("opened", "opening"), ("studies", "study"), ("running", "runs"), ("quarry", "quarries")],
)
def test_forms_of_one_word_are_equal(one: str, other: str) -> None:
    assert stem(one) == stem(other)


def test_words_keep_decimals_and_pair_unspaced_scripts() -> None:
    assert words("Rain of 161.4 mm at O'Neill's.") == ["rain", "of", "161.4", "mm", "at", "o", "neill"]
    assert words("Sérendal, Ångström") == ["serendal", "angstrom"]
    assert words("東京駅 opened") == ["東京", "京駅", "opened"]
    assert content_words("Who was the keeper of the dam?") == ["keeper", "dam"]
    assert words_to_find("In what year was the dam built?") == ["dam", "built"]


@pytest.mark.parametrize(
    ("question", "english"),
    [
        ("Who was the keeper?", True),
        ("Wer war der Wärter des Damms?", False),
        ("Qui était le gardien du barrage ?", False),
        ("大坝的看守人是谁？", False),
        ("Кто был смотрителем плотины?", False),
        ("Ellerin Dam keeper", True),
    ],
)
def test_questions_in_other_languages_are_told_apart(question: str, english: bool) -> None:
    assert may_be_english(question) is english


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_can_be_asked_and_read(question: str, text: str) -> None:
    holds_kind(kind_of_answer(question), question, text)
    may_be_english(question)
    assert all(stem(word) for word in words(text))
