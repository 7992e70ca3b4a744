"""JSON: an object is one document, an array of objects one document each. JSON Lines: one document a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from graphrag_assets.input.documents import RejectedError
from graphrag_assets.input.readers.source import Row, Source


def read_json(source: Source) -> None:
    """Read a JSON file."""
    text = source.decode()
    if not text.strip():
        source.reject("empty", "the file holds no text")
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RejectedError("broken", f"not valid JSON: {error or 'nested too deeply'}") from error
    if isinstance(value, dict):
        source.add_rows([Row(0, "", value, whole_file=True)])
    elif isinstance(value, list):
        if not value:
            source.reject("empty", "the array is empty")
        source.add_rows(_objects(((i, f"row {i}", item) for i, item in enumerate(value)), source))
    else:
        raise RejectedError("broken", f"the JSON value is {_kind(value)}; expected an object or an array of objects")


def read_jsonl(source: Source) -> None:
    """Read a JSON Lines file; blank lines are passed over, bad lines are reported by number."""
    text = source.decode()
    if not text.strip():
        source.reject("empty", "the file holds no text")
        return
    source.add_rows(_objects(_parsed_lines(text, source), source))


def _parsed_lines(text: str, source: Source) -> Iterator[tuple[int, str, Any]]:
    """Number of the row, its line, and the value of each line that is JSON; broken lines count as rows."""
    # str.splitlines would also split at U+2028 inside strings.
    filled = ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())
    for row, (number, line) in enumerate(filled):
        location = f"line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            source.reject("broken", f"not valid JSON: {error or 'nested too deeply'}", location)
            continue
        yield row, location, value


def _objects(values: Iterator[tuple[int, str, Any]], source: Source) -> Iterator[Row]:
    """Rows of the values that are objects."""
    for number, location, value in values:
        if isinstance(value, dict):
            yield Row(number, location, value)
        else:
            source.reject("not_an_object", f"{_kind(value)} where an object was expected", location)


def _kind(value: Any) -> str:
    names = {
        list: "an array",
        str: "a string",
        bool: "true or false",
        int: "a number",
        float: "a number",
        type(None): "null",
    }
    return names.get(type(value), type(value).__name__)
