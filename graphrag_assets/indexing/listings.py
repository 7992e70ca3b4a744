"""Records out of answers that are neither tuples nor JSON: tables, lists, fields by line, XML, YAML.

A line is read only where it says what it is: a table by its head, a field by its name, an item of a list by the heading
above it and its form. Prose has none of that, and gives no records.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from graphrag_assets.indexing.record_items import record_of
from graphrag_assets.indexing.tuples import Record, clean_field
from graphrag_assets.text.record_words import kind, role

_NAME = r"[^\n|]{1,100}?"
_BULLET = r"[ \t]*(?:[-*•+·]|\d{1,3}[.)、])[ \t]+"
_ITEM = re.compile(
    rf"{_BULLET}(?P<name>{_NAME})\s*[(\[（【](?P<type>[^()\[\]（）【】\n]{{1,60}})[)\]）】][*_`]*\s*[:：—–-]\s*(?P<description>\S.*)"
)
_LINK = re.compile(
    rf"{_BULLET}(?P<source>{_NAME})\s*(?:<?[-=–—]{{1,2}}>|[→⟶↔⇒]|<[-–—]{{1,2}})\s*(?P<target>{_NAME})[*_`]*\s*[:：]\s*(?P<description>\S.*)"
)
_STRENGTH = re.compile(
    r"\s*[(\[（](?:(?:strength|weight|score|强度|強度)\s*[:：=]\s*)?(\d{1,3}(?:\.\d+)?)(?:\s*/\s*\d+)?[)\]）]\.?$",
    re.IGNORECASE,
)
_ARROW = re.compile(r"\s*(?:<?[-=–—]{1,2}>|[→⟶↔⇒])\s*")
_LABEL = r"[\"'*_`]{0,3}(?P<label>[^\W\d](?:[\w ]|-(?=\w)){0,30}?)[\"'*_`]{0,3}\s?[:：=][*_`]{0,2}"
_FIELD = re.compile(rf"(?P<lead>[ \t]*(?:(?:[-*•+·]|\d{{1,3}}[.)、])[ \t]+)?){_LABEL}(?:[ \t]+|(?<=：)|$)(?P<value>.*)")
_NEXT_FIELD = re.compile(r"[ \t]*[,;|，；][ \t]*(?=[\"'*_`]{0,3}[^\W\d][\w ]{0,30}[\"'*_`]{0,3}\s?[:：=])")
_RULE = re.compile(r"[ \t|:+\-–—=]{3,}")
_TAG = re.compile(
    r"<(?P<tag>[^\W\d][\w-]{1,30})(?P<attributes>(?:\s+[\w-]{1,40}\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'))*)\s*(?P<empty>/)?>"
)
_ATTRIBUTE = re.compile(r"([\w-]{1,40})\s*=\s*(?:\"([^\"<]*)\"|'([^'<]*)')")
_LONGEST_LINE = 20_000


@dataclass(frozen=True)
class Form:
    """What an answer should hold.

    Args:
        kinds: Kinds of its records.
        role: The part of a record that a word names; None for another word.
        record_of: The record that values by their names are, given the kind that is expected; None where it is none.
        long: Parts that may go on in the next line.
    """

    kinds: frozenset[str]
    role: Callable[[str], str | None]
    record_of: Callable[[Mapping[str, str], str | None], Record | None]
    long: frozenset[str] = frozenset({"description"})

    def kind(self, text: str) -> str | None:
        """The kind of record that a word says follows."""
        named = kind(text)
        return named if named in self.kinds else None


GRAPH = Form(frozenset({"entity", "relationship"}), role, record_of)


def read_listing(text: str, form: Form = GRAPH) -> list[Record]:
    """Records of an answer in another form than the ones that are asked for; empty where there are none.

    Args:
        text: Answer without reasoning.
        form: What it should hold.
    """
    return list(dict.fromkeys([*_elements(text, form), *_Lines(form).read(text)]))


@dataclass
class _Lines:
    """Reads line by line what was said so far: the heading, the head of a table, the fields of an item."""

    form: Form
    kind: str | None = None
    columns: list[str] = field(default_factory=list)
    item: dict[str, str] = field(default_factory=dict)
    item_kind: str | None = None
    last: str = ""
    previous: list[str] = field(default_factory=list)

    def read(self, text: str) -> Iterator[Record]:
        for line in text.splitlines():
            if len(line) <= _LONGEST_LINE:
                yield from self._line(line)
        yield from self._ended()

    def _line(self, line: str) -> Iterator[Record]:
        stripped = line.strip()
        if not stripped:
            self.previous, self.columns = [], []
            self.last = ""
            return
        if "|" in stripped and not self.item:
            yield from self._row(stripped)
            return
        self.previous, self.columns = [], []
        if len(stripped) <= 60 and (named := kind(stripped.strip("-–—=<>"))) is not None:
            yield from self._ended()
            self.kind = self.item_kind = named
            return
        if self.kind and (found := self._listed(line)) is not None:
            yield found
            return
        fields = [match for part in self._parts(line) if (match := _FIELD.match(part)) is not None]
        if fields:
            for match in fields:
                yield from self._field(match["label"], match["value"])
        elif self.item and self.last:
            self.item[self.last] += f" {stripped}"

    def _parts(self, line: str) -> Iterator[str]:
        """A line, taken apart before each name of a field."""
        begin = 0
        for mark in _NEXT_FIELD.finditer(line):
            label = _FIELD.match(line, mark.end())
            if label is not None and (self.form.role(label["label"]) or self.form.kind(label["label"])):
                yield line[begin : mark.start()]
                begin = mark.end()
        yield line[begin:]

    def _row(self, line: str) -> Iterator[Record]:
        """A row of a table; the one above a rule is the head."""
        if _RULE.fullmatch(line):
            self.columns = self.previous
            return
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if (named := self.form.kind(cells[0])) and len(cells) >= 3 and self.columns:
            cells = cells[1:]
            yield Record(named, tuple(clean_field(cell) for cell in (cells[:3] if named == "entity" else cells)))
        elif self.columns and len(cells) >= len(self.columns):
            parts = dict(zip(self.columns, cells, strict=False))
            if (found := _record(parts, self.form)) is not None:
                yield found
        self.previous = cells

    def _listed(self, line: str) -> Record | None:
        """An item of a list under a heading: NAME (TYPE): description, or SOURCE -> TARGET: description (7)."""
        if self.kind == "entity" and (found := _ITEM.match(line)):
            return _record(found.groupdict(), self.form, "entity")
        if self.kind == "relationship" and (found := _LINK.match(line)):
            said = found["description"]
            strength = _STRENGTH.search(said)
            parts = {**found.groupdict(), "weight": strength[1] if strength else ""}
            parts["description"] = said[: strength.start()] if strength else said
            return _record(parts, self.form, "relationship")
        return None

    def _field(self, label: str, value: str) -> Iterator[Record]:
        """One named field; a name that was there already begins the next item."""
        named, part = self.form.kind(label), self.form.role(label)
        self.last = ""
        if named is not None and (not value.strip() or part is None or part in {"name", *self.form.long}):
            yield from self._ended()
            self.item_kind = named
            if not value.strip():
                self.kind = named
                return
            if named == "relationship" and len(ends := _ARROW.split(value, maxsplit=1)) == 2:
                self.item = {"source": ends[0], "target": ends[1]}
                return
            part = "name" if named == "entity" else part
        if part is None or (named == "relationship" and part == "name"):
            return
        other = {"source", "target"} if "name" in self.item else {"name"} if "target" in self.item else set()
        if part in self.item or part in other:
            yield from self._ended()
            self.item_kind = None if part in other else self.kind
        self.item[part] = value
        self.last = part if part in self.form.long else ""

    def _ended(self) -> Iterator[Record]:
        item, self.item, self.last = self.item, {}, ""
        if (found := _record(item, self.form, self.item_kind)) is not None:
            yield found


def _record(parts: dict[str, str], form: Form, hint: str | None = None) -> Record | None:
    """The record of cells or fields by their names."""
    return form.record_of({name: _plain(text) for name, text in parts.items()}, hint)


def _plain(text: str) -> str:
    """A value without what marks it up."""
    text = text.strip().rstrip(",")
    for sign in ("**", "__", "`"):
        text = text.replace(sign, "") if text.count(sign) > 1 else text
    return clean_field(html.unescape(text) if "&" in text else text).strip("*")


def _elements(text: str, form: Form) -> Iterator[Record]:
    """Records as elements of XML: with the fields as elements in them, or as attributes."""
    unclosed: set[str] = set()
    for opened in _TAG.finditer(text):
        tag = opened["tag"]
        named = form.kind(tag)
        if named is None or tag in unclosed:
            continue
        parts = {name: first or second for name, first, second in _ATTRIBUTE.findall(opened["attributes"])}
        if not opened["empty"]:
            end = text.find(f"</{tag}>", opened.end())
            if end < 0:
                unclosed.add(tag)
                continue
            if end - opened.end() > _LONGEST_LINE:
                continue
            inner = text[opened.end() : end]
            parts |= {part["tag"]: value for part in _TAG.finditer(inner) if (value := _content(inner, part))}
            if parts and "<" not in inner and not any(form.role(name) == "description" for name in parts):
                parts["description"] = inner
        if (found := _record(parts, form, named)) is not None:
            yield found


def _content(text: str, opened: re.Match[str]) -> str:
    end = text.find(f"</{opened['tag']}>", opened.end())
    return text[opened.end() : end] if end >= 0 else ""
