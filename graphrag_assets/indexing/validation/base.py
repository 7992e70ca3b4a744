"""What checks work on and what they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphrag_assets.indexing.relational import tables

#: Examples that a violation names.
EXAMPLES = 5

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class Limits(Protocol):
    """Limits of the settings' section ``checks``."""

    @property
    def max_failed_share(self) -> float:
        """Largest share of failed text units."""
        ...

    @property
    def max_failed_reports_share(self) -> float:
        """Largest share of failed reports."""
        ...

    @property
    def max_empty_share(self) -> float:
        """Largest share of text units without entities."""
        ...


@dataclass(frozen=True)
class Violation:
    """One kind of fault in the tables.

    Args:
        message: What is wrong, and what was expected.
        count: How often.
        examples: Some of the places.
    """

    message: str
    count: int
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = ", ".join(self.examples)
        return f"{self.message} ({self.count} times" + (f", such as {named})" if named else ")")


@dataclass(frozen=True)
class Published:
    """The tables that are about to be published.

    Args:
        tables: Table by name; those of :data:`graphrag_assets.storage.tables.PUBLISHED`.
        vector_ids: Ids in each vector table, by its name.
        limits: Limits of the settings.
        batch_rows: Rows of each document batch, by table: what the published table is put together from.
    """

    tables: Mapping[str, pa.Table]
    vector_ids: Mapping[str, Sequence[str]]
    limits: Limits
    batch_rows: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def column(self, table: str, name: str) -> pa.Array:
        """A column as one array."""
        return one_array(self.tables[table][name])

    def list_positions(self, table: str, name: str, target: str, key: str = "id") -> tuple[Integers, Integers]:
        """For each item of a list column: its row, and the position of what it names in the target (-1: not there)."""
        lists = self.column(table, name)
        rows = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
        return rows, positions(pc.list_flatten(lists), self.column(target, key))

    def faults(self, message: str, query: str, *names: str) -> list[Violation]:
        """A violation where a query finds rows; its one column names the place.

        Args:
            message: What is wrong about the rows.
            query: SQL over the named tables; code of this package, never data.
            names: Tables that it reads.
        """
        with tables(**{name: self.tables[name] for name in names}) as db:
            db.execute(f"create temp table faults as select cast(place as varchar) as place from ({query})")  # noqa: S608
            ((count,),) = db.sql("select count(*) from faults").fetchall()
            examples = db.sql(f"select place from faults order by place limit {EXAMPLES}").fetchall()  # noqa: S608
        return [Violation(message, count, tuple(str(row[0]) for row in examples))] if count else []


@dataclass(frozen=True)
class Check:
    """A check of the published tables.

    Args:
        name: Name of the check.
        description: What holds where it passes.
        blocking: Whether nothing is published where it fails.
        tables: Tables that it reads.
        function: Finds the violations.
        asset: Asset whose rows it is about, and that has all the tables at hand: it is checked before they are written.
            Empty where the tables of several assets have to agree.
    """

    name: str
    description: str
    blocking: bool
    tables: tuple[str, ...]
    function: Callable[[Published], list[Violation]]
    asset: str = ""

    def run(
        self,
        tables: Mapping[str, pa.Table],
        vector_ids: Mapping[str, Sequence[str]],
        limits: Limits,
        batch_rows: Mapping[str, Mapping[str, int]] | None = None,
    ) -> list[Violation]:
        """Run the check.

        Args:
            tables: Published tables by name.
            vector_ids: Ids in each vector table, by its name.
            limits: Limits of the settings.
            batch_rows: Rows of each document batch, by table.

        Returns:
            The violations; none where the check passes.
        """
        return self.function(Published(tables, vector_ids, limits, batch_rows or {}))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def positions(values: pa.Array, among: pa.Array) -> Integers:
    """Position of each value in another array, -1 where it is not there."""
    found: Integers = (
        pc.fill_null(pc.index_in(values, value_set=among), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return found


def violation(message: str, wrong: Booleans, places: pa.Array | Sequence[object]) -> list[Violation]:
    """A violation where any of the flags is set.

    Args:
        message: What is wrong.
        wrong: One flag per row.
        places: What names a row; of the same length.
    """
    rows = np.flatnonzero(wrong)
    if not len(rows):
        return []
    named = [places[int(row)] for row in rows[:EXAMPLES]]
    texts = tuple(str(place.as_py() if isinstance(place, pa.Scalar) else place) for place in named)
    return [Violation(message, len(rows), texts)]


def ascending(columns: Sequence[pa.Array], *, strictly: bool = True) -> Booleans:
    """Whether each row but the first comes after the one before it, comparing the columns in turn.

    Text compares by code point.

    Returns:
        One flag per row from the second on.
    """
    length = max(len(columns[0]) - 1, 0)
    after: Booleans = np.zeros(length, dtype=np.bool_)
    equal: Booleans = np.ones(length, dtype=np.bool_)
    for column in columns:
        before, here = column.slice(0, length), column.slice(1)
        after |= equal & pc.greater(here, before).to_numpy(zero_copy_only=False)
        equal &= pc.equal(here, before).to_numpy(zero_copy_only=False)
    return after if strictly else after | equal
