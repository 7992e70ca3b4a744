"""Token counting: equal to tiktoken's own, offline, and unharmed by odd texts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets.llm import tokens as module
from graphrag_assets.llm.tokens import Tokenizer, tokenizer

ENCODINGS = ("o200k_base", "cl100k_base")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_special_token_text_is_ordinary_text(encoding: str) -> None:
    text = "before <|endoftext|> and <|im_start|> after"
    counter = tokenizer(encoding)
    assert counter.decode(counter.encode(text)) == text
    assert counter.count("<|endoftext|>") > 1


def test_known_tokens() -> None:
    assert tokenizer("o200k_base").encode("abc def") == [26682, 1056]


def test_unknown_encoding_is_named() -> None:
    with pytest.raises(ValueError, match=r"o199k_base.*o200k_base"):
        Tokenizer("o199k_base")


def test_same_tokenizer_for_the_same_encoding() -> None:
    assert tokenizer("o200k_base") is tokenizer("o200k_base")


def test_environment_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    Tokenizer("p50k_base")
    assert "TIKTOKEN_CACHE_DIR" not in os.environ


def test_litellm_is_not_imported() -> None:
    code = "import sys; from graphrag_assets.llm.tokens import tokenizer; tokenizer('o200k_base').count('a'); "
    code += "assert not any(m.split('.')[0] == 'litellm' for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("segment", [64, 1_000])
def test_segments_change_nothing(encoding: str, segment: int, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut every few characters where it is safe, the tokens are those of the whole text."""
    folder = shared / "data" / "messy-inputs" / "files"
    counter = tokenizer(encoding)
    for name in (
        "en-utf8.txt",
        "zh-hans-utf8.txt",
        "udhr/hi-utf8.txt",
        "vi-utf8-nfd.txt",
        "shapes/prompt-lookalikes.txt",
    ):
        text = (folder / name).read_text(encoding="utf-8")[:9_000]
        whole = counter.encode(text)
        with monkeypatch.context() as patch:
            patch.setattr(module, "SEGMENT", segment)
            patch.setattr(module, "LONGEST_SEGMENT", 9_000)
            parts = [t for part in module._segments(text) for t in counter.encode(part)]
            assert len(list(module._segments(text))) > 5
            assert parts == whole
            assert len(counter.starts(text)) == len(whole) + 1


@pytest.mark.parametrize("encoding", ENCODINGS)
@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=200))
def test_starts_locate_every_token(encoding: str, text: str) -> None:
    counter = tokenizer(encoding)
    starts = counter.starts(text)
    assert len(starts) == counter.count(text) + 1
    assert starts[-1] == len(text)
    assert (np.diff(starts) >= 0).all()
    if len(starts) > 1:
        assert starts[0] == 0
    tokens = counter.encode(text)
    for i in range(len(tokens) + 1):
        # What is before a start is decoded from the tokens before it, but for a character that is cut.
        assert counter.decode(tokens[:i]).rstrip("\ufffd").startswith(text[: int(starts[i])].rstrip("\ufffd"))


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=300), limit=st.integers(0, 60))
def test_truncate_keeps_the_longest_beginning(text: str, limit: int) -> None:
    counter = tokenizer("o200k_base")
    cut = counter.truncate(text, limit)
    assert text.startswith(cut)
    assert counter.count(cut) <= limit
    if counter.count(text) <= limit:
        assert cut == text


def test_truncate_reads_no_more_than_it_needs() -> None:
    text = "word " * 2_000_000
    assert tokenizer("o200k_base").truncate(text, 3) == "word word word"


@pytest.mark.parametrize(
    "text",
    [
        " " * 1_200_000 + "x",
        "x" + "\n" * 1_200_000,
        "qwertzuiop" * 60_000,
        "我们的世界" * 60_000,
        "🙂" * 100_000,
        "\ud83d lone surrogate",
    ],
    ids=["spaces", "newlines", "letters", "chinese", "emoji", "surrogate"],
)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_texts_that_other_callers_fail_on(encoding: str, text: str) -> None:
    counter = tokenizer(encoding)
    n = counter.count(text)
    assert n > 0
    assert len(counter.starts(text)) == n + 1
    assert len(counter.encode(text)) == n
