"""Local copies of published files that lie in an object store, by the hash of their content, up to a size.

A published file never changes, so that a copy is true for ever; it is checked against the hash when it is made. The copies
of all workspaces and processes that name the same folder are the same. What was not used for longest goes first.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
import uuid
from pathlib import Path

from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.snapshots import TableFile

logger = logging.getLogger(__name__)

#: Share of all copies that one file may take; larger ones are read by ranges where they lie.
_SHARE = 0.25


class LocalCopies:
    """The copies in a folder; safe to use from several threads and processes.

    Args:
        folder: Where they are; made at first use.
        max_bytes: What they may take together.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self._usable = max_bytes > 0

    def get(self, filesystem: FileSystem, file: TableFile) -> Path | None:
        """The copy of a file, made where there is none; None where the file is too large, or no copy can be kept."""
        if not self._usable or file.bytes > self._max_bytes * _SHARE or not file.sha256:
            return None
        path = self._folder / file.sha256[:2] / file.sha256
        if self._is_there(path, file):
            return path
        with self._lock:
            making = self._making.setdefault(file.sha256, threading.Lock())
        with making:
            if self._is_there(path, file):
                return path
            data = filesystem.read(file.path)
            if hashlib.sha256(data).hexdigest() != file.sha256:
                return None  # a file that was damaged is for its reader to tell
            try:
                self._make_room(len(data))
                path.parent.mkdir(parents=True, exist_ok=True)
                temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
                try:
                    temporary.write_bytes(data)
                    os.replace(temporary, path)
                finally:
                    temporary.unlink(missing_ok=True)
            except OSError as error:
                self._usable = False
                logger.warning(
                    "storage.local_copies: %s cannot keep copies (%s): files are read where they lie; free space, or "
                    "set storage.local_copies to another folder",
                    self._folder,
                    error,
                )
                return None
        return path

    @staticmethod
    def _is_there(path: Path, file: TableFile) -> bool:
        """Whether there is a copy; it counts as used now."""
        try:
            if path.stat().st_size != file.bytes:
                return False
            os.utime(path)
        except OSError:
            return False
        return True

    def _make_room(self, wanted: int) -> None:
        """Remove copies that were not used for longest until so much more fits. Who reads one goes on reading it."""
        found = []
        for path in self._folder.glob("*/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        total = wanted + sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size
