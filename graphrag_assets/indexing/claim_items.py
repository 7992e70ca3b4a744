"""Claims out of structured values: JSON of any shape, the rows of a table, the fields of a listing, lines of CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphrag_assets.indexing.listings import Form
from graphrag_assets.indexing.tuples import Record, clean_field, read_claim_records
from graphrag_assets.text.claim_words import PARTS, claim_role, claim_status
from graphrag_assets.text.record_words import kind

_STATUS_AT = PARTS.index("status")
_FEWEST = PARTS.index("description") + 1
#: Deepest nesting that is looked into.
_DEEPEST = 12
_RANGE = re.compile(r"\s*(?:/|–|—|,|;|至|~|\.\.+|\b(?:to|until|bis|till|a|à)\b)\s*|\s+-\s+")
_SLASHED_DATE = re.compile(r"\d{1,4}/\d{1,2}(?:/\d{1,4})?")


def claims_in(value: Any, above: Mapping[str, str] | None = None, depth: int = 0) -> Iterator[Record]:
    """Claims of a value.

    Args:
        value: What was read: mappings, lists, text.
        above: Parts of a claim that an object around it holds for all in it: the subject of a list of claims.
        depth: How deep the value lies.
    """
    above = above or {}
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        if "<|>" in value:
            yield from read_claim_records(value).records
    elif isinstance(value, list):
        if (found := _positional(value)) is not None:
            yield found
            return
        for item in value:
            yield from claims_in(item, above, depth + 1)
    elif isinstance(value, Mapping):
        parts = {**above, **parts_of(value)}
        if (found := _claim(parts)) is not None:
            yield found
            return
        for name, item in value.items():
            named = kind(str(name)) or claim_role(str(name))
            inner = (
                parts
                if named or "subject" in parts or not isinstance(item, list | dict)
                else {**parts, "subject": name}
            )
            yield from claims_in(item, inner, depth + 1)


def parts_of(item: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a mapping by the part of a claim that their keys name; dates may lie in an object of their own."""
    found: dict[str, str] = {}
    for name, value in item.items():
        part = claim_role(str(name))
        if part in {"period", "start"} and isinstance(value, list) and len(value) == 2:
            value = dict(zip(("start", "end"), value, strict=True))
        if isinstance(value, Mapping):
            if part == "period":
                found = {**parts_of(value), **found}
            elif part in {"subject", "object"} and (text := _text(value.get("name"))):
                found.setdefault(part, text)
        elif part and (text := _text(value)):
            # An id is no subject where a name is there as well, nor a source that is no more than a number a quote.
            found.setdefault(part, text)
    return found


def claim_of(item: Mapping[str, str], hint: str | None = None) -> Record | None:
    """The claim that a mapping is, by the meaning of its keys; None where it is none."""
    return _claim(parts_of(item))


def _claim(parts: Mapping[str, str]) -> Record | None:
    """A claim has a subject, a status, and words."""
    if "subject" not in parts or claim_status(parts.get("status", "")) is None:
        return None
    if "description" not in parts and "quote" not in parts:
        return None
    begins, ends = parts.get("start", ""), parts.get("end", "")
    if (period := parts.get("period", "")) and not begins:
        times = [period] if _SLASHED_DATE.fullmatch(period) else _RANGE.split(period.strip("()[] "))
        begins, ends = times[0], ends or times[-1]
    return Record("claim", tuple({**parts, "start": begins, "end": ends}.get(part, "") for part in PARTS))


def _positional(values: Sequence[Any]) -> Record | None:
    """A claim as a list of its fields."""
    if not _FEWEST <= len(values) <= len(PARTS) + 1 or any(isinstance(value, list | Mapping) for value in values):
        return None
    texts = [_text(value) for value in values]
    if kind(texts[0]) == "claim" or (texts[0].isdigit() and claim_status(texts[_STATUS_AT]) is None):
        texts = texts[1:]
    if len(texts) < _FEWEST or claim_status(texts[_STATUS_AT]) is None or any("<|>" in text for text in texts):
        return None
    return Record("claim", tuple(texts))


def claims_in_rows(text: str) -> Iterator[Record]:
    """Claims as lines of CSV, with or without a line of names."""
    lines = [line for line in text.splitlines() if line.strip()]
    for mark in ",;\t|":
        if sum(line.count(mark) >= _FEWEST - 1 for line in lines) == 0:
            continue
        names: list[str] = []
        found = []
        for cells in csv.reader(lines, delimiter=mark, skipinitialspace=True):
            if {"subject", "status", "description"} <= {claim_role(cell) for cell in cells}:
                names = cells
            elif names and len(cells) == len(names):
                found.append(claim_of(dict(zip(names, cells, strict=True))))
            elif not names:
                found.append(_positional(cells))
        if claims := [claim for claim in found if claim is not None]:
            yield from claims
            return


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    if value is None or isinstance(value, Mapping):
        return ""
    if isinstance(value, list):
        return ", ".join(part for part in map(_text, value) if part)
    return clean_field(str(value))


#: What an answer about claims holds.
CLAIMS = Form(frozenset({"claim"}), claim_role, claim_of, frozenset({"description", "quote"}))
