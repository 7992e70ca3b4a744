"""Questions that an index can answer: suggestions for what to ask next."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from graphrag_assets.llm.limiting.budget import BudgetReached
from graphrag_assets.query import lookups
from graphrag_assets.query.basic import retrieve
from graphrag_assets.query.calls import Stopped, call, parse_text
from graphrag_assets.query.context import SOURCES, Context
from graphrag_assets.query.drift import normalise
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.history import Turn
from graphrag_assets.query.index import Index, marks
from graphrag_assets.query.local import LocalParameters
from graphrag_assets.query.matching import terms
from graphrag_assets.query.models import Models, cosine_centre
from graphrag_assets.query.question_templates import ENTITY, RELATION, REPORT, templates
from graphrag_assets.query.retrieving import local_context
from graphrag_assets.query.writing import Question
from graphrag_assets.storage.tables import TEXT_UNIT_VECTORS
from graphrag_assets.text.asked import stem, words_to_find
from graphrag_assets.text.templates import render

_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")

#: Suggestions asked of the model for each one wanted: some cannot be answered.
SPARE = 2

#: Text units that must hold a suggestion's words, and the share of them, by length, that they must hold; or how much
#: nearer than one that says nothing the nearest text unit must be.
READ, HELD, NEARER = 5, 0.6, 0.12


def parse_questions(text: str) -> list[str]:
    """Read a bulleted list.

    Raises:
        ValueError: It holds no question.
    """
    lines = [_BULLET.sub("", line).strip() for line in parse_text(text).splitlines() if _BULLET.match(line)]
    found = list(dict.fromkeys(line for line in lines if line))
    if not found:
        raise ValueError('expected one question a line, each beginning with "- "')
    return found


async def follow_up_questions(
    index: Index, asked: str | Sequence[str | Turn], count: int, models: Models, answerable: bool = True
) -> list[str]:
    """Suggest what to ask next.

    With a language model it writes them from the local context of the last question, and those are kept whose words and
    meaning the text units hold. Without one they ask about entities, relationships and reports of that context, in the
    language of most documents where it is one of :mod:`graphrag_assets.query.question_templates`, else in English.

    Args:
        index: The snapshot.
        asked: The last question, or the conversation: questions or turns, oldest first; empty: nothing was asked yet.
        count: Suggestions wanted.
        models: Open models.
        answerable: Leave out suggestions of the model that the index does not seem to answer.

    Returns:
        At most ``count`` questions, most important first, none of those that were asked.

    Raises:
        QueryError: The model gave no usable answer, or a budget allows no further call.
    """
    try:
        return await _follow_up_questions(index, asked, count, models, answerable)
    except (Stopped, BudgetReached) as error:
        raise QueryError(str(error)) from error


async def _follow_up_questions(
    index: Index, asked: str | Sequence[str | Turn], count: int, models: Models, answerable: bool
) -> list[str]:
    questions = _questions([asked] if isinstance(asked, str) else asked)
    last = questions[-1] if questions else ""
    history = [{"role": "user", "content": text} for text in questions[:-1]]
    question = Question(index, models, last, history)
    context = await local_context(question, LocalParameters.of(index.settings)) if last else Context((), 0)
    known = {normalise(text) for text in questions}
    if models.chat is None or not last:
        found = await asyncio.to_thread(_from_graph, index, context)
    else:
        found = await _from_model(question, questions, context, count * SPARE if answerable else count)
    new = list({normalise(q): q for q in reversed(found) if normalise(q) not in known}.values())[::-1]
    if models.chat is None or not last or not answerable:
        return new[:count]
    return await _answerable(question, new, count)


def _questions(asked: Sequence[str | Turn]) -> list[str]:
    """The user's questions of a conversation."""
    said = (turn if isinstance(turn, str) else turn["content"] for turn in asked if _by_user(turn))
    return [text for text in said if text.strip()]


def _by_user(turn: str | Turn) -> bool:
    return isinstance(turn, str) or turn.get("role") == "user"


async def _from_model(question: Question, asked: Sequence[str], context: Context, count: int) -> list[str]:
    settings = question.settings.local_search
    prompt = question.prompt("question_gen_system_prompt", question.settings.query.question_gen_prompt)
    system = render(prompt, {"context_data": context.text, "question_count": str(count)})
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "\n".join(asked)}]
    outcome = await call(question.chat.ask("query_questions", settings.completion_model_id), messages, parse_questions)
    if outcome.value is None:
        raise QueryError(f"the model gave no usable list of questions ({outcome.reason})")
    return outcome.value


async def _answerable(question: Question, candidates: Sequence[str], count: int) -> list[str]:
    """The first candidates that text units of the index hold by their words, or come near to by their meaning."""
    if not candidates:
        return []
    index, models = question.index, question.models
    model_id = question.settings.basic_search.embedding_model_id
    vectors = await models.embed(index, candidates, [TEXT_UNIT_VECTORS], model_id)
    near = cosine_centre(models.embedder.model) + NEARER
    kept: list[str] = []
    for candidate, vector in zip(candidates, vectors, strict=True):
        if await asyncio.to_thread(_is_answerable, index, candidate, vector.tolist(), near):
            kept.append(candidate)
        if len(kept) == count:
            break
    return kept


def _is_answerable(index: Index, question: str, vector: Sequence[float], near: float) -> bool:
    best = index.vectors(TEXT_UNIT_VECTORS).nearest(vector, 1)
    if best and best[0].score >= near:
        return True
    wanted = {stem(word) for word in words_to_find(question)}
    ids = [hit.id for hit in retrieve(index, question, vector, READ)]
    rows = index.rows(f"select text from text_units where id in ({marks(ids)})", ids)  # noqa: S608 (question marks)
    held = {stem(word) for row in rows for word in terms(row["text"])}
    total = sum(map(len, wanted))
    return bool(total) and sum(len(word) for word in wanted if word in held) / total >= HELD


def _from_graph(index: Index, context: Context) -> list[str]:
    """Questions about what is linked to the context: relationships first, then reports, then entities, in turns."""
    forms = templates(_language(index))
    texts = " ".join(row.text for row in context.rows(SOURCES))
    related = [
        forms[RELATION].format(a=_written(row.cells[1], texts), b=_written(row.cells[2], texts))
        for row in context.rows("Relationships")
    ]
    reports = [forms[REPORT].format(a=row.cells[1]) for row in context.rows("Reports") if row.cells[1].strip()]
    entities = [row.cells[1] for row in context.rows("Entities")] or [e.title for e in lookups.top_entities(index, 20)]
    about = [forms[ENTITY].format(a=_written(title, texts)) for title in entities]
    groups = [group for group in (related, reports, about) if group]
    longest = max((len(group) for group in groups), default=0)
    return [group[i] for i in range(longest) for group in groups if i < len(group)]


def _language(index: Index) -> str:
    rows = index.rows(
        """select coalesce(language, '') as language from documents
           group by 1 order by count(*) desc, 1 limit 1"""
    )
    return str(rows[0]["language"]) if rows else ""


def _written(title: str, texts: str) -> str:
    """A name as the texts write it; titles of entities are in upper case."""
    found = re.search(rf"(?<!\w){re.escape(title)}(?!\w)", texts, re.IGNORECASE)
    if found:
        return found.group()
    return title.title() if title == title.upper() else title
