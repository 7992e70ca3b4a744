"""Numbers that models write into JSON: 7, "7", "7/10", "7.5 (high)"."""

from __future__ import annotations

import math
import re
from typing import Any

_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)?")


def read_number(value: Any) -> float | None:
    """A finite number out of a JSON value; None when there is none.

    Args:
        value: Number, or text that begins with or holds one; of "7/10" the first number counts.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value) if math.isfinite(value) else None
        except OverflowError:
            return None
    if isinstance(value, str) and (match := _NUMBER.search(value[:1_000])):
        return float(match.group().replace(",", "."))
    return None


def read_score(value: Any, highest: float = 100.0) -> float | None:
    """A score from 0 to the highest one, clamped; None when there is no number, see :func:`read_number`."""
    number = read_number(value)
    return None if number is None else min(max(number, 0.0), highest)
