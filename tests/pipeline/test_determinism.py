"""The same input gives the same bytes, however files come, are grouped and are asked about."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import DEMO, assert_equal_indexes, demo_texts, index, make_workspace, simulated

pytestmark = pytest.mark.storage

DOCUMENTS = (
    "letters/2031-10-23-castellan-to-maske.txt",
    "letters/2032-05-08-verrall-to-courant.txt",
    "minutes/railway-board-2032-08-11.md",
    "news/2032-06-08-quarry-strike.txt",
    "notes/interview-edda-lindrow.md",
    "reports/cold-rigg-data-sheet.txt",
    "reports/dace-orrell-condition-survey.md",
)


def disturbed(texts: dict[str, str]) -> dict[str, str]:
    """The same documents, the last one first."""
    return dict(reversed(texts.items()))


def age(root: Path) -> None:
    """Give all documents other times of modification, the newest becoming the oldest."""
    for number, file in enumerate(sorted((root / "input").rglob("*"))):
        os.utime(file, (1_000_000 - number, 1_000_000 - number))


def test_fast_method(tmp_path: Path) -> None:
    texts = demo_texts(*DOCUMENTS)
    nlp = {"processes": 1}
    one = make_workspace(tmp_path / "one", texts, method="fast", extract_graph_nlp=nlp)
    other = make_workspace(
        tmp_path / "elsewhere" / "other",
        disturbed(texts),
        method="fast",
        extract_graph_nlp=nlp,
        batches={"max_documents": 3},
    )
    age(other)
    assert index(one)["batches"] == 1
    assert index(other)["batches"] == 3
    assert_equal_indexes(one, other)


def test_standard_method(tmp_path: Path, llmsim: LlmSim) -> None:
    texts = demo_texts(*DOCUMENTS)
    sections = {"chunking": {"size": 200, "overlap": 20}, "extract_claims": {"enabled": True}}
    one = make_workspace(tmp_path / "one", texts, **simulated(llmsim, **sections))
    other = make_workspace(
        tmp_path / "elsewhere" / "other",
        disturbed(texts),
        **simulated(llmsim, **sections, batches={"max_documents": 3}, concurrent_requests=3),
    )
    age(other)
    done = index(one)
    assert done["batches"] == 1
    assert done["text_units"]["ok"] > 20
    assert done["tables"]["covariates"] > 0
    llmsim.config(latency=0.01, jitter=1.0)  # answers arrive in another order
    again = index(other)
    assert again["batches"] == 3
    assert again["llm"]["calls"] == done["llm"]["calls"]
    assert_equal_indexes(one, other)


@pytest.mark.slow
def test_fast_method_on_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo corpus, cut into two pieces of work, which two processes take."""
    monkeypatch.setattr("graphrag_assets.indexing.fast_extraction._WORTH_A_PROCESS", 0)
    roots = []
    for processes in (1, 2):
        root = make_workspace(tmp_path / str(processes), {}, method="fast", extract_graph_nlp={"processes": processes})
        shutil.copytree(DEMO / "input", root / "input")
        roots.append(root)
        index(root)
    assert_equal_indexes(*roots)
