"""The terms of a text, by which texts are found and compared, in any script."""

from __future__ import annotations

import re
import unicodedata

#: Scripts that write no blanks between words: Thai and its neighbours, Japanese, Chinese.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(r"[^\W_]+")
_RUN = re.compile(f"[{_UNSPACED}]")
_TOKEN = re.compile(f"(?P<unspaced>[{_UNSPACED}]+)|(?:(?![{_UNSPACED}])[^\\W_])+")


def terms(text: str) -> list[str]:
    """Words in lower case; runs of scripts that write no blanks give their pairs of neighbouring characters."""
    text = text.casefold()
    if text.isascii() or not _RUN.search(text):
        return _WORD.findall(text)
    found: list[str] = []
    for match in _TOKEN.finditer(text):
        word = match.group()
        if match.lastgroup == "unspaced" and len(word) > 1:
            found.extend(word[i : i + 2] for i in range(len(word) - 1))
        else:
            found.append(word)
    return found


def plain(term: str) -> str:
    """A term without accents, by which it is looked up."""
    if term.isascii():
        return term
    return "".join(c for c in unicodedata.normalize("NFD", term) if not unicodedata.combining(c))
