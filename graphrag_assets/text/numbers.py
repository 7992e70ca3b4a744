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
