"""CSV and TSV: one document a row. The delimiter is found; rows that do not fit the header are reported by line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from graphrag_assets.input.readers.source import Row, Source, has

_DELIMITERS = (",", ";", "\t", "|")
#: Rows that are looked at to find the delimiter.
_SNIFFED_ROWS = 50
_SNIFFED_CHARACTERS = 1_000_000


def read(source: Source) -> None:
    """Read a CSV or TSV file."""
    text = source.decode()
    if not text.strip():
        source.reject("empty", "the file holds no text")
        return
    # The limit is one of the process, and fields of 128 KB and more are ordinary here.
    csv.field_size_limit(2**31 - 1)
    delimiter = _delimiter(text, source)
    records = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header = _header(next((record for record in records if record), []), source)
    if not has(dict.fromkeys(header), source.text_column):
        raise source.without_text_column(header)
    if text.count('"') % 2:
        source.reject(
            "unclosed_quote", "the quotes of the file do not pair up: a field may have swallowed the rows after it"
        )
    before = len(source.documents) + len(source.rejections)
    source.add_rows(_rows(records, header, source))
    if before == len(source.documents) + len(source.rejections):
        source.reject("empty", "the file has a header and no rows")


def _rows(records: Iterator[list[str]], header: list[str], source: Source) -> Iterator[Row]:
    """Rows that have something in them, each with the line at which it begins."""
    number = 0
    reader = records
    first_line = reader.line_num + 1  # type: ignore[attr-defined]
    for record in reader:
        line, first_line = first_line, reader.line_num + 1  # type: ignore[attr-defined]
        if not record:
            continue
        location = f"line {line}"
        if not any(cell.strip() for cell in record):
            source.reject("empty", "blank row", location)
        elif len(record) < len(header) and source.text_column in header[len(record) :]:
            source.reject(
                "ragged",
                f"{len(record)} cells where the header has {len(header)}, none for {source.text_column!r}",
                location,
            )
        else:
            if len(record) != len(header):
                extra = record[len(header) :]
                left = f"; left out: {', '.join(map(repr, extra))}" if extra else ""
                cells = f"{len(record)} cells where the header has {len(header)}"
                source.reject(
                    "surplus_cells" if extra else "missing_cells", f"{cells}{left}; the row is used", location
                )
            yield Row(number, location, dict(zip(header, record, strict=False)))
        number += 1


def _header(cells: list[str], source: Source) -> list[str]:
    """Column names; a name that occurs again gets a number."""
    header: list[str] = []
    for i, cell in enumerate(cells):
        name = " ".join(cell.split()) or f"column_{i + 1}"
        unique, n = name, 1
        while unique in header:
            n += 1
            unique = f"{name}_{n}"
        if unique != name:
            source.reject(
                "duplicate_column", f"column {name!r} occurs again; the later one is called {unique!r}", "line 1"
            )
        header.append(unique)
    return header


def _delimiter(text: str, source: Source) -> str:
    """The delimiter with which the text column is there, the rows are as long as the header, and columns are most."""

    def fit(delimiter: str) -> tuple[bool, float, int]:
        sample = io.StringIO(text[:_SNIFFED_CHARACTERS], newline="")
        rows = [
            row
            for row, _ in zip(filter(None, csv.reader(sample, delimiter=delimiter)), range(_SNIFFED_ROWS), strict=False)
        ]
        header = [" ".join(cell.split()) for cell in rows[0]] if rows else []
        equal = sum(len(row) == len(header) for row in rows) / max(1, len(rows))
        return source.text_column in header, equal if len(header) > 1 else 0.0, len(header)

    return max(_DELIMITERS, key=fit)
