"""From a question to its contexts: embedding within the deadline and the budget, and what each search reads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from graphrag_assets.llm.limiting.budget import BudgetReached
from graphrag_assets.query.basic import build_basic_context
from graphrag_assets.query.calls import TIMED_OUT, Stopped
from graphrag_assets.query.context import Context, Section
from graphrag_assets.query.global_search import nearest_reports, reports_context
from graphrag_assets.query.history import history_section, question_with_history
from graphrag_assets.query.local import LocalParameters, build_local_context
from graphrag_assets.query.models import embedded_reranker
from graphrag_assets.query.records import Report
from graphrag_assets.query.writing import Question
from graphrag_assets.storage.tables import ENTITY_VECTORS, REPORT_VECTORS, TEXT_UNIT_VECTORS


async def embedded(question: Question, tables: Sequence[str], model_id: str = "") -> list[float]:
    """Vector of the question with the newest turns of its conversation.

    Args:
        question: The question.
        tables: Vector tables that are searched with it.
        model_id: Entry of embedding_models that the search names.

    Raises:
        Stopped: The deadline passed, or the budget was reached.
        QueryError: It cannot be embedded.
    """
    asked = question_with_history(question.text, question.history, question.max_turns)
    with question.watch.step("embed"):
        try:
            async with asyncio.timeout(question.deadline.remaining()):
                vectors = await question.models.embed(question.index, [asked], tables, model_id)
        except BudgetReached as error:
            raise Stopped(str(error)) from error
        except TimeoutError as error:
            raise Stopped(TIMED_OUT) from error
    found: list[float] = vectors[0].tolist()
    return found


#: Tokens of a prompt beside its context, and of an answer, that a ceiling must leave.
AROUND, ANSWER = 600, 500

#: Share of the room under a ceiling that is used: providers count some texts as more tokens than we do.
ROOM = 0.8

#: A context that a ceiling cuts to fewer tokens is not worth a call.
SMALLEST = 300


def affordable(question: Question, model_id: str, wanted: int) -> int:
    """Tokens of a context that the ceiling of the question allows.

    Args:
        question: The question.
        model_id: Entry of completion_models that reads the context.
        wanted: Tokens that the settings allow.

    Returns:
        ``wanted`` where there is no ceiling, or where what it leaves is of no use: then the call itself is refused.
    """
    if question.models.chat is None or not question.budget.limited:
        return wanted
    facts = question.models.facts(model_id) if question.models.facts else None
    input_usd, output_usd = (facts.input_usd, facts.output_usd) if facts else (None, None)
    room = question.budget.room(input_usd, output_usd, ANSWER)
    if room is None:
        return wanted
    tokens = int(room * ROOM) - AROUND
    return min(wanted, tokens) if tokens >= SMALLEST else wanted


async def local_context(question: Question, parameters: LocalParameters) -> Context:
    """What local search reads."""
    vector = await embedded(question, [ENTITY_VECTORS], parameters.embedding_model_id)
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


async def basic_context(question: Question, by_words: bool = False, max_tokens: int | None = None) -> Context:
    """What basic search reads.

    Args:
        question: The question.
        by_words: By full text alone, without an embedding.
        max_tokens: Tokens of the context; None: as set.
    """
    settings = question.settings.basic_search
    vector = None if by_words else await embedded(question, [TEXT_UNIT_VECTORS], settings.embedding_model_id)
    with question.watch.step("context"):
        return await asyncio.to_thread(
            build_basic_context,
            question.index,
            question.text,
            vector,
            settings.k,
            max_tokens or settings.max_context_tokens,
            question.models.tokenizer,
            question.history,
            question.max_turns,
            embedded_reranker(question.settings.embedded_models.threads).score if settings.rerank else None,
        )


async def near_reports(
    question: Question,
    k: int,
    communities: Sequence[int] | None = None,
    model_id: str = "",
    bonus: Mapping[int, float] | None = None,
) -> list[tuple[Report, float]]:
    """The reports nearest to the question, with their similarity.

    Args:
        question: The question.
        k: Reports wanted.
        communities: Reports that may be returned; None: all up to the level.
        model_id: Entry of embedding_models that the search names.
        bonus: What is added to the similarity of a report before the best are taken, by community.
    """
    vector = await embedded(question, [REPORT_VECTORS], model_id)
    with question.watch.step("context"):
        return await asyncio.to_thread(
            nearest_reports, question.index, vector, k, communities, question.community_level, bonus
        )


def as_context(question: Question, found: Sequence[tuple[Report, float]], max_tokens: int) -> Context:
    """Reports as a context."""
    return reports_context(found, max_tokens, question.models.tokenizer)


def spoken(question: Question, budget: int) -> Section | None:
    """The conversation so far; None where there is none."""
    return history_section(question.history, question.max_turns, question.models.tokenizer, budget)
