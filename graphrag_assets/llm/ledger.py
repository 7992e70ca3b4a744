"""The ledger of calls: one row for every question that an index run asked, or whose answer it took from the cache.

It lies in the file of the answer cache and is written in the transaction that stores the answer, so that an answer that
was paid for never stands there without its call, whatever kills the process. It holds no text and no key of a provider.
What a snapshot was made with is taken from here when it is published (:mod:`graphrag_assets.assets.calls`).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.prompt_files import prompt_version

#: Made where it is missing. A call that was paid for is a row for ever; an answer taken from the cache for a row of an
#: index is one row, which tells when it was taken last: else every run would add as many rows as the index has.
TABLES = (
    "create table if not exists calls (answer blob not null, place text not null, stage text not null, "
    "row text not null, model text not null, prompt text not null, turn integer not null, prompt_tokens integer, "
    "completion_tokens integer, usd real, seconds real, attempts integer not null, made real, at real not null, "
    "run text not null, cached integer not null, status text not null, batched integer not null default 0)",
    "create unique index if not exists taken on calls (answer, place, stage, row) where cached",
    "create index if not exists calls_at on calls (at)",
)

_INSERT = (
    "insert into calls values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (answer, place, stage, row) "
    "where cached do update set at = excluded.at, run = excluded.run, prompt = excluded.prompt, turn = excluded.turn"
)

#: Between the ids where a question serves several rows.
SEVERAL = "\n"


class Call(NamedTuple):
    """One row of the ledger.

    Args:
        answer: Key of the answer in the cache.
        place: Storage base of the index that was served.
        stage: Stage, such as extract_graph.
        row: Id of the row that was served; several are joined by :data:`SEVERAL`.
        model: Provider and model.
        prompt: Version (content hash) of the prompt file; empty for embeddings.
        turn: Place in a conversation, from 1; gleanings are 2 and more.
        prompt_tokens: Tokens sent, over all attempts; None where the provider did not say.
        completion_tokens: Tokens received.
        usd: Price of the answer; None where it is not known.
        seconds: Time spent waiting for it.
        attempts: Requests that it took.
        made: When the answer was made; None where that is not known, as for one of an earlier release.
        at: When it was asked for, or taken from the cache.
        run: Run of the index.
        cached: Whether it was taken from the cache, and so not paid for again.
        status: ok, or failed, truncated, refused.
        batched: Whether the answer travelled in a batch of the provider, at the price of batches.
    """

    answer: bytes
    place: str
    stage: str
    row: str
    model: str
    prompt: str
    turn: int
    prompt_tokens: int | None
    completion_tokens: int | None
    usd: float | None
    seconds: float | None
    attempts: int
    made: float | None
    at: float
    run: str
    cached: bool
    status: str
    batched: bool = False

    def as_row(self) -> dict[str, Any]:
        """The row of the table ``calls``, with the ids of all rows that it served as ``served``."""
        served = [row for row in self.row.split(SEVERAL) if row]
        told = {name: value for name, value in self._asdict().items() if name not in ("place", "row", "at")}
        made = None if self.made is None else _moment(self.made)
        return told | {"answer": self.answer.hex(), "made": made, "asked": _moment(self.at), "served": served}


def _moment(seconds: float) -> datetime:
    """A moment as the tables have it: UTC, to the millisecond."""
    moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


#: What the making of an answer took: time, tokens of prompt and answer, price, seconds, attempts, and whether it came by a
#: batch where it did; kept with the answer.
Making = Sequence[Any]

_UNKNOWN: Making = (None, None, None, None, None, 0)


def making(used: StageUsage) -> Making:
    """What one question took, as it is kept with its answer."""
    told = used.prompt_tokens or used.completion_tokens
    return (
        round(time.time(), 3),
        used.prompt_tokens if told else None,
        used.completion_tokens if told else None,
        None if used.unpriced_calls else round(used.priced_usd, 10),
        round(used.seconds, 4),
        used.calls,
        *([True] if used.batched else []),
    )


class _Notes(Protocol):
    """Where rows are written: the cache."""

    def note(self, call: Call) -> None:
        """Keep a row."""
        ...


@dataclass(frozen=True)
class Ledger:
    """The rows of one run.

    Args:
        notes: Writes them.
        place: Storage base of the index.
        run: Run of the index.
    """

    notes: _Notes
    place: str
    run: str

    def asked(self, about: About, answer: bytes, made: Making, status: str = "ok") -> None:
        """A question was asked."""
        self._note(about, answer, made, cached=False, status=status)

    def taken(self, about: About, answer: bytes, made: Making | None) -> None:
        """An answer was taken from the cache, or from an equal question in flight."""
        self._note(about, answer, made or _UNKNOWN, cached=True, status="ok")

    def _note(self, about: About, answer: bytes, made: Making, *, cached: bool, status: str) -> None:
        when, prompt_tokens, completion_tokens, usd, seconds, attempts, *batched = made
        self.notes.note(
            Call(
                answer,
                self.place,
                about.stage,
                about.row,
                about.model,
                about.prompt,
                about.turn,
                prompt_tokens,
                completion_tokens,
                usd,
                seconds,
                attempts,
                when,
                time.time(),
                self.run,
                cached,
                status,
                bool(batched and batched[0]),
            )
        )


class About(NamedTuple):
    """What a question is about: the columns of the same names of :class:`Call`."""

    stage: str
    row: str
    model: str
    prompt: str = ""
    turn: int = 1


#: Every text unit begins a conversation with the same few prompts.
_version = lru_cache(maxsize=64)(prompt_version)


class Prompts:
    """Versions of the prompts of one stage.

    Args:
        texts: The prompt that conversations begin with; then those that are sent as they are in later turns.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._first = _version(texts[0]) if texts else ""
        self._later = {text: _version(text) for text in texts[1:]}

    def version(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Version of the prompt that a conversation ends with."""
        if len(messages) < 2 or not self._later:
            return self._first
        return self._later.get(messages[-1]["content"], self._first)


def write(connection: sqlite3.Connection, calls: Sequence[Call]) -> None:
    """Add rows, within the transaction of the caller."""
    connection.executemany(_INSERT, calls)


def create(connection: sqlite3.Connection) -> None:
    """Make the table where it is missing, as in a file of an earlier release."""
    for statement in TABLES:
        connection.execute(statement)
    if "batched" not in {row[1] for row in connection.execute("pragma table_info(calls)")}:
        try:
            connection.execute("alter table calls add column batched integer not null default 0")
        except sqlite3.OperationalError as error:
            if "duplicate" not in str(error):  # another process was faster
                raise


def read_calls(path: Path, place: str, since: float = 0.0) -> list[Call]:
    """Rows of an index, in the order in which they were written.

    Args:
        path: File of the answer cache.
        place: Storage base of the index.
        since: Only rows of this time or later, seconds since 1970-01-01 UTC.

    Returns:
        Nothing where there is no file, or its rows cannot be read: a ledger is a help, never a reason to fail.
    """
    if not path.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            rows = connection.execute("select * from calls where at >= ? and place = ? order by rowid", [since, place])
            return [Call._make((*row[:15], bool(row[15]), row[16], bool(row[17:] and row[17]))) for row in rows]
    except sqlite3.Error:
        return []


def has_calls(path: Path, place: str, since: float, besides: str = "") -> bool:
    """Whether there are rows of an index of a time or later, beside those of a stage; see :func:`read_calls`."""
    if not path.is_file():
        return False
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            sql = "select 1 from calls where at >= ? and place = ? and stage <> ? limit 1"
            return connection.execute(sql, [since, place, besides]).fetchone() is not None
    except sqlite3.Error:
        return False
