"""Processes that are killed at any moment: nothing that is published breaks, nothing that was paid for is paid for twice."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.storage.filesystem import open_filesystem
from tests.llmsim_server import LlmSim
from tests.pipeline.killing import asked_again, killed_run
from tests.pipeline.living import check_communities, check_references, check_reports, text_of
from tests.pipeline.whole import published
from tests.pipeline.workspaces import (
    OF_COMMUNITIES,
    assert_equal_indexes,
    demo_texts,
    index,
    invoke,
    make_workspace,
    simulated,
    write_document,
)

#: Calls at once, so many of which a kill may lose.
IN_FLIGHT = 4

#: Seconds within which an answer is in the cache for good, on a machine that does much else.
MARGIN = 1.0

FIRST = ("letters/2031-10-23-castellan-to-maske.txt", "letters/2032-05-08-verrall-to-courant.txt")


class Life:
    """A workspace whose input changes and whose runs are killed."""

    def __init__(self, folder: Path, llmsim: LlmSim, seed: int) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.llmsim = llmsim
        self.texts = demo_texts(*FIRST)
        self.settings: dict[str, Any] = simulated(
            llmsim,
            chunking={"size": 100, "overlap": 10},
            batches={"max_documents": 1},
            concurrent_requests=IN_FLIGHT,
            cluster_graph={"max_cluster_size": 5},
        )
        self.root = make_workspace(folder / "killed", self.texts, **self.settings)
        self.log = folder / "requests.jsonl"
        llmsim.reset(log=str(self.log))
        started = time.monotonic()
        index(self.root)
        self.seconds = 4 + time.monotonic() - started  # a process of its own has to import everything first
        self.kills: list[float] = []

    def change(self) -> None:
        """Add, edit or delete a document."""
        names = [f"note-{i}.txt" for i in range(4)]
        path = self.chance.choice(names)
        if path in self.texts and self.chance.random() < 0.4:
            del self.texts[path]
            (self.root / "input" / path).unlink()
            return
        sentences = [self.chance.randrange(16) for _ in range(self.chance.randint(2, 12))]
        self.texts[path] = f"Note {self.chance.randrange(1000)}. {text_of(sentences)}"
        write_document(self.root, path, self.texts[path])

    def kill(self) -> None:
        """Start a run, kill it at some moment, and look at what is published."""
        moment = time.monotonic() + self.chance.uniform(0.5, self.seconds)
        died = killed_run(self.root, lambda: time.monotonic() > moment, self.folder / "log")
        if not died.finished:
            self.kills.append(died.at)
        assert published(open_filesystem(str(self.root / "output"))) is not None

    def query(self) -> None:
        """What is published answers."""
        answer = invoke("query", "Who wrote?", "--method", "local", "--root", self.root, "--json").json
        assert answer["answer"]
        assert invoke("doctor", "--root", self.root).code == 0

    def end(self) -> None:
        """The next run comes to its end, and is as good as one that was never disturbed."""
        index(self.root)
        for first, _ in asked_again(self.log):
            assert any(first - MARGIN <= kill <= first + MARGIN for kill in self.kills), "it was answered and kept"
        assert len(asked_again(self.log)) <= IN_FLIGHT * len(self.kills)
        cache = {"path": str(self.root / ".cache" / "llm.sqlite")}
        whole = make_workspace(self.folder / "whole", self.texts, **self.settings, cache=cache)
        asked = {stage for stage, used in index(whole)["llm"]["by_stage"].items() if used["calls"]}
        assert asked <= {"community_reports", "community_report_embeddings"}
        assert_equal_indexes(whole, self.root, but=OF_COMMUNITIES)
        check_references(self.root)
        check_communities(self.root, whole, 5)
        check_reports(self.root)


def live(life: Life, times: int, query_every: int) -> None:
    for turn in range(times):
        life.change()
        life.kill()
        if turn % query_every == 0:
            life.query()
    life.query()
    life.end()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_few_times(tmp_path: Path, llmsim: LlmSim) -> None:
    live(Life(tmp_path, llmsim, seed=1), times=3, query_every=3)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_fifty_times(tmp_path: Path, llmsim: LlmSim) -> None:
    life = Life(tmp_path, llmsim, seed=2)
    live(life, times=50, query_every=5)
    assert len(life.kills) > 25
