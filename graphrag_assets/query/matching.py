"""Words of a text for comparing texts, in any script."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TOKEN = re.compile(
    r"(?P<unspaced>[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+)|[^\W_]+"
)


def terms(text: str) -> list[str]:
    """Words in lower case; runs of scripts that write no spaces give their pairs of neighbouring characters."""
    found: list[str] = []
    for match in _TOKEN.finditer(text.casefold()):
        word = match.group()
        if match.lastgroup == "unspaced" and len(word) > 1:
            found.extend(word[i : i + 2] for i in range(len(word) - 1))
        else:
            found.append(word)
    return found


def overlap(statement: Sequence[str], passage: Sequence[str]) -> float:
    """How much of a statement's words a passage holds, less a little for its length (so that the shorter one wins).

    Longer words count more: they say more.
    """
    wanted = set(statement)
    held = wanted & set(passage)
    total = sum(len(word) for word in wanted) or 1
    return sum(len(word) for word in held) / total - 0.0005 * len(passage)
