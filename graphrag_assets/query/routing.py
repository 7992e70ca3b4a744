"""Which search a question is sent to when the method is ``auto``.

1. Rules, which cost nothing. Words that ask about the collection as a whole → global. With a language model: several
   questions in one, or a very long one → DRIFT. Words that ask for a number, a price or a date → basic. Several entities
   named, or one and words that ask who it is or how things are related → local. Words that ask for another fact → basic.
2. Where no rule is sure: one short call of the language model, if there is one and ``auto_search.ask_model`` allows it;
   else the similarity of the question to examples of each kind.
3. Else basic, the cheapest.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from graphrag_assets.query.calls import call, call_all
from graphrag_assets.query.entities import mentions
from graphrag_assets.query.models import STAGE_EMBEDDING, Models
from graphrag_assets.query.route_words import BROAD, EXAMPLES, FACT, RELATION, WHOLE
from graphrag_assets.query.writing import Question
from graphrag_assets.text.asked import asks_for_an_account, kind_of_answer, may_be_english
from graphrag_assets.text.json_answers import parse_json_object

Method = Literal["local", "global", "drift", "basic"]
METHODS: tuple[Method, ...] = ("basic", "local", "global", "drift")

#: Words from which a question counts as a broad one.
LONG_QUESTION = 40

#: Examples of a kind that are compared, and how much nearer than the next kind a question must be.
NEAREST, MARGIN = 2, 0.03

#: Share of the time that choosing may take.
CHOOSING_SHARE = 0.2

CHOICE_SCHEMA: dict[str, Any] = {
    "title": "choice",
    "type": "object",
    "properties": {"reason": {"type": "string"}, "method": {"type": "string", "enum": list(METHODS)}},
    "required": ["reason", "method"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Route:
    """Where a question goes.

    Args:
        method: The search.
        why: What decided, for people.
        sure: Whether the rules decided; else something better may be asked.
        by: rules, model, similarity; given where the user chose.
        whole: Whether it asks about the documents as a whole.
    """

    method: Method
    why: str
    sure: bool = True
    by: str = "rules"
    whole: bool = False


def asks_about_the_whole(question: str) -> str:
    """The words of a question that ask about the collection as a whole; empty when there are none."""
    found = WHOLE.search(question) or BROAD.search(question)
    return found.group().lower() if found else ""


def by_rules(question: Question) -> Route:
    """The cheapest search that can answer a question, by its words and the names in it."""
    index, text, has_model = question.index, question.text, question.models.chat is not None
    has_reports = index.count("community_reports") > 0
    if has_reports and (whole := WHOLE.search(text)):
        return Route("global", f"it asks about the documents as a whole ({whole.group().lower()!r})", whole=True)
    parts = text.count("?") + text.count("？") > 1 or len(text.split()) > LONG_QUESTION
    if has_model and has_reports and parts:
        return Route("drift", "it is several questions in one, or a very broad one")
    kind = kind_of_answer(text)
    if has_reports and not kind and BROAD.search(text):
        return Route("global", "it asks for effects and changes that many documents tell in parts", whole=True)
    if kind in ("number", "money", "date"):
        return Route("basic", f"it asks for a {kind}")
    named = list(dict.fromkeys(m.entity.title for m in mentions(index, text) if m.proper))
    relation = RELATION.search(text)
    if len(named) > 1:
        return Route("local", f"it names several entities: {', '.join(named)}")
    if named and relation:
        return Route("local", f"it names {named[0]} and asks about it or its relations ({relation.group().lower()!r})")
    if kind or FACT.search(text):
        return Route("basic", f"it asks for {'a ' + kind if kind else 'a fact'}")
    return Route("basic", "it looks for a fact in the texts", sure=False)


async def choose(question: Question) -> Route:
    """Choose a search: by rules, and where they are not sure, by a model or by similarity.

    Args:
        question: The question; failures of models on the way leave the choice to the rules.
    """
    route = await asyncio.to_thread(by_rules, question)
    if route.sure:
        return route
    if question.models.chat is not None and question.settings.auto_search.ask_model:
        return await _by_model(question, route)
    return await _by_similarity(question, route)


async def _by_model(question: Question, route: Route) -> Route:
    settings = question.settings.auto_search
    messages = [
        {"role": "system", "content": question.prompt("auto_search_system_prompt", settings.prompt)},
        {"role": "user", "content": question.text},
    ]
    asked = call(
        question.chat.ask("query_route", settings.completion_model_id), messages, parse_choice, CHOICE_SCHEMA, "route"
    )
    outcome = (await call_all([asked], question.deadline.share(CHOOSING_SHARE)))[0]
    if outcome.value is None:
        return replace(route, why=f"{route.why}; the model made no choice ({outcome.reason})")
    method, reason = outcome.value
    if method in ("global", "drift") and not question.index.count("community_reports"):
        return replace(route, why=f"the model would take {method} ({reason}), but there are no reports")
    return Route(method, f"the model chose it: {reason or 'no reason given'}", by="model", whole=method == "global")


def parse_choice(text: str) -> tuple[Method, str]:
    """Read the choice of a model: method and reason.

    Raises:
        ValueError: It names none of the methods.
    """
    found = parse_json_object(text, ("method",))
    named = str(found.get("method", "")).strip().lower()
    method = next((m for m in METHODS if m == named), None)
    if method is None:
        raise ValueError(f'expected a JSON object with one of {", ".join(METHODS)} as "method"')
    reason = found.get("reason")
    return method, " ".join(reason.split())[:200] if isinstance(reason, str) else ""


async def _by_similarity(question: Question, route: Route) -> Route:
    """Compare the question with examples; where its language or the model forbid it, the rules stand."""
    models = question.models
    if "-en-" in models.embedder.model and not may_be_english(question.text):
        return route
    try:
        async with asyncio.timeout(question.deadline.share(CHOOSING_SHARE).remaining()):
            scores = await similarities(models, question.text)
    except Exception as error:  # no embedding, no help: what it needs is told where the search itself embeds
        return replace(route, why=f"{route.why}; it could not be compared with examples ({type(error).__name__})")
    best, second = sorted(scores, key=lambda kind: -scores[kind])[:2]
    told = ", ".join(f"{kind} {score:.2f}" for kind, score in scores.items())
    near = scores[best] - scores[second] >= MARGIN
    if best == "global" and near and question.index.count("community_reports"):
        # In English a question about the whole begins with how, why or the like; what it asks in between is a fact.
        if may_be_english(question.text) and not asks_for_an_account(question.text):
            return replace(route, why=f"{route.why} (similarity to examples: {told})")
        return Route("global", f"it is most like questions about the whole ({told})", by="similarity", whole=True)
    if best == "local" and near and any(m.proper for m in mentions(question.index, question.text)):
        return Route("local", f"it is most like questions about entities ({told})", by="similarity")
    return replace(route, why=f"{route.why} (similarity to examples: {told})", by="similarity")


async def similarities(models: Models, question: str) -> dict[str, float]:
    """How near a question is to examples of each kind: the mean similarity of the nearest ones."""
    embedder = models.embedder
    if embedder.model not in _EXAMPLE_VECTORS:
        texts = [text for group in EXAMPLES.values() for text in group]
        _EXAMPLE_VECTORS[embedder.model] = await embedder.embed(texts, "query", STAGE_EMBEDDING)
    scores = _EXAMPLE_VECTORS[embedder.model] @ (await embedder.embed([question], "query", STAGE_EMBEDDING))[0]
    found: dict[str, float] = {}
    start = 0
    for kind, group in EXAMPLES.items():
        own = np.sort(scores[start : start + len(group)])[::-1][:NEAREST]
        found[kind] = float(own.mean())
        start += len(group)
    return found


#: Vectors of the examples by embedding model: they are the same for every question.
_EXAMPLE_VECTORS: dict[str, np.ndarray[Any, Any]] = {}
