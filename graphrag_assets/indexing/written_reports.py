"""Reports that a model wrote as Markdown, as named lines or as XML, although JSON was asked for."""

from __future__ import annotations

import re
from typing import Any

from graphrag_assets.text.answer_objects import Words
from graphrag_assets.text.reasoning import strip_reasoning
from graphrag_assets.text.record_words import key

_HEADING = re.compile(r"[ \t]{0,3}(?P<level>#{1,6})[ \t]+(?P<text>\S.*?)[ \t#]*$")
_LABEL = re.compile(
    r"[ \t]*(?:[-*•][ \t]+)?[*_\"]{0,3}(?P<label>[^\W\d][\w ]{1,40}?)[*_\"]{0,3}\s?[:：][*_]{0,3}(?:[ \t]+|$)(?P<value>.*)$"
)
_ITEM = re.compile(
    r"[ \t]*(?:[-*•]|\d{1,3}[.)、])[ \t]+(?:\*\*|__)(?P<summary>[^*\n]{1,400}?)[.:：]?(?:\*\*|__)[ \t]*[:：.—–-]?[ \t]*(?P<explanation>.*)$"
)
_ELEMENT = re.compile(r"<(?P<tag>[^\W\d]\w{1,30})>")


def read_written(text: str, words: Words, of_finding: Words) -> dict[str, Any]:
    """The parts of a report that is no JSON; empty where the answer has not the form of one.

    Args:
        text: Answer of a model.
        words: Keys of a report, each with other words for it.
        of_finding: Keys of a finding, each with other words for it.
    """
    text = strip_reasoning(text)
    found = _Elements(words, of_finding).read(text) if "<" in text else {}
    found = found or _Lines(words, of_finding).read(text)
    return found if found.get("title") and found.get("findings") else {}


def _by_word(words: Words) -> dict[str, str]:
    return {key(other): name for name, others in words.items() for other in (name, *others)}


class _Lines:
    """Reads line by line: headings, named lines, items of a list in bold."""

    def __init__(self, words: Words, of_finding: Words) -> None:
        self._named, self._of_finding = _by_word(words), _by_word(of_finding)
        self._parts: dict[str, list[str]] = {}
        self._findings: list[dict[str, list[str]]] = []
        self._into: list[str] = []
        self._listing = False

    def read(self, text: str) -> dict[str, Any]:
        """All lines of an answer."""
        for line in text.splitlines():
            self._line(line)
        parts: dict[str, Any] = {name: "\n".join(lines).strip() for name, lines in self._parts.items()}
        findings = [{name: "\n".join(lines).strip() for name, lines in f.items()} for f in self._findings]
        return {**parts, "findings": [finding for finding in findings if any(finding.values())]}

    def _line(self, line: str) -> None:
        if heading := _HEADING.match(line):
            self._heading(heading["text"].strip("*_ "))
        elif self._listing and (item := _ITEM.match(line)):
            self._finding(item["summary"], item["explanation"])
        elif label := _LABEL.match(line):
            self._label(label["label"], label["value"].strip(), line)
        else:
            self._into.append(line)

    def _heading(self, text: str) -> None:
        label = _LABEL.match(text)
        name = self._named.get(key(label["label"] if label else text))
        if name == "findings":
            self._listing = True
        elif name is not None:
            self._listing = False
            self._into = self._parts.setdefault(name, [label["value"]] if label else [])
        elif "title" not in self._parts:
            self._parts["title"] = [text]
            self._into = self._parts.setdefault("summary", [])
        else:
            self._finding(re.sub(r"^(?:\d{1,3}[.)、]|finding \d+\s*[:：.])\s*", "", text, flags=re.IGNORECASE), "")

    def _label(self, label: str, value: str, line: str) -> None:
        name, part = self._named.get(key(label)), self._of_finding.get(key(label))
        if self._listing and part is not None:
            if part == "summary" or not self._findings:
                self._findings.append({"summary": [], "explanation": []})
            self._into = self._findings[-1][part]
            self._into.append(value)
        elif name == "findings" and not value:
            self._listing = True
        elif name is not None and name != "findings":
            self._into = self._parts.setdefault(name, [])
            self._into.append(value)
        else:
            self._into.append(line)

    def _finding(self, summary: str, explanation: str) -> None:
        self._findings.append({"summary": [summary], "explanation": [explanation]})
        self._into = self._findings[-1]["explanation"]


class _Elements:
    """Reads elements of XML: those of the report, and in its findings those of a finding."""

    def __init__(self, words: Words, of_finding: Words) -> None:
        self._named, self._of_finding = _by_word(words), _by_word(of_finding)

    def read(self, text: str) -> dict[str, Any]:
        """The report; empty where there are no elements of one."""
        parts: dict[str, Any] = {}
        position = 0
        while (opened := _ELEMENT.search(text, position)) is not None:
            position = opened.end()
            name = self._named.get(key(opened["tag"]))
            end = text.find(f"</{opened['tag']}>", position) if name is not None else -1
            if name is None or end < 0 or name in parts:
                continue
            inner = text[position:end]
            parts[name] = self._findings(inner) if name == "findings" else inner.strip()
            position = end
        return parts

    def _findings(self, text: str) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        for opened in _ELEMENT.finditer(text):
            part = self._of_finding.get(key(opened["tag"]))
            end = text.find(f"</{opened['tag']}>", opened.end()) if part is not None else -1
            if part is None or end < 0 or text[opened.end() : end].lstrip().startswith("<"):
                continue
            if not found or part in found[-1]:
                found.append({})
            found[-1][part] = text[opened.end() : end].strip()
        return found
