"""Chunkers: exact spans, full cover, sizes, and an edit that stays local."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphrag_assets.indexing.chunking import Chunk, ChunkerType, chunk, prepend
from graphrag_assets.llm.tokens import tokenizer

TYPES: tuple[ChunkerType, ...] = ("tokens", "sentence", "stable")
WORDS = [
    f"{a}{b}" for a in ("ka", "lo", "mi", "ru", "te", "vo", "san", "der") for b in ("n", "ra", "tis", "mo", "les", "du")
]


class Letters:
    """A tokenizer with one token a character."""

    def count(self, text: str) -> int:
        return len(text)

    def starts(self, text: str) -> Any:
        return np.arange(len(text) + 1, dtype=np.int32)

    def truncate(self, text: str, max_tokens: int) -> str:
        return text[:max_tokens]


def prose(sentences: int, seed: int) -> str:
    """Sentences of random words in paragraphs."""
    rng = random.Random(seed)
    parts = []
    for i in range(sentences):
        words = [rng.choice(WORDS) for _ in range(rng.randint(4, 18))]
        parts.append(" ".join(words).capitalize() + ("." if rng.random() < 0.8 else "?"))
        parts.append("\n\n" if rng.random() < 0.15 else " " if i < sentences - 1 else "")
    return "".join(parts)


def check(text: str, chunks: list[Chunk]) -> None:
    """What holds for every chunker."""
    covered = 0
    for piece in chunks:
        assert piece.text == text[piece.start : piece.end]
        assert piece.text.strip()
        assert not text[covered : piece.start].strip(), "text between chunks is lost"
        covered = max(covered, piece.end)
    assert not text[covered:].strip(), "the end is lost"
    assert [p.start for p in chunks] == sorted(p.start for p in chunks)
    assert [p.end for p in chunks] == sorted({p.end for p in chunks})


def test_windows_of_the_reference() -> None:
    """Size 10 and overlap 5 with one token a character."""
    text = "abcdefghijklmnopqrstuvwxy"
    got = [c.text for c in chunk(text, Letters(), size=10, overlap=5)]
    assert got == ["abcdefghij", "fghijklmno", "klmnopqrst", "pqrstuvwxy"]


def test_no_window_that_only_repeats_overlap() -> None:
    assert [c.text for c in chunk("abcdefghij", Letters(), size=10, overlap=5)] == ["abcdefghij"]
    assert [c.text for c in chunk("abcdefghijk", Letters(), size=10, overlap=5)] == ["abcdefghij", "fghijk"]


def test_recorded_run(shared: Path) -> None:
    """42 of 42 text units of a recorded Microsoft GraphRAG run."""
    folder = shared / "data" / "carol-recorded-run" / "expected"
    text = pq.read_table(folder / "documents.parquet")["text"][0].as_py()
    expected = pq.read_table(folder / "text_units.parquet")
    chunks = chunk(text, tokenizer("cl100k_base"), size=1200, overlap=100)
    assert [c.text for c in chunks] == expected["text"].to_pylist()
    assert [c.n_tokens for c in chunks] == expected["n_tokens"].to_pylist()
    check(text, chunks)


@pytest.mark.parametrize("type_", TYPES)
def test_blank_text_has_no_chunks(type_: ChunkerType) -> None:
    assert chunk("", tokenizer("o200k_base"), type=type_) == []
    assert chunk(" \n\t ", tokenizer("o200k_base"), type=type_) == []


@pytest.mark.parametrize("type_", TYPES)
def test_one_word(type_: ChunkerType) -> None:
    assert [c.text.strip() for c in chunk("Alice\n", tokenizer("o200k_base"), type=type_)] == ["Alice"]


@pytest.mark.parametrize("type_", TYPES)
@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=400), size=st.integers(1, 40), data=st.data())
def test_any_text(type_: ChunkerType, text: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    counter = tokenizer("cl100k_base")
    chunks = chunk(text, counter, type=type_, size=size, overlap=overlap)
    check(text, chunks)
    assert all(c.n_tokens == counter.count(c.text) for c in chunks)


@pytest.mark.parametrize("type_", TYPES)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(30, 200), data=st.data())
def test_sizes_of_prose(type_: ChunkerType, seed: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size // 3))
    text = prose(120, seed)
    chunks = chunk(text, tokenizer("o200k_base"), type=type_, size=size, overlap=overlap)
    check(text, chunks)
    # A window that begins inside a word may count a token more when it stands alone.
    assert all(c.n_tokens <= size + (2 if type_ == "tokens" else 0) for c in chunks)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
@example(seed=134168)
def test_sentence_chunks_hold_whole_sentences_and_share_whole_sentences(seed: int) -> None:
    text = prose(80, seed)
    for piece in chunk(text, tokenizer("o200k_base"), type="sentence", size=120, overlap=40):
        assert piece.text[-1] in ".?"
        assert piece.text[0].isupper()
    pieces = chunk(text, tokenizer("o200k_base"), type="sentence", size=120, overlap=40)
    shared_tokens = [tokenizer("o200k_base").count(text[b.start : a.end]) for a, b in itertools.pairwise(pieces)]
    assert all(n <= 40 for n in shared_tokens)
    assert any(n > 0 for n in shared_tokens)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), place=st.floats(0, 1), kind=st.sampled_from(["insert", "delete", "replace", "long"]))
def test_stable_an_edit_changes_only_the_units_around_it(seed: int, place: float, kind: str) -> None:
    text = prose(600, seed)
    at = int(place * len(text))
    new = {
        "insert": text[:at] + " Something new was put here. " + text[at:],
        "delete": text[:at] + text[at + 60 :],
        "replace": text[:at] + "zzz" + text[at + 3 :],
        "long": text[:at] + " " + prose(30, seed + 1) + " " + text[at:],
    }[kind]
    counter = tokenizer("o200k_base")
    before = chunk(text, counter, type="stable", size=150)
    after = chunk(new, counter, type="stable", size=150)
    gone = Counter(c.text for c in before) - Counter(c.text for c in after)
    assert len(before) > 40
    assert sum(gone.values()) <= 8
    # They lie around the edit, not anywhere else.
    changed = [c for c in before if c.text in gone]
    assert all(c.start - 4_500 <= at <= c.end + 4_500 for c in changed)


def test_stable_on_average_two_units_change() -> None:
    counter = tokenizer("o200k_base")
    changed = []
    for seed in range(20):
        text = prose(300, seed)
        at = random.Random(seed).randrange(len(text))
        before = {c.text for c in chunk(text, counter, type="stable", size=150)}
        after = {c.text for c in chunk(text[:at] + " New words. " + text[at:], counter, type="stable", size=150)}
        changed.append(len(after - before))
    assert sum(changed) / len(changed) < 3


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), min_size=st.integers(20, 60))
def test_stable_sizes(seed: int, min_size: int) -> None:
    text = prose(200, seed)
    chunks = chunk(text, tokenizer("o200k_base"), type="stable", size=180, min_size=min_size)
    assert all(c.n_tokens <= 180 for c in chunks)
    # A unit counts a token or two less alone than with the white space after it.
    assert all(c.n_tokens >= min_size - 3 for c in chunks)


def test_stable_repeated_sentences() -> None:
    text = "Same again. " * 3_000
    chunks = chunk(text, tokenizer("o200k_base"), type="stable", size=120)
    check(text, chunks)
    assert len(chunks) < 120


def test_stable_prefers_paragraph_ends() -> None:
    text = "\n\n".join(prose(10, seed).replace("\n\n", " ") for seed in range(30))
    ends = {match.start() for match in re.finditer("\n\n", text)} | {len(text)}
    chunks = chunk(text, tokenizer("o200k_base"), type="stable", size=600, min_size=150)
    assert sum(c.end in ends for c in chunks) / len(chunks) > 0.8


@pytest.mark.parametrize("type_", TYPES)
def test_no_code_point_or_cluster_is_split(type_: ChunkerType, shared: Path) -> None:
    text = (shared / "data/messy-inputs/files/shapes/emoji-bidi-combining.txt").read_text(encoding="utf-8")
    chunks = chunk(text, tokenizer("cl100k_base"), type=type_, size=20, overlap=4)
    check(text, chunks)
    for piece in chunks:
        for border in (piece.start, piece.end):
            if 0 < border < len(text):
                assert text[border] not in "\u200d\ufe0f\u0310\u0311\u0312\u0313\u0314\u0315"
                assert text[border - 1] != "\u200d"


@pytest.mark.parametrize("type_", TYPES)
def test_flags_stay_whole(type_: ChunkerType) -> None:
    text = "🇩🇪🇫🇷🇮🇹🇪🇸" * 40
    for piece in chunk(text, tokenizer("o200k_base"), type=type_, size=15, overlap=3):
        assert piece.start % 2 == 0
        assert piece.end % 2 == 0


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", ["100k-letter-word.txt", "zh-no-spaces.txt", "ten-thousand-short-lines.txt"])
def test_shapes(type_: ChunkerType, name: str, shared: Path) -> None:
    text = (shared / "data/messy-inputs/files/shapes" / name).read_text(encoding="utf-8")
    chunks = chunk(text, tokenizer("o200k_base"), type=type_)
    check(text, chunks)
    assert all(c.n_tokens <= 1202 for c in chunks)
    assert len(chunks) < 4 * tokenizer("o200k_base").count(text) / 1100 + 3


@pytest.mark.parametrize("type_", TYPES)
def test_special_tokens_and_templates(type_: ChunkerType, shared: Path) -> None:
    text = (shared / "data/messy-inputs/files/shapes/prompt-lookalikes.txt").read_text(encoding="utf-8")
    check(text, chunk(text, tokenizer("o200k_base"), type=type_, size=200, overlap=20))


class Counting:
    """The tokenizer, and how much it was given to do: the part of chunking that costs."""

    def __init__(self) -> None:
        self.calls = self.characters = 0

    def _given(self, text: str) -> Any:
        self.calls += 1
        self.characters += len(text)
        return tokenizer("o200k_base")

    def count(self, text: str) -> int:
        return self._given(text).count(text)

    def starts(self, text: str) -> Any:
        return self._given(text).starts(text)

    def truncate(self, text: str, max_tokens: int) -> str:
        return self._given(text).truncate(text, max_tokens)


def tokenizing(text: str, type_: ChunkerType) -> Counting:
    """What chunking a text gives the tokenizer to do."""
    counting = Counting()
    check(text, chunk(text, counting, type=type_))
    return counting


@pytest.mark.parametrize("type_", TYPES)
def test_linear_in_a_line_without_sentences(type_: ChunkerType) -> None:
    line = "the quick brown fox jumps over lazy dogs and "
    small, large = tokenizing(line * 8_000, type_), tokenizing(line * 40_000, type_)
    assert large.calls < 5.5 * small.calls
    assert large.characters < 5.5 * small.characters


@pytest.mark.parametrize("type_", TYPES)
def test_linear_in_a_line_of_20_mb(type_: ChunkerType) -> None:
    """Every character is given to the tokenizer at most a few times, however long the line is."""
    line = prose(2_000, 1).replace("\n", " ")
    text = (line * (20_000_000 // len(line) + 1))[:20_000_000]
    small, large = tokenizing(text[:2_000_000], type_), tokenizing(text, type_)
    assert large.calls < 10.5 * small.calls
    assert large.characters < 10.5 * small.characters
    assert large.characters < 4 * len(text)


def test_prepended_metadata_counts_into_the_size() -> None:
    counter = tokenizer("o200k_base")
    head = prepend({"title": "A Mad Tea-Party", "author": "Lewis Carroll"}, ["title", "author"])
    text = prose(200, 1)
    for type_ in TYPES:
        for piece in chunk(text, counter, type=type_, size=120, overlap=20, reserved=counter.count(head)):
            assert counter.count(head + piece.text) <= 122
        check(text, chunk(text, counter, type=type_, size=120, overlap=20, reserved=counter.count(head)))


def test_reserved_leaves_half() -> None:
    text = prose(60, 1)
    chunks = chunk(text, tokenizer("o200k_base"), size=100, overlap=90, reserved=5_000)
    check(text, chunks)
    assert max(c.n_tokens for c in chunks) >= 49


def test_prepend_format() -> None:
    metadata = {"title": "Alice", "n": 3, "gone": None, "meta": {"chapter": 7}, "text": "no"}
    assert (
        prepend(metadata, ["title", "gone", "meta.chapter", "n", "absent"])
        == "title: Alice.\nmeta.chapter: 7.\nn: 3.\n"
    )
    assert prepend(metadata, ["gone"]) == ""
    assert prepend(metadata, []) == ""


def test_prepend_shortens_what_is_too_long() -> None:
    counter = tokenizer("o200k_base")
    head = prepend({"title": "Alice", "abstract": prose(100, 1)}, ["title", "abstract"], counter, 60)
    assert counter.count(head) <= 60
    assert head.startswith("title: Alice.\nabstract: ")
    assert head.endswith("….\n")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"size": 10, "overlap": 10}, "overlap"),
        ({"size": 0, "overlap": 0}, "size"),
        ({"size": 10, "overlap": 1, "min_size": 11}, "min_size"),
        ({"type": "words"}, "words"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        chunk("some text", tokenizer("o200k_base"), **arguments)


@pytest.mark.slow
def test_200_mb_in_one_line() -> None:
    text = (prose(2_000, 1).replace("\n", " ") * 1_700)[:200_000_000]
    check(text, chunk(text, tokenizer("o200k_base")))


def test_a_chunk_that_would_add_only_a_blank_is_left_out() -> None:
    text = "0:0000<\U00010000\U0001e000 0000"
    check(text, chunk(text, tokenizer("cl100k_base"), type="sentence", size=13, overlap=11))
