"""DuckDB over the files where they lie, on a local disk or in an object store, without extensions to download."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from graphrag_assets.machine import cores
from graphrag_assets.storage.filesystem import FileSystem, StorageError
from graphrag_assets.storage.s3 import S3FileSystem

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


def connect(filesystem: FileSystem | None = None, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB connection that can read the Parquet files of a file system.

    Args:
        filesystem: Where the files are; for S3 an adapter is registered, so that read_parquet('s3://…') works.
        threads: Threads; None: the cores of this machine, never more.

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
        connection.register_filesystem(_duckdb_filesystem(filesystem))
    return connection


def _duckdb_filesystem(source: S3FileSystem) -> Any:
    """A read-only fsspec file system over obstore.

    DuckDB calls seek() and read() on one shared handle from several threads, so the position is kept per thread;
    a handle with one position returns wrong bytes.
    """
    import fsspec
    import obstore

    class File:
        def __init__(self, path: str, meta: Any) -> None:
            self.path, self.size, self.closed = path, int(meta["size"]), False
            self._local = threading.local()

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
            with source.reading():
                data = bytes(obstore.get_range(source.store, self.path, start=position, length=count))
            self._local.position = position + len(data)
            return data

        def close(self) -> None:
            self.closed = True

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

        def _open(self, path: str, mode: str = "rb", **_: object) -> File:
            key = self._key(path)
            return File(key, self._head(key))

        def _head(self, key: str) -> Any:
            with source.reading():
                return obstore.head(source.store, key)

        def open(self, path: str, mode: str = "rb", **_: object) -> File:
            return self._open(path, mode)

        def info(self, path: str, **_: object) -> dict[str, object]:
            meta = self._head(self._key(path))
            return {"name": path, "size": meta["size"], "type": "file", "ETag": meta["e_tag"]}

        def exists(self, path: str, **_: object) -> bool:
            try:
                self.info(path)
            except FileNotFoundError:
                return False
            return True

        def isfile(self, path: str) -> bool:
            return self.exists(path)

        def modified(self, path: str) -> Any:
            return self._head(self._key(path))["last_modified"]

    return ObjectStoreFileSystem()
