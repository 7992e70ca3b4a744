"""Two processes that reconcile and eight that ask, all at once: nothing torn, nothing lost, nobody waits for ever."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.snapshots import SnapshotStore
from tests.llmsim_server import LlmSim
from tests.pipeline.living import check_references, text_of
from tests.pipeline.whole import assert_whole, published
from tests.pipeline.workspaces import (
    OF_COMMUNITIES,
    REPOSITORY,
    assert_equal_indexes,
    command,
    environment,
    index,
    make_workspace,
    rows,
    simulated,
    write_document,
)

READERS = 8
WRITERS = 2
SECONDS = 60


class Writer(threading.Thread):
    """Writes documents of its own and reconciles, over and over.

    Args:
        root: The workspace.
        number: Which writer.
        until: When to stop.
    """

    def __init__(self, root: Path, number: int, until: float) -> None:
        super().__init__()
        self.root = root
        self.number = number
        self.until = until
        self.texts: dict[str, str] = {}
        self.published = 0
        self.refused = 0
        self.faults: list[str] = []

    def run(self) -> None:
        turn = 0
        while time.monotonic() < self.until or not self.published:
            path = f"writer-{self.number}-{turn % 3}.txt"
            text = f"Turn {turn}. {text_of((i * (turn + 1) + self.number) % 16 for i in range(6))}"
            self.texts[path] = text
            write_document(self.root, path, text)
            done = command("index", "--root", self.root, "--json")
            turn += 1
            if done.code == 0:
                self.published += 1
            elif json.loads(done.out)["error"]["type"] == "busy":
                self.refused += 1
                time.sleep(0.5)
            else:
                self.faults.append(done.err[-2000:])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_reconciles_and_queries_at_once(tmp_path: Path, llmsim: LlmSim) -> None:
    settings = simulated(llmsim, chunking={"size": 60, "overlap": 0}, batches={"max_documents": 2})
    first = {"first.txt": text_of(range(8)), "second.txt": text_of(range(8, 16))}
    root = make_workspace(tmp_path / "work", first, **settings)
    index(root)
    until = time.monotonic() + SECONDS
    writers = [Writer(root, number, until) for number in range(WRITERS)]
    asking = [sys.executable, "-m", "tests.pipeline.reading", str(root), str(SECONDS)]
    readers = [
        subprocess.Popen(
            asking, cwd=REPOSITORY, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(READERS)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=SECONDS + 300)
        assert not writer.is_alive(), "nobody waits for ever"
    storage = open_filesystem(str(root / "output"))
    ids = [snapshot.id for snapshot in SnapshotStore(storage).all()]
    for reader in readers:
        out, err = reader.communicate(timeout=120)
        assert reader.returncode == 0, err[-3000:]
        seen = json.loads(out)
        assert seen["rounds"] > 0
        assert seen["seen"] == sorted(seen["seen"]), "what was published is never taken back"
        assert set(seen["seen"]) <= set(ids)
    assert [writer.faults for writer in writers] == [[]] * WRITERS
    assert sum(writer.published for writer in writers) >= 2
    for snapshot in SnapshotStore(storage).all():
        assert_whole(storage, snapshot)
    assert published(storage) is not None

    texts = first | {path: text for writer in writers for path, text in writer.texts.items()}
    index(root)
    assert sorted(row["path"] for row in rows(root, "documents")) == sorted(texts), "no update is lost"
    whole = make_workspace(tmp_path / "whole", texts, **settings, cache={"path": str(root / ".cache" / "llm.sqlite")})
    index(whole)
    assert_equal_indexes(whole, root, but=OF_COMMUNITIES)
    check_references(root)
