"""Names and free text of models and documents, brought to one form.

A title is the identity of an entity: two spellings that differ only in case, white space, Unicode form, invisible
characters or wrapping quotes must give one title. Spellings that differ in more (punctuation, honorifics, typing
errors) are the business of entity resolution, which leaves evidence for every merge.
"""

from __future__ import annotations

import html
import re
import unicodedata

#: Wrapping quotes, as opening -> closing.
_QUOTES = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": "”",
    "”": "”",
    "„": "“",
    "‘": "’",
    "«": "»",
    "»": "«",
    "「": "」",
    "『": "』",
    "《": "》",
    "〈": "〉",
    "＂": "＂",
}
#: Quotes that never belong to a name when they stand alone at one of its ends; a single ' or ’ may be an apostrophe.
_STRAY = '"“”„«»`＂'
#: What a text begins or ends with of which something may have to be stripped.
_QUOTE_SIGNS = frozenset({*_QUOTES, *_QUOTES.values(), *_STRAY, *"'’‘"})
_STRAY_INSIDE = re.compile(f"[{_STRAY}]")

#: Compatibility forms that are only another way to write the same letters. The others (™, ², ½, ①, №-like signs, the
#: non-breaking hyphen) carry meaning or change into look-alikes, so plain NFKC would damage names: GUTENBERG™ ->
#: GUTENBERGTM.
_SAME_LETTERS = frozenset({"<wide>", "<narrow>", "<font>", "<initial>", "<medial>", "<final>", "<isolated>"})
_LIGATURES = re.compile(r"[\ufb00-\ufb06\ufb13-\ufb17\u0132\u0133\u01c4-\u01cc\u01f1-\u01f3]")

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
#: Words that stay small inside a title.
_SMALL_WORDS = frozenset(
    {
        "of", "the", "and", "in", "on", "for", "to", "a", "an", "at", "by",
        "de", "la", "le", "von", "van", "der", "den",
    }
)  # fmt: skip

_MAX_NESTING = 8


def clean_text(text: str) -> str:
    """One line of plain text: HTML entities decoded, control characters dropped, white space collapsed.

    Newlines and tabs become spaces, so that words never grow together. Lone surrogates, which no UTF-8 file can hold,
    are dropped as well.

    Args:
        text: Any text.
    """
    if "&" in text:
        text = _decode_entities(text)
    if not (text.isascii() and text.isprintable()):
        text = unicodedata.normalize(
            "NFC", "".join(c for c in text if c.isspace() or unicodedata.category(c) not in {"Cc", "Cs"})
        )
    return " ".join(text.split())


def strip_quotes(text: str) -> str:
    """Drop quotes that wrap the whole text, and a stray double quote at one end.

    Quotes inside stay: ``"A" and "B"`` begins and ends with a quote, but is not wrapped.
    """
    text = text.strip()
    if not text or (text[0] not in _QUOTE_SIGNS and text[-1] not in _QUOTE_SIGNS):
        return text
    while len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
        inner = text[1:-1]
        if text[0] in inner or text[-1] in inner:
            break
        text = inner.strip()
    if not text.strip(_STRAY + "'’‘ "):
        return ""
    # A run of stray quotes at one end only: ""CAROLINE" or SCROOGE"
    head, tail = len(text) - len(text.lstrip(_STRAY)), len(text) - len(text.rstrip(_STRAY))
    if head != tail and not _STRAY_INSIDE.search(text[head : len(text) - tail]):
        text = text[head : len(text) - tail]
    return text.strip()


def clean_name(name: str) -> str:
    """A name as written, without what is no part of it: quotes around it, invisible characters, broken lines.

    Args:
        name: Name as a model, a document or a person wrote it.

    Returns:
        The name in its own case; empty when nothing is left.
    """
    for _ in range(
        _MAX_NESTING
    ):  # unescaping can bring up quotes, quotes can hide blanks: repeat until nothing changes
        cleaned = strip_quotes(clean_text(_visible(name)))
        if cleaned == name:
            break
        name = cleaned
    return name


def canonical_title(name: str) -> str:
    """The title that stands for a name: equal for all spellings that differ only in form.

    Unicode composed and full-width, Arabic presentation and ligature forms resolved, invisible characters removed, HTML
    entities decoded, wrapping quotes stripped, white space collapsed, upper-cased.

    Args:
        name: Name as written.

    Returns:
        The title; empty when nothing is left. Applying the function again changes nothing.
    """
    title = clean_name(name)
    for _ in range(_MAX_NESTING):
        upper = clean_name(title.upper())
        if upper == title:
            break
        title = upper
    return title


def readable(title: str) -> str:
    """A title in upper case as one would write it, where no text shows how it is written."""
    if title != title.upper():
        return title
    words = title.lower().split()
    return " ".join(word if i and word in _SMALL_WORDS else word[:1].upper() + word[1:] for i, word in enumerate(words))


def is_named_in(name: str, text: str) -> bool:
    """Whether a text names something: the name as it is, or every word of it somewhere in the text.

    Args:
        name: Name or title.
        text: Text that may name it, in any case.
    """
    haystack = canonical_title(text)
    title = canonical_title(name)
    if not title:
        return False
    words = re.findall(r"\w+", title)
    if not words:
        return title in haystack
    if title.isascii():
        present = set(re.findall(r"\w+", haystack))
        return all(word in present for word in words)
    return all(word in haystack for word in words)


def _decode_entities(text: str) -> str:
    for _ in range(_MAX_NESTING):
        decoded = _ENTITY.sub(lambda match: html.unescape(match.group()), text)
        if decoded == text:
            break
        text = decoded
    return text


def _visible(text: str) -> str:
    """Resolve other forms of the same letters; drop format characters (zero width, soft hyphen, bidirectional)."""
    if text.isascii() and text.isprintable():
        return text
    text = _LIGATURES.sub(lambda match: unicodedata.normalize("NFKC", match.group()), text)
    return "".join(
        unicodedata.normalize("NFKC", c) if unicodedata.decomposition(c).partition(" ")[0] in _SAME_LETTERS else c
        for c in text
        if unicodedata.category(c) != "Cf"
    )
