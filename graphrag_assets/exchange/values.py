"""Cells of foreign tables as plain values: nulls, NaN, arrays and numbers in strings are all met in the wild."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
Rows = list[Row]

#: An item of a written list: in quotes, or without.
_ITEM = re.compile(r"""'([^']*)'|"([^"]*)"|([^\s,\[\]'"]+)""")

#: Largest number that the link tables hold.
LARGEST = 2**31 - 1


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing: null or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def text(value: Any) -> str:
    """A cell as text; empty where it holds nothing. Lone surrogates, which no file can hold, become question marks."""
    if is_missing(value):
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).encode("utf-8", "replace").decode("utf-8")


def integer(value: Any) -> int | None:
    """A cell as an integer, also from 3.0, "3" and "3.0"; None where it is none."""
    found = number(value)
    return int(found) if found is not None and found.is_integer() and abs(found) <= 2**53 else None


def number(value: Any) -> float | None:
    """A cell as a finite number; None where it is none."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def cells(value: Any) -> list[Any]:
    """A cell that holds a list: arrays and tuples are lists, one value is a list of one, nothing is an empty one."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        value = _written_list(value)
    if isinstance(value, list | tuple):
        return [item for item in value if not is_missing(item)]
    return [] if is_missing(value) or value == "" else [value]


def _written_list(value: str) -> Any:
    """A list that went through a CSV file: as JSON, as Python or as numpy writes it; else the text itself."""
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        # Python joins strings that stand side by side, which is how numpy writes an array of them
        if isinstance(found, list) and (len(found) != 1 or ("\n" not in value and "' '" not in value)):
            return found
    if "{" in value:
        return value
    return ["".join(parts) for parts in _ITEM.findall(value)]


def strings(value: Any) -> list[str]:
    """A cell that holds a list of texts, each once, in their order."""
    return list(dict.fromkeys(text(item) for item in cells(value)))


def integers(value: Any) -> list[int]:
    """A cell that holds a list of integers, each once, ascending; what is none is left out."""
    return sorted({n for n in map(integer, cells(value)) if n is not None})


def as_json(value: Any) -> str | None:
    """A cell that holds a structure as JSON text; None where there is nothing in it."""
    if is_missing(value):
        return None
    if isinstance(value, str):
        return value or None
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if not is_missing(item)}
        if not value:
            return None
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def has_column(rows: Iterable[Row], name: str) -> bool:
    """Whether a table has a column; a table without rows has all of them."""
    first = next(iter(rows), None)
    return first is None or name in first
