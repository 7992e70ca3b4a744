"""Patterns that look at the first character first find what the patterns alone find."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.indexing import assertions, tuples
from graphrag_assets.text import refusals
from graphrag_assets.text.patterns import beginning_with

PATTERNS = {
    "end mark": tuples._END_MARK,
    "record start": tuples._RECORD_START,
    "clock": assertions._CLOCK,
    "number": assertions._NUMBER,
    "negation": assertions._NEGATION,
    "cause": assertions._CAUSE,
    "refusal": refusals._REFUSAL,
}


def alone(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """The pattern without the look at the first character."""
    first, separator, rest = pattern.pattern.partition("])(?:")
    assert separator
    assert first.startswith("(?=[")
    assert rest.endswith(")")
    return re.compile(rest[:-1], pattern.flags)


def found(pattern: re.Pattern[str], text: str) -> list[tuple[object, ...]]:
    return [(match.span(), match.groups()) for match in pattern.finditer(text)]


@pytest.mark.parametrize("name", PATTERNS)
@given(st.data())
def test_it_finds_the_same(name: str, data: st.DataObject) -> None:
    pattern = PATTERNS[name]
    plain = alone(pattern)
    drawn = st.from_regex(plain) | st.text("n'’tN0İıſKE<(\"", max_size=5)
    text = " ".join(data.draw(st.lists(drawn, min_size=1, max_size=3)))
    assert found(pattern, text) == found(plain, text)


def test_it_matches_in_any_case_where_the_pattern_does() -> None:
    pattern = re.compile(beginning_with("ks", r"kind|size"), re.IGNORECASE)
    assert pattern.findall("KIND \u212aind ſize Size") == ["KIND", "\u212aind", "ſize", "Size"]
