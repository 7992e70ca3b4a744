"""Parts of files in an object store: the footer of a Parquet file, the columns that a read needs, files ahead of time."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.s3 import S3FileSystem

if TYPE_CHECKING:
    import pyarrow.parquet as pq

#: Bytes at the end of a Parquet file that are fetched to read its footer; it is fetched again where that is too little.
_TAIL = 65_536

#: Files that are read at one time, before they are asked for.
AHEAD = 16


def read_footer(filesystem: S3FileSystem, path: str) -> tuple[pq.FileMetaData, int]:
    """Footer and size of a Parquet file, as a rule by one request.

    Raises:
        FileNotFoundError: No such file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    tail, size = filesystem.read_end(path, _TAIL)
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if needed > len(tail):
        tail, size = filesystem.read_end(path, needed)
    return pq.read_metadata(pa.BufferReader(tail)), size


def places(footer: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str]) -> list[tuple[int, int]]:
    """First byte and end of the column chunks that a read of some row groups and columns needs."""
    wanted = set(columns)
    found = []
    for group in groups:
        row_group = footer.row_group(group)
        for i in range(row_group.num_columns):
            chunk = row_group.column(i)
            if chunk.path_in_schema.split(".")[0] in wanted:
                first = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
                found.append((first, first + chunk.total_compressed_size))
    return found


class RangeFile:
    """A file in an object store, read by ranges: those that a read will need are fetched side by side beforehand.

    Args:
        filesystem: Where it is.
        path: Its path.
        size: Its size in bytes.
    """

    def __init__(self, filesystem: S3FileSystem, path: str, size: int) -> None:
        self._filesystem = filesystem
        self._path = path
        self._size = size
        self._position = 0
        self._ranges: list[tuple[int, bytes]] = []
        self.closed = False

    def fetch(self, wanted: Sequence[tuple[int, int]]) -> None:
        """Fetch some ranges, in place of those that were fetched before."""
        merged: list[list[int]] = []
        for first, end in sorted(
            place for place in wanted if place[0] < place[1]
        ):  # a table without rows has empty ones
            if merged and first <= merged[-1][1]:
                merged[-1][1] = max(end, merged[-1][1])
            else:
                merged.append([first, end])
        starts = [first for first, _ in merged]
        data = self._filesystem.read_ranges(self._path, starts, [end for _, end in merged]) if merged else []
        self._ranges = list(zip(starts, data, strict=True))

    def read(self, count: int = -1) -> bytes:
        """Bytes from the present position on."""
        count = self._size - self._position if count is None or count < 0 else min(count, self._size - self._position)
        start, self._position = self._position, self._position + count
        place = bisect_right(self._ranges, start, key=lambda held: held[0]) - 1
        if place >= 0:
            first, data = self._ranges[place]
            if start + count <= first + len(data):
                return data[start - first : start - first + count]
        if count <= 0:
            return b""
        return self._filesystem.read_ranges(self._path, [start], [start + count])[0]

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


class Readable(Protocol):
    """What can be read whole, by path."""

    def read(self, path: str) -> bytes:
        """Whole content of a file."""
        ...


@contextmanager
def reading_ahead(filesystem: FileSystem, paths: Sequence[str]) -> Iterator[Readable]:
    """Read files of an object store before they are asked for, some at a time: each request takes long, none much.

    Args:
        filesystem: Where they are; a local one is returned as it is.
        paths: Files in the order in which they will be read; others may be read as well. They should be small.
    """
    if not isinstance(filesystem, S3FileSystem) or len(paths) < 2:
        yield filesystem
        return
    with ThreadPoolExecutor(AHEAD, thread_name_prefix="read-ahead") as pool:
        ahead = _Ahead(filesystem, paths, pool)
        try:
            yield ahead
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class _Ahead:
    def __init__(self, filesystem: S3FileSystem, paths: Sequence[str], pool: ThreadPoolExecutor) -> None:
        self._filesystem, self._pool = filesystem, pool
        self._left = deque(paths)
        self._coming: dict[str, Future[bytes]] = {}

    def read(self, path: str) -> bytes:
        while self._left and len(self._coming) < AHEAD:
            following = self._left.popleft()
            self._coming[following] = self._pool.submit(self._filesystem.read, following)
        coming = self._coming.pop(path, None)
        return coming.result() if coming is not None else self._filesystem.read(path)
