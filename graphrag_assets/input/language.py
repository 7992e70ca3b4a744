"""Which language a text is written in, by script, stop words and telling letters: a small method without a model."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable

from graphrag_assets.input.language_profiles import STOP_WORDS, TELLING_LETTERS

#: Characters of a text that are looked at: a third each from its beginning, middle and end.
_SAMPLE = 24_000
#: Words below which stop words say too little even for a guess.
_FEWEST_WORDS = 4
#: Words below which a guess takes telling letters without a stop word.
_FEW_WORDS = 15
#: Words below which a share proves little: there, words and letters must speak for one language and for no other.
_SHORT = 30
#: Least evidence for the language of a short text. A stop word that no other language has is 1, a telling letter 0.5.
_LEAST_EVIDENCE = 0.6
#: How many times the evidence for the next language it must be.
_LEAST_LEAD = 2.0
#: Least share of words that are stop words of the language; running text of the languages listed has 0.2 to 0.5.
_LEAST_SHARE = 0.07

_WORD = re.compile(r"[\u0900-\u097f]+|[^\W\d_][^\W\d_\u0300-\u036f]*(?:['’][^\W\d_]+)?")

#: First and last character of the ranges of a script.
_SCRIPTS: tuple[tuple[str, str, str], ...] = (
    ("latin", "A", "\u024f"),
    ("latin", "\u1e00", "\u1eff"),
    ("greek", "\u0370", "\u03ff"),
    ("greek", "\u1f00", "\u1fff"),
    ("cyrillic", "\u0400", "\u052f"),
    ("armenian", "\u0530", "\u058f"),
    ("hebrew", "\u0590", "\u05ff"),
    ("arabic", "\u0600", "\u077f"),
    ("arabic", "\ufb50", "\ufeff"),
    ("devanagari", "\u0900", "\u097f"),
    ("bengali", "\u0980", "\u09ff"),
    ("gurmukhi", "\u0a00", "\u0a7f"),
    ("gujarati", "\u0a80", "\u0aff"),
    ("oriya", "\u0b00", "\u0b7f"),
    ("tamil", "\u0b80", "\u0bff"),
    ("telugu", "\u0c00", "\u0c7f"),
    ("kannada", "\u0c80", "\u0cff"),
    ("malayalam", "\u0d00", "\u0d7f"),
    ("sinhala", "\u0d80", "\u0dff"),
    ("thai", "\u0e00", "\u0e7f"),
    ("lao", "\u0e80", "\u0eff"),
    ("tibetan", "\u0f00", "\u0fff"),
    ("burmese", "\u1000", "\u109f"),
    ("georgian", "\u10a0", "\u10ff"),
    ("hangul", "\u1100", "\u11ff"),
    ("hangul", "\uac00", "\ud7af"),
    ("ethiopic", "\u1200", "\u139f"),
    ("khmer", "\u1780", "\u17ff"),
    ("hiragana", "\u3040", "\u309f"),
    ("katakana", "\u30a0", "\u30ff"),
    ("katakana", "\uff66", "\uff9f"),
    ("han", "\u3400", "\u9fff"),
    ("han", "\uf900", "\ufaff"),
    ("han", "\U00020000", "\U0003ffff"),
)

#: Language of a script that writes one language, or mostly one.
_LANGUAGE_OF_SCRIPT = {
    "greek": "el",
    "armenian": "hy",
    "hebrew": "he",
    "bengali": "bn",
    "gurmukhi": "pa",
    "gujarati": "gu",
    "oriya": "or",
    "tamil": "ta",
    "telugu": "te",
    "kannada": "kn",
    "malayalam": "ml",
    "sinhala": "si",
    "thai": "th",
    "lao": "lo",
    "tibetan": "bo",
    "burmese": "my",
    "georgian": "ka",
    "hangul": "ko",
    "ethiopic": "am",
    "khmer": "km",
    "han": "zh",
}
_LANGUAGES_OF_SCRIPT = {
    "cyrillic": ("ru", "uk", "be", "bg", "sr", "mk"),
    "arabic": ("ar", "fa", "ur", "ps"),
    "devanagari": ("hi", "mr", "ne"),
}
_LATIN = tuple(sorted(set(STOP_WORDS) - {language for group in _LANGUAGES_OF_SCRIPT.values() for language in group}))


def script(character: str) -> str:
    """Script of a letter, in lower case; empty where it is none of those that are told apart here."""
    for name, first, last in _SCRIPTS:
        if first <= character <= last:
            return name
    return ""


def detect_language(text: str) -> str:
    """Language of a text, where the text is evidence enough for it.

    Args:
        text: Any text; long ones are sampled.

    Returns:
        ISO 639-1 code; empty when nothing fits well enough, as in a short text of names or of words that several
        languages have.
    """
    return _detect(text, _by_evidence)


def likeliest_language(text: str) -> str:
    """Language that fits a text best, be it by a single common word; empty where none fits.

    Enough to say which letters to expect, not to treat a text as one in that language.
    """
    return _detect(text, _by_share)


def _detect(text: str, by_words: Callable[[str, tuple[str, ...]], str]) -> str:
    """Language by script, and by words where several languages share the script."""
    sample = unicodedata.normalize("NFC", _sample(text))
    # Counting each distinct character once keeps this fast.
    scripts: Counter[str] = Counter()
    for character, count in Counter(sample).items():
        if character.isalpha() or unicodedata.category(character) in ("Mn", "Mc"):
            scripts[script(character)] += count
    total = sum(scripts.values())
    if not total:
        return ""
    # One kana or Han character says as much as several letters of an alphabet.
    cjk = scripts["han"] + scripts["hiragana"] + scripts["katakana"]
    if cjk * 3 > total - scripts["hangul"] and cjk > scripts["hangul"]:
        return "ja" if scripts["hiragana"] + scripts["katakana"] > 0.05 * cjk else "zh"
    dominant = max(sorted(scripts), key=lambda name: scripts[name])
    if dominant in _LANGUAGE_OF_SCRIPT:
        return _LANGUAGE_OF_SCRIPT[dominant]
    candidates = _LATIN if dominant == "latin" else _LANGUAGES_OF_SCRIPT.get(dominant, ())
    return by_words(sample, candidates)


def _sample(text: str) -> str:
    if len(text) <= _SAMPLE:
        return text
    third = _SAMPLE // 3
    middle = len(text) // 2
    return " ".join((text[:third], text[middle : middle + third], text[-third:]))


def _words(text: str) -> list[str]:
    return [word.replace("’", "'") for word in _WORD.findall(text)]


def _by_share(text: str, candidates: tuple[str, ...]) -> str:
    """The candidate with the greatest share of stop words, helped by telling letters."""
    words = Counter(_words(text.lower()))
    n_words = words.total()
    if n_words < _FEWEST_WORDS or not candidates:
        return ""
    letters = Counter(text.lower())
    n_letters = sum(count for letter, count in letters.items() if letter.isalpha())
    shares = {
        language: sum(words[word] * (0.5 if len(word) == 1 else 1.0) for word in STOP_WORDS[language]) / n_words
        for language in candidates
    }
    # In a longer text, letters without any stop word are a wrong decoding or a language that is not listed.
    scores = {
        language: share + (_telling(letters, n_letters, language) if share > 0.02 or n_words < _FEW_WORDS else 0.0)
        for language, share in shares.items()
    }
    best = max(sorted(scores), key=lambda language: scores[language])
    return best if scores[best] >= _LEAST_SHARE else ""


def _telling(letters: Counter[str], n_letters: int, language: str) -> float:
    """What the letters that few languages use add to a score."""
    found = sum(letters[letter] for letter in TELLING_LETTERS.get(language, ""))
    return min(0.15, 3 * found / max(1, n_letters))


def _by_evidence(text: str, candidates: tuple[str, ...]) -> str:
    """The candidate with the greatest share in a long text; that for which a short one speaks clearly, else none.

    In a short text a word counts by how few of the candidates have it, once, and half where it is capitalised or a single letter: it may
    be part of a name, as in *Van Gogh* or *El Paso*.
    """
    words = _words(text)
    if len(words) >= _SHORT or not candidates:
        return _by_share(text, candidates)
    weights: dict[str, float] = {}
    for word in words:
        weight = (1.0 if word.islower() else 0.5) * (0.5 if len(word) == 1 else 1.0)
        weights[word.lower()] = max(weight, weights.get(word.lower(), 0.0))
    letters = set(text.lower())
    evidence = {
        language: sum(0.5 for letter in TELLING_LETTERS.get(language, "") if letter in letters)
        for language in candidates
    }
    for word, weight in weights.items():
        having = [language for language in candidates if word in STOP_WORDS[language]]
        for language in having:
            evidence[language] += weight / len(having)
    best, second = sorted(evidence, key=lambda language: (-evidence[language], language))[:2]
    clear = evidence[best] >= max(_LEAST_EVIDENCE, _LEAST_LEAD * evidence[second])
    return best if clear else ""
