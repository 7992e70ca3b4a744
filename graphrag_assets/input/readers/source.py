"""What all readers share: the file at hand, the documents and rejections found so far, and rows to documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphrag_assets.input.documents import FileContents, RejectedError, Rejection, SourceDocument
from graphrag_assets.input.encodings import clean_text, decode
from graphrag_assets.input.metadata import iso_date, json_able, stated_date
from graphrag_assets.settings import InputSettings

DEFAULT_TEXT_COLUMN = "text"


@dataclass(frozen=True)
class Row:
    """One row of a structured file.

    Args:
        number: 0-based number among the rows of the file.
        location: Where it stands, for people: ``line 6`` or ``row 2``.
        values: Values by column.
        whole_file: Whether the file holds this row alone, as one JSON object.
    """

    number: int
    location: str
    values: Mapping[str, Any]
    whole_file: bool = False


@dataclass
class Source:
    """One file while it is read.

    Args:
        file: Path relative to the input.
        data: Content.
        settings: How to read.
    """

    file: str
    data: bytes
    settings: InputSettings
    encoding: str = ""
    documents: list[SourceDocument] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    _ids: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """File name without folders."""
        return self.file.rsplit("/", 1)[-1]

    @property
    def text_column(self) -> str:
        """Name of the text column."""
        return self.settings.text_column or DEFAULT_TEXT_COLUMN

    def reject(self, reason: str, detail: str, location: str = "") -> None:
        """Note what could not be used."""
        self.rejections.append(Rejection(self.file, location, reason, detail))

    def contents(self) -> FileContents:
        """What the file gave."""
        return FileContents(self.documents, self.rejections, self.encoding)

    def decode(self, declared: str | None = None) -> str:
        """The content as text; what was replaced or guessed is noted.

        Raises:
            RejectedError: It is no text.
        """
        decoded = decode(self.data, self.settings.encoding, declared)
        self.encoding = decoded.encoding
        for problem in decoded.problems:
            self.reject(problem.reason, problem.detail, problem.location)
        return decoded.text

    def add_whole(self, text: str, metadata: Mapping[str, Any] | None = None, date: str = "") -> None:
        """Add the file as one document, or note that it is empty.

        Args:
            text: Cleaned text.
            metadata: What the file says of itself.
            date: Its date, where no metadata field states one.
        """
        if not text.strip():
            self.reject("empty", "the file holds no text")
            return
        values: dict[str, Any] = json_able(metadata or {})
        title = self._title(values) or self.name
        self._add(self.file, None, title, text, values, stated_date(values) or iso_date(date))

    def without_text_column(self, columns: Iterable[str]) -> RejectedError:
        """The error of a file that lacks the text column: names it and the columns found."""
        found = ", ".join(map(repr, columns))
        advice = "set input.text_column to the column with the text"
        return RejectedError("no_text_column", f"no column {self.text_column!r}; the file has {found}; {advice}")

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Add rows as documents; those without text, and ids that occur twice, are noted."""
        for row in rows:
            self._add_row(row)

    def _add_row(self, row: Row) -> None:
        value = lookup(row.values, self.text_column)
        if value is None:
            names = ", ".join(map(str, row.values)) or "none"
            missing = not has(row.values, self.text_column)
            found = (
                f"no column {self.text_column!r} (columns: {names})"
                if missing
                else f"column {self.text_column!r} is null"
            )
            self.reject("no_text", found + self._text_hint(missing), row.location)
            return
        if isinstance(value, Mapping | list | bytes):
            self.reject(
                "no_text", f"column {self.text_column!r} holds {type(value).__name__}, expected text", row.location
            )
            return
        raw = str(value)
        text = clean_text(raw)
        if not text.strip():
            self.reject("empty", f"column {self.text_column!r} is empty", row.location)
            return
        if "\ufffd" in text and "\ufffd" not in raw:
            self.reject("lone_surrogate", "halves of surrogate pairs in the text were replaced by U+FFFD", row.location)
        columns = {name: item for name, item in row.values.items() if name != self.text_column}
        metadata: dict[str, Any] = json_able(columns)
        title = self._title(metadata) or (self.name if row.whole_file else f"{self.name} ({row.number})")
        path = self._row_path(row)
        self._add(path, None if row.whole_file else row.number, title, text, metadata, stated_date(metadata))

    def _text_hint(self, missing: bool) -> str:
        return (
            "; set input.text_column to the column with the text" if missing and not self.settings.text_column else ""
        )

    def _row_path(self, row: Row) -> str:
        """Logical path: by id where the settings name its column, else by number; ids seen before are noted."""
        named = lookup(row.values, self.settings.id_column or "id")
        key = clean_text(str(named)).strip() if named is not None else ""
        seen = 0
        if key:
            seen = self._ids.get(key, 0)
            self._ids[key] = seen + 1
            if seen:
                what = f"id {key!r} stands in {seen + 1} rows"
                kept = (
                    f"this one is kept as {key} ({seen + 1})"
                    if self.settings.id_column
                    else "rows are told apart by number"
                )
                self.reject("duplicate_id", f"{what}; {kept}", row.location)
        if self.settings.id_column and not key:
            self.reject(
                "no_id", f"column {self.settings.id_column!r} is missing or empty; the row number is used", row.location
            )
        if self.settings.id_column and key:
            return f"{self.file}#{key}" + (f" ({seen + 1})" if seen else "")
        return self.file if row.whole_file else f"{self.file}#{row.number}"

    def _title(self, metadata: Mapping[str, Any]) -> str:
        for name in (self.settings.title_column, "title"):
            value = lookup(metadata, name) if name else None
            if value is not None and not isinstance(value, Mapping | list) and str(value).strip():
                return " ".join(str(value).split())
        return ""

    def _add(self, path: str, row: int | None, title: str, text: str, metadata: dict[str, Any], date: str) -> None:
        if self.settings.metadata is not None:
            kept = ((name, lookup(metadata, name)) for name in self.settings.metadata if has(metadata, name))
            metadata = dict(kept)
        self.documents.append(SourceDocument(path, self.file, row, title, text, metadata, date))


def has(values: Mapping[str, Any], name: str) -> bool:
    """Whether there is a value under a name or dotted path, be it null."""
    if name in values:
        return True
    first, _, rest = name.partition(".")
    inner = values.get(first)
    return bool(rest) and isinstance(inner, Mapping) and has(inner, rest)


def lookup(values: Mapping[str, Any], name: str) -> Any:
    """The value under a name or dotted path; None when there is none."""
    if name in values:
        return values[name]
    first, _, rest = name.partition(".")
    inner = values.get(first)
    return lookup(inner, rest) if rest and isinstance(inner, Mapping) else None
