"""Answers are text: what a model wrote as JSON, although it was asked for text, never reaches the reader as JSON."""

from __future__ import annotations

import re
from typing import Any

from graphrag_assets.text.json_answers import parse_json_object

#: Where an answer turns into an object of the kind that other steps are asked for: at its beginning, or later by its keys.
_KEYS = (
    "answer|response|text|content|result|intermediate_answer|points|follow_up_queries|score|description|reason|rating"
)
_AT_START = re.compile(r'\s*(?:```(?:json)?\s*)?(?:\{\s*(?:"|\}|$)|\[\s*\{)', re.IGNORECASE)
_LATER = re.compile(rf'(?:```json\s*)?\{{\s*"(?:{_KEYS})"\s*:', re.IGNORECASE)

#: The longest beginning of an object that can only be told from text when more has come.
_UNDECIDED = re.compile(
    r'(?:```(?:json?)?\s*)?(?:\{\s*(?:"[a-z_]{0,24}"?\s*)?)?$|`{1,3}(?:j(?:s(?:on?)?)?)?\s*$|\[\s*$'
)

#: Keys under which a model puts its text, the likeliest first.
_TEXT_KEYS = ("answer", "response", "intermediate_answer", "text", "content", "result", "description", "summary")


def object_start(text: str, beginning: bool = True) -> int | None:
    """Where an answer turns into a JSON object; None where it is text throughout.

    Args:
        text: An answer, or a part of it.
        beginning: Whether it is the beginning: there any object is one, later only those of the known keys.
    """
    if beginning and _AT_START.match(text):
        return 0
    found = _LATER.search(text)
    return found.start() if found else None


def plain_text(text: str) -> str:
    """The text of an answer; where it is an object, the text in it.

    Args:
        text: An answer that is not empty.

    Raises:
        ValueError: It is an object without a text.
    """
    start = object_start(text)
    if start is None:
        return text.strip()
    before = text[:start].strip()
    try:
        found = _text_in(parse_json_object(text[start:], list_key="points"))
    except ValueError:
        found = ""
    if not found and not before:
        raise ValueError("the answer is an object of JSON without a text; expected text")
    # What stands before an object is its announcement, unless it is an answer in itself.
    return found or before


def _text_in(value: dict[str, Any]) -> str:
    for key in _TEXT_KEYS:
        held = value.get(key)
        if isinstance(held, str) and held.strip():
            return held.strip()
        if isinstance(held, dict) and (inner := _text_in(held)):
            return inner
    points = value.get("points")
    if isinstance(points, list):
        said = [p.get("description") for p in points if isinstance(p, dict)]
        return "\n".join(f"- {s.strip()}" for s in said if isinstance(s, str) and s.strip())
    return ""


class PlainStream:
    """Lets a streamed answer through as long as it is text, and holds an object back until it is complete."""

    def __init__(self) -> None:
        self._held = ""
        self._object = False
        self._begun = False

    def feed(self, piece: str) -> str:
        """Take a piece; returns what may be shown now."""
        self._held += piece
        if self._object:
            return ""
        start = object_start(self._held, not self._begun)
        if start is not None:
            self._object = True
            ready, self._held = self._held[:start], self._held[start:]
            return ready
        undecided = _UNDECIDED.search(self._held)
        end = undecided.start() if undecided else len(self._held)
        ready, self._held = self._held[:end], self._held[end:]
        self._begun = self._begun or bool(ready.strip())
        return ready

    def finish(self) -> str:
        """What is left at the end: the rest, or the text of the object; empty where it holds none."""
        rest, self._held = self._held, ""
        if not self._object:
            return rest
        try:
            return plain_text(rest)
        except ValueError:
            return ""
