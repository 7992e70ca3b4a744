"""Nearest rows by vector, from one pinned version of a LanceDB table."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.stored import READERS
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.snapshots import VectorTable
from graphrag_assets.storage.vectors import open_vectors, telling

#: Candidates per wanted row that an approximate index compares by their exact vectors: enough for exact scores. Vectors
#: are scattered, so that reading twice as many costs 5 ms for 100 rows, and of the hundred nearest of 3,000 finds .1 % more.
REFINE_FACTOR = 1

#: Most rows that are compared to find enough that lie inside a filter. Comparing 2,000 of 100,000 costs 50 ms, 5,000 some 130;
#: a search that looks at no others than 500 named rows costs 140, at 5,000 named ones 220, at 25,000 named ones 600.
MOST_SIFTED = 5_000

#: Rows that are fetched beyond those wanted: some may be further windows of one text.
SPARE = 8


@dataclass(frozen=True)
class Hit:
    """A row that was found.

    Args:
        id: Id of the row.
        score: Higher is nearer: cosine similarity for vectors, BM25 for words.
    """

    id: str
    score: float


class VectorIndex:
    """A vector table of a snapshot, opened at its first search.

    Args:
        filesystem: The storage base.
        described: Which table at which version.
        inside: Gives the ids that may be found, where a filter leaves out others; None: all may.
        windows: Vectors that a row has on average.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        described: VectorTable,
        inside: Callable[[], frozenset[str]] | None = None,
        windows: float = 1.0,
    ) -> None:
        self.filesystem = filesystem
        self.described = described
        self._lock = threading.Lock()
        self._table: Any = None
        self._inside = inside
        self._windows = windows
        self._held: frozenset[str] | None = None

    def check(self, model: str, dimension: int | None = None) -> None:
        """Make sure that a question embedded by this model can be compared with these vectors.

        Args:
            model: Identity of the model.
            dimension: Length of its vectors; None while it is not known.

        Raises:
            QueryError: The vectors come from another model.
        """
        d = self.described
        if model != d.model or dimension not in (None, d.dimension):
            raise QueryError(
                f"vectors {d.table} were made by {d.model} ({d.dimension} dimensions), the settings name {model}"
                f"{f' ({dimension})' if dimension else ''}: set that model again, or run graphrag-assets index"
            )

    def nearest(self, vector: Sequence[float], k: int, allowed: Collection[str] | None = None) -> list[Hit]:
        """The k rows with the most similar vectors.

        A row may have several vectors (windows of a long text); its best one counts. Equal scores are ordered by id.

        Args:
            vector: Embedding of the question, unit length.
            k: Rows wanted.
            allowed: Ids that may be returned; None: all.

        Returns:
            At most k hits, each id once, best first.
        """
        allowed = self._allowed(allowed)
        rows = self.described.rows
        share = min(1.0, len(allowed) * self._windows / rows) if allowed is not None and rows else 1.0
        limit = math.ceil(k * self._windows / share) + SPARE if share else 0
        while share == 1.0 or limit <= MOST_SIFTED:
            hits = self._search(vector, min(rows, limit), allowed)
            if len(hits) >= k or limit >= rows:
                return hits[:k]
            limit *= 2 if share < 1.0 else 4
        return self._among(vector, k, allowed or ())

    def _allowed(self, allowed: Collection[str] | None) -> Collection[str] | None:
        """The ids that may be found: those asked for that lie inside the filter."""
        if self._inside is None:
            return allowed
        with self._lock:
            if self._held is None:
                self._held = self._inside()
        return self._held if allowed is None else self._held.intersection(allowed)

    def _among(self, vector: Sequence[float], k: int, allowed: Collection[str]) -> list[Hit]:
        """The nearest among few rows: they are chosen before the search, which looks at no others."""
        limit, condition = math.ceil(k * self._windows) + SPARE, f"id in ({', '.join(map(_quoted, sorted(allowed)))})"
        while allowed:
            hits = self._search(vector, limit, allowed, condition)
            if len(hits) >= min(k, len(allowed)) or limit >= self.described.rows:
                return hits[:k]
            limit = min(self.described.rows, 4 * limit)
        return []

    def _search(
        self, vector: Sequence[float], limit: int, allowed: Collection[str] | None, condition: str = ""
    ) -> list[Hit]:
        if limit <= 0:
            return []
        query = self._open().search(vector, vector_column_name="vector").distance_type("cosine")
        query = query.bypass_vector_index().where(condition) if condition else query.refine_factor(REFINE_FACTOR)
        with READERS, telling(self.filesystem):  # each search holds the vectors that it compares
            found = query.select(["id", "_distance"]).limit(limit).to_arrow()
        best: dict[str, float] = {}
        for row_id, distance in zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True):
            if allowed is None or row_id in allowed:
                best[row_id] = max(best.get(row_id, -1.0), 1.0 - distance)
        return sorted((Hit(i, s) for i, s in best.items()), key=lambda hit: (-hit.score, hit.id))

    def _open(self) -> Any:
        with self._lock:
            if self._table is None:
                self._table = open_vectors(self.filesystem, self.described)
            return self._table


def _quoted(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("'", "''") + "'"
