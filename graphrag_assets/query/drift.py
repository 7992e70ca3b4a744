"""DRIFT search: from reports to a first answer, then in rounds of local search to the details.

Microsoft GraphRAG's method with what it leaves to chance made definite: the reports are those nearest to the question
itself, follow-up questions are taken by their score, none is asked twice, and the answers are reduced best first within
a budget. A deadline ends the rounds, not the answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from graphrag_assets.indexing.asking import Ask
from graphrag_assets.llm.limiting.budget import BudgetReached
from graphrag_assets.query.calls import (
    TIMED_OUT,
    Deadline,
    Outcome,
    StepAnswer,
    call,
    call_all,
    failures,
    parse_step,
    step_schema,
)
from graphrag_assets.query.citations import check_citations
from graphrag_assets.query.context import Context, Section, TokenCounter
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.global_search import reports_context
from graphrag_assets.query.index import Index
from graphrag_assets.query.local import LocalParameters, build_local_context
from graphrag_assets.query.models import Models
from graphrag_assets.query.records import Report
from graphrag_assets.query.result import merge_citable
from graphrag_assets.settings import DriftSearchSettings
from graphrag_assets.storage.tables import ENTITY_VECTORS
from graphrag_assets.text.templates import render


@dataclass
class Step:
    """One question of a DRIFT search.

    Args:
        question: The question.
        answer: Its answer with checked citations; empty when there is none.
        score: Usefulness for the whole, 0 to 100.
    """

    question: str
    answer: str = ""
    score: float = 0.0


@dataclass
class Search:
    """The state of one DRIFT search.

    Args:
        question: The question as it was asked.
        steps: Answered steps, in the order in which they were asked.
        waiting: Follow-up questions that were not asked yet: (score of the step they come from, place, question).
        asked: Normalised questions that were asked or wait.
        contexts: Everything that was shown to a model.
        warnings: What failed on the way.
        dropped: Citations that the model made up.
        stopped: Why the deadline or the budget ended the search; empty where they did not.
    """

    question: str
    steps: list[Step] = field(default_factory=list)
    waiting: list[tuple[float, int, str]] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    contexts: list[Context] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    stopped: str = ""

    def __post_init__(self) -> None:
        self.asked.add(normalise(self.question))

    def add(self, question: str, answer: StepAnswer, contexts: Sequence[Context]) -> None:
        """Take up an answer and its follow-up questions; citations of rows it did not see are removed."""
        text, dropped = check_citations(answer.text, merge_citable(context.citable() for context in contexts))
        self.dropped.extend(d for d in dropped if d not in self.dropped)
        if text:
            self.steps.append(Step(question, text, answer.score))
        for follow_up in answer.follow_ups:
            key = normalise(follow_up)
            if key and key not in self.asked:
                self.asked.add(key)
                self.waiting.append((answer.score, len(self.asked), follow_up))

    def notes(self) -> dict[str, object]:
        """For explanations: the questions asked with the usefulness of their answers, and those left."""
        return {
            "steps": [{"question": step.question, "score": step.score} for step in self.steps],
            "not_asked": [question for _, _, question in self.waiting],
        }

    def next_questions(self, most: int) -> list[str]:
        """Take the best waiting questions: by the score of the step they come from, then in the order they came up."""
        self.waiting.sort(key=lambda w: (-w[0], w[1]))
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        return [question for _, _, question in taken]


def normalise(question: str) -> str:
    """A question without what does not change it: case, punctuation, white space."""
    return " ".join(re.findall(r"\w+", question.casefold()))


def folds(found: Sequence[tuple[Report, float]], parts: int) -> list[list[tuple[Report, float]]]:
    """Spread reports over at most so many calls, evenly, in order, none of them empty."""
    parts = max(1, min(parts, len(found)))
    size, rest = divmod(len(found), parts)
    bounds = [i * size + min(i, rest) for i in range(parts + 1)]
    return [list(found[a:b]) for a, b in pairwise(bounds)]


async def prime(
    search: Search,
    found: Sequence[tuple[Report, float]],
    ask: Ask,
    prompt: str,
    settings: DriftSearchSettings,
    tokenizer: TokenCounter,
    deadline: Deadline,
    spoken: Section | None = None,
) -> None:
    """Answer the question from the nearest reports, in a few calls side by side.

    Args:
        search: Takes up the answers.
        found: The nearest reports.
        ask: The model.
        prompt: Template of the system prompt.
        settings: Budgets.
        tokenizer: Counts.
        deadline: After which no answer is waited for.
        spoken: The conversation so far, which every call reads.

    Raises:
        QueryError: None of them gave an answer, by a fault.
    """
    contexts = [
        reports_context(fold, settings.primer_llm_max_tokens, tokenizer, spoken)
        for fold in folds(found, settings.primer_folds)
    ]
    contexts = [context for context in contexts if not context.is_empty]
    calls = [
        call(
            ask,
            [
                {
                    "role": "system",
                    "content": render(prompt, {"query": search.question, "community_reports": context.text}),
                },
                {"role": "user", "content": search.question},
            ],
            lambda text: parse_step(text, "intermediate_answer"),
            step_schema("intermediate_answer"),
            f"primer {i}",
        )
        for i, context in enumerate(contexts, start=1)
    ]
    outcomes = await call_all(calls, deadline)
    search.contexts.extend(contexts)
    failed, reason, only_stopped = failures(outcomes)
    if failed == len(outcomes) and not (outcomes and only_stopped):
        reason = reason or "no report fits into drift_search.primer_llm_max_tokens"
        raise QueryError(f"drift search: the primer got no usable answer from the model ({reason})")
    if failed and only_stopped:
        search.stopped = reason
    if failed:
        search.warnings.append(f"{failed} of {len(outcomes)} primer calls failed ({reason})")
    for context, outcome in zip(contexts, outcomes, strict=True):
        if outcome.value is not None:
            search.add(search.question, outcome.value, [context])


async def explore(
    search: Search,
    index: Index,
    models: Models,
    ask: Ask,
    prompt: str,
    parameters: LocalParameters,
    settings: DriftSearchSettings,
    response_type: str,
    deadline: Deadline,
) -> None:
    """Ask the follow-up questions, round by round, the best ones first."""
    for number in range(1, settings.n_depth + 1):
        questions = search.next_questions(settings.drift_k_followups)
        if not questions:
            return
        if deadline.passed:
            search.warnings.append(f"the deadline ended the search before round {number} of {settings.n_depth}")
            return
        try:
            async with asyncio.timeout(deadline.remaining()):
                vectors = await models.embed(index, questions, [ENTITY_VECTORS], settings.embedding_model_id)
        except (TimeoutError, BudgetReached, QueryError) as error:
            reason = str(error) or TIMED_OUT
            search.warnings.append(f"the search ended before round {number} of {settings.n_depth} ({reason})")
            return
        contexts = await asyncio.gather(
            *(
                asyncio.to_thread(build_local_context, index, question, vector.tolist(), parameters, models.tokenizer)
                for question, vector in zip(questions, vectors, strict=True)
            )
        )
        variables = {
            "response_type": response_type,
            "global_query": search.question,
            "followups": str(settings.drift_k_followups),
        }
        calls = [
            call(
                ask,
                [
                    {"role": "system", "content": render(prompt, {**variables, "context_data": context.text})},
                    {"role": "user", "content": question},
                ],
                lambda text: parse_step(text, "response"),
                step_schema("response"),
                f"round {number}: {question}",
            )
            for question, context in zip(questions, contexts, strict=True)
        ]
        outcomes: list[Outcome[StepAnswer]] = await call_all(calls, deadline)
        failed, reason, only_stopped = failures(outcomes)
        if failed:
            search.warnings.append(
                f"{failed} of {len(outcomes)} follow-up questions of round {number} failed ({reason})"
            )
        for question, context, outcome in zip(questions, contexts, outcomes, strict=True):
            if outcome.value is not None:
                search.contexts.append(context)
                search.add(question, outcome.value, [context])
        if failed and only_stopped:
            return


def reduce_text(search: Search, max_tokens: int, tokenizer: TokenCounter) -> str:
    """What the reduce call reads: whole answers within the budget, most useful first; too long ones are skipped."""
    blocks: list[str] = []
    used = 0
    for step in sorted(search.steps, key=lambda s: -s.score):
        block = f"----Step----\nQuestion: {step.question}\nUsefulness: {step.score:g}\n{step.answer}\n"
        size = tokenizer.count(block + "\n")
        if used + size <= max_tokens:
            blocks.append(block)
            used += size
    return "\n".join(blocks)
