"""Asking: from a question to an answer with checked citations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Literal

from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.query import searches
from graphrag_assets.query.accounts import copy_usage, usage_since
from graphrag_assets.query.calls import Deadline
from graphrag_assets.query.citations import check_citations, resolve_citations
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.history import Turn
from graphrag_assets.query.index import Index
from graphrag_assets.query.models import Models, open_models
from graphrag_assets.query.result import Answer, Draft, Stopwatch, cited_sections
from graphrag_assets.query.routing import Route, route
from graphrag_assets.query.writing import OnText, Question

Method = Literal["auto", "local", "global", "drift", "basic"]

#: Longest question in characters, and longest one without a language model, where a model reads it beside each of some
#: hundred sentences.
MAX_QUESTION, MAX_EXTRACTIVE_QUESTION = 10_000, 2_000

_SEARCHES: dict[str, Callable[[Question], Awaitable[Draft]]] = {
    "local": searches.local,
    "global": searches.global_,
    "drift": searches.drift_,
    "basic": searches.basic,
}


async def ask(
    index: Index,
    question: str,
    method: Method = "auto",
    *,
    history: Sequence[Turn] = (),
    response_type: str = "Multiple Paragraphs",
    level: int | None = None,
    deadline: float | None = None,
    models: Models | None = None,
    on_text: OnText | None = None,
) -> Answer:
    """Ask an index.

    Args:
        index: An open snapshot.
        question: The question, in any language.
        method: Search to use; auto chooses by the rules of :mod:`graphrag_assets.query.routing`.
        history: Conversation so far: turns with role (user or assistant) and content, oldest first.
        response_type: Form of the answer in words, such as "Multiple Paragraphs" or "Single Sentence".
        level: Deepest community level whose reports are used; None: as set.
        deadline: Seconds after which the best answer so far is returned; None: none.
        models: Models that are open already, for several questions; None: those of the workspace.
        on_text: Takes the answer piece by piece while it is written: text only, citations checked.

    Returns:
        The answer; extractive where no language model is configured.

    Raises:
        QueryError: The question cannot be answered; the message names the thing at fault.
    """
    if not question.strip():
        raise QueryError("the question is empty")
    if method != "auto" and method not in _SEARCHES:
        raise QueryError(f"there is no search method {method!r}; there are auto, {', '.join(_SEARCHES)}")
    if not (index.count("documents") or index.count("text_units")):
        raise QueryError(
            f"the index holds no documents (snapshot {index.snapshot}): put documents into "
            f"{index.workspace.uri(index.settings.input_storage.base_dir)} and run graphrag-assets index"
        )
    if level is not None and level < 0:
        raise QueryError(
            f"the community level must not be below 0, found {level}; level 0 holds the widest communities"
        )
    watch = Stopwatch()
    async with AsyncExitStack() as stack:
        with watch.step("models"):
            opened = models if models is not None else await stack.enter_async_context(open_models(index))
        _check_length(question, opened)
        before = copy_usage(opened.usage()) if opened.usage else {}
        asked = Question(index, opened, question, history, response_type, level, Deadline(deadline), on_text, watch)
        with watch.step("route"):
            chosen = _route(asked, method)
        draft = await _SEARCHES[chosen.method](asked)
        return await asyncio.to_thread(_finish, asked, chosen, draft, before)


def ask_sync(index: Index, question: str, method: Method = "auto", **options: object) -> Answer:
    """The same for callers without an event loop; see :func:`ask`."""
    return asyncio.run(ask(index, question, method, **options))  # type: ignore[arg-type]


def _check_length(question: str, models: Models) -> None:
    """Refuse a question that would take minutes to compare with the texts.

    Raises:
        QueryError: It is too long.
    """
    most, when = (MAX_QUESTION, "") if models.chat else (MAX_EXTRACTIVE_QUESTION, " without a language model")
    if len(question) > most:
        raise QueryError(
            f"the question has {len(question):,} characters; at most {most:,} are read{when}: ask a shorter question"
        )


def _route(question: Question, method: Method) -> Route:
    if method != "auto":
        return Route(method, "")
    return route(question.index, question.text, question.models.chat is not None)


def _finish(question: Question, chosen: Route, draft: Draft, before: Mapping[str, StageUsage]) -> Answer:
    """Check and resolve the citations, say what went wrong, and close the accounts."""
    citable = draft.citable()
    with question.watch.step("citations"):
        text, dropped = check_citations(draft.text, citable)
        citations = resolve_citations(question.index, text, citable)
    note = "".join(f"\n\n> Note: {warning}." for warning in draft.warnings)
    if note and question.on_text:
        question.on_text(note)
    usage = question.models.usage
    return Answer(
        answer=text + note,
        method=chosen.method,
        snapshot=question.index.snapshot,
        citations=tuple(citations),
        dropped_citations=tuple(dict.fromkeys([*draft.dropped, *dropped])),
        tokens=sum(context.tokens for context in draft.contexts),
        sections=cited_sections(citable),
        contexts=draft.contexts,
        llm=usage_since(before, usage() if usage else {}),
        seconds=question.watch.total(),
        why=chosen.why,
        warnings=draft.warnings,
        extractive=draft.extractive,
        declined=draft.declined,
        notes=tuple(context.notes for context in draft.contexts),
    )
