"""Names, titles, quotes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.text.names import canonical_title, clean_name, clean_text, is_named_in, strip_quotes


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("Scrooge", "SCROOGE"),
        ("  Bob\n Cratchit\t", "BOB CRATCHIT"),
        ('"Scrooge"', "SCROOGE"),
        ("“武松”", "武松"),
        ("«Мир»", "МИР"),
        ('""CAROLINE (WIFE)"', "CAROLINE (WIFE)"),
        ("&quot;AT&amp;amp;T&quot;", "AT&T"),
        ("Smith&ltd", "SMITH&LTD"),  # no entity without its semicolon
        ("ＡＢＣ　Ｃｏ", "ABC CO"),
        ("Cafe\u0301", "CAFÉ"),
        ("zero\u200bwidth and soft\u00adhyphen", "ZEROWIDTH AND SOFTHYPHEN"),
        ("\u202eright to left\u202c", "RIGHT TO LEFT"),
        ("Project Gutenberg™", "PROJECT GUTENBERG™"),  # NFKC would make it GUTENBERGTM
        ("boarding\u2011school", "BOARDING\u2011SCHOOL"),
        ("ﬁnance", "FINANCE"),
        ("straße", "STRASSE"),
        ("'Tis", "'TIS"),
        ("the Cratchits'", "THE CRATCHITS'"),
        ('"Yes" and "No"', '"YES" AND "NO"'),
        ("null\x00byte", "NULLBYTE"),
        ("lone \ud800 surrogate", "LONE SURROGATE"),
        ('"', ""),
        ("", ""),
        (" \u200b ", ""),
    ],
)
def test_canonical_title(name: str, title: str) -> None:
    assert canonical_title(name) == title


def test_a_name_keeps_its_case_and_its_letters() -> None:
    assert clean_name(' "Ebenezer  Scrooge" ') == "Ebenezer Scrooge"


def test_clean_text_never_glues_words() -> None:
    assert clean_text("one\ntwo\tthree\x07") == "one two three"


def test_quotes_inside_stay() -> None:
    assert strip_quotes('He said "no"') == 'He said "no"'


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("EBENEZER SCROOGE", "Scrooge signed it. Ebenezer had to.", True),
        ("SAM RIVERA", "Scrooge signed it.", False),
        ("武松", "一天武松喝酒", True),
        ("ANN", "Annual report", False),
        ("", "text", False),
    ],
)
def test_is_named_in(name: str, text: str, named: bool) -> None:
    assert is_named_in(name, text) is named


@given(st.text())
def test_a_title_is_a_fixed_point_and_can_be_stored(name: str) -> None:
    title = canonical_title(name)
    assert canonical_title(title) == title
    assert title == " ".join(title.split())
    title.encode("utf-8")


@given(
    st.text(alphabet=st.characters(categories=["Lu", "Ll", "Nd"]), min_size=1),
    st.sampled_from(['"', "“", "'", "«", " "]),
)
def test_form_does_not_matter(name: str, wrap: str) -> None:
    close = {"“": "”", "«": "»"}.get(wrap, wrap)
    assert canonical_title(f"{wrap}{name}{close}") == canonical_title(name) == canonical_title(name.upper())
