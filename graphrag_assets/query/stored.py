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

from graphrag_assets.storage.filesystem import FileSystem, LocalFileSystem
from graphrag_assets.storage.s3 import S3FileSystem
from graphrag_assets.storage.snapshots import TableFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

#: Up to so many row groups, or columns beside the key, are read at once even if no row may be wanted.
FEW = 2

Integers = np.ndarray[Any, np.dtype[np.int64]]


class StoredTable:
    """A table of a snapshot; safe to use from several threads.

    Args:
        filesystem: The storage base.
        described: The file.
    """

    def __init__(self, filesystem: FileSystem, described: TableFile) -> None:
        self._filesystem = filesystem
        self._described = described
        self._own = threading.local()
        self._lock = threading.Lock()
        self._bounds: dict[str, _Bounds] = {}

    @cached_property
    def _footer(self) -> pq.FileMetaData:
        import pyarrow.parquet as pq

        return pq.ParquetFile(self._source()).metadata

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
        file, source = self._opened()
        if isinstance(source, _Ranges) and groups:
            source.fetch(self._places(groups, columns))
        return file.read_row_groups(list(groups), columns=list(columns), use_threads=False)

    def _places(self, groups: Sequence[int], columns: Sequence[str]) -> list[tuple[int, int]]:
        """First byte and end of the column chunks that a read needs."""
        wanted = set(columns)
        found = []
        for group in groups:
            row_group = self._footer.row_group(group)
            for i in range(row_group.num_columns):
                chunk = row_group.column(i)
                if chunk.path_in_schema.split(".")[0] in wanted:
                    first = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
                    found.append((first, first + chunk.total_compressed_size))
        return found

    def _opened(self) -> tuple[pq.ParquetFile, Any]:
        """The file as this thread has it open: readers are not made for several threads."""
        if not hasattr(self._own, "file"):
            import pyarrow.parquet as pq

            with self._lock:
                footer = self._footer
            source = self._source()
            self._own.file, self._own.source = pq.ParquetFile(source, metadata=footer), source
        return self._own.file, self._own.source

    def _source(self) -> Any:
        import pyarrow as pa

        if isinstance(self._filesystem, LocalFileSystem):
            return pa.OSFile(self._filesystem.uri(self._described.path))
        if isinstance(self._filesystem, S3FileSystem):
            return _Ranges(self._filesystem, self._described)
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


class _Ranges:
    """A file in an object store, read by ranges: those that a read will need are fetched side by side beforehand."""

    def __init__(self, filesystem: S3FileSystem, described: TableFile) -> None:
        self._filesystem = filesystem
        self._path = described.path
        self._size = described.bytes
        self._position = 0
        self._ranges: list[tuple[int, bytes]] = []
        self.closed = False

    def fetch(self, places: Sequence[tuple[int, int]]) -> None:
        """Fetch some ranges, in place of those that were fetched before."""
        import obstore

        merged: list[list[int]] = []
        for first, end in sorted(places):
            if merged and first <= merged[-1][1]:
                merged[-1][1] = max(end, merged[-1][1])
            else:
                merged.append([first, end])
        starts = [first for first, _ in merged]
        data = obstore.get_ranges(self._filesystem.store, self._path, starts=starts, ends=[end for _, end in merged])
        self._ranges = list(zip(starts, map(bytes, data), strict=True))

    def read(self, count: int = -1) -> bytes:
        """Bytes from the present position on."""
        import obstore

        count = self._size - self._position if count is None or count < 0 else min(count, self._size - self._position)
        start, self._position = self._position, self._position + count
        place = bisect_right(self._ranges, start, key=lambda held: held[0]) - 1
        if place >= 0:
            first, data = self._ranges[place]
            if start + count <= first + len(data):
                return data[start - first : start - first + count]
        if count <= 0:
            return b""
        return bytes(obstore.get_range(self._filesystem.store, self._path, start=start, length=count))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move the position."""
        self._position = {0: 0, 1: self._position, 2: self._size}[whence] + offset
        return self._position

    def tell(self) -> int:
        """The present position."""
        return self._position

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def writable(self) -> bool:
        """False."""
        return False

    def close(self) -> None:
        """Forget what was fetched."""
        self.closed, self._ranges = True, []

    def flush(self) -> None:
        """Nothing to do: the file is only read."""
