"""Local, basic and DRIFT search, each from a question to the draft of an answer; global search has its own module."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from graphrag_assets.llm.limiting.budget import limited_by
from graphrag_assets.query import drift
from graphrag_assets.query.context import Context
from graphrag_assets.query.errors import NoReports, QueryError
from graphrag_assets.query.extractive import ACCOUNT_THRESHOLD, THRESHOLD, extract
from graphrag_assets.query.judging import Judge
from graphrag_assets.query.local import LocalParameters
from graphrag_assets.query.models import cosine_centre
from graphrag_assets.query.result import Draft
from graphrag_assets.query.retrieving import affordable, as_context, basic_context, local_context, near_reports, spoken
from graphrag_assets.query.writing import Question, write_answer
from graphrag_assets.text.asked import asks_for_an_account

NOTHING_FOUND = "These documents hold nothing on this question."

#: Where the deadline or the budget ended the search.
NOT_REACHED = (
    "No answer was found before the search was ended: the sentences read until then do not hold one "
    "(extractive answer, no language model)."
)

#: Sentences of an extractive answer.
EXTRACTIVE_SENTENCES = 5

#: Share of the time and of the budget that DRIFT and global search may use for the steps before the last one.
EXPLORING_SHARE = 0.7


async def local(question: Question) -> Draft:
    """Local search."""
    settings = question.settings.local_search
    parameters = LocalParameters.of(question.settings, question.level)
    tokens = affordable(question, settings.completion_model_id, parameters.max_context_tokens)
    context = await local_context(question, replace(parameters, max_context_tokens=tokens))
    if question.models.chat is None:
        return await extractive(question, [context, await basic_context(question)])
    if question.auto and (poor := _poor(context, cosine_centre(question.models.embedder.model))):
        return Draft(NOTHING_FOUND, (context,), declined=True, notes={"poor": poor})
    template = question.prompt("local_search_system_prompt", settings.prompt)
    draft = await _answer_from(question, "local", "query_local", settings.completion_model_id, template, context)
    return _smaller(draft, tokens, parameters.max_context_tokens)


async def basic(question: Question) -> Draft:
    """Basic search."""
    settings = question.settings.basic_search
    tokens = affordable(question, settings.completion_model_id, settings.max_context_tokens)
    context = await basic_context(question, max_tokens=tokens)
    if question.models.chat is None:
        return await extractive(question, [context])
    template = question.prompt("basic_search_system_prompt", settings.prompt)
    draft = await _answer_from(question, "basic", "query_basic", settings.completion_model_id, template, context)
    return _smaller(draft, tokens, settings.max_context_tokens)


def _smaller(draft: Draft, tokens: int, wanted: int) -> Draft:
    """Say that the ceiling left less to read, where something was left out for it."""
    if tokens >= wanted or not any(section.left_out for context in draft.contexts for section in context.sections):
        return draft
    told = f"the ceiling of the question left room for {tokens:,} of {wanted:,} tokens of context"
    return replace(draft, warnings=(*draft.warnings, told))


def _poor(context: Context, near: float) -> str:
    """Why a local context is not worth a call: no entity is named, and none is near; empty where it is."""
    seeds = context.notes.get("seeds")
    if not isinstance(seeds, list) or any(seed["how"] != "vector" for seed in seeds):
        return ""
    best = max((float(seed["score"]) for seed in seeds), default=0.0)
    return f"no entity is named, and the nearest has similarity {best:.2f}" if best < near else ""


async def drift_(question: Question) -> Draft:
    """DRIFT search."""
    settings = question.settings.drift_search
    found = await near_reports(question, settings.drift_k_followups, None, settings.embedding_model_id)
    if not found:
        raise no_reports(question, "drift")
    parameters = LocalParameters.of_drift(question.settings, question.level)
    tokenizer = question.models.tokenizer
    near = as_context(question, found, settings.primer_llm_max_tokens)
    if question.models.chat is None:
        return await extractive(question, [await local_context(question, parameters), near], story=True)
    search = drift.Search(question.text)
    exploring = question.deadline.share(EXPLORING_SHARE)
    with limited_by(question.budget.share(EXPLORING_SHARE)):
        with question.watch.step("primer"):
            primer = question.prompt("drift_primer_prompt", settings.primer_prompt)
            ask = question.chat.ask("query_drift_primer", settings.completion_model_id)
            said = spoken(question, settings.primer_llm_max_tokens // 2)
            await drift.prime(search, found, ask, primer, settings, tokenizer, exploring, said)
        if search.stopped and not search.steps:
            return await partial(question, [near], search.stopped)
        with question.watch.step("rounds"):
            ask = question.chat.ask("query_drift_local", settings.completion_model_id)
            step = question.prompt("drift_search_system_prompt", settings.prompt)
            form = question.response_type
            await drift.explore(
                search, question.index, question.models, ask, step, parameters, settings, form, exploring
            )
    return await _drift_answer(question, search)


async def by_words(question: Question, reason: str) -> Draft:
    """What is left where no model can be asked at all: the texts that share most words with the question."""
    return await partial(question, [await basic_context(question, by_words=True)], reason)


def no_reports(question: Question, method: str) -> NoReports:
    """That a search that reads reports has none."""
    filtered = question.index.scope is not None
    inside = " that tells of nothing outside the filter: basic and local search read the text units" if filtered else ""
    return NoReports(
        f"{method} search: snapshot {question.index.snapshot} holds no usable report "
        f"up to level {question.community_level}{inside}"
    )


async def _answer_from(
    question: Question, method: str, stage: str, model_id: str, template: str, context: Context
) -> Draft:
    """Let the model answer from one context; where deadline or budget end it first, answer extractively and say so."""
    if context.is_empty:
        return Draft(NOTHING_FOUND, (context,), declined=True)
    variables = {"context_data": context.text, "response_type": question.response_type}
    outcome = await write_answer(question, stage, model_id, template, variables, context.citable())
    if outcome.value is not None:
        warnings = (f"the answer is not complete ({outcome.reason})",) if outcome.reason else ()
        return Draft(outcome.value, (context,), warnings, streamed=question.on_text is not None)
    if outcome.stopped:
        return await partial(question, [context], outcome.reason)
    raise QueryError(f"{method} search: the model {model_id} gave no usable answer ({outcome.reason})")


async def extractive(question: Question, contexts: Sequence[Context], story: bool = False, calls: bool = True) -> Draft:
    """An extractive answer.

    Args:
        question: The question.
        contexts: What was retrieved.
        story: Whether the search tells the larger story: there less is asked of one sentence.
        calls: Whether a model may judge sentences.
    """
    threshold = ACCOUNT_THRESHOLD if story and asks_for_an_account(question.text) else THRESHOLD

    async def answer(judge: Judge) -> Draft:
        return await extract(question.text, question.index, contexts, judge, EXTRACTIVE_SENTENCES, threshold)

    return await judged(question, answer, calls)


async def judged(question: Question, answer: Callable[[Judge], Awaitable[Draft]], calls: bool = True) -> Draft:
    """An extractive draft, judged by a model as long as there is time, else by words.

    Args:
        question: The question.
        answer: Makes the draft with a judge.
        calls: Whether a model may judge at all.
    """
    models, index = question.models, question.index
    with question.watch.step("answer"):
        try:
            async with asyncio.timeout(question.deadline.remaining() if calls else None):
                return await answer(models.judge(index, calls))
        except TimeoutError:
            draft = await answer(models.judge(index, calls=False))
            return replace(draft, warnings=("the deadline passed: the sentences were chosen by their words alone",))


async def partial(question: Question, contexts: Sequence[Context], reason: str) -> Draft:
    """An extractive answer where the deadline or the budget allows no other; it says so."""
    draft = await extractive(question, contexts, calls=may_judge(question))
    return because(draft, reason)


def because(draft: Draft, reason: str) -> Draft:
    """An extractive draft that says why it is one."""
    return _cut_short(replace(draft, warnings=(*draft.warnings, f"{reason}; this is an extractive answer")))


def _cut_short(draft: Draft) -> Draft:
    """A search that was ended has not read all: that it found nothing does not say that the documents hold nothing."""
    return replace(draft, text=NOT_REACHED) if draft.declined else draft


def despite(draft: Draft, warnings: Sequence[str], reason: str) -> Draft:
    """An extractive draft after warnings, which say why it is one, or else the reason does."""
    if any(reason in warning for warning in warnings):
        return _cut_short(replace(draft, warnings=(*warnings, "this is an extractive answer")))
    return because(replace(draft, warnings=tuple(warnings)), reason)


def may_judge(question: Question) -> bool:
    """Whether a model may still judge sentences: there is time, and it costs nothing."""
    return not question.deadline.passed and question.models.embedder.model.startswith("embedded/")


async def _drift_answer(question: Question, search: drift.Search) -> Draft:
    """Reduce the answers of all steps; where the model fails, the most useful answer is taken, and the text says so."""
    settings = question.settings.drift_search
    draft = Draft("", tuple(search.contexts), dropped=tuple(search.dropped), notes={"drift": search.notes()})
    if not search.steps:
        return replace(draft, text=NOTHING_FOUND, warnings=tuple(search.warnings), declined=True)
    variables = {
        "context_data": drift.reduce_text(search, settings.data_max_tokens, question.models.tokenizer),
        "response_type": question.response_type,
    }
    template = question.prompt("drift_reduce_prompt", settings.reduce_prompt)
    outcome = await write_answer(
        question, "query_drift_reduce", settings.completion_model_id, template, variables, draft.citable()
    )
    text = outcome.value
    if text is None:
        search.warnings.append(f"the answers found could not be merged ({outcome.reason}); this is the most useful one")
        text = max(search.steps, key=lambda step: step.score).answer
    elif outcome.reason:
        search.warnings.append(f"the answer is not complete ({outcome.reason})")
    streamed = outcome.value is not None and question.on_text is not None
    return replace(draft, text=text, warnings=tuple(search.warnings), streamed=streamed)
