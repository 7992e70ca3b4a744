"""Dates as models and documents write them, brought to ISO 8601."""

from __future__ import annotations

import re
from datetime import date

_NAMES = (
    "january jan januar jänner janvier enero gennaio janeiro",
    "february feb februar février febrero febbraio fevereiro",
    "march mar märz mars marzo março",
    "april apr avril abril aprile",
    "may mai mayo maggio maio",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août agosto",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober octobre octubre ottobre outubro",
    "november nov novembre noviembre",
    "december dec dezember décembre diciembre dicembre dezembro",
)
#: Number of a month by its name or abbreviation in lower case, in seven languages.
MONTHS = {name: number for number, names in enumerate(_NAMES, start=1) for name in names.split()}
#: Regular expression for any of these names, the longest first.
MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))

_YEAR = r"(?P<year>[12]\d{3})"
_DAY = r"(?P<day>\d{1,2})"
_TIME = r"(?:[T ](?P<time>\d{1,2}:\d{2}(?::\d{2})?)(?:\.\d+)?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?"
_ORDINAL = r"(?:st|nd|rd|th|\.|º|er)?"

_FORMS = [
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_YEAR}[-/.年](?P<month>\d{{1,2}})[-/.月]{_DAY}日?{_TIME}",
        rf"{_YEAR}(?P<month>\d{{2}})(?P<day>\d{{2}})",
        rf"{_YEAR}[-/.年](?P<month>\d{{1,2}})月?",
        rf"{_YEAR}年?",
        rf"{_DAY}{_ORDINAL}\s*(?:of |de )?\s*(?P<name>{MONTH})\.?,?\s*(?:de )?{_YEAR}",
        rf"(?P<name>{MONTH})\.?\s+{_DAY}{_ORDINAL},?\s+{_YEAR}",
        rf"(?P<name>{MONTH})\.?,?\s+(?:of |de )?{_YEAR}",
        rf"{_DAY}\.\s?(?P<month>\d{{1,2}})\.\s?{_YEAR}",
    )
]


def english_month(number: int) -> str:
    """English name of a month, such as May for 5."""
    return _NAMES[number - 1].split()[0].capitalize()


def iso_date(text: str) -> str | None:
    """Read a date.

    Args:
        text: Date in ISO 8601 or in words. A day written as 03/04/2021 is not read: which number is the month is
            anybody's guess.

    Returns:
        ISO 8601 with the precision of the text (year, month, day, or time of day; midnight counts as the day), or None
        when the text is no date.
    """
    text = " ".join(text.split()).strip(" .,;\"'")
    for form in _FORMS:
        match = form.fullmatch(text)
        if match:
            return _build(match.groupdict())
    return None


def _build(parts: dict[str, str | None]) -> str | None:
    year = parts["year"]
    name, month_number = parts.get("name"), parts.get("month")
    month = MONTHS[name.lower()] if name else int(month_number or 0)
    day = int(parts.get("day") or 0)
    if not month:
        return year
    if not 1 <= month <= 12:
        return None
    if not day:
        return f"{year}-{month:02d}"
    try:
        read = date(int(year or 0), month, day).isoformat()
    except ValueError:
        return None
    return read + _clock(parts.get("time"), parts.get("zone"))


def _clock(time: str | None, zone: str | None) -> str:
    """Time of day as ISO 8601; nothing for midnight and for what is no time."""
    if not time:
        return ""
    hours, minutes, seconds = (*(int(part) for part in time.split(":")), 0)[:3]
    if (hours, minutes, seconds) == (0, 0, 0) or hours > 23 or minutes > 59 or seconds > 59:
        return ""
    return f"T{hours:02d}:{minutes:02d}:{seconds:02d}{zone or ''}"
