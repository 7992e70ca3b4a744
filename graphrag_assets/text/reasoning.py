"""Reasoning text that some models write before their answer, and that is no part of it."""

from __future__ import annotations

import re

_TAGS = ("think", "thinking", "thought", "reasoning")
_ANY = "|".join(_TAGS)
_OPENED = re.compile(rf"\s*<({_ANY})>", re.IGNORECASE)
_BLOCK = re.compile(rf"\s*<({_ANY})>.*?(</\1>|\Z)", re.IGNORECASE | re.DOTALL)
# Chat templates that open the block themselves leave only its end in the answer, at the end of a line.
_TAG = re.compile(rf"</?(?:{_ANY})>", re.IGNORECASE)
_END = re.compile(rf"</(?:{_ANY})>[ \t]*$", re.IGNORECASE | re.MULTILINE)
_LONGEST_TAG = max(map(len, _TAGS)) + 2


def strip_reasoning(text: str) -> str:
    """An answer without the reasoning block at its start; of an unfinished block nothing is left.

    Tags further on belong to the answer, which may well speak of them.
    """
    if "<" not in text:
        return text.strip()
    while block := _BLOCK.match(text):
        text = text[block.end() :]
    if "</" in text and (tag := _TAG.search(text)) and (end := _END.match(text, tag.start())):
        text = text[end.end() :]
    return text.strip()


class ReasoningFilter:
    """Takes the reasoning block off a streamed answer; only as much is held back as may belong to a tag."""

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"
        self._end = ""

    def feed(self, piece: str) -> str:
        """The part of the answer that can be shown after one more piece."""
        if self._state == "answer":
            return piece
        self._held += piece
        if self._state == "start":
            begun = self._held.lstrip()
            if opened := _OPENED.match(self._held):
                self._state, self._end = "reasoning", f"</{opened.group(1).lower()}>"
            elif len(begun) >= _LONGEST_TAG or (begun and not _may_open(begun)):
                self._state, shown, self._held = "answer", begun, ""
                return shown
        if self._state == "reasoning":
            at = self._held.lower().find(self._end)
            if at < 0:
                self._held = self._held[-len(self._end) :]
                return ""
            self._state, rest, self._held = "start", self._held[at + len(self._end) :], ""
            return self.feed(rest)
        return ""

    def close(self) -> str:
        """What was held back and turned out to be answer."""
        return self._held.strip() if self._state == "start" else ""


def _may_open(begun: str) -> bool:
    return any(f"<{tag}>".startswith(begun.lower()) for tag in _TAGS)
