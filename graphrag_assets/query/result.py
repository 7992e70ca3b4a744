"""What a question returns."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from graphrag_assets.query.citations import Citable, Cited
from graphrag_assets.query.context import Context
from graphrag_assets.query.support import Unsupported, unsupported
from graphrag_assets.telemetry import OFF, Telemetry

#: What stands before each note on what went wrong, at the end of an answer.
NOTE = "\n\n> Note: "


@dataclass(frozen=True)
class Draft:
    """What a search hands over: the answer before its citations are checked.

    Args:
        text: The answer.
        contexts: Every context that was shown to a model on the way.
        warnings: What went wrong without preventing an answer.
        extractive: True where sentences of the documents were put together, without a model.
        declined: True where nothing was found that answers the question.
        dropped: Citations that were removed on the way, before this text was written.
        streamed: True where the text was handed out while it was written.
        notes: How it came about beside the contexts, for explanations.
    """

    text: str
    contexts: tuple[Context, ...]
    warnings: tuple[str, ...] = ()
    extractive: bool = False
    declined: bool = False
    dropped: tuple[str, ...] = ()
    streamed: bool = False
    notes: Mapping[str, object] = field(default_factory=dict)

    def citable(self) -> dict[str, dict[int, str]]:
        """All rows that the answer may cite."""
        return merge_citable(context.citable() for context in self.contexts)


def merge_citable(parts: Iterable[Citable]) -> dict[str, dict[int, str]]:
    """The rows of several contexts together."""
    merged: dict[str, dict[int, str]] = {}
    for part in parts:
        for name, rows in part.items():
            merged.setdefault(name, {}).update(rows)
    return merged


@dataclass(frozen=True)
class Answer:
    """An answer and what stands behind it.

    Args:
        answer: Text with checked citations.
        method: Search that was used: local, global, drift or basic.
        snapshot: Id of the snapshot that was asked.
        citations: Resolved citations, in the order of the text.
        dropped_citations: Citations that the model made up; they were removed from the text.
        tokens: Tokens of the contexts that were used.
        sections: Section name -> numbers of its rows.
        contexts: The contexts themselves.
        llm: Calls, tokens and price, as the gateway counted them for this question.
        seconds: Seconds by step, and total.
        why: Why ``auto`` took this method; empty when the method was given.
        warnings: What went wrong without preventing an answer; said in the text as well.
        extractive: True where sentences of the documents were put together, without a model.
        declined: True where the documents do not answer the question, as far as could be told.
        notes: How the contexts were chosen.
        explanation: How the search and its contexts were chosen, and what was left out; see
            :mod:`graphrag_assets.query.explanation`.
    """

    answer: str
    method: str
    snapshot: str
    citations: tuple[Cited, ...]
    dropped_citations: tuple[str, ...]
    tokens: int
    sections: Mapping[str, list[int]]
    contexts: tuple[Context, ...]
    llm: Mapping[str, Any]
    seconds: Mapping[str, float]
    why: str = ""
    warnings: tuple[str, ...] = ()
    extractive: bool = False
    declined: bool = False
    notes: tuple[Mapping[str, object], ...] = ()
    explanation: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def unsupported(self) -> tuple[Unsupported, ...]:
        """Sentences without a citation, or whose citations do not support them by their words."""
        return tuple(unsupported(self.body, self.citations, self.contexts))

    @property
    def body(self) -> str:
        """The answer without the notes on what went wrong, and without the line that marks an extractive answer."""
        text = self.answer.split(NOTE, 1)[0]
        return "" if self.declined else text.split("\n\n", 1)[-1] if self.extractive else text

    def to_dict(self, *, explain: bool = False, support: bool = False) -> dict[str, Any]:
        """The object that ``query --json`` prints.

        Args:
            explain: With ``explain``, how the search and its contexts were chosen, and for each citation the key of its
                row and the version (content hash) of its document.
            support: With ``unsupported``, the sentences without support.
        """
        found = self._contract()
        if support:
            found["unsupported"] = [{"sentence": u.sentence, "why": u.why} for u in self.unsupported]
        if explain:
            versions = [
                {"marker": c.marker, "key": c.key, "document": c.document, "version": c.version} for c in self.citations
            ]
            found["explain"] = {**self.explanation, "citations": versions}
        return found

    def _contract(self) -> dict[str, Any]:
        return {
            "answer": self.answer,
            "method": self.method,
            "snapshot": self.snapshot,
            "citations": [
                {
                    "marker": c.marker,
                    "kind": c.kind,
                    "id": c.id,
                    "title": c.title,
                    "document": c.document,
                    "start": c.start,
                    "end": c.end,
                    "quote": c.quote,
                }
                for c in self.citations
            ],
            "dropped_citations": list(self.dropped_citations),
            "context": {"tokens": self.tokens, "sections": {name: list(ids) for name, ids in self.sections.items()}},
            "llm": dict(self.llm),
            "seconds": dict(self.seconds),
        }

    def to_json(self) -> str:
        """The same as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


def cited_sections(citable: Citable) -> dict[str, list[int]]:
    """Section name -> sorted numbers of its rows; the conversation history has none."""
    return {name: sorted(n for n in rows if n >= 0) for name, rows in citable.items() if any(n >= 0 for n in rows)}


@dataclass
class Stopwatch:
    """Seconds by step of one question.

    Args:
        seconds: Seconds so far.
        telemetry: Where each step is a span.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    telemetry: Telemetry = OFF
    _started: float = field(default_factory=time.perf_counter)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step; steps of one name add up."""
        start = time.perf_counter()
        try:
            with self.telemetry.span(f"question {name}"):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def total(self) -> dict[str, float]:
        """Seconds by step and in total, to the millisecond."""
        steps = {name: round(value, 3) for name, value in self.seconds.items()}
        return {**steps, "total": round(time.perf_counter() - self._started, 3)}
