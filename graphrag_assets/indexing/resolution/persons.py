"""Personal names: parts, and whether two of them can be one person."""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphrag_assets.indexing.resolution import words

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_POSSESSIVE = re.compile(r"['’]S\b|S['’](?:\s|$)")
_MOST_WORDS = 5
_VOWELS = frozenset("AEIOUY")
#: Particles that are given names as well, at the beginning of a name.
_GIVEN_NAMES_TOO = frozenset({"AL", "BEN", "DEL"})


@dataclass(frozen=True, slots=True)
class Person:
    """The parts of a personal name, folded to ASCII.

    Args:
        given: Given names and initials, in order; empty for a single name.
        surname: The surname, with its particles and hyphens; for a single name that name, whatever it is.
        honorifics: Honorifics and ranks before the name, written out, sorted.
        gender: m or f where an honorific tells it, else empty.
        generation: JR, SR, or a number; empty without one.
        reordered: Whether the title had the surname first (HALLORAN, INES).
    """

    given: tuple[str, ...]
    surname: str
    honorifics: tuple[str, ...]
    gender: str
    generation: str
    reordered: bool = False

    @property
    def single(self) -> bool:
        """Whether there is only one name, such as a bare surname."""
        return not self.given

    @property
    def root(self) -> str:
        """The first given name, a nickname resolved; empty for a single name."""
        return words.NICKNAMES.get(self.given[0], self.given[0]) if self.given else ""

    @property
    def given_gender(self) -> str:
        """Gender of the honorific, else of the first given name, else empty."""
        return self.gender or words.GIVEN_NAME_GENDER.get(self.root, "")


def parse_person(title: str, sure: bool) -> Person | None:
    """Take a title apart as a personal name.

    Args:
        title: Folded title in upper case, without brackets.
        sure: Whether it is known to name a person; then ranks such as GENERAL count as honorifics too.

    Returns:
        The parts, or None where the title cannot be a personal name: digits, a possessive, a role, too many words.
    """
    if any(c.isdigit() for c in title) or _POSSESSIVE.search(title) or "&" in title or "/" in title:
        return None
    surname_first, comma, after = title.partition(",")
    parts, trailing = _parts(title), _parts(after)
    reordered = bool(
        comma and trailing and "," not in after and not all(_is_suffix(t) for t in trailing) and len(trailing) <= 3
    )
    if reordered:
        if not sure and not all(len(t) == 1 or t in words.GIVEN_NAME_GENDER for t in trailing[:1]):
            return None  # SALT LAKE CITY, UT is no person
        leading = _parts(surname_first)
        if len(leading) > 2:
            return None
        parts = trailing + leading
    honorifics, parts = _honorifics(parts, sure)
    generation = ""
    while len(parts) > 1 and _is_suffix(parts[-1]):
        generation = words.GENERATIONS.get(parts[-1], generation)
        parts = parts[:-1]
    if len(parts) > 1 and parts[-1] in words.ROMAN_NUMERALS:
        generation, parts = words.ROMAN_NUMERALS[parts[-1]], parts[:-1]
    if parts and parts[0] == "A" and not title.startswith("A."):
        return None  # an article
    if not parts or len(parts) > _MOST_WORDS or len(parts[-1]) < 2 or any(part in words.NOT_IN_NAMES for part in parts):
        return None
    given, surname = _surname(parts)
    gender = next((words.HONORIFIC_GENDER[h] for h in honorifics if h in words.HONORIFIC_GENDER), "")
    return Person(given, surname, tuple(sorted(set(honorifics))), gender, generation, reordered)


def is_likely_person(title: str) -> bool:
    """Whether a title begins with a common given name and can be a personal name, whatever type it was given."""
    first, blank, rest = title.partition(" ")
    if not blank or first not in words.GIVEN_NAME_GENDER or rest.rpartition(" ")[2].strip(".") in words.LEGAL_FORMS:
        return False
    return parse_person(title, sure=False) is not None


def _parts(text: str) -> list[str]:
    """Words of a name: JB before another word as the initials J and B, O'BRIEN as OBRIEN."""
    pieces = [piece.replace("'", "").replace("’", "") for piece in _WORD.findall(text)]
    parts: list[str] = []
    for i, piece in enumerate(pieces):
        known = _is_suffix(piece) or piece in words.HONORIFICS or piece in words.RANKS or piece in words.ROMAN_NUMERALS
        initials = i < len(pieces) - 1 and 2 <= len(piece) <= 3 and not set(piece) & _VOWELS and not known
        parts += list(piece) if initials else [piece]
    return parts


def _is_suffix(part: str) -> bool:
    return part in words.GENERATIONS or part in words.POSTNOMINALS


def _honorifics(parts: list[str], sure: bool) -> tuple[list[str], list[str]]:
    found: list[str] = []
    while len(parts) > 1:
        full = words.HONORIFICS.get(parts[0]) or (words.RANKS.get(parts[0]) if sure or found else None)
        if full is None:
            break
        found.append(full)
        parts = parts[1:]
    return found, parts


def _surname(parts: list[str]) -> tuple[tuple[str, ...], str]:
    start = len(parts) - 1
    for i in range(0 if parts[0] not in _GIVEN_NAMES_TOO else 1, len(parts) - 1):
        if parts[i] in words.PARTICLES:
            start = i
            break
    given = tuple(name for part in parts[:start] for name in part.split("-"))
    return given, " ".join(parts[start:])


@dataclass(frozen=True, slots=True)
class GivenNames:
    """How two lists of given names compare.

    Args:
        agree: Whether they can be of one person.
        equal: Whether they are the same.
        first_shorter: The first list leaves out or abbreviates something.
        second_shorter: The second list does.
    """

    agree: bool
    equal: bool = False
    first_shorter: bool = False
    second_shorter: bool = False


def compare_given(a: tuple[str, ...], b: tuple[str, ...]) -> GivenNames:
    """Compare given names in order: an initial agrees with a name that begins with it, later names may be left out.

    The first names must agree. JOHN A. agrees with JOHN ALAN, J. and JOHN, not with JOHN B. or ALAN.
    """
    if a == b:
        return GivenNames(True, equal=True)
    if not a or not b:
        return GivenNames(True, first_shorter=not a, second_shorter=not b)
    shorter, longer = (a, b) if len(a) <= len(b) else (b, a)
    abbreviates_shorter = abbreviates_longer = False
    position = 0
    for i, name in enumerate(shorter):
        while position < len(longer) and not _names_agree(name, longer[position]):
            if i == 0:
                return GivenNames(False)
            position += 1
        if position == len(longer):
            return GivenNames(False)
        abbreviates_shorter |= len(name) < len(longer[position])
        abbreviates_longer |= len(name) > len(longer[position])
        position += 1
    abbreviates_shorter |= len(shorter) < len(longer)
    first, second = abbreviates_shorter, abbreviates_longer
    return GivenNames(True, False, first, second) if shorter is a else GivenNames(True, False, second, first)


def _names_agree(a: str, b: str) -> bool:
    return a == b or (len(a) == 1 and b.startswith(a)) or (len(b) == 1 and a.startswith(b))
