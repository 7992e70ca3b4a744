"""The context of a question: sections of whole rows, each within its share of the token budget.

A section is a title line, a header and CSV rows separated by ``|``; cells with separators, quotes or line breaks are
quoted, so that no text can break a row. What does not fit is skipped and the next row is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from graphrag_assets.text.citations import DATASETS
from graphrag_assets.text.context_tables import csv_line, table_head

#: Names of the sections whose rows can be cited.
REPORTS, ENTITIES, RELATIONSHIPS, CLAIMS, SOURCES = DATASETS

DELIMITER = "|"


class TokenCounter(Protocol):
    """Counts and cuts in tokens."""

    def count(self, text: str) -> int:
        """Number of tokens."""
        ...

    def truncate(self, text: str, max_tokens: int) -> str:
        """The longest beginning of the text with at most so many tokens."""
        ...


@dataclass(frozen=True)
class Row:
    """One row of a section.

    Args:
        number: What a citation names: human_readable_id, or the community number of a report.
        key: Id of the row in its table.
        cells: Values in the order of the columns; the first one is the number.
        text: What an extractive answer may quote: the text of the row without its other cells.
    """

    number: int
    key: str
    cells: tuple[str, ...]
    text: str = ""


@dataclass(frozen=True)
class Section:
    """One table of the context.

    Args:
        name: Reports, Entities, Relationships, Claims, Sources, or Conversation History.
        columns: Header.
        rows: Rows that fitted.
        left_out: Rows that were considered and did not fit.
        budget: Tokens that the section might use.
        used: Tokens that it uses, with its head.
        too_long: Number and tokens of rows that were tried and did not fit into what was left.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    left_out: int
    budget: int
    used: int = 0
    too_long: tuple[tuple[int, int], ...] = ()

    @cached_property
    def text(self) -> str:
        """The section as the model sees it."""
        return section_head(self.name, self.columns) + "".join(section_line(row.cells) for row in self.rows)


@dataclass(frozen=True)
class Context:
    """Everything that a model is shown for one question.

    Args:
        sections: Sections in their order.
        tokens: Exact tokens of :attr:`text`.
        notes: How it was chosen, for people: seeds with scores, candidates, what was left out.
    """

    sections: tuple[Section, ...]
    tokens: int
    notes: dict[str, object] = field(default_factory=dict)

    @cached_property
    def text(self) -> str:
        """All sections, a blank line between two."""
        return "\n".join(section.text for section in self.sections)

    def rows(self, name: str) -> list[Row]:
        """Rows of the sections with this name."""
        return [row for section in self.sections if section.name == name for row in section.rows]

    @property
    def is_empty(self) -> bool:
        """True when it holds no row that can be cited."""
        return not any(self.rows(name) for name in DATASETS)

    def citable(self) -> dict[str, dict[int, str]]:
        """Section name -> number -> key of every row that an answer may cite."""
        found: dict[str, dict[int, str]] = {}
        for section in self.sections:
            found.setdefault(section.name, {}).update({row.number: row.key for row in section.rows})
        return found


def join(
    sections: Iterable[Section | None], tokenizer: TokenCounter, notes: dict[str, object] | None = None
) -> Context:
    """Put sections together; those without rows are left out."""
    kept = tuple(section for section in sections if section is not None and section.rows)
    text = "\n".join(section.text for section in kept)
    return Context(kept, tokenizer.count(text) if text else 0, notes or {})


def section_head(name: str, columns: Sequence[str]) -> str:
    """Title line and header of a section."""
    return table_head(name, columns, DELIMITER)


def section_line(cells: Sequence[str]) -> str:
    """One row of a section as a line."""
    return csv_line(cells, DELIMITER)


def number_text(value: float) -> str:
    """A number as a cell: with a decimal point, at most four decimals."""
    return str(round(float(value), 4))


class SectionBuilder:
    """Fills one section up to its budget.

    Lines begin with a digit or a letter and end with a line break, and the encodings of tiktoken never join tokens over
    such a border, so the tokens of the lines add up to those of the section; :func:`join` counts the whole again.

    Args:
        name: Section name.
        columns: Header.
        tokenizer: Counts.
        budget: Tokens that the section may use, with its head and the blank line before it.
    """

    def __init__(self, name: str, columns: Sequence[str], tokenizer: TokenCounter, budget: int) -> None:
        self.name = name
        self.columns = tuple(columns)
        self.budget = budget
        self.used = tokenizer.count("\n" + section_head(name, columns))
        self.left_out = 0
        self._tokenizer = tokenizer
        self._rows: list[Row] = []
        self._too_long: list[tuple[int, int]] = []

    @property
    def room(self) -> int:
        """Tokens that are left."""
        return self.budget - self.used

    @property
    def tokens(self) -> int:
        """Tokens in use: 0 as long as there is no row, since an empty section is left out."""
        return self.used if self._rows else 0

    def add(self, row: Row) -> bool:
        """Add a row if it fits; else count it as left out."""
        size = self._tokenizer.count(section_line(row.cells))
        if size > self.room:
            self.left_out += 1
            self._too_long.append((row.number, size))
            return False
        self.used += size
        self._rows.append(row)
        return True

    def fill(self, rows: Iterable[Row]) -> SectionBuilder:
        """Add every row that fits, in order."""
        for row in rows:
            self.add(row)
        return self

    def section(self, order: Sequence[int] | None = None) -> Section:
        """The section, its rows in the order they were added, or in another one given by their places."""
        rows = [self._rows[i] for i in order] if order is not None else self._rows
        return Section(
            self.name, self.columns, tuple(rows), self.left_out, self.budget, self.tokens, tuple(self._too_long)
        )
