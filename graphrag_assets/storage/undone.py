"""Rows that could not be made: how often each was tried, when last, and when it is time to try again.

A small file for each batch of a stage, in the build area: published tables hold no time, so that equal input gives equal
tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from graphrag_assets.storage.filesystem import FileSystem

FOLDER = "build/undone"

#: Seconds from the second try to the third, doubled with each further one. The second waits for the next run only.
FIRST_WAIT = 600.0

#: Longest wait between two tries, in seconds.
LONGEST_WAIT = 86_400.0

#: Tries of what a model answers and cannot be used: it would answer the same for ever, at a price. What could not be
#: reached is tried without end; a person may ask for everything (``index --retry-failed``).
MOST_TRIES = 8


@dataclass(frozen=True)
class Undone:
    """A row that could not be made.

    Args:
        row: Id of the row: a text unit, an entity or relationship, a community.
        made_from: Hash of what it is made from; another text, prompt or model is another row.
        status: failed, truncated or refused.
        reason: Why, in one line.
        passing: Whether for a reason that may pass.
        tries: Runs that tried.
        last: When it was tried last, in seconds since 1970.
    """

    row: str
    made_from: str
    status: str
    reason: str
    passing: bool
    tries: int = 1
    last: float = 0.0

    @property
    def next(self) -> float | None:
        """When it is tried again; None: only when somebody asks for it, or something changes."""
        if not self.passing and self.tries >= MOST_TRIES:
            return None
        wait = min(FIRST_WAIT * 2.0 ** min(self.tries - 2, 64), LONGEST_WAIT) if self.tries > 1 else 0.0
        return self.last + wait


def path_of(stage: str, part: str | None = None) -> str:
    """File of a batch of a stage, or of a stage of the whole corpus."""
    return f"{FOLDER}/{stage}/{part or 'all'}.json"


def read_undone(storage: FileSystem, stage: str, part: str | None = None) -> list[Undone]:
    """What is undone, in the order of the rows; nothing where no file tells so, or it cannot be read."""
    try:
        return [Undone(**row) for row in json.loads(storage.read(path_of(stage, part)))]
    except (FileNotFoundError, ValueError, TypeError):
        return []


def keep_undone(storage: FileSystem, stage: str, part: str | None, rows: Iterable[Undone], now: float) -> list[Undone]:
    """Keep what a run left undone, each row with the tries of the runs before; nothing removes the file.

    Args:
        storage: The storage base.
        stage: The stage.
        part: Batch; None for a stage of the whole corpus.
        rows: What is undone; tries and times are filled in.
        now: Seconds since 1970.
    """
    before = {(each.row, each.made_from): each.tries for each in read_undone(storage, stage, part)}
    kept = [
        Undone(
            each.row,
            each.made_from,
            each.status,
            each.reason,
            each.passing,
            before.get((each.row, each.made_from), 0) + 1,
            now,
        )
        for each in rows
    ]
    if kept:
        storage.write(path_of(stage, part), json.dumps([asdict(each) for each in kept], ensure_ascii=False).encode())
    elif before:
        storage.delete(path_of(stage, part))
    return kept


def due(rows: Sequence[Undone]) -> float | None:
    """When the first of some rows is tried again; None: never by itself."""
    times = [each.next for each in rows if each.next is not None]
    return min(times, default=None)
