"""The four searches, each from a question to the draft of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from graphrag_assets.query import drift, global_search
from graphrag_assets.query.basic import build_basic_context
from graphrag_assets.query.calls import TIMED_OUT, call, call_all
from graphrag_assets.query.citations import check_citations
from graphrag_assets.query.context import REPORTS, Context
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.extractive import ACCOUNT_THRESHOLD, THRESHOLD, extract, overview
from graphrag_assets.query.history import question_with_history
from graphrag_assets.query.local import LocalParameters, build_local_context
from graphrag_assets.query.result import Draft
from graphrag_assets.query.routing import asks_about_the_whole
from graphrag_assets.query.writing import Question, write_answer
from graphrag_assets.storage.tables import ENTITY_VECTORS, REPORT_VECTORS, TEXT_UNIT_VECTORS
from graphrag_assets.text.asked import asks_for_an_account
from graphrag_assets.text.map_answers import POINTS_SCHEMA, Point, parse_points
from graphrag_assets.text.templates import render

NOTHING_FOUND = "These documents hold nothing on this question."

#: Sentences of an extractive answer.
EXTRACTIVE_SENTENCES = 5

#: In an overview of the documents a report that occurs in most of them may be this much less similar to the question.
OCCURRENCE_BONUS = 0.1

#: Share of the time before a deadline that DRIFT and global search may use for the steps before the last one.
EXPLORING_SHARE = 0.7


async def local(question: Question) -> Draft:
    """Local search."""
    settings = question.settings.local_search
    context = await _local_context(question, LocalParameters.of(question.settings, question.level))
    if question.models.chat is None:
        return await _extractive(question, [context, await _basic_context(question)])
    template = question.prompt("local_search_system_prompt", settings.prompt)
    return await _answer_from(question, "local", "query_local", settings.completion_model_id, template, context)


async def basic(question: Question) -> Draft:
    """Basic search."""
    settings = question.settings.basic_search
    context = await _basic_context(question)
    if question.models.chat is None:
        return await _extractive(question, [context])
    template = question.prompt("basic_search_system_prompt", settings.prompt)
    return await _answer_from(question, "basic", "query_basic", settings.completion_model_id, template, context)


async def global_(question: Question) -> Draft:
    """Global search."""
    settings = question.settings.global_search
    with question.watch.step("context"):
        selected = await asyncio.to_thread(global_search.select_reports, question.index, question.community_level)
    if not selected:
        raise QueryError(
            f"global search: snapshot {question.index.snapshot} holds no usable report "
            f"up to level {question.community_level}"
        )
    if question.models.chat is None:
        return await _extractive_global(question, selected)
    with question.watch.step("context"):
        batches = await asyncio.to_thread(
            global_search.build_batches,
            question.index,
            selected,
            settings.max_context_tokens,
            settings.seed,
            question.models.tokenizer,
            question.history,
            question.settings.local_search.conversation_history_max_turns,
        )
    answers, warnings, dropped = await _map(question, batches)
    points = global_search.rank_points(answers)
    if not points and not settings.allow_general_knowledge:
        return Draft(NOTHING_FOUND, tuple(batches), tuple(warnings), declined=True, dropped=tuple(dropped))
    return await _reduce(question, batches, points, warnings, dropped)


async def drift_(question: Question) -> Draft:
    """DRIFT search."""
    settings = question.settings.drift_search
    with question.watch.step("embed"):
        vectors = await question.models.embed(
            question.index, [question.text], [REPORT_VECTORS, ENTITY_VECTORS], settings.embedding_model_id
        )
    with question.watch.step("context"):
        found = await asyncio.to_thread(
            global_search.nearest_reports,
            question.index,
            vectors[0].tolist(),
            settings.drift_k_followups,
            None,
            question.community_level,
        )
    if not found:
        raise QueryError(
            f"drift search: snapshot {question.index.snapshot} holds no usable report "
            f"up to level {question.community_level}"
        )
    parameters = LocalParameters.of_drift(question.settings, question.level)
    tokenizer = question.models.tokenizer
    if question.models.chat is None:
        near = global_search.reports_context(found, settings.primer_llm_max_tokens, tokenizer)
        return await _extractive(question, [await _local_context(question, parameters), near], story=True)
    search = drift.Search(question.text)
    exploring = question.deadline.share(EXPLORING_SHARE)
    with question.watch.step("primer"):
        primer = question.prompt("drift_primer_prompt", settings.primer_prompt)
        ask = question.chat.ask("query_drift_primer", settings.completion_model_id)
        await drift.prime(search, found, ask, primer, settings, tokenizer, exploring)
    with question.watch.step("rounds"):
        ask = question.chat.ask("query_drift_local", settings.completion_model_id)
        step = question.prompt("drift_search_system_prompt", settings.prompt)
        await drift.explore(
            search, question.index, question.models, ask, step, parameters, settings, question.response_type, exploring
        )
    return await _drift_answer(question, search)


async def _embedded(question: Question, table: str, model_id: str, max_turns: int) -> list[float]:
    """Vector of the question with the newest turns of its conversation, for one vector table."""
    with question.watch.step("embed"):
        asked = question_with_history(question.text, question.history, max_turns)
        vectors = await question.models.embed(question.index, [asked], [table], model_id)
    found: list[float] = vectors[0].tolist()
    return found


async def _local_context(question: Question, parameters: LocalParameters) -> Context:
    vector = await _embedded(question, ENTITY_VECTORS, parameters.embedding_model_id, parameters.max_turns)
    with question.watch.step("context"):
        return await asyncio.to_thread(
            build_local_context,
            question.index,
            question.text,
            vector,
            parameters,
            question.models.tokenizer,
            question.history,
        )


async def _basic_context(question: Question) -> Context:
    settings = question.settings.basic_search
    turns = question.settings.local_search.conversation_history_max_turns
    vector = await _embedded(question, TEXT_UNIT_VECTORS, settings.embedding_model_id, turns)
    with question.watch.step("context"):
        return await asyncio.to_thread(
            build_basic_context,
            question.index,
            question.text,
            vector,
            settings.k,
            settings.max_context_tokens,
            question.models.tokenizer,
            question.history,
            turns,
        )


async def _answer_from(
    question: Question, method: str, stage: str, model_id: str, template: str, context: Context
) -> Draft:
    """Let the model answer from one context; where the deadline passes first, answer extractively and say so."""
    if context.is_empty:
        return Draft(NOTHING_FOUND, (context,), declined=True)
    variables = {"context_data": context.text, "response_type": question.response_type}
    outcome = await write_answer(question, stage, model_id, template, variables, context.citable())
    if outcome.value is not None:
        warnings = (f"the answer is not complete ({outcome.reason})",) if outcome.reason else ()
        return Draft(outcome.value, (context,), warnings)
    if outcome.reason == TIMED_OUT:
        draft = await _extractive(question, [context])
        return replace(draft, warnings=(f"{TIMED_OUT}; this is an extractive answer",))
    raise QueryError(f"{method} search: the model {model_id} gave no usable answer ({outcome.reason})")


async def _extractive(question: Question, contexts: Sequence[Context], story: bool = False) -> Draft:
    """An extractive answer; in the searches that tell the larger story less is asked of one sentence."""
    threshold = ACCOUNT_THRESHOLD if story and asks_for_an_account(question.text) else THRESHOLD
    judge = question.models.judge(question.index)
    with question.watch.step("answer"):
        return await extract(question.text, question.index, contexts, judge, EXTRACTIVE_SENTENCES, threshold)


async def _extractive_global(question: Question, selected: Sequence[global_search.Selected]) -> Draft:
    """A question about the documents as a whole gets an overview of the reports, any other one their best sentences."""
    settings = question.settings.global_search
    whole = asks_about_the_whole(question.text)
    with question.watch.step("embed"):
        vectors = await question.models.embed(question.index, [question.text], [REPORT_VECTORS])
    with question.watch.step("context"):
        weight = {s.community: s.weight for s in selected}
        found = await asyncio.to_thread(
            global_search.nearest_reports,
            question.index,
            vectors[0].tolist(),
            len(weight) if whole else question.settings.drift_search.drift_k_followups,
            list(weight),
            question.community_level,
        )
        if whole:
            found = sorted(found, key=lambda f: -(f[1] + OCCURRENCE_BONUS * weight[f[0].number]))[:EXTRACTIVE_SENTENCES]
        context = global_search.reports_context(found, settings.data_max_tokens, question.models.tokenizer)
    if not whole:
        return await _extractive(question, [context], story=True)
    with question.watch.step("answer"):
        return await overview(question.text, question.index, context, question.models.judge(question.index))


async def _map(question: Question, batches: Sequence[Context]) -> tuple[list[list[Point]], list[str], list[str]]:
    """Points of every batch; a batch that failed has none and is named in the warnings.

    Returns:
        Points by batch, warnings, made-up citations.

    Raises:
        QueryError: Every batch failed, so that nothing can be said about the documents.
    """
    settings = question.settings.global_search
    template = question.prompt("global_search_map_system_prompt", settings.map_prompt)
    ask = question.chat.ask("query_map", settings.completion_model_id)
    calls = [
        call(
            ask,
            [
                {
                    "role": "system",
                    "content": render(
                        template, {"context_data": batch.text, "max_length": str(settings.map_max_length)}
                    ),
                },
                {"role": "user", "content": question.text},
            ],
            parse_points,
            POINTS_SCHEMA,
            f"batch {i}",
        )
        for i, batch in enumerate(batches, start=1)
    ]
    with question.watch.step("map"):
        outcomes = await call_all(calls, question.deadline.share(EXPLORING_SHARE))
    failed = [outcome.reason for outcome in outcomes if outcome.value is None]
    if len(failed) == len(outcomes):
        raise QueryError(f"global search: all {len(outcomes)} map calls failed ({failed[0]})")
    warnings = (
        [f"{len(failed)} of {len(outcomes)} parts of the reports could not be read ({failed[0]})"] if failed else []
    )
    dropped: list[str] = []
    answers: list[list[Point]] = []
    for batch, outcome in zip(batches, outcomes, strict=True):
        answers.append([])
        for point in outcome.value or []:
            text, made_up = check_citations(point.description, {REPORTS: global_search.citable_reports([batch])})
            dropped += [m for m in made_up if m not in dropped]
            answers[-1].append(replace(point, description=text))
    return answers, warnings, dropped


async def _reduce(
    question: Question,
    batches: Sequence[Context],
    points: Sequence[tuple[int, Point]],
    warnings: list[str],
    dropped: list[str],
) -> Draft:
    """Merge the points into one answer; where the model fails, the best points are the answer, which says so."""
    settings = question.settings.global_search
    data, _ = global_search.reduce_text(points, settings.data_max_tokens, question.models.tokenizer)
    template = question.prompt("global_search_reduce_system_prompt", settings.reduce_prompt)
    if settings.allow_general_knowledge:
        template = f"{template}\n{question.prompt('global_search_knowledge_system_prompt', settings.knowledge_prompt)}"
    variables = {
        "report_data": data,
        "response_type": question.response_type,
        "max_length": str(settings.reduce_max_length),
    }
    citable = {REPORTS: global_search.citable_reports(batches)}
    outcome = await write_answer(question, "query_reduce", settings.completion_model_id, template, variables, citable)
    text = outcome.value
    if text is None:
        if not points:
            raise QueryError(f"global search: the reduce call failed ({outcome.reason})")
        warnings.append(f"the points found could not be merged ({outcome.reason}); these are the most important ones")
        text = "\n".join(f"- {point.description}" for _, point in points[:EXTRACTIVE_SENTENCES])
    elif outcome.reason:
        warnings.append(f"the answer is not complete ({outcome.reason})")
    return Draft(text, tuple(batches), tuple(warnings), dropped=tuple(dropped))


async def _drift_answer(question: Question, search: drift.Search) -> Draft:
    """Reduce the answers of all steps; where the model fails, the most useful answer is taken, and the text says so."""
    settings = question.settings.drift_search
    contexts = tuple(search.contexts)
    if not search.steps:
        return Draft(NOTHING_FOUND, contexts, tuple(search.warnings), declined=True, dropped=tuple(search.dropped))
    draft = Draft("", contexts)
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
    return Draft(text, contexts, tuple(search.warnings), dropped=tuple(search.dropped))
