"""What lies in an input folder beside plain files: links, pipes, folders without rights. None is passed over in silence."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from graphrag_assets.input.documents import WARNINGS
from graphrag_assets.input.folder import InputError, list_inputs, require_input
from graphrag_assets.input.inventory import Inventory, file_changes, take_inventory
from graphrag_assets.settings import InputSettings, Settings
from graphrag_assets.storage.filesystem import LocalFileSystem, StorageError

SETTINGS = Settings()


def look(folder: Path, before: Inventory | None = None) -> Inventory:
    return take_inventory(LocalFileSystem(folder), SETTINGS, before)


def rejected(found: Inventory) -> dict[str, str]:
    return {row["file"]: row["reason"] for row in found.rejected.to_pylist()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "input"
    (made / "sub").mkdir(parents=True)
    (made / "sub" / "a.txt").write_text("A text.")
    return made


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        (Path(name) / "a.txt").write_text("A text.")
        yield Path(name)


@contextmanager
def without_rights() -> Iterator[None]:
    """Be a user who may do nothing, where the tests run as one who may do everything."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_links(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("Secret.")
    links = {
        "inside.txt": "sub/a.txt",
        "file-out.txt": "../outside/secret.txt",
        "folder-out": tmp_path / "outside",
        "broken.txt": "nowhere.txt",
        "itself": "itself",
        "sub/up": "..",
        "sub/cycle": "../sub",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    found = look(folder)
    assert found.documents["path"].to_pylist() == ["inside.txt", "sub/a.txt"]
    assert rejected(found) == {
        "broken.txt": "broken_link",
        "file-out.txt": "link_outside",
        "folder-out": "link_outside",
        "itself": "broken_link",
        "sub/cycle": "link_to_folder",
        "sub/up": "link_to_folder",
    }
    assert found.changes.rejected == 4, "the files behind a link to a folder of the input are read where they lie"
    details = {row["file"]: row["detail"] for row in found.rejected.to_pylist()}
    assert "outside/secret.txt" in details["file-out.txt"]
    assert all(str(tmp_path) not in detail for name, detail in details.items()), "equal wherever the folder lies"


def test_pipes_and_sockets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "pipe.txt")
    monkeypatch.chdir(folder)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        found = look(folder)
    assert rejected(found) == {"pipe.txt": "not_a_file", "socket": "not_a_file"}
    assert not WARNINGS & {"not_a_file", "broken_link", "link_outside", "unreadable", "unreadable_folder"}


def test_what_was_mended_is_read(folder: Path) -> None:
    """Although neither its size nor its time need have changed."""
    (folder / "link.txt").symlink_to("later.txt")
    before = look(folder)
    files = LocalFileSystem(folder)
    assert file_changes(files, SETTINGS, before) == {"new": 0, "changed": 0, "gone": 0}
    assert rejected(look(folder, before)) == {"link.txt": "broken_link"}, "told again at each look"
    (folder / "later.txt").write_text("")
    os.utime(folder / "later.txt", (os.lstat(folder / "link.txt").st_mtime,) * 2)
    assert file_changes(files, SETTINGS, before)["changed"] == 1
    assert rejected(look(folder, before)) == {"later.txt": "empty", "link.txt": "empty"}


def test_files_and_folders_without_rights(open_folder: Path) -> None:
    (open_folder / "closed").mkdir()
    (open_folder / "closed" / "b.txt").write_text("A text.")
    (open_folder / "shut.txt").write_text("A text.")
    (open_folder / "closed").chmod(0)
    (open_folder / "shut.txt").chmod(0)
    with without_rights():
        found = look(open_folder)
    assert found.documents["path"].to_pylist() == ["a.txt"]
    assert rejected(found) == {"closed": "unreadable_folder", "shut.txt": "unreadable"}
    (open_folder / "closed").chmod(0o755)
    (open_folder / "shut.txt").chmod(0o644)
    with without_rights():
        found = look(open_folder, found)
    assert found.documents["path"].to_pylist() == ["a.txt", "closed/b.txt", "shut.txt"]
    assert rejected(found) == {}


def test_an_input_without_rights_is_no_empty_input(open_folder: Path) -> None:
    open_folder.chmod(0)
    with without_rights(), pytest.raises(StorageError, match=r"^input.base: .* cannot be listed: Permission denied"):
        take_inventory(LocalFileSystem(open_folder, "input.base"), SETTINGS)
    open_folder.chmod(0o755)


def test_a_missing_input_is_no_empty_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone does not exist.*input_storage\.base_dir"):
        require_input(LocalFileSystem(tmp_path / "gone", "input_storage.base_dir"))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is not a folder"):
        require_input(LocalFileSystem(tmp_path / "file"))


def test_the_rules_of_listing_hold_for_what_cannot_be_read(folder: Path) -> None:
    (folder / ".hidden").symlink_to("nowhere")
    (folder / "notes.pdf").symlink_to("nowhere")
    (folder / "up").symlink_to("sub")
    files = LocalFileSystem(folder)

    def names(**options: str) -> list[str]:
        return [info.path for info in list_inputs(files, InputSettings.model_validate(options))]

    assert names() == ["notes.pdf", "sub/a.txt", "up"]
    assert names(file_pattern=r"\.txt$") == ["sub/a.txt", "up"], "a link to a folder may hide files that are wanted"
