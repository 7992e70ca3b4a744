"""The files of the input: which are read, and reading one."""

from __future__ import annotations

import dataclasses
import re

from graphrag_assets.input.documents import FileContents, Rejection
from graphrag_assets.input.readers import FORMATS, extension, printable_path, read_bytes, too_large
from graphrag_assets.settings import InputSettings
from graphrag_assets.storage.filesystem import FileInfo, FileSystem, LocalFileSystem
from graphrag_assets.storage.ranges import Readable

_ESCAPES = re.compile(r"(?:\\x[0-9a-f]{2})+")


class InputError(Exception):
    """The input as a whole cannot be used; the message names the folder and how to mend it."""


def require_input(filesystem: FileSystem) -> None:
    """Make sure that there is an input: a folder that is missing must not be taken for one without documents.

    Raises:
        InputError: The input is a local folder that does not exist, or no folder.
    """
    if not isinstance(filesystem, LocalFileSystem) or filesystem.root.is_dir():
        return
    what = "is not a folder" if filesystem.root.exists() else "does not exist"
    raise InputError(
        f"the input folder {filesystem.root} {what}; make it, or set {filesystem.setting} in settings.yaml"
    )


def list_inputs(filesystem: FileSystem, settings: InputSettings) -> list[FileInfo]:
    """Files that are read, or rejected by name, sorted by path.

    Hidden files and folders (a name that begins with a dot, and the ``~$`` files that Office leaves beside open
    documents) are passed over unless the settings ask for them. With a type other than ``auto`` only files of that type
    are taken, or, where there is a pattern, the files that match it. What cannot be read, such as a link that leads out
    of the folder, is listed by the same rules, except that the name of a folder says nothing about the files in it.

    Args:
        filesystem: Where the input lies.
        settings: Pattern, type and hidden files.

    Returns:
        Files with paths that tables and terminals can hold (:func:`graphrag_assets.input.readers.printable_path`);
        reading understands them.

    Raises:
        ValueError: The pattern is no regular expression.
        StorageError: The input cannot be listed.
    """
    try:
        pattern = re.compile(settings.file_pattern) if settings.file_pattern else None
    except re.error as error:
        raise ValueError(f"input.file_pattern {settings.file_pattern!r} is no regular expression: {error}") from error

    def wanted(info: FileInfo) -> bool:
        path = info.path
        if not settings.hidden_files and any(part.startswith((".", "~$")) for part in path.split("/")):
            return False
        if info.problem and info.problem.is_folder:
            return True
        if pattern is not None:
            return pattern.search(path) is not None
        return settings.type == "auto" or FORMATS.get(extension(path)) == settings.type

    listed = [info for info in filesystem.entries() if wanted(info)]
    return sorted(map(_printable, listed), key=lambda info: info.path)


def _printable(info: FileInfo) -> FileInfo:
    path = printable_path(info.path)
    if path == info.path and info.problem is None:
        return info
    problem = info.problem and dataclasses.replace(info.problem, detail=printable_path(info.problem.detail))
    return dataclasses.replace(info, path=path, problem=problem)


def read_contents(filesystem: Readable, file: FileInfo, settings: InputSettings) -> tuple[FileContents, bytes | None]:
    """Read one file of the input.

    Args:
        filesystem: Where the input lies.
        file: The file as it was listed.
        settings: How to read.

    Returns:
        Documents and rejections, and the content; None where it was not read: a file that is too large, gone, or must
        not be read is a rejection.

    Raises:
        Exception: The file system itself fails, such as an unreachable server: then nothing is known of the file, and
            it must not be taken for one without documents.
    """
    if file.problem:
        return _rejected(file.path, file.problem.reason, file.problem.detail), None
    if file.size > settings.max_file_bytes:
        return _rejected(file.path, "too_large", too_large(file.size, settings)), None
    try:
        data = _read_file(filesystem, file.path)
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        return _rejected(file.path, "unreadable", f"the file cannot be read: {error.strerror or error}"), None
    return read_bytes(file.path, data, settings), data


def read_input(filesystem: Readable, file: FileInfo | str, settings: InputSettings) -> FileContents:
    """Documents and rejections of one file, given as it was listed or by its path; see :func:`read_contents`."""
    info = FileInfo(file, 0, 0.0) if isinstance(file, str) else file
    return read_contents(filesystem, info, settings)[0]


def _read_file(filesystem: Readable, path: str) -> bytes:
    """Content of a file under its own name, or the name that the escapes of a printable path stand for."""
    try:
        return filesystem.read(path)
    except FileNotFoundError:
        own_name = _ESCAPES.sub(_unescaped, path)
        if own_name == path:
            raise
        return filesystem.read(own_name)


def _unescaped(match: re.Match[str]) -> str:
    return bytes.fromhex(match.group().replace("\\x", "")).decode("utf-8", "surrogateescape")


def _rejected(path: str, reason: str, detail: str) -> FileContents:
    return FileContents([], [Rejection(printable_path(path), "", reason, detail)])
