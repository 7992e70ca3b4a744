"""One layer over a local folder and an S3 prefix, for the input and for the index.

Files are written whole: a reader sees the old file or the new one, never a part. (A stream to an object store that is
closed by an exception publishes half a file, so nothing here streams to a final name.)
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

#: The settings that name the two places of a workspace; errors name the one at fault.
STORAGE_BASE, INPUT_BASE = "storage.base", "input_storage.base_dir"


class StorageError(Exception):
    """A storage address cannot be used; the message says which, why, and how to mend it.

    Args:
        message: The message.
        passing: Whether the same may work later, as when a server was busy.
    """

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


@dataclass(frozen=True)
class Problem:
    """Why an entry of a folder cannot be read.

    Args:
        reason: Short code: broken_link, link_outside, link_to_folder, not_a_file, unreadable or unreadable_folder.
        detail: What it is, and how to mend it.
        is_folder: Whether it stands for a folder, so that its name says nothing about the files in it.
    """

    reason: str
    detail: str
    is_folder: bool = False


@dataclass(frozen=True)
class FileInfo:
    """A file as a listing shows it.

    Args:
        path: Path relative to the base, with forward slashes.
        size: Size in bytes.
        modified: Time of modification in seconds since 1970-01-01 UTC.
        etag: Entity tag of the object store; empty for local files.
        problem: Why it is no file that can be read; None for one that can.
    """

    path: str
    size: int
    modified: float
    etag: str = ""
    problem: Problem | None = None


class FileSystem(Protocol):
    """Files below a base folder or prefix. Paths are relative to it, with forward slashes."""

    base: str
    setting: str

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Files below a folder, at any depth, sorted by path. A folder that does not exist is empty."""
        ...

    def entries(self) -> Iterator[FileInfo]:
        """Everything below the base that holds or may hold files, also what cannot be read, sorted by path.

        Raises:
            StorageError: The base itself cannot be listed.
        """
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
        setting: Setting that names it, for errors.
    """

    def __init__(self, base: str | Path, setting: str = STORAGE_BASE) -> None:
        self.root = Path(base).absolute()
        self.base = str(self.root)
        self.setting = setting

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """See :meth:`FileSystem.list`. Links to files are followed only where they stay inside the base."""
        found = self._walk(self._path(prefix) if prefix else self.root, strict=True)
        yield from sorted((info for info in found if info.problem is None), key=lambda info: info.path)

    def entries(self) -> Iterator[FileInfo]:
        """See :meth:`FileSystem.entries`."""
        yield from sorted(self._walk(self.root, strict=False), key=lambda info: info.path)

    def _walk(self, folder: Path, strict: bool) -> Iterator[FileInfo]:
        """Entries that are no folders, and folders that cannot be listed; where ``strict``, those are errors."""
        pending = [str(folder)]
        while pending:
            current = pending.pop()
            try:
                entries = list(os.scandir(current))
            except FileNotFoundError:
                continue
            except OSError as error:
                if strict or current == self.base:
                    raise self._unusable("cannot be listed", error, _READABLE) from error
                problem = Problem("unreadable_folder", f"the folder cannot be read: {_told(error)}", is_folder=True)
                yield self._entry(current, problem)
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    yield self._entry(entry.path, self._problem(entry))

    def _entry(self, path: str, problem: Problem | None) -> FileInfo:
        """The entry at a path; one that cannot be read has no size, and the time of its own, not of a link's target."""
        name = path[len(self.base.rstrip("/")) + 1 :]  # not through pathlib, which is most of the cost of 100,000 files
        try:
            found = os.stat(path, follow_symlinks=problem is None)
        except OSError as error:  # gone since it was listed
            problem = problem or Problem("unreadable", f"the file cannot be read: {_told(error)}")
            return FileInfo(name, 0, 0.0, problem=problem)
        return FileInfo(name, 0 if problem else found.st_size, found.st_mtime, problem=problem)

    def _problem(self, entry: os.DirEntry[str]) -> Problem | None:
        """Why an entry that is no folder cannot be read; None where it can."""
        try:
            mode = entry.stat().st_mode
        except OSError as error:
            if entry.is_symlink():
                what = f"the link leads to {os.readlink(entry.path)}, which cannot be followed: {_told(error)}"
                return Problem("broken_link", f"{what}; mend the link or remove it")
            return Problem("unreadable", f"the file cannot be read: {_told(error)}")
        folder = stat.S_ISDIR(mode)
        if entry.is_symlink():
            # Relative, so that equal folders give equal tables wherever they lie.
            target = os.path.relpath(os.path.realpath(entry.path), os.path.realpath(self.root))
            if target.split(os.sep)[0] == os.pardir:
                mend = f"put a copy there, or set {self.setting} to a folder that holds both"
                return Problem("link_outside", f"the link leads to {target}, outside of the folder; {mend}", folder)
            if folder:
                detail = f"the link leads to the folder {target}, whose files are read there and not a second time"
                return Problem("link_to_folder", detail, is_folder=True)
        if not stat.S_ISREG(mode):
            kind = next((name for test, name in _KINDS if test(mode)), "special file")
            return Problem("not_a_file", f"it is a {kind}, not a file; remove it or replace it by a file")
        if not os.access(entry.path, os.R_OK):
            return Problem("unreadable", "the file cannot be read: Permission denied; give the right to read it")
        return None

    def _unusable(self, what: str, error: OSError, mend: str) -> StorageError:
        cause = f"{_told(error)} ({error.filename})" if error.filename else _told(error)
        return StorageError(
            f"{self.setting}: {self.base} {what}: {cause}; {mend}, or set {self.setting} in settings.yaml"
        )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Say in words why a file of the index cannot be read; that there is none is for the caller.

        Raises:
            StorageError: It cannot.
        """
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._unusable("cannot be read", error, _READABLE) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Say in words why the place cannot be written.

        Raises:
            StorageError: It cannot.
        """
        try:
            yield
        except (FileExistsError, NotADirectoryError) as error:
            raise self._unusable("cannot be written, since a part of the path is a file", error, "remove it") from error
        except OSError as error:
            mend = "free space on the disk" if error.errno in _FULL else "give the right to write there"
            raise self._unusable("cannot be written", error, mend) from error

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
        with self._writing():
            temporary = self._temporary(target, data)
            try:
                os.replace(temporary, target)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise

    def create(self, path: str, data: bytes) -> None:
        """See :meth:`FileSystem.create`: a hard link fails where the name is taken."""
        target = self._path(path)
        with self._writing():
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
        with self._writing():
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


_READABLE = "make it a folder that can be read"

#: What an entry can be beside a file and a folder.
_KINDS = (
    (stat.S_ISFIFO, "named pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)

_FULL = (errno.ENOSPC, errno.EDQUOT)


def _told(error: OSError) -> str:
    return error.strerror or str(error)


def require_writable(filesystem: FileSystem) -> None:
    """Write and delete a small file, so that a place that cannot be written is told before any work is done.

    Raises:
        StorageError: The place cannot be written; the message names the setting, the cause and how to mend it.
    """
    filesystem.write(_PROBE, b"")
    with suppress(Exception):  # a place where nothing may be deleted can be written
        filesystem.delete(_PROBE)


_PROBE = ".writable"


def open_filesystem(
    base: str, endpoint_url: str | None = None, region: str | None = None, setting: str = STORAGE_BASE
) -> FileSystem:
    """Open a folder or an s3:// address.

    Args:
        base: Folder, file:// or s3:// address.
        endpoint_url: Address of an S3-compatible server; None for AWS.
        region: Region of the bucket.
        setting: Setting that names the place, for errors.

    Raises:
        StorageError: The address has a scheme other than s3:// or file://.
    """
    scheme, separator, rest = base.partition("://")
    if not separator:
        return LocalFileSystem(base, setting)
    if scheme == "s3":
        from graphrag_assets.storage.s3 import S3FileSystem

        return S3FileSystem(base, endpoint_url, region, setting)
    if scheme == "file":
        return LocalFileSystem(rest, setting)
    raise StorageError(f"{setting}: {base!r}: only folders and s3://bucket/prefix are supported, not {scheme}://")
