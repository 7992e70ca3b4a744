"""Global search, from a question to the draft of an answer: choose reports, map, rank, reduce."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from graphrag_assets.llm.limiting.budget import limited_by
from graphrag_assets.query import dynamic, global_search, lookups
from graphrag_assets.query.calls import Deadline, Outcome, call, call_all, failures
from graphrag_assets.query.citations import check_citations
from graphrag_assets.query.context import REPORTS, Context
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.extractive import overview
from graphrag_assets.query.global_search import Selected
from graphrag_assets.query.judging import Judge
from graphrag_assets.query.result import Draft
from graphrag_assets.query.retrieving import as_context, near_reports
from graphrag_assets.query.routing import asks_about_the_whole
from graphrag_assets.query.searches import (
    EXPLORING_SHARE,
    EXTRACTIVE_SENTENCES,
    NOTHING_FOUND,
    despite,
    extractive,
    judged,
    may_judge,
    no_reports,
)
from graphrag_assets.query.writing import Question, write_answer
from graphrag_assets.text.map_answers import POINTS_SCHEMA, Point, parse_points
from graphrag_assets.text.templates import render

#: In an overview of the documents a report that occurs in most of them may be this much less similar to the question.
OCCURRENCE_BONUS = 0.1


@dataclass
class _Found:
    """What the steps before the last one found."""

    points: list[tuple[int, Point]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)
    stopped: str = ""


async def global_(question: Question) -> Draft:
    """Global search."""
    settings = question.settings.global_search
    with question.watch.step("context"):
        selected = await asyncio.to_thread(global_search.select_reports, question.index, question.community_level)
    if not selected:
        raise no_reports(question, "global")
    if question.models.chat is None:
        return await _extractive(question, selected)
    found = _Found()
    exploring = question.deadline.share(EXPLORING_SHARE)
    with limited_by(question.budget.share(EXPLORING_SHARE)):
        if settings.dynamic_search if question.dynamic is None else question.dynamic:
            selected = await _choose(question, found, exploring)
            if not selected and found.stopped:
                return await _stopped(question, found, [])
        with question.watch.step("context"):
            batches = await asyncio.to_thread(
                global_search.build_batches,
                question.index,
                selected,
                settings.max_context_tokens,
                settings.seed,
                question.models.tokenizer,
                question.history,
                question.max_turns,
            )
        await _map(question, batches, found, exploring)
    if not found.points and found.stopped:
        return await _stopped(question, found, batches)
    if not found.points and not settings.allow_general_knowledge:
        draft = Draft(NOTHING_FOUND, tuple(batches), tuple(found.warnings), declined=True)
        return replace(draft, dropped=tuple(found.dropped), notes=found.notes)
    return await _reduce(question, batches, found)


async def _extractive(question: Question, selected: Sequence[Selected]) -> Draft:
    """A question about the documents as a whole gets an overview of the reports, any other one their best sentences."""
    settings = question.settings.global_search
    whole = asks_about_the_whole(question.text) or question.whole
    weight = {s.community: s.weight for s in selected}
    most = EXTRACTIVE_SENTENCES if whole else question.settings.drift_search.drift_k_followups
    bonus = {community: OCCURRENCE_BONUS * share for community, share in weight.items()} if whole else {}
    found = await near_reports(question, most, list(weight), bonus=bonus)
    context = as_context(question, found, settings.data_max_tokens)
    if not whole:
        return await extractive(question, [context], story=True)
    return await _overview(question, context)


async def _overview(question: Question, context: Context, calls: bool = True) -> Draft:
    async def answer(judge: Judge) -> Draft:
        return await overview(question.text, question.index, context, judge)

    return await judged(question, answer, calls)


async def _stopped(question: Question, found: _Found, batches: Sequence[Context]) -> Draft:
    """The deadline or the budget ended the search before there was a point: sentences of the reports that say most."""
    if question.whole or asks_about_the_whole(question.text):
        draft = await _overview(question, await _foremost(question), may_judge(question))
    else:
        draft = await extractive(question, batches[:1] or [await _foremost(question)], calls=may_judge(question))
    return replace(despite(draft, found.warnings, found.stopped), notes=found.notes)


async def _foremost(question: Question) -> Context:
    """The reports that occur most, without asking a model which ones are near."""
    selected = await asyncio.to_thread(global_search.select_reports, question.index, question.community_level)
    first = sorted(selected, key=lambda s: (-s.weight, s.community))[:EXTRACTIVE_SENTENCES]
    reports = await asyncio.to_thread(lookups.reports, question.index, [s.community for s in first])
    weight = {s.community: s.weight for s in first}
    settings = question.settings.global_search
    return as_context(question, [(report, weight[report.number]) for report in reports], settings.data_max_tokens)


async def _choose(question: Question, found: _Found, deadline: Deadline) -> list[Selected]:
    """Let the model choose the reports."""
    settings = question.settings.global_search
    prompt = question.prompt("global_search_rate_system_prompt", settings.dynamic_search_prompt)
    with question.watch.step("rate"):
        selection = await dynamic.choose(
            question.index,
            question.text,
            question.community_level,
            question.chat.ask("query_rate", settings.completion_model_id),
            prompt,
            settings,
            question.models.tokenizer,
            deadline,
        )
    found.notes["dynamic"] = selection.notes()
    found.warnings += selection.warnings()
    if selection.stopped:
        found.stopped = selection.reason
    return await asyncio.to_thread(global_search.weighted, question.index, selection.chosen)


async def _map(question: Question, batches: Sequence[Context], found: _Found, deadline: Deadline) -> None:
    """Points of every batch; a batch that failed has none and is named in the warnings.

    Raises:
        QueryError: Every batch failed by a fault, so that nothing can be said about the documents.
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
        outcomes: list[Outcome[list[Point]]] = await call_all(calls, deadline)
    failed, reason, only_stopped = failures(outcomes)
    if failed and failed == len(outcomes) and not only_stopped:
        raise QueryError(f"global search: all {failed} map calls failed ({reason})")
    if failed:
        found.warnings.append(f"{failed} of {len(outcomes)} parts of the reports could not be read ({reason})")
        found.stopped = reason if only_stopped else found.stopped
    answers: list[list[Point]] = []
    for batch, outcome in zip(batches, outcomes, strict=True):
        answers.append([])
        for point in outcome.value or []:
            text, made_up = check_citations(point.description, {REPORTS: global_search.citable_reports([batch])})
            found.dropped += [m for m in made_up if m not in found.dropped]
            answers[-1].append(replace(point, description=text))
    found.points = global_search.rank_points(answers)
    found.notes["points"] = [{"batch": i, "score": point.score} for i, point in found.points]


async def _reduce(question: Question, batches: Sequence[Context], found: _Found) -> Draft:
    """Merge the points into one answer; where the model fails, the best points are the answer, which says so."""
    settings = question.settings.global_search
    points, warnings = found.points, found.warnings
    data, left_out = global_search.reduce_text(points, settings.data_max_tokens, question.models.tokenizer)
    found.notes["points_left_out"] = left_out
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
    streamed = outcome.value is not None and question.on_text is not None
    return Draft(
        text, tuple(batches), tuple(warnings), dropped=tuple(found.dropped), streamed=streamed, notes=found.notes
    )
