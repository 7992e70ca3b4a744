"""One description out of several (standard method).

The method is that of Microsoft GraphRAG: the sorted distinct descriptions are summarised in rounds that fit the budget,
each round beginning with the summary of the one before. Unlike there, no prompt ever exceeds the budget, and a failed
call costs the summary, not the index.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from graphrag_assets.indexing.asking import AnswerError, Ask
from graphrag_assets.text.names import clean_text
from graphrag_assets.text.refusals import RefusalError, is_refusal
from graphrag_assets.text.templates import render

#: Tokens kept free for brackets, quotes and escapes around a description in the list.
_MARGIN = 8
#: Fewest tokens that descriptions need beside the prompt.
_LEAST_ROOM = 64


_FENCE = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
#: What models say to the person who asks, before and after the text that they were asked for.
_GREETING = re.compile(
    r"\A(?:(?:sure|certainly|of course|absolutely|okay)[!,.]\s+(?:(?:i|here|below)\b[^.!:\n]{0,150}[.!:]\s+)?|"
    r"here (?:is|are)\b[^.!:\n]{0,100}:\s+)",
    re.IGNORECASE,
)
_FAREWELL = re.compile(r"\s+(?:let me know if|i hope this|feel free to)\b[^\n]{0,150}\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Summary:
    """A description.

    Args:
        text: The description.
        failed: Why it is not a summary but a selection of the descriptions; empty when it is one.
        calls: Rounds that were asked for.
        passing: Whether it failed for a reason that may pass.
        smaller: Whether it was made in smaller rounds, since the model could not read as much as the settings allow.
    """

    text: str
    failed: str = ""
    calls: int = 0
    passing: bool = False
    smaller: bool = False


async def summarize(
    name: str | Sequence[str],
    descriptions: Iterable[str],
    ask: Ask,
    *,
    prompt: str,
    max_input_tokens: int,
    max_length: int,
    count_tokens: Callable[[str], int],
    truncate: Callable[[str, int], str],
    row: str = "",
) -> Summary:
    """Summarise the descriptions of an entity or a relationship.

    Args:
        name: Title of the entity, or the two titles of the relationship.
        descriptions: Descriptions in any order.
        ask: The model.
        prompt: Template with {entity_name}, {description_list} and {max_length}.
        max_input_tokens: Most tokens of a prompt.
        max_length: Length asked for, in words.
        count_tokens: Counts tokens.
        truncate: Cuts a text to a number of tokens.
        row: Id of the row that is described, for the accounts.

    Raises:
        ValueError: The budget does not hold the prompt.

    Returns:
        The only description as it is where there is one, an empty text where there is none, else the model's summary;
        when the model fails, the descriptions that fit the budget.
    """
    distinct = sorted({text for description in descriptions if (text := description.strip())})
    if len(distinct) < 2:
        return Summary("".join(distinct))
    label = json.dumps(name if isinstance(name, str) else list(name), ensure_ascii=False)
    variables = {"entity_name": label, "max_length": str(max_length)}
    bare = render(prompt, {**variables, "description_list": "[]"})
    # A token holds one byte at least: what fits by its bytes fits by its tokens, which take long to count.
    room = max_input_tokens - _bytes(bare)
    if room < max(_LEAST_ROOM, _MARGIN + _bytes(json.dumps(distinct, ensure_ascii=False))):
        room = max_input_tokens - count_tokens(bare)
    if room < _LEAST_ROOM:
        raise ValueError(
            f"summarize_descriptions.max_input_tokens ({max_input_tokens}) leaves {room} tokens for descriptions "
            f"beside the prompt, at least {_LEAST_ROOM} are needed; raise it or shorten the prompt"
        )
    waiting = [truncate(text, room - _MARGIN) for text in distinct]
    # What the texts themselves say ("I'm sorry, Hal, I can't do that", "serves as an AI expert") is no refusal.
    read = _text if any(is_refusal(text) or "<|" in text for text in distinct) else _summary
    summary, calls = waiting.pop(0), 0
    while waiting:
        taken = _fitting([summary, *waiting], room, count_tokens, truncate)
        waiting = waiting[len(taken) - 1 :]
        listed = json.dumps(taken, ensure_ascii=False)
        question = render(prompt, {**variables, "description_list": listed})
        try:
            halvable = room // 2 >= _LEAST_ROOM and len(taken) > 2
            reply = await ask([{"role": "user", "content": question}], read, row=row, smaller=halvable)
        except AnswerError as error:
            if error.too_long and halvable:
                made = await summarize(
                    name,
                    distinct,
                    ask,
                    prompt=prompt,
                    max_input_tokens=count_tokens(bare) + room // 2,
                    max_length=max_length,
                    count_tokens=count_tokens,
                    truncate=truncate,
                    row=row,
                )
                return replace(made, smaller=True)
            return Summary(
                _selection(distinct, room, count_tokens, truncate),
                f"{error.status}: {error.reason}",
                calls,
                error.passing,
            )
        summary, calls = reply.value, calls + 1
    return Summary(summary, calls=calls)


def _fitting(
    texts: Sequence[str], room: int, count_tokens: Callable[[str], int], truncate: Callable[[str, int], str]
) -> list[str]:
    """The longest run of texts from the first one on whose JSON list fits; at least two, shortened if they must."""
    if _bytes(json.dumps(texts, ensure_ascii=False)) + _MARGIN <= room:
        return list(texts)  # whatever their tokens are
    taken: list[str] = []
    used = _MARGIN
    for text in texts:
        used += count_tokens(json.dumps(text, ensure_ascii=False)) + 2  # comma and blank
        if used > room and len(taken) >= 2:
            break
        taken.append(text)

    def size() -> int:
        return count_tokens(json.dumps(taken, ensure_ascii=False))

    while len(taken) > 2 and size() > room:  # tokens of parts may add up to less than those of the whole
        taken.pop()
    share = room // 2
    while size() > room and share > 1:  # quotes and escapes take room too: shorten until the list fits
        taken = [truncate(text, share) for text in taken]
        share = share * 3 // 4
    return taken


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _selection(
    texts: Sequence[str], room: int, count_tokens: Callable[[str], int], truncate: Callable[[str, int], str]
) -> str:
    """The longest descriptions that fit together, in sorted order: what remains when no summary can be had."""
    chosen: set[str] = set()
    used = 0
    for text in sorted(texts, key=lambda text: (-len(text), text)):
        size = count_tokens(text) + 1
        if used + size <= room:
            chosen.add(text)
            used += size
    return "\n".join(text for text in texts if text in chosen) or truncate(texts[0], room)


def _text(answer: str) -> str:
    """The text of an answer.

    Raises:
        ValueError: The answer is empty.
    """
    fenced = _FENCE.search(answer)
    text = clean_text(fenced.group(1) if fenced else answer)
    text = _GREETING.sub("", _FAREWELL.sub("", text)).strip() or text
    if not text:
        raise ValueError("the answer is empty; expected the summary as plain text")
    return text


def _summary(answer: str) -> str:
    """The summary in an answer.

    Raises:
        RefusalError: The model declined.
        ValueError: The answer is empty.
    """
    text = _text(answer)
    if is_refusal(text) and len(text) < 300:
        raise RefusalError("the model declined to answer")
    if "<|" in text:
        raise ValueError("the answer holds marks of records; expected the summary as plain text")
    return text
