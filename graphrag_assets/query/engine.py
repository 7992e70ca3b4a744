"""Asking: from a question to an answer with checked citations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Literal

from graphrag_assets.llm.limiting.budget import Budget, limited_by
from graphrag_assets.llm.providers.wire import clean
from graphrag_assets.prompt_files import PromptError, require_prompts
from graphrag_assets.query import costs, routing, searches
from graphrag_assets.query.accounts import copy_usage, usage_since
from graphrag_assets.query.calls import Deadline, Stopped
from graphrag_assets.query.citations import check_citations, resolve_citations
from graphrag_assets.query.errors import NoReports, QueryError
from graphrag_assets.query.explanation import explain
from graphrag_assets.query.filters import Filter
from graphrag_assets.query.global_answer import global_
from graphrag_assets.query.history import Turn
from graphrag_assets.query.index import Index
from graphrag_assets.query.models import Models, open_models
from graphrag_assets.query.result import NOTE, Answer, Draft, Stopwatch, cited_sections
from graphrag_assets.query.routing import Route
from graphrag_assets.query.writing import OnText, Question
from graphrag_assets.telemetry import present, telemetry_of

Method = Literal["auto", "local", "global", "drift", "basic"]

#: Longest question in characters, and longest one without a language model, where a model reads it beside each of some
#: hundred sentences.
MAX_QUESTION, MAX_EXTRACTIVE_QUESTION = 10_000, 2_000

_SEARCHES: dict[str, Callable[[Question], Awaitable[Draft]]] = {
    "local": searches.local,
    "global": global_,
    "drift": searches.drift_,
    "basic": searches.basic,
}

#: How the names of their prompts begin.
_PROMPTS = ("local_", "global_", "drift_", "basic_", "auto_", "question_")

#: Searches that ``auto`` goes on to, in this order, where one finds nothing.
_FALLBACKS = {"global": ("basic", "local"), "drift": ("basic", "local"), "local": ("basic",), "basic": ("local",)}


async def ask(
    index: Index,
    question: str,
    method: Method = "auto",
    *,
    history: Sequence[Turn] = (),
    response_type: str = "Multiple Paragraphs",
    level: int | None = None,
    deadline: float | None = None,
    max_usd: float | None = None,
    max_tokens: int | None = None,
    budget: Budget | None = None,
    dynamic: bool | None = None,
    models: Models | None = None,
    on_text: OnText | None = None,
    explain_costs: bool = False,
    documents: Filter | None = None,
) -> Answer:
    """Ask an index.

    Args:
        index: An open snapshot.
        question: The question, in any language.
        method: Search to use; auto chooses, see :mod:`graphrag_assets.query.routing`, and goes on to another one where
            the first finds nothing.
        history: Conversation so far: turns with role (user or assistant) and content, oldest first.
        response_type: Form of the answer in words, such as "Multiple Paragraphs" or "Single Sentence".
        level: Deepest community level whose reports are used; None: as set.
        deadline: Seconds after which the best answer so far is returned; None: none.
        max_usd: Most USD that the question may cost; None: as set (``query.max_usd``).
        max_tokens: Most tokens, of prompts and answers together; None: as set.
        budget: A ceiling that further calls are charged to as well; it takes the place of the two before.
        dynamic: Whether global search lets the model choose the reports; None: as set.
        models: Models that are open already, for several questions; None: those of the workspace.
        on_text: Takes the answer piece by piece while it is written: text only, citations checked.
        explain_costs: Estimate in the explanation what each search would have cost; with a language model ``auto`` always
            does.
        documents: Which documents may be read: nothing from outside is in the context; None: all.

    Returns:
        The answer; extractive where no language model is configured.

    Raises:
        QueryError: The question cannot be answered; the message names the thing at fault.
    """
    question, history = clean(question), [{key: clean(text) for key, text in turn.items()} for turn in history]
    _check(index, question, method, level)
    _check_limits(deadline=deadline, max_usd=max_usd, max_tokens=max_tokens)
    index = await asyncio.to_thread(index.within, documents)
    telemetry = telemetry_of(index.settings.telemetry)
    watch = Stopwatch(telemetry=telemetry)
    budget = budget or ceiling(index, max_usd, max_tokens)
    until = Deadline(deadline)
    async with AsyncExitStack() as stack:
        about = {"graphrag.method.asked": method, "graphrag.snapshot": index.snapshot, **_WORKFLOW}
        span = stack.enter_context(telemetry.span("question", about))
        with watch.step("models"):
            opened = models if models is not None else await stack.enter_async_context(open_models(index))
        _check_length(question, opened)
        if opened.chat is not None:
            await asyncio.to_thread(_check_prompts, index)
        usage = stack.enter_context(opened.booking()) if opened.booking else opened.usage
        before = copy_usage(usage()) if usage else {}
        asked = Question(
            index,
            opened,
            question,
            history,
            response_type,
            level,
            until,
            on_text,
            watch,
            budget,
            dynamic,
            method == "auto",
        )
        with limited_by(budget):
            with watch.step("route"):
                route = (
                    await routing.choose(asked) if method == "auto" else Route(method, "it was asked for", by="given")
                )
            asked.whole = route.whole
            draft, fell_back = await _search(asked, route)
        with watch.step("costs"):
            wanted = explain_costs or (method == "auto" and opened.chat is not None)
            estimates = await asyncio.to_thread(costs.estimate, asked) if wanted else {}
        explanation = explain(route, fell_back, estimates, draft, budget)
        llm = usage_since(before, usage() if usage else {})
        answer = await asyncio.to_thread(_finish, asked, draft, llm, explanation)
        span.set_attributes(_told(answer, question if telemetry.content else ""))
        return answer


#: What a question is in the conventions for generative AI.
_WORKFLOW = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "question"}


def _told(answer: Answer, question: str) -> dict[str, Any]:
    """An answer as attributes of its span; text only where a question is given."""
    figures = {
        "graphrag.method": answer.method,
        "graphrag.context.tokens": answer.tokens,
        "graphrag.citations": len(answer.citations),
        "graphrag.citations.dropped": len(answer.dropped_citations),
        "graphrag.declined": answer.declined,
        "graphrag.extractive": answer.extractive,
        **{f"graphrag.llm.{name}": value for name, value in answer.llm.items() if name != "by_stage"},
    }
    text = {"graphrag.question": question, "graphrag.answer": answer.answer} if question else {}
    return present(figures | text)


def ceiling(index: Index, max_usd: float | None = None, max_tokens: int | None = None) -> Budget:
    """The ceiling of a question: as given, else as set."""
    limits = index.settings.query
    return Budget(
        limits.max_usd if max_usd is None else max_usd, limits.max_tokens if max_tokens is None else max_tokens
    )


def ask_sync(index: Index, question: str, method: Method = "auto", **options: object) -> Answer:
    """The same for callers without an event loop; see :func:`ask`."""
    return asyncio.run(ask(index, question, method, **options))  # type: ignore[arg-type]


def _check(index: Index, question: str, method: Method, level: int | None) -> None:
    """Refuse what cannot be asked.

    Raises:
        QueryError: The message says what is wrong.
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


def _check_limits(**limits: float | None) -> None:
    """Refuse limits that no comparison holds.

    Raises:
        QueryError: One is below 0, or nan.
    """
    for name, limit in limits.items():
        if limit is not None and not limit >= 0:
            raise QueryError(f"{name} must be a number of 0 or more, found {limit}")


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


def _check_prompts(index: Index) -> None:
    """Refuse prompts that cannot be used, before anything is asked.

    Raises:
        QueryError: A prompt of the searches cannot be used.
    """
    try:
        require_prompts(index.workspace, _PROMPTS)
    except PromptError as error:
        raise QueryError(str(error)) from error


async def _search(question: Question, route: Route) -> tuple[Draft, list[dict[str, str]]]:
    """Search, and where ``auto`` chose and nothing was found, search otherwise.

    Returns:
        The draft, and the searches that were given up: from, to, why.
    """
    fell_back: list[dict[str, str]] = []
    method: str = route.method
    draft, why = await _attempt(question, method)
    found = draft
    for other in _FALLBACKS[route.method] if question.auto else ():
        if not why:
            break
        fell_back.append({"from": method, "to": other, "why": why})
        method = other
        draft, why = await _attempt(question, method)
        found = _after(found, draft)
    if found is None:
        raise NoReports(why)
    return found, fell_back


def _after(earlier: Draft | None, draft: Draft | None) -> Draft | None:
    """A draft with what the search before it has to say: its notes, warnings and made-up citations."""
    if earlier is None or draft is None:
        return draft or earlier
    return replace(
        draft,
        warnings=(*earlier.warnings, *draft.warnings),
        dropped=tuple(dict.fromkeys([*earlier.dropped, *draft.dropped])),
        notes={**earlier.notes, **draft.notes},
    )


async def _attempt(question: Question, method: str) -> tuple[Draft | None, str]:
    """A draft, and why another search should be tried; empty where it need not."""
    try:
        draft = await _SEARCHES[method](question)
    except Stopped as stopped:
        return await searches.by_words(question, str(stopped)), ""
    except NoReports as error:
        if not question.auto:
            raise
        return None, str(error)
    if not draft.declined:
        return draft, ""
    if method == "basic" and any(not context.is_empty for context in draft.contexts):
        return draft, ""  # the texts were read: what they do not hold, no other search finds in them
    if method == "local" and draft.extractive:
        return draft, ""  # it has read what basic search reads
    poor = draft.notes.get("poor")
    return draft, str(poor) if poor else f"{method} search found nothing on the question"


def _finish(question: Question, draft: Draft, llm: Mapping[str, Any], explanation: Mapping[str, Any]) -> Answer:
    """Check and resolve the citations, and say what went wrong."""
    citable = draft.citable()
    with question.watch.step("citations"):
        text, dropped = check_citations(draft.text, citable)
        citations = resolve_citations(question.index, text, citable)
    note = "".join(f"{NOTE}{warning}." for warning in draft.warnings)
    if question.on_text:
        if not draft.streamed:
            question.on_text(text)
        if note:
            question.on_text(note)
    return Answer(
        answer=text + note,
        method=explanation["route"]["method"],
        snapshot=question.index.snapshot,
        citations=tuple(citations),
        dropped_citations=tuple(dict.fromkeys([*draft.dropped, *dropped])),
        tokens=sum(context.tokens for context in draft.contexts),
        sections=cited_sections(citable),
        contexts=draft.contexts,
        llm=llm,
        seconds=question.watch.total(),
        why=_why(explanation["route"]) if question.auto else "",
        warnings=draft.warnings,
        extractive=draft.extractive,
        declined=draft.declined,
        notes=tuple(context.notes for context in draft.contexts),
        explanation=explanation,
    )


def _why(route: Mapping[str, Any]) -> str:
    """Why this search, for people."""
    first = route["fell_back"][0]["from"] if route["fell_back"] else route["method"]
    steps = [f"{s['from']} search was given up for {s['to']} search, since {s['why']}" for s in route["fell_back"]]
    return "; ".join([f"{first} search, since {route['why']}", *steps])
