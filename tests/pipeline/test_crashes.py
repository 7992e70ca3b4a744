"""Runs that die at any of their writes: what is published stays whole, and the next run ends as if nothing had been.

A crash is an exception that nothing expects, raised before or after one of the writes of a run in this process. That
reaches every point at which tables, vectors, markers and the snapshot are half written; real processes are killed in
test_kills.py.
"""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pytest

from graphrag_assets.storage.filesystem import LocalFileSystem, open_filesystem
from graphrag_assets.storage.vectors import VectorStore
from tests.llmsim_server import LlmSim
from tests.pipeline.living import OPTIONS, settings_of, text_of
from tests.pipeline.plain_runs import reconcile_plainly
from tests.pipeline.whole import published
from tests.pipeline.workspaces import OF_COMMUNITIES, assert_equal_indexes, make_workspace, published_files

FORMER = {"a.txt": (0, 1, 2, 4, 5), "b.txt": (6, 7, 9, 10), "c.txt": (3, 8, 11, 12, 13)}
#: One is added, one deleted with its whole batch, one edited: its entities have other descriptions under the same ids.
LATTER = {"a.txt": (0, 2, 1, 4, 5, 10), "b.txt": (6, 7, 9, 10), "d.txt": (1, 5, 6, 9)}


class Crash(BaseException):
    """The end of a process, as far as a process can be made to believe it."""


@contextmanager
def at_write(number: int, happen: Callable[[], None], *, before: bool) -> Iterator[list[str]]:
    """Let something happen before or after a write of the storage, counted from 1; yields the writes as they come."""
    seen: list[str] = []

    def watched(kind: type, name: str) -> Any:
        original = getattr(kind, name)

        def write(self: Any, path: str, *args: Any) -> Any:
            if path.startswith("lease/"):  # how often it is renewed is a matter of time
                return original(self, path, *args)
            seen.append(f"{name} {path}")
            if before and len(seen) == number:
                happen()
            done = original(self, path, *args)
            if not before and len(seen) == number:
                happen()
            return done

        return mock.patch.object(kind, name, write)

    with (
        watched(LocalFileSystem, "write"),
        watched(LocalFileSystem, "create"),
        watched(LocalFileSystem, "delete"),
        watched(VectorStore, "write"),
        watched(VectorStore, "keep_batches"),
    ):
        yield seen


def crash() -> None:
    raise Crash


def put(root: Path, llmsim: LlmSim, texts: dict[str, tuple[int, ...]], cache: Path) -> None:
    """Make these the documents of a workspace."""
    options = {name: values[0] for name, values in OPTIONS.items()} | {"max_documents": 1}
    sections = {"cache": {"path": str(cache)}}
    (root / "input").mkdir(parents=True, exist_ok=True)
    for file in (root / "input").iterdir():
        file.unlink()
    documents = {path: text_of(sentences) for path, sentences in texts.items()}
    make_workspace(root, documents, **settings_of(llmsim, options), **sections)


class States:
    """An index in its former state, what it is in the latter, and copies of it that are brought from one to the other."""

    def __init__(self, folder: Path, llmsim: LlmSim) -> None:
        self.folder = folder
        self.llmsim = llmsim
        self.cache = folder / "cache.sqlite"
        self.former, self.latter = folder / "former", folder / "latter"
        put(self.former, llmsim, FORMER, self.cache)
        reconcile_plainly(self.former)
        shutil.copytree(self.former, self.latter)
        put(self.latter, llmsim, LATTER, self.cache)
        with at_write(0, crash, before=True) as writes:
            reconcile_plainly(self.latter)
        self.writes = list(writes)

    def changed(self) -> Path:
        """A copy of the former index whose documents are the latter."""
        root = self.folder / "work"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.former, root)
        put(root, self.llmsim, LATTER, self.cache)
        return root

    def check(self, root: Path) -> bool:
        """What is published is the former state or the latter, whole; returns whether it is the former."""
        assert published(open_filesystem(str(root / "output"))) is not None
        now = published_files(root)
        assert now in (published_files(self.former), published_files(self.latter))
        return now == published_files(self.former)

    def mend(self, root: Path, back: bool) -> None:
        """The next run ends in the state that is then wanted, at no cost: all answers were there before."""
        former = self.check(root)
        put(root, self.llmsim, FORMER if back else LATTER, self.cache)
        assert not reconcile_plainly(root).calls
        # Communities are those of the published ones, kept up: where the latter was published, so is what comes of it.
        but = OF_COMMUNITIES if back and not former else frozenset[str]()
        assert_equal_indexes(self.former if back else self.latter, root, but=but)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory, llmsim_server: LlmSim) -> States:
    llmsim_server.reset()
    return States(tmp_path_factory.mktemp("crashes"), llmsim_server)


def crashes_at(states: States, number: int, *, before: bool, back: bool) -> None:
    root = states.changed()
    with at_write(number, crash, before=before) as writes, pytest.raises(Crash):
        reconcile_plainly(root)
    assert writes == states.writes[: len(writes)]
    states.mend(root, back)


@pytest.mark.timeout(300)
def test_at_some_writes(states: States) -> None:
    chosen = random.Random(7).sample(range(1, len(states.writes) + 1), 6)
    vectors = next(i for i, write in enumerate(states.writes, 1) if write == "write entity_description")
    for turn, number in enumerate([vectors, *chosen]):
        crashes_at(states, number, before=bool(turn % 2), back=not turn % 2)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("back", [False, True])
def test_at_every_write(states: States, back: bool) -> None:
    assert len(states.writes) > 30
    for number in range(1, len(states.writes) + 1):
        crashes_at(states, number, before=True, back=back)
    crashes_at(states, len(states.writes), before=False, back=back)


@contextmanager
def full_at(number: int) -> Iterator[None]:
    """The disk has no room for the file of a write."""

    def fsync(_: int) -> None:
        if len(seen) == number:
            raise OSError(errno.ENOSPC, "No space left on device")

    with at_write(0, crash, before=True) as seen, mock.patch("graphrag_assets.storage.filesystem.os.fsync", fsync):
        yield


@pytest.mark.timeout(300)
def test_disk_full(states: States) -> None:
    """A write that fails for want of space says what is full and what to do; when there is space, the next run goes on."""
    written = [i for i, write in enumerate(states.writes, 1) if write.startswith("write build/")]
    for number in (written[0], written[len(written) // 2], written[-1]):
        root = states.changed()
        with full_at(number), pytest.raises(Exception, match="free space on the disk") as error:
            reconcile_plainly(root)
        assert isinstance(error.value, dg.Failure) or "storage.base" in str(error.value)
        assert not list((root / "output").rglob("*.tmp")), "what was half written is taken away"
        states.mend(root, back=False)
