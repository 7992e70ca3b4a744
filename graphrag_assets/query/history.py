"""Conversation history: the newest turns count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphrag_assets.query.context import Row, Section, SectionBuilder, TokenCounter

Turn = Mapping[str, str]

NAME = "Conversation History"
COLUMNS = ("turn", "content")


def question_with_history(question: str, history: Sequence[Turn], max_turns: int) -> str:
    """Text that is embedded for a question: the question, then the user's last turns, newest first.

    Args:
        question: The question.
        history: Turns with role (user, assistant) and content, oldest first.
        max_turns: User turns that are used.
    """
    asked = [turn["content"] for turn in reversed(history) if turn.get("role") == "user" and turn.get("content")]
    return "\n".join([question, *asked[:max_turns]])


def history_section(history: Sequence[Turn], max_turns: int, tokenizer: TokenCounter, budget: int) -> Section | None:
    """The newest turns that fit, in the order in which they were spoken.

    A turn is a user's message with the answers to it. From the newest one back, messages are added while they fit.

    Args:
        history: Turns with role and content, oldest first.
        max_turns: User turns that are used.
        tokenizer: Counts.
        budget: Tokens of the section.

    Returns:
        The section, or None when there is nothing to show.
    """
    builder = SectionBuilder(NAME, COLUMNS, tokenizer, budget)
    turns = 0
    added = 0
    for message in reversed(history):
        if turns >= max_turns:
            break
        role, content = message.get("role", ""), message.get("content", "")
        if content and builder.add(Row(-1, "", (role, content))):
            added += 1
        turns += role == "user"
    return builder.section(order=range(added - 1, -1, -1)) if added else None
