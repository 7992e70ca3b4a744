"""Objects below an S3 prefix as a file system, with errors in words for the person who set the address."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from graphrag_assets.object_store import AddressError, ObjectStore, is_told_by_client, passes, went_unanswered
from graphrag_assets.storage.filesystem import STORAGE_BASE, FileInfo, StorageError

if TYPE_CHECKING:
    from obstore.store import S3Store

#: Name of the metadata by which a writer knows a file that it created.
_WRITER = "graphrag-writer"

#: How often a request that went unanswered is sent; seconds between.
_SENDINGS, _PAUSE = 5, 0.2


class S3FileSystem:
    """Objects below an S3 prefix, on any S3-compatible server.

    Args:
        base: s3://bucket/prefix.
        endpoint_url: Address of an S3-compatible server; None: as the environment or the profile says, else AWS.
        region: Region of the bucket; None: as the environment or the profile says, else us-east-1.
        setting: Setting that names the place, for errors.
    """

    def __init__(
        self,
        base: str,
        endpoint_url: str | None = None,
        region: str | None = None,
        setting: str = STORAGE_BASE,
    ) -> None:
        self.setting = setting
        self.base = base.rstrip("/")
        try:
            self.place = ObjectStore(self.base, endpoint_url, region)
        except AddressError as error:
            raise StorageError(f"{setting}: {error}") from error
        self.bucket, self.prefix = self.place.bucket, self.place.prefix

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Say in words what the server or the credentials refuse; that there is no such file is for the caller.

        Raises:
            StorageError: The place cannot be used; ``passing`` where it may be later.
        """
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            yield
        except (FileNotFoundError, AlreadyExistsError):
            raise
        except AddressError as error:
            raise StorageError(f"{self.setting}: {self.base}: {error}") from error
        except BaseError as error:
            raise self.unusable(error) from error

    @contextmanager
    def telling(self) -> Iterator[None]:
        """The same for what LanceDB raises, whose errors have no types of their own.

        Raises:
            StorageError: The place cannot be used.
        """
        try:
            yield
        except (StorageError, FileNotFoundError):
            raise
        except Exception as error:
            if not is_told_by_client(error):
                raise
            raise self.unusable(error) from error

    def unusable(self, error: BaseException) -> StorageError:
        """The error of a place that cannot be used: the setting, the cause and how to mend it."""
        return StorageError(self.place.told(error, self.setting), passing=passes(error))

    @cached_property
    def store(self) -> S3Store:
        """The client, made at first use.

        Raises:
            StorageError: No credentials were found.
        """
        with self.reading():
            return self.place.connect()

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """See :meth:`FileSystem.list`."""
        import obstore

        infos = []
        store = self.store
        try:
            with self.reading():
                for chunk in obstore.list(store, prefix=prefix or None):
                    for item in chunk:
                        if not item["path"].endswith("/"):
                            modified = item["last_modified"].timestamp()
                            infos.append(FileInfo(item["path"], item["size"], modified, item["e_tag"] or ""))
        except FileNotFoundError as error:  # a listing finds nothing only where there is no bucket
            raise self.unusable(error) from error
        yield from sorted(infos, key=lambda info: info.path)

    def entries(self) -> Iterator[FileInfo]:
        """See :meth:`FileSystem.entries`; every object is a file."""
        yield from self.list()

    def read(self, path: str) -> bytes:
        """See :meth:`FileSystem.read`."""
        import obstore

        with self.reading():
            return bytes(obstore.get(self.store, path).bytes())

    def read_end(self, path: str, count: int) -> tuple[bytes, int]:
        """The last bytes of a file, all of a shorter one, and its size, by one request.

        Raises:
            FileNotFoundError: No such file.
        """
        import obstore

        with self.reading():
            found = obstore.get(self.store, path, options={"range": {"suffix": count}})
            return bytes(found.bytes()), int(found.meta["size"])

    def read_ranges(self, path: str, starts: Sequence[int], ends: Sequence[int]) -> Sequence[bytes]:
        """Parts of a file, given by their first bytes and ends; they are fetched side by side."""
        import obstore

        with self.reading():
            if len(starts) == 1:
                return [bytes(obstore.get_range(self.store, path, start=starts[0], end=ends[0]))]
            return [bytes(part) for part in obstore.get_ranges(self.store, path, starts=starts, ends=ends)]

    def write(self, path: str, data: bytes) -> None:
        """See :meth:`FileSystem.write`: one put, or a multipart upload that appears when it is complete."""
        import obstore

        try:
            with self.reading():
                obstore.put(self.store, path, data)
        except FileNotFoundError as error:  # no bucket
            raise self.unusable(error) from error

    def create(self, path: str, data: bytes) -> None:
        """See :meth:`FileSystem.create`: a put with If-None-Match.

        The answer to a put that succeeded may be lost, and the put that is sent again is then refused: so each writer
        marks what it creates.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError

        writer = uuid.uuid4().hex

        def put() -> None:
            obstore.put(self.store, path, data, mode="create", use_multipart=False, attributes={_WRITER: writer})

        for attempt in range(1, _SENDINGS + 1):
            try:
                return self._send(put)
            except FileNotFoundError as error:  # no bucket
                raise self.unusable(error) from error
            except AlreadyExistsError as error:
                found = self._writer(path)
                if found == writer:
                    return None
                if found is not None or attempt == _SENDINGS:
                    raise FileExistsError(f"{self.base}/{path} exists") from error
                time.sleep(_PAUSE)  # two writers at once may both be refused
        return None

    def _send(self, request: Callable[[], object]) -> None:
        """Send a request of a kind that the client does not repeat, again where it went unanswered.

        Raises:
            StorageError: The place cannot be used.
        """
        for attempt in range(1, _SENDINGS + 1):
            try:
                with self.reading():
                    request()
                    return
            except StorageError as error:
                if attempt == _SENDINGS or not went_unanswered(error.__cause__):
                    raise
            time.sleep(_PAUSE * attempt)

    def _writer(self, path: str) -> str | None:
        """Mark of the writer who created a file, empty for one without; None where it is not there (yet)."""
        import obstore

        try:
            with self.reading():
                return str(obstore.get(self.store, path).attributes.get(_WRITER, ""))
        except FileNotFoundError:
            return None

    def copy(self, source: str, target: str) -> None:
        """See :meth:`FileSystem.copy`: a copy inside the server."""
        import obstore

        with self.reading():
            obstore.copy(self.store, source, target)

    def delete(self, path: str) -> None:
        """See :meth:`FileSystem.delete`."""
        import obstore

        try:
            self._send(lambda: obstore.delete(self.store, path))
        except FileNotFoundError:
            return

    def exists(self, path: str) -> bool:
        """See :meth:`FileSystem.exists`."""
        import obstore

        try:
            with self.reading():
                obstore.head(self.store, path)
        except FileNotFoundError:
            return False
        return True

    def uri(self, path: str) -> str:
        """See :meth:`FileSystem.uri`: the s3:// address."""
        return f"{self.base}/{path}"
