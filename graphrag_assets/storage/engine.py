"""DuckDB over the files where they lie, on a local disk or in an object store, without extensions to download."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from graphrag_assets.machine import cores
from graphrag_assets.storage.copies import LocalCopies
from graphrag_assets.storage.filesystem import FileSystem, StorageError
from graphrag_assets.storage.s3 import S3FileSystem
from graphrag_assets.storage.snapshots import TableFile

if TYPE_CHECKING:
    import duckdb


@contextmanager
def telling() -> Iterator[None]:
    """Raise what the object store's errors say, where DuckDB wraps them in errors of its own.

    Raises:
        StorageError: A file cannot be read.
    """
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        said = re.search(r"StorageError: (.*)", str(error))
        if said is None:
            raise
        raise StorageError(said.group(1)) from error


def connect(
    filesystem: FileSystem | None = None,
    threads: int | None = None,
    files: Iterable[TableFile] = (),
    copies: LocalCopies | None = None,
) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB connection that can read the Parquet files of a file system.

    Args:
        filesystem: Where the files are; for S3 an adapter is registered, so that read_parquet('s3://…') works.
        threads: Threads; None: the cores of this machine, never more.
        files: Published files, of which size and hash are known: they are not asked for again.
        copies: Local copies of those.

    Returns:
        A connection that neither installs nor loads extensions by itself and puts nulls first and text in code-point
        order, as Python does.
    """
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": threads or cores(),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    connection.execute("set parquet_metadata_cache = true")  # safe: published files never change
    connection.execute("set enable_progress_bar = false")
    if isinstance(filesystem, S3FileSystem):
        connection.register_filesystem(_duckdb_filesystem(filesystem, {file.path: file for file in files}, copies))
    return connection


#: What is read at the end of a file is its footer: not worth a copy of the whole.
_FOOTER = 65_536


def _duckdb_filesystem(source: S3FileSystem, known: Mapping[str, TableFile], copies: LocalCopies | None) -> Any:
    """A read-only fsspec file system over obstore.

    DuckDB calls seek() and read() on one shared handle from several threads, so the position is kept per thread;
    a handle with one position returns wrong bytes.
    """
    import fsspec
    import obstore

    class File:
        def __init__(self, path: str, size: int) -> None:
            self.path, self.size, self.closed = path, size, False
            self._local = threading.local()
            self._copy: int | None = None
            self._lock = threading.Lock()

        def _position(self) -> int:
            return getattr(self._local, "position", 0)

        def seekable(self) -> bool:
            return True

        def readable(self) -> bool:
            return True

        def seek(self, offset: int, whence: int = 0) -> int:
            start = {0: 0, 1: self._position(), 2: self.size}[whence]
            self._local.position = start + offset
            return start + offset

        def tell(self) -> int:
            return self._position()

        def read(self, count: int = -1) -> bytes:
            position = self._position()
            left = self.size - position
            count = left if count is None or count < 0 else min(count, left)
            if count <= 0:
                return b""
            copy = self._open_copy() if position < self.size - _FOOTER or self.size <= _FOOTER else self._copy
            data = os.pread(copy, count, position) if copy is not None else self._fetch(position, count)
            self._local.position = position + len(data)
            return data

        def _fetch(self, position: int, count: int) -> bytes:
            return source.read_ranges(self.path, [position], [position + count])[0]

        def _open_copy(self) -> int | None:
            """The local copy of a published file, opened; None where there is none."""
            if copies is None or self.path not in known:
                return None
            with self._lock:
                if self._copy is None and (path := copies.get(source, known[self.path])):
                    self._copy = os.open(path, os.O_RDONLY)
                return self._copy

        def close(self) -> None:
            self.closed = True
            with self._lock:
                if self._copy is not None:
                    os.close(self._copy)
                    self._copy = None

        def __enter__(self) -> File:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

    class ObjectStoreFileSystem(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "s3"
        cachable = False

        def _key(self, path: str) -> str:
            key = path.removeprefix("s3://").removeprefix(source.bucket).lstrip("/")
            return key.removeprefix(source.prefix).lstrip("/") if source.prefix else key

        def _look(self, path: str) -> tuple[int, str, datetime]:
            """Size, tag and time of a file."""
            key = self._key(path)
            if key in known:
                return known[key].bytes, known[key].sha256, _PUBLISHED
            with source.reading():
                meta = obstore.head(source.store, key)
            return int(meta["size"]), meta["e_tag"] or "", meta["last_modified"]

        def _open(self, path: str, mode: str = "rb", **_: object) -> File:
            return File(self._key(path), self._look(path)[0])

        def open(self, path: str, mode: str = "rb", **_: object) -> File:
            return self._open(path, mode)

        def info(self, path: str, **_: object) -> dict[str, object]:
            size, tag, _time = self._look(path)
            return {"name": path, "size": size, "type": "file", "ETag": tag}

        def exists(self, path: str, **_: object) -> bool:
            try:
                self._look(path)
            except FileNotFoundError:
                return False
            return True

        def isfile(self, path: str) -> bool:
            return self.exists(path)

        def modified(self, path: str) -> Any:
            return self._look(path)[2]

    return ObjectStoreFileSystem()


#: Time of published files, which never change: any will do.
_PUBLISHED = datetime(2000, 1, 1, tzinfo=UTC)
