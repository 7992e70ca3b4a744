"""One layer over a local folder and an S3 prefix, for the input and for the index.

Files are written whole: a reader sees the old file or the new one, never a part. (A stream to an object store that is
closed by an exception publishes half a file, so nothing here streams to a final name.)
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from obstore.store import S3Store


class StorageError(Exception):
    """A storage address cannot be used; the message says which, why, and how to mend it."""


@dataclass(frozen=True)
class FileInfo:
    """A file as a listing shows it.

    Args:
        path: Path relative to the base, with forward slashes.
        size: Size in bytes.
        modified: Time of modification in seconds since 1970-01-01 UTC.
        etag: Entity tag of the object store; empty for local files.
    """

    path: str
    size: int
    modified: float
    etag: str = ""


class FileSystem(Protocol):
    """Files below a base folder or prefix. Paths are relative to it, with forward slashes."""

    base: str

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Files below a folder, at any depth, sorted by path. A folder that does not exist is empty."""
        ...

    def read(self, path: str) -> bytes:
        """Whole content of a file.

        Raises:
            FileNotFoundError: No such file.
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write a file whole, replacing one of the same name."""
        ...

    def create(self, path: str, data: bytes) -> None:
        """Write a file that must not exist yet; of several writers exactly one succeeds.

        Raises:
            FileExistsError: Another writer was first.
        """
        ...

    def copy(self, source: str, target: str) -> None:
        """Give the present content of a file a second name that later writes to the first do not touch."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; no error when it does not exist."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file exists."""
        ...

    def uri(self, path: str) -> str:
        """Address under which DuckDB and LanceDB find the file or folder."""
        ...


class LocalFileSystem:
    """Files below a local folder.

    Args:
        base: The folder; it need not exist.
    """

    def __init__(self, base: str | Path) -> None:
        self.root = Path(base).absolute()
        self.base = str(self.root)

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """See :meth:`FileSystem.list`. Links to files are followed only where they stay inside the base."""
        yield from sorted(self._walk(self._path(prefix) if prefix else self.root), key=lambda info: info.path)

    def _walk(self, folder: Path) -> Iterator[FileInfo]:
        pending = [str(folder)]
        while pending:
            try:
                entries = list(os.scandir(pending.pop()))
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in entries:
                if entry.is_symlink() and not self._inside(entry.path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif entry.is_file():
                    stat = entry.stat()
                    yield FileInfo(Path(entry.path).relative_to(self.root).as_posix(), stat.st_size, stat.st_mtime)

    def _inside(self, path: str) -> bool:
        return Path(path).resolve().is_relative_to(self.root.resolve())

    def _path(self, path: str) -> Path:
        full = self.root / path
        if ".." in Path(path).parts or Path(path).is_absolute():
            raise StorageError(f"path {path!r} leads out of {self.base}")
        return full

    def read(self, path: str) -> bytes:
        """See :meth:`FileSystem.read`."""
        return self._path(path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """See :meth:`FileSystem.write`: a temporary file, flushed to disk, renamed."""
        target = self._path(path)
        temporary = self._temporary(target, data)
        try:
            os.replace(temporary, target)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def create(self, path: str, data: bytes) -> None:
        """See :meth:`FileSystem.create`: a hard link fails where the name is taken."""
        target = self._path(path)
        temporary = self._temporary(target, data)
        try:
            os.link(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)

    def _temporary(self, target: Path, data: bytes) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f".{uuid.uuid4().hex}.tmp"
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        return temporary

    def copy(self, source: str, target: str) -> None:
        """See :meth:`FileSystem.copy`: a hard link where the disk can (writes replace files, never change them)."""
        to = self._path(target)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.unlink(missing_ok=True)
        try:
            os.link(self._path(source), to)
        except FileNotFoundError:
            raise
        except OSError:  # another file system, or one without hard links
            self.write(target, self.read(source))

    def delete(self, path: str) -> None:
        """See :meth:`FileSystem.delete`."""
        self._path(path).unlink(missing_ok=True)

    def exists(self, path: str) -> bool:
        """See :meth:`FileSystem.exists`."""
        return self._path(path).is_file()

    def uri(self, path: str) -> str:
        """See :meth:`FileSystem.uri`: the absolute path."""
        return str(self.root / path)


class S3FileSystem:
    """Objects below an S3 prefix, on any S3-compatible server.

    Credentials come by the usual AWS chain: environment variables, profile, container or instance role.

    Args:
        base: s3://bucket/prefix.
        endpoint_url: Address of an S3-compatible server; None for AWS.
        region: Region of the bucket; None: from the environment, else us-east-1.
    """

    def __init__(self, base: str, endpoint_url: str | None = None, region: str | None = None) -> None:
        self.base = base.rstrip("/")
        self.bucket, _, self.prefix = self.base.removeprefix("s3://").partition("/")
        if not self.bucket:
            raise StorageError(f"storage address {base!r} names no bucket; expected s3://bucket/prefix")
        self.endpoint_url = endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        self.region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        self._store: S3Store | None = None

    @property
    def store(self) -> S3Store:
        """The client, made at first use."""
        if self._store is None:
            import boto3
            from obstore.auth.boto3 import Boto3CredentialProvider
            from obstore.store import S3Store

            options: dict[str, object] = {"region": self.region, "prefix": self.prefix or None}
            if self.endpoint_url:
                options["endpoint"] = self.endpoint_url
                options["client_options"] = {"allow_http": self.endpoint_url.startswith("http://")}
            provider = Boto3CredentialProvider(boto3.Session(region_name=self.region))
            self._store = S3Store(self.bucket, credential_provider=provider, **options)  # type: ignore[arg-type]
        return self._store

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """See :meth:`FileSystem.list`."""
        import obstore

        infos = []
        for chunk in obstore.list(self.store, prefix=prefix or None):
            for item in chunk:
                if not item["path"].endswith("/"):
                    infos.append(
                        FileInfo(item["path"], item["size"], item["last_modified"].timestamp(), item["e_tag"] or "")
                    )
        yield from sorted(infos, key=lambda info: info.path)

    def read(self, path: str) -> bytes:
        """See :meth:`FileSystem.read`."""
        import obstore

        return bytes(obstore.get(self.store, path).bytes())

    def write(self, path: str, data: bytes) -> None:
        """See :meth:`FileSystem.write`: one put, or a multipart upload that appears when it is complete."""
        import obstore

        obstore.put(self.store, path, data)

    def create(self, path: str, data: bytes) -> None:
        """See :meth:`FileSystem.create`: a put with If-None-Match."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            obstore.put(self.store, path, data, mode="create", use_multipart=False)
        except AlreadyExistsError as error:
            raise FileExistsError(f"{self.base}/{path} exists") from error

    def copy(self, source: str, target: str) -> None:
        """See :meth:`FileSystem.copy`: a copy inside the server."""
        import obstore

        obstore.copy(self.store, source, target)

    def delete(self, path: str) -> None:
        """See :meth:`FileSystem.delete`."""
        import obstore

        try:
            obstore.delete(self.store, path)
        except FileNotFoundError:
            return

    def exists(self, path: str) -> bool:
        """See :meth:`FileSystem.exists`."""
        import obstore

        try:
            obstore.head(self.store, path)
        except FileNotFoundError:
            return False
        return True

    def uri(self, path: str) -> str:
        """See :meth:`FileSystem.uri`: the s3:// address."""
        return f"{self.base}/{path}"


def open_filesystem(base: str, endpoint_url: str | None = None, region: str | None = None) -> FileSystem:
    """Open a folder or an s3:// address.

    Raises:
        StorageError: The address has a scheme other than s3:// or file://.
    """
    scheme, separator, rest = base.partition("://")
    if not separator:
        return LocalFileSystem(base)
    if scheme == "s3":
        return S3FileSystem(base, endpoint_url, region)
    if scheme == "file":
        return LocalFileSystem(rest)
    raise StorageError(f"storage address {base!r}: only folders and s3://bucket/prefix are supported, not {scheme}://")
