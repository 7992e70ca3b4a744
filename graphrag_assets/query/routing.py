"""Which search a question is sent to when the method is ``auto``: simple rules, in this order.

1. Words that ask about the collection as a whole ("main themes", "overall", "across the documents") → global.
2. With a language model only: several questions in one, or a question of more than 40 words → DRIFT.
3. Two or more entities named, or one named and words that ask who or what it is or how things are related → local.
4. Everything else → basic, the cheapest.

The words are English; questions in other languages are routed by the entities that they name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from graphrag_assets.query.entities import mentions
from graphrag_assets.query.index import Index

Method = Literal["local", "global", "drift", "basic"]

_WHOLE = re.compile(
    r"\b(?:themes?|overall|overview|in general|in total across|as a whole|across (?:all|the|these)|throughout"
    r"|all (?:of )?(?:the |these )?documents|whole (?:corpus|collection|story|affair|matter)"
    r"|runs? through (?:all|the|these)|(?:these|the) documents|this collection"
    r"|summar(?:y|ise|ize)|main (?:topics|points|issues|ideas|conflicts?|causes?)"
    r"|most important|key (?:topics|points|issues)"
    r"|trends?|common threads?|recurring|what kinds? of|in (?:what|which) (?:ways|respects)|on (?:what|which) points"
    r"|what parts? (?:do|does|did))\b",
    re.IGNORECASE,
)
_RELATION = re.compile(
    r"\b(?:who (?:is|was|are|were)|tell me about|describe|relat(?:ed|ion|ions|ionship|ionships)|connect(?:ed|ion|ions)?"
    r"|link(?:ed|s)?|between|compare|role of|influence|involved)\b",
    re.IGNORECASE,
)

#: Words from which a question counts as a broad one.
LONG_QUESTION = 40


@dataclass(frozen=True)
class Route:
    """Where a question goes.

    Args:
        method: The search.
        why: The rule that decided, for people.
    """

    method: Method
    why: str


def asks_about_the_whole(question: str) -> str:
    """The words of a question that ask about the collection as a whole; empty when there are none."""
    found = _WHOLE.search(question)
    return found.group().lower() if found else ""


def route(index: Index, question: str, has_model: bool) -> Route:
    """Choose the cheapest search that can answer a question.

    Args:
        index: The snapshot; without reports global and DRIFT are not chosen.
        question: The question.
        has_model: Whether a language model is configured.
    """
    whole = asks_about_the_whole(question)
    has_reports = index.count("community_reports") > 0
    if whole and has_reports:
        return Route("global", f"it asks about the documents as a whole ({whole!r})")
    if (
        has_model
        and has_reports
        and (question.count("?") + question.count("？") > 1 or len(question.split()) > LONG_QUESTION)
    ):
        return Route("drift", "it is several questions in one, or a very broad one")
    named = list(dict.fromkeys(m.entity.title for m in mentions(index, question) if m.proper))
    relation = _RELATION.search(question)
    if len(named) > 1:
        return Route("local", f"it names several entities: {', '.join(named)}")
    if named and relation:
        return Route("local", f"it names {named[0]} and asks about it or its relations ({relation.group().lower()!r})")
    return Route("basic", "it looks for a fact in the texts")
