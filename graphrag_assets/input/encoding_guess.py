"""Which encoding a text without a BOM is written in, where it is not UTF-8.

Every candidate decodes a sample, and what comes out is judged as text: letters that the language uses, in the right
case and beside letters of their own script, quotes and dashes where quotes and dashes stand, common characters of
Chinese, Japanese and Korean. Wrong decodings give symbols and capitals inside words, foreign letters, rare characters.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from graphrag_assets.input.language import likeliest_language, script
from graphrag_assets.input.language_profiles import (
    COMMON_LATIN,
    FREQUENT_HAN,
    FREQUENT_HANGUL,
    FREQUENT_LETTERS,
    SPECIAL_LETTERS,
)

#: Encodings that are tried; of those that read a sample equally, the first is taken.
CANDIDATES: tuple[str, ...] = (
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp874",
    "iso8859-15", "iso8859-2", "iso8859-5", "iso8859-6", "iso8859-7", "iso8859-8", "iso8859-9", "iso8859-13",
    "iso8859-16", "koi8-u", "koi8-r", "cp866", "cp1125", "cp852", "cp850", "cp437", "mac-roman", "mac-cyrillic",
    "mac-latin2", "cp932", "euc_jp", "cp949", "big5", "gb18030", "utf-16-le", "utf-16-be",
)  # fmt: skip

#: Bytes of the sample, and bytes outside ASCII after which it is long enough.
_SAMPLE_BYTES = 65_536
_SAMPLE_HIGH_BYTES = 6_000
#: Bytes that never are the second byte of a character in any candidate but UTF-16.
_SAFE_ENDS = b"\n\r\t "

#: What a longer text loses when it has no stop words of any language of its script.
_UNKNOWN_LANGUAGE = 0.25
_LONG_ENOUGH_FOR_LANGUAGE = 250

_QUOTES_AND_DASHES = frozenset("‘’“”„‚«»‹›–—…")
_HARMLESS_SIGNS = frozenset("\u00a0§°©®™€£¥•·¿¡º²³½¼№\u00ad\u200e\u200f\u200c\u200d؟،؛״׳־₪¤¢")
_CJK_SIGNS = range(0x3000, 0x3030), range(0xFF00, 0xFF5F)


@dataclass(frozen=True)
class Guess:
    """A candidate and how its decoding of the sample reads.

    Args:
        encoding: Python name of the encoding.
        score: At most 1; from about 0.5 it reads as text, below 0.3 it hardly does.
        text: The decoded sample.
    """

    encoding: str
    score: float
    text: str


def guess_encodings(data: bytes) -> list[Guess]:
    """Candidates that can decode a sample of the data, the best first, one of those that read it equally.

    Args:
        data: Bytes outside ASCII are expected in it.
    """
    sample, from_start = _sample(data), data[: _SAMPLE_BYTES // 4 * 2]
    guesses: list[Guess] = []
    seen: set[str] = set()
    for encoding in CANDIDATES:
        text = _decode_part(from_start if encoding.startswith("utf-16") else sample, encoding)
        if text is None or text in seen:
            continue
        seen.add(text)
        guesses.append(Guess(encoding, plausibility(text), text))
    return sorted(guesses, key=lambda guess: -guess.score)


def plausibility(text: str) -> float:
    """How much a decoded text reads like one, judged by its characters outside ASCII.

    Args:
        text: Decoded text, some thousand characters.

    Returns:
        Mean over these characters, at most 1; 0 when there are none.
    """
    judge = _Judge(text)
    # Equal characters in equal company are judged once.
    padded = f" {text} "
    triples = Counter(
        (padded[i - 1], padded[i], padded[i + 1]) for i in range(1, len(padded) - 1) if padded[i] > "\x7f"
    )
    total = sum(triples.values())
    return sum(count * judge(*triple) for triple, count in triples.items()) / total if total else 0.0


def guess_utf16(data: bytes) -> Guess | None:
    """The better of the two byte orders of UTF-16 without a BOM, if the data can be decoded so at all."""
    head = data[: _SAMPLE_BYTES // 4 * 2]
    read = [(encoding, _decode_part(head, encoding)) for encoding in ("utf-16-le", "utf-16-be")]
    guesses = [Guess(encoding, plausibility(text), text) for encoding, text in read if text]
    return max(guesses, key=lambda guess: guess.score, default=None)


def advantage(guess: Guess, other: Guess) -> float:
    """How much better one reading is than another where they differ.

    Args:
        guess: One reading of a sample.
        other: Another reading of the same sample.

    Returns:
        Mean difference of the judgements over the characters that differ, where the two can be aligned (encodings with
        one byte a character); else the difference of the scores.
    """
    if len(guess.text) != len(other.text):
        return guess.score - other.score
    first, second = f" {guess.text} ", f" {other.text} "
    judge_first, judge_second = _Judge(guess.text), _Judge(other.text)
    differences = [
        judge_first(*first[i - 1 : i + 2]) - judge_second(*second[i - 1 : i + 2])
        for i in range(1, len(first) - 1)
        if first[i] != second[i]
    ]
    return sum(differences) / len(differences) if differences else 0.0


class _Judge:
    """Judges how well a character outside ASCII stands where it stands, from -3 to 1."""

    def __init__(self, text: str) -> None:
        language = likeliest_language(text)
        self.special = SPECIAL_LETTERS.get(language, frozenset())
        self.base = -_UNKNOWN_LANGUAGE if language == "" and len(text) >= _LONG_ENOUGH_FOR_LANGUAGE else 0.0
        # No language writes most of its Latin letters with marks, but wrong decodings of other scripts look like that.
        ascii_letters = sum(letter.isalpha() for letter in text if letter <= "\x7f")
        marked = sum("\x7f" < letter < "\u0250" and letter.isalpha() for letter in text)
        self.too_many_marked = marked > 0.5 * (marked + ascii_letters)

    def __call__(self, before: str, character: str, after: str) -> float:
        return self.base + self._judge(before, character, after)

    def _judge(self, before: str, character: str, after: str) -> float:
        if character <= "\x7f":
            return 0.0
        category = unicodedata.category(character)
        if category in ("Cc", "Cn", "Co", "Cs"):
            return -3.0
        if category.startswith("L"):
            return self._letter(before, character)
        if category.startswith("M"):
            same = script(before) == script(character) or (script(character) == "" and before.isalpha())
            return 0.5 if same else -1.0
        if any(ord(character) in signs for signs in _CJK_SIGNS):
            return 0.6
        return _judge_sign(before, character, after)

    def _letter(self, before: str, character: str) -> float:
        name = script(character)
        letter = character.lower()
        value = self._latin(before, letter) if name == "latin" else _frequency(name, letter)
        if before.isalpha():
            if character.isupper():
                value -= 0.8 if before.islower() else 0.15
            other = script(before)
            if other != name and not {other, name} <= {"han", "hiragana", "katakana", "hangul"}:
                value -= 1.0 if "latin" not in (other, name) or name in ("cyrillic", "greek") else 0.5
        return value

    def _latin(self, before: str, letter: str) -> float:
        if self.too_many_marked:
            return -0.5
        if letter in self.special:
            return 1.0
        value = 0.5 if letter in COMMON_LATIN else -0.5
        return value - 0.4 if "\x7f" < before < "\u0250" and before.isalpha() else value


@lru_cache(maxsize=8192)
def _frequency(name: str, letter: str) -> float:
    """How common a letter is in its script, from -0.6 to 1."""
    if name == "han":
        common = letter in FREQUENT_HAN
        return 1.0 if common else -0.2 if "\u4e00" <= letter <= "\u9fff" else -0.8
    if name == "hangul":
        return 1.0 if letter in FREQUENT_HANGUL else -0.2 if letter >= "\uac00" else -0.8
    if name == "katakana":
        return -0.6 if letter >= "\uff66" else 0.7
    frequent = FREQUENT_LETTERS.get(name)
    if frequent is None:
        return -0.6
    place = frequent.find(letter)
    if place < 0:
        plain = unicodedata.normalize("NFD", letter)[0]
        place = frequent.find(plain)
        return -0.6 if place < 0 or plain == letter else 0.0
    return 1.0 - 1.3 * place / len(frequent)


def _judge_sign(before: str, character: str, after: str) -> float:
    inside = before.isalpha() and after.isalpha()
    if character in _QUOTES_AND_DASHES:
        return 1.0 if not inside or character in "’–—…" else -0.8
    if inside:
        return -1.5
    if character in _HARMLESS_SIGNS:
        return 0.6
    return -0.8 if before.isalpha() or after.isalpha() else -0.2


def _sample(data: bytes) -> bytes:
    """The lines with bytes outside ASCII, until there are enough of them."""
    parts: list[bytes] = []
    length = high = position = 0
    while position < len(data) and length < _SAMPLE_BYTES and high < _SAMPLE_HIGH_BYTES:
        position = _next_high(data, position)
        if position < 0:
            break
        begin = max(data.rfind(b"\n", 0, position), data.rfind(b"\r", 0, position)) + 1
        # A long line: begin at a blank near the byte rather than at its beginning.
        if position - begin > 512:
            begin = 1 + max(data.rfind(bytes([end]), begin, position) for end in _SAFE_ENDS)
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end + 1
        end = min(end, begin + _SAMPLE_BYTES - length, begin + 2 * _SAMPLE_HIGH_BYTES)
        part = data[begin:end]
        parts.append(part)
        length += len(part)
        high += len(part) - len(part.translate(None, _HIGH))
        position = max(end, position + 1)
    return b"".join(parts)


_HIGH = bytes(range(128, 256))


def _next_high(data: bytes, position: int) -> int:
    """Index of the next byte outside ASCII; -1 if there is none."""
    block = 4_096
    while position < len(data):
        part = data[position : position + block]
        if not part.isascii():
            return position + next(i for i, byte in enumerate(part) if byte > 127)
        position += block
        block = min(block * 2, 1_048_576)
    return -1


def _decode_part(sample: bytes, encoding: str) -> str | None:
    """A sample decoded strictly, but for a character cut at its end; None where the encoding cannot."""
    try:
        return codecs.getincrementaldecoder(encoding)("strict").decode(sample, final=False)
    except UnicodeDecodeError:
        return None
