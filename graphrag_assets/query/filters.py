"""Filters on documents: by id, path, title, language, date and metadata."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from graphrag_assets.query.errors import QueryError

#: Columns of documents that may be filtered beside their metadata.
COLUMNS = ("id", "path", "title", "language", "creation_date")

#: Columns in which = and != take * ? and [...] as a pattern.
PATTERNS = ("path", "title")

#: Near matches that a message names.
NAMED = 5

_CONDITION = re.compile(r"\s*(?P<key>.+?)\s*(?P<operator>!=|<=|>=|=|<|>|\s+in\s+)\s*(?P<value>.*?)\s*", re.DOTALL)
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class Condition:
    """One condition on documents.

    Args:
        key: A column (id, path, title, language, creation_date) or a key of the metadata.
        operator: =, !=, <, <=, >, >= or in.
        value: What is compared; for in, values with commas between.
    """

    key: str
    operator: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read a condition such as ``year>=1990``, ``path=letters/*`` or ``department in board,guild``.

        Raises:
            QueryError: It is none.
        """
        found = _CONDITION.fullmatch(text)
        if not found:
            raise QueryError(
                f"the filter {text!r} is no condition: write KEY=VALUE, with =, !=, <, <=, >, >= or in, "
                'such as year>=1990 or "department in board,guild"'
            )
        return cls(found["key"], found["operator"].strip(), found["value"])

    def holds(self, values: Iterable[object]) -> bool:
        """Whether a document with these values of the key is meant; of several values one is enough."""
        held = [value for value in values if value is not None]
        if self.operator == "!=":
            return not any(self._is(value, self.value) for value in held)
        if self.operator == "in":
            return any(self._is(value, wanted.strip()) for value in held for wanted in self.value.split(","))
        if self.operator == "=":
            return any(self._is(value, self.value) for value in held)
        return any(self._compares(value) for value in held)

    def _is(self, value: object, wanted: str) -> bool:
        if isinstance(value, str) and self.key in PATTERNS and self.operator != "in":
            return value == wanted or fnmatchcase(value, wanted)
        typed = _typed(wanted, value)
        return typed is not None and typed == value

    def _compares(self, value: object) -> bool:
        wanted: Any = _typed(self.value, value)
        if wanted is None or isinstance(value, bool) or value == "":  # a document without a date is not before 1990
            return False
        compare: Mapping[str, Callable[[Any, Any], bool]] = {
            "<": lambda a, b: a < b,
            "<=": lambda a, b: a <= b,
            ">": lambda a, b: a > b,
            ">=": lambda a, b: a >= b,
        }
        return compare[self.operator](value, wanted)


def _typed(text: str, like: object) -> object:
    """A value of a condition as the type of a value of the metadata; None where it cannot be one."""
    if isinstance(like, bool):
        return _TRUTH.get(text.lower())
    if isinstance(like, int | float):
        try:
            return float(text)
        except ValueError:
            return None
    return text if isinstance(like, str) else None


@dataclass(frozen=True)
class Filter:
    """Which documents may be read.

    Args:
        conditions: All of them must hold.
        documents: Ids or paths, one of which it must have; a path of a file stands for all documents in it. Empty: any.
    """

    conditions: tuple[Condition, ...] = ()
    documents: tuple[str, ...] = ()

    @classmethod
    def of(cls, conditions: Sequence[str] = (), documents: Sequence[str] = ()) -> Filter | None:
        """A filter from conditions as text and ids or paths; None where there are neither.

        Raises:
            QueryError: A text is no condition.
        """
        if not conditions and not documents:
            return None
        return cls(tuple(Condition.parse(text) for text in conditions), tuple(documents))

    def select(self, documents: Sequence[Mapping[str, Any]]) -> list[str]:
        """Ids of the documents that are meant.

        Args:
            documents: Rows with the columns of :data:`COLUMNS` and raw_data.

        Raises:
            QueryError: A key or a document does not exist, or no document is meant; the message names near ones.
        """
        data = [_metadata(row) for row in documents]
        keys = {*COLUMNS, *(key for row in data for key in row)}
        for condition in self.conditions:
            if condition.key not in keys:
                raise QueryError(
                    f"no document has a {condition.key!r}; there are {', '.join(sorted(keys))}"
                    f"{_near(condition.key, keys)}"
                )
        kept = [
            (row, own) for row, own in zip(documents, data, strict=True) if not self.documents or self._is_named(row)
        ]
        for name in self.documents:
            if not any(_named(row, name) for row, _ in kept):
                known = [str(row["path"]) for row in documents]
                some = ", ".join(sorted(known)[:NAMED]) + (", …" if len(known) > NAMED else "")
                near = _near(name, known) or f"; there are {some}"
                pattern = f"; --filter path={name} takes patterns" if any(c in name for c in "*?[") else ""
                raise QueryError(f"there is no document {name!r}{near}{pattern}")
        for i, condition in enumerate(self.conditions):
            values = {str(v) for row, own in kept for v in _values(row, own, condition.key) if v not in (None, "")}
            kept = [(row, own) for row, own in kept if condition.holds(_values(row, own, condition.key))]
            if not kept:
                before = " among those that the other conditions leave" if i or self.documents else ""
                told = f"{condition.key} {condition.operator} {condition.value}"
                some = ", ".join(sorted(values)[:NAMED]) + (", …" if len(values) > NAMED else "")
                raise QueryError(
                    f"no document has {told}{before}; {condition.key} is {some or 'not set'}"
                    f"{_near(condition.value, values)}"
                )
        return [str(row["id"]) for row, _ in kept]

    def _is_named(self, row: Mapping[str, Any]) -> bool:
        return any(_named(row, name) for name in self.documents)


def _named(row: Mapping[str, Any], name: str) -> bool:
    """Whether a document is the named one: by its id, its path, or the file that it is a row of."""
    path = str(row["path"])
    return name in (row["id"], path) or path.startswith(f"{name}#")


def _metadata(row: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(row["raw_data"] or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _values(row: Mapping[str, Any], metadata: Mapping[str, Any], key: str) -> list[object]:
    value = row[key] if key in COLUMNS else metadata.get(key)
    return value if isinstance(value, list) else [value]


def _near(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, sorted(set(known)), NAMED, 0.6)
    return f"; near are {', '.join(found)}" if found else ""
