"""The conversation of an extraction: ask once, then ask for what was missed.

The protocol is that of Microsoft GraphRAG: the first answer, then up to max_gleanings rounds of "continue", with a
yes-or-no question between two rounds. Each answer is parsed on its own (glued answers lose the record at the seam), and
a failure after the first answer costs only what would have come after it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from graphrag_assets.indexing.asking import AnswerError, Ask, Message, Reply
from graphrag_assets.text.refusals import is_refusal
from graphrag_assets.text.sentences import sentences

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


#: How often a text is halved: into eight parts at most.
MOST_HALVINGS = 3
#: A text with fewer characters is not halved.
LEAST_CHARACTERS = 400


#: Has the conversation about a text; whether it may ask to be asked with less.
Talk = Callable[[str, bool], Awaitable[Conversation[T]]]


@dataclass
class Parts(Generic[T]):
    """Conversations about a text, or about its parts where it was too long for the model.

    Args:
        conversations: Parts of the text in their order, each with its conversation.
        status: As of a conversation; of several parts, truncated where one of them gave nothing.
        reason: What went wrong, in one line.
        attempts: Answers that were asked for.
        passing: Whether something was not answered for a reason that may pass.
    """

    conversations: list[tuple[str, Conversation[T]]]
    status: Status
    reason: str
    attempts: int
    passing: bool

    @property
    def count(self) -> int:
        """Number of parts; 1 where the text was asked about as a whole."""
        return len(self.conversations)


async def converse_in_parts(text: str, talk: Talk[T]) -> Parts[T]:
    """Ask about a text, and about its halves where the answer was cut or the text is longer than the model can read.

    Args:
        text: The text unit.
        talk: Asks about a text.
    """
    too_long: list[AnswerError] = []
    found = await _in_parts(text, talk, MOST_HALVINGS, too_long)
    said = [conversation for _, conversation in found]
    attempts = sum(each.attempts for each in said) + sum(error.attempts for error in too_long)
    passing = any(each.passing for each in said)
    if not too_long:
        return Parts(found, said[0].status, said[0].reason, attempts, passing)
    reasons = [f"read in {len(found)} parts, since {too_long[0].reason}"]
    reasons += [f"part {i}: {each.reason}" for i, each in enumerate(said, start=1) if each.reason]
    lost = [each.status for each in said if each.status != "ok"]
    status: Status = "ok" if not lost else lost[0] if not any(each.answers for each in said) else "truncated"
    return Parts(found, status, "; ".join(reasons), attempts, passing)


async def _in_parts(
    text: str, talk: Talk[T], halvings: int, too_long: list[AnswerError]
) -> list[tuple[str, Conversation[T]]]:
    halves = halve(text) if halvings else ()
    try:
        return [(text, await talk(text, bool(halves)))]
    except AnswerError as error:  # only where smaller is allowed
        too_long.append(error)
    return [part for half in halves for part in await _in_parts(half, talk, halvings - 1, too_long)]


def halve(text: str) -> tuple[str, ...]:
    """Two parts of a text, cut at the end of the sentence that is nearest to its middle; none where it is too short."""
    middle = len(text) // 2
    if len(text) < LEAST_CHARACTERS:
        return ()
    ends = [end for _, end in sentences(text)] or [middle]
    cut = min(ends, key=lambda end: (abs(end - middle), end))
    if not len(text) // 4 <= cut <= len(text) * 3 // 4:  # one long sentence: between two words, else anywhere
        space = re.compile(r"\s").search(text, middle)
        cut = space.start() if space and space.start() <= len(text) * 3 // 4 else middle
    halves = (text[:cut].strip(), text[cut:].strip())
    return halves if all(halves) else ()


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
    smaller: bool = False,
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
        smaller: Whether the caller can ask with less.

    Raises:
        AnswerError: It should, since the answer was cut or the prompt is too long; only with ``smaller``.
    """
    said: Conversation[T] = Conversation()
    messages: list[Message] = [{"role": "user", "content": question}]
    try:
        reply = await ask(messages, parse, schema=schema, row=row, partial=True, smaller=smaller)
    except AnswerError as error:
        if smaller and error.too_long:
            raise
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
