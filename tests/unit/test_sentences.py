"""Sentence spans: coverage of the text, borders in many scripts, linear cost."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphrag_assets.text.sentences import sentences


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


def check_spans(text: str) -> None:
    spans = sentences(text)
    previous = 0
    for start, end in spans:
        assert previous <= start < end <= len(text)
        assert not text[previous:start].strip(), "a visible character lies between two sentences"
        assert not text[start].isspace()
        assert not text[end - 1].isspace()
        previous = end
    assert not text[previous:].strip()


_PIECES = st.sampled_from(
    [
        *'!?.…。」”")\n\t «»।؟።',
        "\n\n",
        "\r\n",
        "\u2028",
        "\x1c",
        "\u200b",
        "...",
        "Mr. ",
        "No. 5",
        "J. R. ",
        "e.g. ",
        "3.14",
        "[3]",
        "word",
        "The",
        "東京",
        "と",
        "# Head",
        "- item",
        "1. ",
        "====",
        "| a |",
        "> q",
        "ไทย ",
        "😀",
    ]
)


@given(st.one_of(st.text(), st.lists(_PIECES, max_size=40).map("".join)))
@settings(max_examples=400, deadline=None)
def test_spans_are_ordered_and_cover_every_visible_character(text: str) -> None:
    check_spans(text)


@given(st.lists(_PIECES, max_size=20).map("".join), st.lists(_PIECES, max_size=20).map("".join))
@settings(max_examples=200, deadline=None)
@example("", "Mr. e.g. ")
def test_paragraphs_are_split_apart_from_each_other(first: str, second: str) -> None:
    assert split(f"{first}\n\n{second}") == split(first) + split(second)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Smith met Dr. Jones. They left.", ["Mr. Smith met Dr. Jones.", "They left."]),
        ("See J. R. R. Tolkien. He wrote.", ["See J. R. R. Tolkien.", "He wrote."]),
        ("It weighs 3.5 kg. Version 2.0.1 is out.", ["It weighs 3.5 kg.", "Version 2.0.1 is out."]),
        ("See No. 5, e.g. Paris. No. I will not.", ["See No. 5, e.g. Paris.", "No.", "I will not."]),
        ("Acme Inc. The firm grew. Acme Inc. Ltd won.", ["Acme Inc.", "The firm grew.", "Acme Inc. Ltd won."]),
        (
            "The U.S. Army came. He lives in the U.S. He works.",
            ["The U.S. Army came.", "He lives in the U.S.", "He works."],
        ),
        ("He left... Then what? Well… maybe.", ["He left...", "Then what?", "Well… maybe."]),
        ('"Really?" he said. "Yes." She went.', ['"Really?" he said.', '"Yes."', "She went."]),
        ("(See below.) The end.[12] Next.", ["(See below.)", "The end.[12]", "Next."]),
        ("**Bold.** Then text.", ["**Bold.**", "Then text."]),
        ("visit https://a.example/x?y=1.2!z now. Bye.", ["visit https://a.example/x?y=1.2!z now.", "Bye."]),
        ("hello there. how are you? fine", ["hello there.", "how are you?", "fine"]),
        ("1. First point. More of it.", ["1. First point.", "More of it."]),
        ("In 1990. The year.", ["In 1990.", "The year."]),
        ("« Bonjour ! » Il part.", ["« Bonjour ! »", "Il part."]),
        ("»Ja.« Er kam am 5. Mai an. Gut.", ["»Ja.«", "Er kam am 5. Mai an.", "Gut."]),
        ("А. С. Пушкин родился в Москве. Он писал.", ["А. С. Пушкин родился в Москве.", "Он писал."]),
        ("彼は「行く。」と言った。本当？はい！", ["彼は「行く。」と言った。", "本当？", "はい！"]),
        ("他说：“好。”我走了。你好!再见", ["他说：“好。”", "我走了。", "你好!", "再见"]),
        ("यह एक वाक्य है। दूसरा वाक्य॥", ["यह एक वाक्य है।", "दूसरा वाक्य॥"]),
        ("هل هذا سؤال؟ نعم. جيد!", ["هل هذا سؤال؟", "نعم.", "جيد!"]),
        ("یہ ایک جملہ ہے۔ دوسرا جملہ۔", ["یہ ایک جملہ ہے۔", "دوسرا جملہ۔"]),
        ("አበበ መጣ። ከበደ ሄደ።", ["አበበ መጣ።", "ከበደ ሄደ።"]),
        ("ประเทศไทยตั้งอยู่ในเอเชียตะวันออก มีเมืองหลวงคือกรุงเทพ", ["ประเทศไทยตั้งอยู่ในเอเชียตะวันออก", "มีเมืองหลวงคือกรุงเทพ"]),
        ("한국어 문장입니다. 다음 문장입니다.", ["한국어 문장입니다.", "다음 문장입니다."]),
        ("", []),
        (" \n\t ", []),
        ("no stop at all", ["no stop at all"]),
    ],
)
def test_sentence_ends(text: str, expected: list[str]) -> None:
    assert split(text) == expected


def test_lines_that_end_sentences() -> None:
    text = (
        "# A heading\nThe text of a paragraph that was wrapped at a fixed width goes\n"
        "on in the next line. Second sentence\n"
        "- item one\n- item two\n| a | b |\n| 1 | 2 |\n\nUnder\n=====\nBody"
    )
    assert split(text) == [
        "# A heading",
        "The text of a paragraph that was wrapped at a fixed width goes\non in the next line.",
        "Second sentence",
        "- item one",
        "- item two",
        "| a | b |",
        "| 1 | 2 |",
        "Under\n=====",
        "Body",
    ]


def test_word_wrap_is_no_border_but_a_short_line_is() -> None:
    wrapped = (
        "It was the best of times, it was the worst of times, it was the age of\nWisdom, it was the age of foolishness."
    )
    assert split(wrapped) == [wrapped]
    address = "Margaret Hale\nNorthern Works Limited, Department of Engineering and of Design"
    assert split(address) == address.split("\n")


def test_long_sentence_stays_whole() -> None:
    text = "word " * 5000
    assert split(text) == [text.strip()]


def test_an_edit_changes_only_the_sentences_next_to_it() -> None:
    before = "First sentence here. Second one follows. Third is last. Mr. X came."
    after = before.replace("First sentence here.", "Something quite different. And more.")
    assert split(after)[2:] == split(before)[1:]


@pytest.mark.parametrize(
    "text",
    [
        "word " * 400_000,
        "A. " * 600_000,
        "." * 2_000_000,
        ". " + " " * 2_000_000 + ".",
        '."' * 1_000_000,
        "- - -" + " " * 1_000_000 + "x\n" + "- - -" + " " * 1_000_000 + "x",
        "\n" * 2_000_000,
        "東" * 2_000_000,
        "ไทย" * 600_000,
        "x" * 2_000_000,
        "a. b? " * 300_000,
    ],
)
def test_cost_grows_linearly(text: str) -> None:
    begun = time.process_time()
    check_spans(text)
    assert time.process_time() - begun < 20
