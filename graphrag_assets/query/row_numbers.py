"""Numbers of rows by id: a search by vector finds ids, look-ups and walks want numbers.

Ids are hashes, so that the ids of one question lie in as many row groups as there are ids. Up to a million rows the table
of numbers therefore stays in memory, 36 to 40 bytes a row; of larger tables, and of imported ones whose ids are not of one
length, the row groups are read anew for each question; and for the first question, which may be the only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from graphrag_assets.query.index import Index

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = "row_numbers"

#: Rows of the table that an open index keeps.
KEPT_ROWS = 1_000_000


def numbers_of(index: Index, table: str, ids: Sequence[str]) -> dict[str, int]:
    """Numbers of rows of a table with vectors, by id, whatever the filter; unknown ids are left out.

    Args:
        index: The snapshot.
        table: text_units, entities or community_reports.
        ids: Ids, in any order.
    """
    if index.stored(TABLE) is None:  # a snapshot of an earlier release
        found = index.take(
            table, "id", ids, ["id", "community" if table == "community_reports" else "human_readable_id"]
        )
        return dict(zip(*(column.to_pylist() for column in found.columns), strict=True))
    asked: set[str] = index.whole.kept(f"{TABLE} asked for", set)
    if table in asked:
        kept: _Kept | None = index.whole.kept(f"{TABLE} of {table}", lambda: _Kept.of(index, table))
        if kept:
            return kept.numbers(ids)
    asked.add(table)
    rows = index.take(TABLE, "id", ids, ["id", "table", "number"]).to_pylist()
    return {row["id"]: row["number"] for row in rows if row["table"] == table}


class _Kept:
    """Ids of one table, ascending, and the number of each.

    Args:
        rows: Columns id (of one length) and number, ascending by id.
        width: Length of the ids in bytes.
    """

    def __init__(self, rows: pa.Table, width: int) -> None:
        import pyarrow as pa

        ids = rows["id"].cast(pa.binary()).cast(pa.binary(width)).combine_chunks()
        self._kind = f"S{width}"
        self._width = width
        start = ids.offset * width
        self._ids = np.frombuffer(ids.buffers()[1], np.uint8)[start : start + len(ids) * width].view(self._kind)
        self._numbers = rows["number"].to_numpy()

    @classmethod
    def of(cls, index: Index, table: str) -> _Kept | None:
        """The rows of a table; None where they are not kept."""
        import pyarrow.compute as pc

        stored = index.stored(TABLE)
        if stored is None or index.whole.count(TABLE) > KEPT_ROWS:
            return None
        rows = stored.whole(["id", "table", "number"])
        rows = rows.filter(pc.equal(rows["table"], table))
        lengths = pc.min_max(pc.binary_length(rows["id"]))
        width = lengths["max"].as_py()
        return cls(rows, width) if width and width == lengths["min"].as_py() else None

    def numbers(self, ids: Sequence[str]) -> dict[str, int]:
        """Numbers by id; unknown ids are left out."""
        asked = [(name, encoded) for name in ids if len(encoded := name.encode()) == self._width]
        wanted = np.array([encoded for _, encoded in asked], self._kind)
        places = np.minimum(np.searchsorted(self._ids, wanted), len(self._ids) - 1)
        known = self._ids[places] == wanted
        return {
            name: int(self._numbers[place]) for (name, _), place, held in zip(asked, places, known, strict=True) if held
        }
