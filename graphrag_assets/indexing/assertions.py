"""What a sentence asserts that another may deny: when, how many, that it is not so, and why.

Rules on the surface of the text, in English; dates are read in other languages as well. A rule that is not
sure reads nothing: a missed assertion costs a contradiction that is not found, a wrong one invents a contradiction.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from graphrag_assets.indexing.statements import content_words
from graphrag_assets.text.dates import MONTH, MONTHS, english_month
from graphrag_assets.text.patterns import beginning_with

_MONTH = rf"(?:{MONTH})\b\.?"
_DAY = r"(?:[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th|\.)?"
_ISO = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])(?:-(0[1-9]|[12]\d|3[01]))?\b")
_DAY_MONTH = re.compile(
    rf"\b((?:{_DAY}(?:\s*,\s*|\s*[-–]\s*|\s+(?:and|to|or|bis|und|et|y|au)\s+))*{_DAY})\s+(?:of\s+|de\s+)?({_MONTH})"
    rf"(?:,?\s+(?:de\s+)?(\d{{4}})\b)?",
    re.IGNORECASE,
)
_MONTH_DAY = re.compile(rf"\b({_MONTH})\s+({_DAY})(?![\d:])(?:,?\s+(\d{{4}})\b)?", re.IGNORECASE)
_MONTH_YEAR = re.compile(rf"\b({_MONTH}),?\s+(?:of\s+|de\s+)?(\d{{4}})\b", re.IGNORECASE)
_YEAR = re.compile(
    r"\b(?:in|since|until|by|of|from|to|year|after|before|anno|jahr|en)\s+(1[0-9]\d\d|20\d\d)\b", re.IGNORECASE
)
_CLOCK = re.compile(
    beginning_with(r"\d", r"\b([01]?\d|2[0-3])[:h]([0-5]\d)(?:\s*([ap])\.?m\b\.?)?|\b(1[0-2]|[1-9])\s*([ap])\.?m\b\.?"),
    re.IGNORECASE,
)

_UNTIL_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: number for number, word in enumerate(_UNTIL_TWENTY.split())} | {
    word: 10 * number for number, word in enumerate(_TENS.split(), start=3)
}
_HOURS = "|".join(list(_SMALL)[1:13])
_WORD_CLOCK = re.compile(
    rf"\b({_HOURS})\s+(?:o['’]?clock|in the (morning|afternoon|evening)|at (night))", re.IGNORECASE
)
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_NUMBER_WORDS = list(_SMALL)[2:]
_NUMBER = re.compile(
    beginning_with(
        r"\d" + "".join(sorted({word[0] for word in _NUMBER_WORDS})),
        rf"(?<![\w.,:/-])(?:(\d{{1,3}}(?:[, \u00a0\u202f]\d{{3}})+|\d+)(\.\d+)?|({'|'.join(_NUMBER_WORDS)}))"
        rf"(?![\w:/]|[.,]\d|-\d)(?:\s+({'|'.join(_SCALES)}))?(\s*(?:%|per ?cent\b))?",
    ),
    re.IGNORECASE,
)
#: Stems of the numbers that are read in words.
_NUMBER_STEMS = frozenset(stem for word in _NUMBER_WORDS for stem in content_words(word))
_DIGIT = re.compile(r"\d")
_FOUR_DIGITS = re.compile(r"\d{4}")
_LETTERS = re.compile(r"[^\W\d_]+")
_HALVES = {"morning": "a", "afternoon": "p", "evening": "p", "night": "p"}
_TIME_CUES = ("clock", "in the morning", "in the afternoon", "in the evening", "at night")
#: What may stand between two values of one clause.
_JOINTS = frozenset({"and", "or", ","})
_BARE_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
_REFERENCE = re.compile(
    r"\b(?:paragraph|exhibit|page|chapter|section|figure|table|no|number|item|bench|pier|arch|arche|day|level|version|"
    r"article|volume|clause|rule|platform|room|line|class|type|sheet|memo)s?\.?\s*$",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:not|instead of|rather than|and not)\s+$", re.IGNORECASE)
_VAGUE = re.compile(
    r"\b(?:about|around|nearly|almost|some|roughly|over|under|up to|at (?:least|most)|(?:more|less|fewer) than)\s+$",
    re.IGNORECASE,
)

_NEGATION = re.compile(
    beginning_with(
        "nwcdrf",
        r"\b(?:not|never|no|nobody|nothing|neither|nor|without|cannot|den(?:y|ies|ied)|refus(?:e|es|ed)|"
        r"fail(?:s|ed)? to)\b|n['’]t\b",
    ),
    re.IGNORECASE,
)
_CAUSE = re.compile(
    beginning_with(
        "bdcoarw",
        r"\b(?:because of|because|due to|caused by|owing to|as a result of|on account of|brought about by|"
        r"resulted from|was the result of)\b",
    ),
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"[;—–()\[\]\"“”«»]|[:,](?!\d)|(?<=[^\d])\.(?=\s)|"
    r"\b(?:and|but|or|that|which|who|when|while|because|although|though|whereas|where)\b",
    re.IGNORECASE,
)

Date = tuple[int | None, int | None, int | None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Number:
    """A quantity.

    Args:
        value: Its value.
        written: As written.
        head: Stem of the next word that means something: what is counted.
        units: Stems of the next words, with the head.
        step: Half of the last digit that counts: 8.4 million is known to 50,000.
        vague: Whether the text calls it a guess.
    """

    value: float
    written: str
    head: str
    units: frozenset[str]
    step: float
    vague: bool

    def counts_same_as(self, other: Number) -> bool:
        """Whether both count the same thing: 11 people injured, 14 injured."""
        return bool(self.head and other.head) and (self.head in other.units or other.head in self.units)

    def agrees_with(self, other: Number) -> bool:
        """Whether both may be the same quantity, given how exactly each is stated."""
        slack = max(self.step, other.step)
        if self.vague or other.vague:
            slack = max(slack, 0.25 * max(self.value, other.value))
        return abs(self.value - other.value) <= slack


@dataclass(frozen=True)
class Clause:
    """A part of a sentence that asserts one thing.

    Args:
        text: The clause.
        rest: The clause without dates and times.
        dates: Dates as (year, month, day), each part None where it is not stated.
        times: Times of day in minutes since midnight.
        numbers: Quantities.
        negated: Whether it is denied.
    """

    text: str
    rest: str
    dates: tuple[Date, ...] = ()
    times: tuple[int, ...] = ()
    numbers: tuple[Number, ...] = ()
    negated: bool = False

    @cached_property
    def words(self) -> frozenset[str]:
        """Stems of what happens, without dates and numbers."""
        rest = _NUMBER.sub(" ", self.rest)
        words = content_words(_NEGATION.sub(" ", rest) if self.negated else rest)
        return frozenset(word for word in words if not word[0].isdigit())


@dataclass(frozen=True, slots=True)
class Cause:
    """An effect and what the sentence gives as its cause.

    Args:
        effect: Stems of what happened.
        cause: Stems of why.
        text: The cause as written.
    """

    effect: frozenset[str]
    cause: frozenset[str]
    text: str


def may_assert(text: str, words: Iterable[str]) -> bool:
    """Whether a clause of a sentence may hold a value or a denial; most sentences hold neither and need no reading.

    Args:
        text: The sentence.
        words: Its content words.
    """
    return bool(_has_value(text) or not _NUMBER_STEMS.isdisjoint(words) or _NEGATION.search(text))


def clauses(text: str, *, asserting: bool = False) -> list[Clause]:
    """The clauses of a sentence, with what each asserts.

    Values are looked for in the sentence as a whole and belong to the clause in which they begin.

    Args:
        text: The sentence.
        asserting: Leave out clauses that hold neither a value nor a denial.
    """
    has_digits = _DIGIT.search(text) is not None
    days, rest = _read_dates(text) if has_digits else ([], text)
    times, rest = _read_times(rest)
    counts = [(match.start(), match) for match in _NUMBER.finditer(rest)]
    denials = [(match.start(), True) for match in _NEGATION.finditer(text)]
    marks = sorted(position for position, _ in (*days, *times, *counts, *denials))
    return [
        Clause(
            text[start:end].strip(),
            rest[start:end],
            _within(days, start, end),
            _within(times, start, end),
            tuple(number for match in _within(counts, start, end) if (number := _number(match, start, end))),
            bool(_within(denials, start, end)),
        )
        for start, end in _spans(text)
        if not asserting or bisect_left(marks, start) < bisect_left(marks, end)
    ]


def cause(text: str) -> Cause | None:
    """Effect and cause of a sentence, if it names exactly one and does not deny it."""
    cues = list(_CAUSE.finditer(text))
    if len(cues) != 1:
        return None
    cue = cues[0]
    before = [text[start:end] for start, end in _spans(text[: cue.start()])]
    after = re.split(r"[;:.](?=\s|$)|,\s+(?:and|but)\b", text[cue.end() :])[0]
    if not before or _NEGATION.search(before[-1]):
        return None
    effect, reason = frozenset(content_words(before[-1])), frozenset(content_words(after))
    return Cause(effect, reason, after.strip(" ,\"'”*")) if effect and len(reason) > 1 else None


def dates(text: str) -> list[Date]:
    """Dates in a text."""
    return [day for _, day in _read_dates(text)[0]]


def agree(left: Date, right: Date) -> bool:
    """Whether two dates may be the same day, given what each states."""
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    return bool(pairs) and all(a == b for a, b in pairs)


def written(date: Date) -> str:
    """A date as it is written in English, such as 4 May 2032."""
    year, month, day = date
    name = english_month(month) if month else ""
    return " ".join(str(part) for part in (day, name, year) if part)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _CLAUSE.finditer(text):
        border = match.start()
        joins = match.group().lower() in _JOINTS and text[start:border].rstrip().removesuffix(".")[-1:].isdecimal()
        if joins and text[match.end() :].lstrip()[:1].isdecimal():
            continue  # "14 and 17 November" is one date range
        if text[start:border].strip():
            yield start, border
        start = match.end()
    if text[start:].strip():
        yield start, len(text)


def _within(found: list[tuple[int, T]], start: int, end: int) -> tuple[T, ...]:
    """The values that begin in a part of a text."""
    return tuple(value for position, value in found if start <= position < end) if found else ()


def _has_value(text: str) -> bool:
    """Whether digits or a time of day in words stand in a text."""
    return bool(_DIGIT.search(text)) or _may_tell_time(text)


def _may_tell_time(text: str) -> bool:
    """Whether a time of day in words may stand in a text."""
    return any(cue in text for cue in _TIME_CUES)


def _read_dates(text: str) -> tuple[list[tuple[int, Date]], str]:
    """Dates of a text with their positions, and the text with blanks in their place."""
    found: list[tuple[int, Date]] = []

    def take(match: re.Match[str], parsed: list[Date]) -> str:
        found.extend((match.start(), day) for day in parsed)
        return " " * len(match.group())

    def number(group: str | None) -> int | None:
        digits = re.sub(r"\D", "", group or "")
        return int(digits) if digits else None

    def month(group: str) -> int:
        return MONTHS[group.lower().rstrip(".")]

    has_year = _FOUR_DIGITS.search(text)
    if has_year:
        text = _ISO.sub(lambda m: take(m, [(number(m[1]), number(m[2]), number(m[3]))]), text)
    if not MONTHS.keys().isdisjoint(_LETTERS.findall(text.lower())):
        text = _DAY_MONTH.sub(
            lambda m: take(m, [(number(m[3]), month(m[2]), int(day)) for day in re.findall(r"\d{1,2}", m[1])]), text
        )
        text = _MONTH_DAY.sub(lambda m: take(m, [(number(m[3]), month(m[1]), number(m[2]))]), text)
        text = _MONTH_YEAR.sub(lambda m: take(m, [(number(m[2]), month(m[1]), None)]), text)
    if has_year:
        text = _YEAR.sub(lambda m: take(m, [(number(m[1]), None, None)]), text)
    return found, text


def _read_times(text: str) -> tuple[list[tuple[int, int]], str]:
    """Times of day in minutes with their positions, and the text with blanks in their place."""
    found: list[tuple[int, int]] = []

    def take(match: re.Match[str], hour: str | int, minute: str | int, half: str | None) -> str:
        hour = int(hour) % 12 + (12 if half.lower() == "p" else 0) if half else int(hour)
        found.append((match.start(), 60 * hour + int(minute)))
        return " " * len(match.group())

    def clock(match: re.Match[str]) -> str:
        return take(match, match[1], match[2], match[3]) if match[1] else take(match, match[4], 0, match[5])

    def words(match: re.Match[str]) -> str:
        half = _HALVES.get((match[2] or match[3] or "").lower())
        if half:  # "two o'clock" alone may be either half of the day
            return take(match, _SMALL[match[1].lower()], 0, half)
        return " " * len(match.group())

    text = _CLOCK.sub(clock, text) if _DIGIT.search(text) else text
    return found, _WORD_CLOCK.sub(words, text) if _may_tell_time(text) else text


def _number(match: re.Match[str], start: int, end: int) -> Number | None:
    """The quantity at a match of ``_NUMBER`` in the clause between two positions.

    None for one that numbers a thing (paragraph 18, pier 3) and one that is denied (not fourteen).
    """
    text = match.string
    before = text[max(start, match.start() - 24) : match.start()]
    whole, fraction, word, scale, per_cent = match.groups()
    if _REFERENCE.search(before) or _DENIED.search(before) or (whole and _BARE_YEAR.fullmatch(match.group())):
        return None
    exact = float(re.sub(r"\D", "", whole) + (fraction or "")) if whole else float(_SMALL[word.lower()])
    factor = _SCALES.get((scale or "").lower(), 1)
    following = text[match.end() : end].split(maxsplit=4)[:4]
    units = [*(["%"] if per_cent else []), *content_words(" ".join(following))[:3]]
    return Number(
        exact * factor,
        " ".join(match.group().split()),
        units[0] if units else "",
        frozenset(units),
        _step(exact, fraction) * factor,
        bool(_VAGUE.search(before)),
    )


def _step(value: float, fraction: str | None) -> float:
    """Half of the last digit that counts; zeros at the end of a large number may come from rounding."""
    if fraction:
        return 0.5 * 10.0 ** -(len(fraction) - 1)
    digits = str(int(value))
    zeros = len(digits) - len(digits.rstrip("0")) if value >= 100 else 0
    return 0.5 * 10.0**zeros if zeros or value >= 20 else 0.0
