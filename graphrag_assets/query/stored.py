"""Rows of one published table by key, without a scan and without SQL.

The footer of a Parquet file tells the least and the greatest key of every row group; of the small groups that may hold
a wanted key only the wanted columns are read, from a memory map or by range requests. That takes a tenth of the time of
a statement of SQL, and what stays in memory is the footer.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrag_assets.machine import cores
from graphrag_assets.storage.copies import LocalCopies
from graphrag_assets.storage.filesystem import FileSystem, LocalFileSystem
from graphrag_assets.storage.ranges import RangeFile, places, read_footer
from graphrag_assets.storage.s3 import S3FileSystem
from graphrag_assets.storage.snapshots import TableFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

#: Up to so many row groups, or columns beside the key, are read at once even if no row may be wanted.
FEW = 3

#: Reads and searches at one time, over all tables.
READERS = threading.BoundedSemaphore(cores())

Integers = np.ndarray[Any, np.dtype[np.int64]]


class StoredTable:
    """A table of a snapshot; safe to use from several threads.

    Args:
        filesystem: The storage base.
        described: The file.
        copies: Local copies of files in an object store.
    """

    def __init__(self, filesystem: FileSystem, described: TableFile, copies: LocalCopies | None = None) -> None:
        self._filesystem = filesystem
        self._copies = copies
        self._described = described
        self._files: list[tuple[pq.ParquetFile, Any]] = []
        self._lock = threading.Lock()
        self._bounds: dict[str, _Bounds] = {}

    @cached_property
    def _footer(self) -> pq.FileMetaData:
        import pyarrow.parquet as pq

        source = self._source()
        if isinstance(source, RangeFile) and isinstance(self._filesystem, S3FileSystem):
            return read_footer(self._filesystem, self._described.path)[0]
        return pq.ParquetFile(source).metadata

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names of its columns."""
        return frozenset(self._footer.schema.to_arrow_schema().names)

    @cached_property
    def _starts(self) -> Integers:
        """First row of every row group, and the number of all rows."""
        sizes = [self._footer.row_group(i).num_rows for i in range(self._footer.num_row_groups)]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def take(self, key: str, values: Sequence[int] | Sequence[str] | Integers, columns: Sequence[str]) -> pa.Table:
        """Rows whose key is among some values.

        Args:
            key: Column by which rows are looked up.
            values: Wanted keys; unknown ones are left out.
            columns: Columns wanted.

        Returns:
            The columns, rows in the order of the table.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = self._footer.schema.to_arrow_schema().field(key).type
        wanted = pa.array(values, kind)
        groups = self._bounds_of(key).holding(values) if len(values) else []
        if len(groups) > FEW and len(columns) > FEW and pa.types.is_string(kind):
            # Names are often unknown: see first which groups hold any.
            held = pc.is_in(self._read(groups, [key])[key], wanted).to_numpy()
            sizes = [int(self._starts[group + 1] - self._starts[group]) for group in groups]
            among = np.repeat(groups, sizes)[held]
            groups = [int(group) for group in np.unique(among)]
        rows = self._read(groups, list(dict.fromkeys([key, *columns])))
        return rows.filter(pc.is_in(rows[key], wanted)).select(list(columns))

    def between(self, key: str, low: str, high: str, columns: Sequence[str]) -> pa.Table:
        """Rows of a table sorted by a key from one value on to below another one."""
        import pyarrow.compute as pc

        rows = self._read(self._bounds_of(key).between(low, high), list(dict.fromkeys([key, *columns])))
        inside = pc.and_(pc.greater_equal(rows[key], low), pc.less(rows[key], high))
        return rows.filter(inside).select(list(columns))

    def slice(self, first: int, count: int, columns: Sequence[str]) -> pa.Table:
        """Rows by their place in the table."""
        groups = np.flatnonzero((self._starts[:-1] < first + count) & (self._starts[1:] > first)).tolist()
        rows = self._read(groups, columns)
        return rows.slice(first - int(self._starts[groups[0]]), count) if groups else rows

    def whole(self, columns: Sequence[str]) -> pa.Table:
        """All rows."""
        return self._read(range(len(self._starts) - 1), columns)

    def _read(self, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        with READERS:  # more at a time than there are cores would only need more memory
            file, source = self._idle()
            if isinstance(source, RangeFile) and groups:
                source.fetch(places(self._footer, groups, columns))
            rows = file.read_row_groups(list(groups), columns=list(columns), use_threads=False)
            with self._lock:
                self._files.append((file, source))
        return rows

    def _idle(self) -> tuple[pq.ParquetFile, Any]:
        """The file as nobody uses it just now: a reader serves one thread at a time."""
        import pyarrow.parquet as pq

        with self._lock:
            if self._files:
                return self._files.pop()
            footer = self._footer
        source = self._source()
        return pq.ParquetFile(source, metadata=footer), source

    def _source(self) -> Any:
        import pyarrow as pa

        if isinstance(self._filesystem, LocalFileSystem):
            return pa.OSFile(self._filesystem.uri(self._described.path))
        if isinstance(self._filesystem, S3FileSystem):
            if self._copies is not None and (copy := self._copies.get(self._filesystem, self._described)):
                return pa.OSFile(str(copy))
            return RangeFile(self._filesystem, self._described.path, self._described.bytes)
        return pa.BufferReader(self._filesystem.read(self._described.path))

    def _bounds_of(self, key: str) -> _Bounds:
        with self._lock:
            if key not in self._bounds:
                self._bounds[key] = _Bounds.of(self._footer, key)
            return self._bounds[key]


class _Bounds:
    """Least and greatest key of every row group; a group without them may hold any key."""

    def __init__(self, least: list[Any], greatest: list[Any]) -> None:
        self._groups = range(len(least))
        self._known = all(value is not None for value in (*least, *greatest))
        self._ascending = self._known and all(a <= b for a, b in zip(greatest, least[1:], strict=False))
        self._numbers = self._known and bool(least) and isinstance(least[0], int)
        self._least = np.asarray(least) if self._numbers else least
        self._greatest = np.asarray(greatest) if self._numbers else greatest

    @classmethod
    def of(cls, footer: pq.FileMetaData, key: str) -> _Bounds:
        """The bounds of one column."""
        place = footer.schema.names.index(key)
        if footer.schema.column(place).path != key:
            place = next(i for i in range(footer.num_columns) if footer.schema.column(i).path == key)
        statistics = [footer.row_group(i).column(place).statistics for i in range(footer.num_row_groups)]
        known = [s if s is not None and s.has_min_max else None for s in statistics]
        return cls([s.min if s else None for s in known], [s.max if s else None for s in known])

    def holding(self, values: Sequence[Any] | Integers) -> list[int]:
        """Row groups that may hold any of some keys."""
        if not self._known:
            return list(self._groups)
        if self._numbers:
            wanted = np.unique(np.asarray(values, np.int64))
            found = np.searchsorted(wanted, self._least) < np.searchsorted(wanted, self._greatest, side="right")
            return [int(group) for group in np.flatnonzero(found)]
        if self._ascending:
            return sorted({group for value in values for group in self.between(value, value, closed=True)})
        return [g for g in self._groups if any(self._least[g] <= v <= self._greatest[g] for v in values)]

    def between(self, low: Any, high: Any, closed: bool = False) -> range:
        """Row groups of a sorted table that may hold keys from one on to another one."""
        if not self._ascending:
            return self._groups
        end = bisect_right(self._least, high) if closed else bisect_left(self._least, high)
        return range(bisect_left(self._greatest, low), end)
