"""Metadata of documents: JSON-able values, and the date that a document states."""

from __future__ import annotations

import base64
import datetime as dt
import email.utils
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from graphrag_assets.input.encodings import clean_text
from graphrag_assets.text import dates

#: Metadata names that hold the date of a document, the first found counts.
DATE_KEYS = ("date", "creation_date", "created", "published")
_DEEPEST = 32

_ISO_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2}([T ]\d{2}:\d{2}.*)?)?)?")
_PDF_DATE = re.compile(r"D:(\d{4})(\d{2})?(\d{2})?(\d{2})?(\d{2})?(\d{2})?")


#: What programs write as the title of a document to which nobody gave one, in lower case.
_NO_TITLE = re.compile(
    r"""\(?(?:untitled|unknown|anonymous|unspecified|no\ title|title|none|null)\)?(?:[\s-]*\d+)?
    | (?:untitled|new|blank)\s(?:document|page|file|presentation|spreadsheet)(?:\s*\d+)?
    | (?:word|microsoft\ word|pdf)\sdocument | (?:microsoft\ )?powerpoint[\s-]+(?:presentation|präsentation)
    | (?:document|doc|dokument|documento|page|slide|layout|print|scan|book|presentation|презентация|документ)[\s_-]*\d*
    | microsoft\ (?:word|excel|powerpoint|office\ \w+)\s*-\s.*      # the name of the file that was printed
    | (?:file:/+|[a-z]:[\\/]|\\\\|/\S+/\S+$).*                           # a path
    | about:blank | \S+\.(?:docx?|dotx?|odt|rtf|pdf|pptx?|xlsx?|indd|qxd|tex|dvi|ps|html?|txt|tmp)""",
    re.VERBOSE,
)
_LONGEST_NO_TITLE = 300


def meant_title(title: str) -> str:
    """The title that a file states; empty where a program wrote it and it says nothing, or names another file."""
    title = " ".join(title.split())
    return "" if len(title) <= _LONGEST_NO_TITLE and _NO_TITLE.fullmatch(title.lower()) else title


def json_able(value: Any, depth: int = 0) -> Any:
    """A value as JSON can hold it: dates as ISO 8601, bytes as base64, numbers that are none as null, texts cleaned.

    Args:
        value: Any value that a reader gave.
        depth: Levels above it; what is nested deeper than 32 becomes an ellipsis.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {clean_text(str(key)): json_able(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = [json_able(item, depth + 1) for item in value]
        return sorted(items, key=repr) if isinstance(value, set | frozenset) else items
    return clean_text(str(value))


def stated_date(metadata: Mapping[str, Any]) -> str:
    """The date that the metadata states, as ISO 8601; empty when there is none or it cannot be read for certain."""
    by_name = {str(name).lower(): value for name, value in sorted(metadata.items(), key=lambda item: str(item[0]))}
    for name in DATE_KEYS:
        if by_name.get(name) not in (None, "") and (date := iso_date(by_name[name])):
            return date
    return ""


def iso_date(value: Any) -> str:
    """A date as ISO 8601, as exact as it is given (year, month, day or time); empty for what is none.

    Days and months that only their order tells apart, such as 03/04/2021, are not guessed.
    """
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    text = str(value).strip()
    if not text or len(text) > 64:
        return ""
    if _ISO_DATE.fullmatch(text):
        return text if _is_date(text) else ""
    if match := _PDF_DATE.match(text):
        return _pdf_date([part for part in match.groups() if part])
    return dates.iso_date(text) or _header_date(text)


def _is_date(text: str) -> bool:
    """Whether an ISO-like text is a date of the calendar; a time after it may have any form."""
    year, month, day = (*text[:10].split("-"), "01", "01")[:3]
    try:
        dt.date(int(year), int(month), int(day))
    except ValueError:
        return False
    return True


def _pdf_date(parts: list[str]) -> str:
    date = "-".join(parts[:3])
    if not _is_date(date):
        return ""
    return date + "T" + ":".join([*parts[3:6], "00", "00"][:3]) if len(parts) > 3 else date


def _header_date(text: str) -> str:
    """The date of an e-mail header."""
    try:
        return email.utils.parsedate_to_datetime(text).isoformat()
    except (ValueError, TypeError, IndexError):
        return ""
