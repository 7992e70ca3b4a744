"""The conversation of an extraction: ask once, then ask for what was missed.

The protocol is that of Microsoft GraphRAG: the first answer, then up to max_gleanings rounds of "continue", with a
yes-or-no question between two rounds. Each answer is parsed on its own (glued answers lose the record at the seam), and
a failure after the first answer costs only what would have come after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from graphrag_assets.indexing.asking import AnswerError, Ask, Message, Reply
from graphrag_assets.text.refusals import is_refusal

T = TypeVar("T")

Status = Literal["ok", "empty", "failed", "truncated", "refused"]

_YES = re.compile(r"[\W_]*(?:y|yes|yeah|yep|true|oui|ja|sí|si|да|是|是的|はい|네)\b", re.IGNORECASE)


@dataclass
class Conversation(Generic[T]):
    """Parsed answers of one extraction.

    Args:
        answers: What the answers held, in the order in which they were given.
        status: ok, or why the first answer could not be used (failed, refused) or only in part (truncated).
        reason: What went wrong, in one line; empty when nothing did.
        attempts: Answers that were asked for.
        passing: Whether something was not answered for a reason that may pass, so that another run may get more.
    """

    answers: list[T] = field(default_factory=list)
    status: Status = "ok"
    reason: str = ""
    attempts: int = 0
    passing: bool = False


async def converse(
    ask: Ask,
    question: str,
    *,
    parse: Callable[[str], T],
    salvage: Callable[[str], T | None],
    max_gleanings: int,
    continue_prompt: str,
    loop_prompt: str,
    schema: Mapping[str, Any] | None = None,
    row: str = "",
) -> Conversation[T]:
    """Ask, and glean.

    Args:
        ask: The model.
        question: The whole prompt of the first turn.
        parse: Turns an answer into a value; raises ValueError for one that is useless or was cut.
        salvage: Takes what is complete of an answer that parse refuses; None when that is nothing.
        max_gleanings: Further questions for what was missed.
        continue_prompt: Asks for more.
        loop_prompt: Asks whether there is more, to be answered by Y or N.
        schema: JSON schema of the answers, where they are JSON.
        row: Id of the text unit, for the accounts.
    """
    said: Conversation[T] = Conversation()
    messages: list[Message] = [{"role": "user", "content": question}]
    try:
        reply = await ask(messages, parse, schema=schema, row=row, partial=True)
    except AnswerError as error:
        return _salvaged(error, salvage)
    _add(said, reply)
    if reply.truncated:
        said.status, said.reason = "truncated", "the answer was cut; the records before the cut were kept"
    for round_ in range(max_gleanings):
        try:
            if round_ and not await _more(ask, messages, reply, loop_prompt, said, row):
                break
            _say(messages, reply.text, continue_prompt)
            reply = await ask(messages, parse, schema=schema, row=row, partial=True)
        except AnswerError as error:
            said.attempts += error.attempts
            said.passing = error.passing
            rest = salvage(error.answer)
            if rest is not None:
                said.answers.append(rest)
            if not said.reason:
                said.reason = f"gleaning {round_ + 1} {error.status}: {error.reason}"
            break
        _add(said, reply)
        if reply.truncated and not said.reason:
            said.reason = f"gleaning {round_ + 1} was cut; the records before the cut were kept"
    return said


def is_yes(answer: str) -> bool:
    """Whether an answer to a yes-or-no question says yes: Y, y., Yes, **YES**, …

    Raises:
        ValueError: The answer is empty.
    """
    if not answer.strip():
        raise ValueError("the answer is empty; expected Y or N")
    return bool(_YES.match(answer))


def _add(said: Conversation[T], reply: Reply[T]) -> None:
    said.answers.append(reply.value)
    said.attempts += reply.attempts


def _say(messages: list[Message], answer: str, question: str) -> None:
    messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": question}]


async def _more(
    ask: Ask, messages: list[Message], reply: Reply[T], loop_prompt: str, said: Conversation[T], row: str
) -> bool:
    """Whether the model thinks that something is still missing; the question stays out of the conversation."""
    asked = [*messages, {"role": "assistant", "content": reply.text}, {"role": "user", "content": loop_prompt}]
    verdict = await ask(asked, is_yes, row=row)
    said.attempts += verdict.attempts
    return verdict.value


def _salvaged(error: AnswerError, salvage: Callable[[str], T | None]) -> Conversation[T]:
    """What a failed first turn leaves: the complete records of an answer that was cut, or only the reason."""
    rest = salvage(error.answer) if error.status != "refused" else None
    if rest is not None:
        return Conversation(
            [rest], "truncated", f"{error.reason}; the records before the cut were kept", error.attempts
        )
    status: Status = "refused" if is_refusal(error.answer) else error.status
    return Conversation([], status, error.reason, error.attempts, error.passing)
