"""What the rules say about a pair of titles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Shorter = Literal["", "first", "second"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rules say about a pair.

    Args:
        score: Certainty that both name one thing.
        method: Rule that gave the score.
        evidence: Why, in words.
        shorter: Which of the two leaves something out, so that it can stand for several longer ones; such a form is
            merged only where all of its longer forms are one.
        conflict: Whether the two can never be one.
        last_resort: Worth a question to a model, but not worth a row where no model is asked.
    """

    score: float
    method: str = ""
    evidence: str = ""
    shorter: Shorter = ""
    conflict: bool = False
    last_resort: bool = False


NOTHING = Judgement(0.0)


def turned(judgement: Judgement) -> Judgement:
    """The judgement of the pair the other way round."""
    if not judgement.shorter:
        return judgement
    other: Shorter = "second" if judgement.shorter == "first" else "first"
    return replace(judgement, shorter=other)


def kinds_differ(a: str, b: str) -> bool:
    """Whether two kinds rule each other out: unknown agrees with all, places and organisations are often confused."""
    if a == b or not a or not b or "phrase" in (a, b):
        return False
    return {a, b} != {"place", "organization"}
