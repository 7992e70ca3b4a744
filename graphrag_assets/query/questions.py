"""Questions that an index can answer: suggestions for what to ask next."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from graphrag_assets.query.calls import call, parse_text
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.history import question_with_history
from graphrag_assets.query.index import Index
from graphrag_assets.query.local import LocalParameters, build_local_context
from graphrag_assets.query.models import Models
from graphrag_assets.query.writing import Question
from graphrag_assets.storage.tables import ENTITY_VECTORS
from graphrag_assets.text.templates import render

_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")


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


async def suggest_questions(index: Index, asked: Sequence[str], count: int, models: Models) -> list[str]:
    """Suggest what to ask next.

    Args:
        index: The snapshot.
        asked: Questions that were asked, oldest first.
        count: Suggestions wanted.
        models: Open models, with a language model.

    Returns:
        At most ``count`` questions, most important first, none of those that were asked.

    Raises:
        QueryError: Nothing was asked yet, no language model is configured, or it gave no usable answer.
    """
    if not asked:
        raise QueryError("suggestions follow from questions: give at least one that was asked")
    question = Question(index, models, asked[-1])
    settings = question.settings.local_search
    parameters = LocalParameters.of(question.settings)
    earlier = [{"role": "user", "content": text} for text in asked[:-1]]
    text = question_with_history(asked[-1], earlier, parameters.max_turns)
    vectors = await models.embed(index, [text], [ENTITY_VECTORS], settings.embedding_model_id)
    context = await asyncio.to_thread(
        build_local_context, index, asked[-1], vectors[0].tolist(), parameters, models.tokenizer
    )
    prompt = question.prompt("question_gen_system_prompt", None)
    system = render(prompt, {"context_data": context.text, "question_count": str(count)})
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "\n".join(asked)}]
    outcome = await call(question.chat.ask("query_questions", settings.completion_model_id), messages, parse_questions)
    if outcome.value is None:
        raise QueryError(f"the model gave no usable list of questions ({outcome.reason})")
    return [suggestion for suggestion in outcome.value if suggestion not in asked][:count]
