"""What a title looks like to the rules: tokens, legal form, brackets, numbers, personal name, letters of an acronym.

A title is analysed once; blocking and scoring work on the analysis. All of it is a function of the title and its kind.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from graphrag_assets.indexing.resolution import words
from graphrag_assets.indexing.resolution.persons import Person, is_likely_person, parse_person

_APOSTROPHES = re.compile("['’ʼ`´‘]")
_MARKS_OF_TRADE = re.compile("[™®©]")
_DASHES = re.compile("[‐‑‒–—―−]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
#: Words, with the signs that make another word of them (C++, C#, .NET), and numbers with what stands between digits.
_TOKENS = re.compile(r"(?:(?<!\S)\.(?=[^\W\d_]))?[^\W_](?:[^\W_]|[+#%]|(?<=\d)[./:-](?=\d))*|[$€£#]\d+(?:[./:-]\d+)*")
_BRACKETS = re.compile(r"\s*[(\[]([^()\[\]]+)[)\]]\s*$")
_RUNS = re.compile(r"(.)\1+")
_VOWELS = re.compile("[AEIOUYHW]")
_FINAL_POSSESSIVE = re.compile(r"(?:['’]S|(?<=S)['’])$")
_SPECIAL_LETTERS = str.maketrans(
    {
        "Ø": "O",
        "Æ": "AE",
        "Œ": "OE",
        "Ł": "L",
        "Đ": "D",
        "Ð": "D",
        "Þ": "TH",
        "ẞ": "SS",
        "ß": "SS",
        "Ħ": "H",
        "ı": "I",
        "Ŧ": "T",
    }
)
_UMLAUTS = str.maketrans({"Ä": "AE", "Ö": "OE", "Ü": "UE", "Å": "AA", "Ø": "OE"})
#: Scripts that are written without spaces between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u3130-\u318f\u31a0-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
#: Letters from which a name does not need its THE: THE WHO is not the WHO.
SHORTEST_WITHOUT_ARTICLE = 4
_ACRONYM = re.compile(r"[A-Z]{2,6}")


@dataclass(frozen=True, slots=True)
class Name:
    """A title as the rules see it.

    Args:
        title: The title.
        kind: person, organization, place, value, phrase, another type in its own words, or empty when unknown.
        key: Spelling without punctuation, and without a leading THE: titles with one key are one name.
        latin: Whether all letters are Latin. Other scripts know only the key; no rule below is meant for them.
        core: Tokens folded to ASCII, without article, legal form, brackets; abbreviations and number words written out.
        legal: Legal forms at the end, written out.
        inner: Key of what stands in brackets at the end; empty without brackets.
        marks: Numbers, single letters and distinguishing words, sorted: names that differ in them are never one.
        person: The title as a personal name; None where it cannot be one.
        letters: Letters of the title where it can be an acronym, else empty.
        possessive: Core without a final 'S; equal to the core when there is none.
        written: Joined core with Ä, Ö, Ü written AE, OE, UE (and Å, Ø likewise); empty where it has none of them.
    """

    title: str
    kind: str
    key: str
    latin: bool
    core: tuple[str, ...]
    legal: tuple[str, ...]
    inner: str
    marks: tuple[str, ...]
    person: Person | None
    letters: str
    possessive: tuple[str, ...]
    written: str = ""

    @property
    def joined(self) -> str:
        """The core without spaces."""
        return "".join(self.core)


def kind_of(entity_type: str) -> str:
    """The kind of an entity type: what the rules tell apart."""
    upper = entity_type.strip().upper()
    return words.KINDS.get(upper, upper)


def spelling_key(title: str) -> str:
    """Key of a spelling: titles with one key differ only in punctuation, spaces between initials, or a leading THE.

    Letters and their accents stay. In scripts without spaces between words, spaces are dropped.
    """
    if not is_latin(title):
        kept = "".join(c if unicodedata.category(c)[0] not in "PZC" else " " for c in title.upper())
        return ("" if _UNSPACED.search(kept) else " ").join(kept.split()) or title
    tokens = tuple(_join_initials(_tokens(title.upper())))
    if len(tokens) > 1 and tokens[0] == "THE" and sum(map(len, tokens[1:])) >= SHORTEST_WITHOUT_ARTICLE:
        tokens = tokens[1:]
    return " ".join(tokens) or title


def analyse(title: str, kind: str = "", key: str = "") -> Name:
    """Analyse a title.

    Args:
        title: Canonical title.
        kind: Its kind, as :func:`kind_of` gives it.
        key: Its :func:`spelling_key`, where it is known already.
    """
    key = key or spelling_key(title)
    if not is_latin(title):
        return Name(title, kind, key, False, (), (), "", (), None, "", ())
    folded = fold(title.upper())
    outer, inner = _without_brackets(folded)
    if kind not in ("person", "", "phrase", "value") and is_likely_person(outer):
        kind = ""  # a JANE HALLORAN that was taken for a place still makes HALLORAN ambiguous
    person = parse_person(outer, sure=kind == "person") if kind in ("person", "", "phrase") else None
    tokens, inner_tokens = _tokens(outer), _tokens(inner) if inner else []
    in_order = [*person.given, person.surname] if person is not None and person.reordered else tokens
    core, legal = _core(in_order, kind)
    possessive = core
    if _FINAL_POSSESSIVE.search(outer) and core and core[-1].endswith("S") and len(core[-1]) > 2:
        stem = core[-1] if re.search(r"S['’]$", outer) else core[-1][:-1]
        possessive = (*core[:-1], stem)
    marks = _marks(core, inner_tokens, kind, person)
    letters = "".join(tokens) if kind != "person" and _is_acronym(outer, "".join(tokens)) else ""
    written = _umlauts_written_out(title, kind)
    return Name(
        title, kind, key, True, core, legal, " ".join(inner_tokens), marks, person, letters, possessive, written
    )


def fold(text: str) -> str:
    """Latin letters without their accents."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text.translate(_SPECIAL_LETTERS))
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def accents_agree(a: str, b: str) -> bool:
    """Whether two titles with equal folded letters differ only by accents that one of them leaves out."""
    first, second = _letters(a), _letters(b)
    if len(first) != len(second):
        return True  # written out differently: the folded letters already agree
    return all(x == y or x == fold(x) or y == fold(y) for x, y in zip(first, second, strict=True))


def accent_count(title: str) -> int:
    """Number of letters with an accent."""
    return sum(c != fold(c) for c in _letters(title))


def singular(token: str) -> str:
    """A form that an English noun and its plural share: HOUSE and HOUSES give HOUS, PARTY and PARTIES give PARTY."""
    if len(token) < 4:
        return token
    if token.endswith("IES") and len(token) > 4:
        return token[:-3] + "Y"
    if token.endswith("S") and not token.endswith(("SS", "US", "IS")):
        token = token[:-1]
    return token[:-1] if token.endswith(("SE", "XE", "ZE", "CHE", "SHE")) and len(token) > 4 else token


def initialisms(name: Name) -> frozenset[str]:
    """The acronyms that a name can have: initials of all of its words, with and without small words and legal forms."""
    if not name.latin or len(name.core) < 2:
        return frozenset()
    forms = set()
    for legal_forms in range(len(name.legal) + 1):
        tokens = (*name.core, *name.legal[:legal_forms])
        for chosen in (tokens, tuple(t for t in tokens if t not in words.SMALL_WORDS)):
            if 2 <= len(chosen) <= 6 and all(t[0].isalpha() for t in chosen):
                forms.add("".join(t[0] for t in chosen))
    return frozenset(forms)


def single_letters(word: str) -> str:
    """The word with every run of one letter as a single one: HALLORAN and HALORAN are the same so."""
    return _RUNS.sub(r"\1", word)


@lru_cache(maxsize=65536)
def phonetic(token: str) -> str:
    """A rough English sound of a word: consonant classes without vowels; for blocking, never evidence by itself.

    In the manner of Metaphone (Philips, 1990), much reduced.
    """
    for pattern, sound in _SOUNDS:
        token = pattern.sub(sound, token)
    first, rest = token[:1], token[1:]
    return single_letters(("A" if first in "AEIOUY" else first) + _VOWELS.sub("", rest))


_SOUNDS = [
    (re.compile(pattern), sound)
    for pattern, sound in (
        ("^(?:KN|GN|PN)", "N"),
        ("^WR", "R"),
        ("^PS", "S"),
        ("^WH", "W"),
        ("^X", "S"),
        ("PH", "F"),
        ("SCH", "SK"),
        ("TCH", "X"),
        ("CH", "X"),
        ("SH", "X"),
        ("TH", "T"),
        ("DG(?=[EIY])", "J"),
        ("GH", ""),
        ("C(?=[EIY])", "S"),
        ("CK", "K"),
        ("[CQ]", "K"),
        ("X(?!$)", "KS"),
        ("Z", "S"),
        ("V", "F"),
        ("D", "T"),
        ("B", "P"),
    )
]


@lru_cache(maxsize=4096)
def _is_latin_letter(character: str) -> bool:
    return unicodedata.name(character, "").startswith("LATIN") or character in "ªº"


def is_latin(text: str) -> bool:
    """Whether every letter of the text is Latin, and there is one, or no letter at all."""
    return text.isascii() or all(_is_latin_letter(c) for c in text if c.isalpha())


def _tokens(text: str) -> list[str]:
    text = _APOSTROPHES.sub("", text).replace("&", " AND ")
    if not text.isascii():
        text = _DASHES.sub("-", _MARKS_OF_TRADE.sub("", text))
    if "," in text:
        text = _THOUSANDS.sub("", text)
    tokens = _TOKENS.findall(text)
    if "CO" in tokens:  # CO-OPERATIVE is one word
        return " ".join(tokens).replace("CO OPERATIVE", "COOPERATIVE").replace("CO OP", "COOP").split()
    return tokens


def _join_initials(tokens: list[str]) -> list[str]:
    """Join single letters in a row: U.S.A. and J. B. LIPPINCOTT are written with and without spaces and dots."""
    joined: list[str] = []
    open_run = False
    for token in tokens:
        single = len(token) == 1 and token.isalpha()
        if single and open_run:
            joined[-1] += token
        else:
            joined.append(token)
        open_run = single
    return joined


def _umlauts_written_out(title: str, kind: str) -> str:
    if title.isascii():
        return ""
    written = title.upper().translate(_UMLAUTS)
    return "" if written == title.upper() else "".join(_core(_tokens(_without_brackets(fold(written))[0]), kind)[0])


def _without_brackets(text: str) -> tuple[str, str]:
    match = _BRACKETS.search(text)
    if match is None or not text[: match.start()].strip():
        return text, ""
    return text[: match.start()], match.group(1)


def _core(tokens: list[str], kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    tokens = _join_initials(tokens)
    if len(tokens) > 1 and tokens[0] == "THE" and sum(map(len, tokens[1:])) >= SHORTEST_WITHOUT_ARTICLE:
        tokens = tokens[1:]
    legal: list[str] = []
    if kind not in ("person", "EVENT", "value"):
        while len(tokens) > 1 and tokens[-1] in words.LEGAL_FORMS:
            legal.insert(0, words.LEGAL_FORMS[tokens.pop()])
            if len(tokens) > 1 and tokens[-1] == "AND":
                tokens.pop()
    last = len(tokens) - 1
    core = []
    for i, token in enumerate(tokens):
        token = words.NUMBER_WORDS.get(token, token)
        if i and (len(token) > 1 or i == last) and token in words.ROMAN_NUMERALS:
            token = words.ROMAN_NUMERALS[token]
        if kind != "person":
            token = words.WORD_FORMS.get(token, token)
            if last and i == 0:
                token = words.FIRST_WORD_FORMS.get(token, token)
            elif last and i == last:
                token = words.LAST_WORD_FORMS.get(token, token)
        core.append(token)
    return tuple(core), tuple(legal)


def _marks(core: tuple[str, ...], inner: list[str], kind: str, person: Person | None) -> tuple[str, ...]:
    marks = []
    personal = person is not None and (kind == "person" or bool(person.honorifics))
    for i, token in enumerate((*core, *inner)):
        number = any(c.isdigit() for c in token)
        word = not personal and (token in words.DISTINGUISHING or (len(token) == 1 and i > 0))
        if number or word:
            marks.append(token)
    return tuple(sorted(marks))


def _is_acronym(title: str, joined: str) -> bool:
    one_word = " " not in title.strip().replace(". ", ".")
    return one_word and _ACRONYM.fullmatch(joined) is not None and not set(title) & set("-'’")


def _letters(title: str) -> list[str]:
    return [c for c in title.upper() if c.isalpha()]
