"""Words of a text for comparing texts, in any script."""

from __future__ import annotations

from collections.abc import Sequence

from graphrag_assets.text.terms import terms

__all__ = ["overlap", "terms"]


def overlap(statement: Sequence[str], passage: Sequence[str]) -> float:
    """How much of a statement's words a passage holds, less a little for its length (so that the shorter one wins).

    Longer words count more: they say more.
    """
    wanted = set(statement)
    held = wanted & set(passage)
    total = sum(len(word) for word in wanted) or 1
    return sum(len(word) for word in held) / total - 0.0005 * len(passage)
