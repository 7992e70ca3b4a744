"""The inventory: what changed is seen, what did not change is not read again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphrag_assets.input.inventory import Changes, Inventory, file_changes, take_inventory
from graphrag_assets.settings import BatchSettings, Settings
from graphrag_assets.storage.filesystem import FileInfo, FileSystem, open_filesystem

pytestmark = pytest.mark.storage

SETTINGS = Settings(batches=BatchSettings(max_documents=2))


class CountingFiles:
    """A file system that remembers what was read."""

    def __init__(self, filesystem: FileSystem) -> None:
        self._filesystem = filesystem
        self.base = filesystem.base
        self.reads: list[str] = []

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        return self._filesystem.list(prefix)

    def entries(self) -> Iterator[FileInfo]:
        return self._filesystem.entries()

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        return self._filesystem.read(path)


class Folder:
    """An input folder and the inventories taken of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.filesystem = open_filesystem(str(root))  # named as storage is, so that it is an S3 prefix the second time
        self.files = CountingFiles(self.filesystem)
        self.last: Inventory | None = None

    def write(self, name: str, text: str) -> None:
        self.filesystem.write(name, text.encode())

    def delete(self, name: str) -> None:
        self.filesystem.delete(name)

    def look(self) -> tuple[Changes, list[str]]:
        """Take the inventory; returns the changes and the files that were read."""
        self.files.reads.clear()
        self.last = take_inventory(self.files, SETTINGS, self.last)  # type: ignore[arg-type]
        return self.last.changes, sorted(self.files.reads)

    def batches(self) -> dict[str, str]:
        assert self.last is not None
        documents = self.last.documents
        return dict(zip(documents["path"].to_pylist(), documents["batch"].to_pylist(), strict=True))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    for name in ("a.txt", "b.txt", "c.txt"):
        made.write(name, f"The text of {name}.")
    made.look()
    return made


def test_first_look(tmp_path: Path) -> None:
    made = Folder(tmp_path)
    made.write("a.txt", "One.")
    made.write("table.csv", "text\nTwo.\nThree.\n")
    assert made.look() == (Changes(3, 0, 0, 0, 0), ["a.txt", "table.csv"])
    assert made.batches() == {"a.txt": "batch-000001", "table.csv#0": "batch-000001", "table.csv#1": "batch-000002"}


def test_nothing_changed(folder: Folder) -> None:
    before = folder.last
    assert before is not None
    assert folder.look() == (Changes(0, 0, 0, 3, 0), [])
    assert folder.last is not None
    assert folder.last.documents.equals(before.documents)
    assert file_changes(folder.files, SETTINGS, before) == {"new": 0, "changed": 0, "gone": 0}  # type: ignore[arg-type]
    assert folder.files.reads == []


@pytest.mark.local_disk
def test_touched(folder: Folder) -> None:
    """Another time with the same content: the file is read again, and its document counts as unchanged."""
    before = folder.last
    assert before is not None
    os.utime(folder.root / "b.txt", (1_000_000, 1_000_000))
    assert file_changes(folder.files, SETTINGS, before) == {"new": 0, "changed": 1, "gone": 0}  # type: ignore[arg-type]
    assert folder.look() == (Changes(0, 0, 0, 3, 0), ["b.txt"])
    assert folder.last is not None
    assert folder.last.documents.equals(before.documents)
    assert folder.look() == (Changes(0, 0, 0, 3, 0), [])


def test_edited_added_deleted(folder: Folder) -> None:
    old = folder.batches()
    folder.write("a.txt", "A text of another length.")
    folder.delete("b.txt")
    folder.write("d.txt", "New.")
    assert file_changes(folder.files, SETTINGS, folder.last) == {"new": 1, "changed": 1, "gone": 1}  # type: ignore[arg-type]
    assert folder.look() == (Changes(1, 1, 1, 1, 0), ["a.txt", "d.txt"])
    new = folder.batches()
    assert new.keys() == {"a.txt", "c.txt", "d.txt"}
    assert all(new[path] == old[path] for path in ("a.txt", "c.txt"))


def test_renamed(folder: Folder) -> None:
    """A document is known by its path: under another name it is another document."""
    folder.filesystem.copy("a.txt", "z.txt")
    folder.delete("a.txt")
    assert folder.look()[0] == Changes(1, 0, 1, 2, 0)


def test_rejections_are_kept_without_reading_again(folder: Folder) -> None:
    folder.write("broken.json", "{")
    changes, read = folder.look()
    assert (changes.rejected, read) == (1, ["broken.json"])
    assert folder.look() == (Changes(0, 0, 0, 3, 1), [])
    assert folder.last is not None
    assert folder.last.rejected["file"].to_pylist() == ["broken.json"]
    folder.delete("broken.json")
    assert folder.look()[0] == Changes(0, 0, 0, 3, 0)


def test_empty_input(tmp_path: Path) -> None:
    made = Folder(tmp_path)
    assert made.look() == (Changes(0, 0, 0, 0, 0), [])
