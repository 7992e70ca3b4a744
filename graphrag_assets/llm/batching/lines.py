"""The lines of files that go to a provider and come back: one question each, in any order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from graphrag_assets.llm.providers.wire import dumps

#: Codes of questions that a batch never came to: they did not fail.
_NOT_BEGUN = frozenset({"batch_expired", "batch_cancelled"})


@dataclass(frozen=True)
class Question:
    """A question that can be set down.

    Args:
        key: Key of its answer in the cache.
        line: Its line in a file.
    """

    key: bytes
    line: bytes


@dataclass
class Told:
    """What the files of a batch said.

    Args:
        answers: Bodies of answers by question.
        failed: Questions that failed, with what the provider said.
        damaged: Lines that could not be read, or named no question.
    """

    answers: dict[bytes, dict[str, Any]]
    failed: dict[bytes, str]
    damaged: int = 0


def question(key: bytes, path: str, body: dict[str, Any]) -> Question:
    """A question as a line; its key is the id by which its answer is found.

    Args:
        key: Key of its answer in the cache.
        path: Endpoint, such as /v1/chat/completions.
        body: Body of the request.
    """
    return Question(key, dumps({"custom_id": key.hex(), "method": "POST", "url": path, "body": body}) + b"\n")


def files(questions: Sequence[Question], most: int, most_bytes: int) -> Iterator[list[Question]]:
    """Questions in files of at most so many lines and bytes; a line that is longer stands alone."""
    part: list[Question] = []
    size = 0
    for each in questions:
        if part and (len(part) == most or size + len(each.line) > most_bytes):
            yield part
            part, size = [], 0
        part.append(each)
        size += len(each.line)
    if part:
        yield part


def content_hash(questions: Iterable[Question]) -> str:
    """Hash of the content of a file."""
    told = hashlib.sha256()
    for each in questions:
        told.update(each.line)
    return told.hexdigest()


def read(files: Iterable[bytes]) -> Told:
    """What files of answers and of errors say, whatever the order of their lines.

    Args:
        files: Contents. A line that is damaged, or tells of a question that no one knows, counts as none; of two answers
            to a question the first one counts.
    """
    told = Told({}, {})
    for data in files:
        for line in data.splitlines():
            if line.strip():
                _read_line(line, told)
    for key in told.answers:
        told.failed.pop(key, None)
    return told


def _read_line(line: bytes, told: Told) -> None:
    try:
        row = orjson.loads(line)
        key = bytes.fromhex(row["custom_id"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        told.damaged += 1
        return
    response = row.get("response")
    response = response if isinstance(response, dict) else {}
    body = response.get("body")
    if response.get("status_code") == 200 and isinstance(body, dict) and not body.get("error"):
        told.answers.setdefault(key, body)
        return
    if isinstance(row.get("error"), dict) and row["error"].get("code") in _NOT_BEGUN:
        return
    error = row.get("error") or (body.get("error") if isinstance(body, dict) else None) or {}
    message = error.get("message") if isinstance(error, dict) else error
    told.failed.setdefault(key, f"HTTP {response.get('status_code', '?')}: {message or 'no reason given'}")
