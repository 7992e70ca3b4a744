"""After any sequence of changes the index equals what a rebuild would give: examples made at random, and fixed ones."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from graphrag_assets.storage import undone
from tests.llmsim_server import LlmSim
from tests.pipeline.living import (
    OPTIONS,
    PATHS,
    SENTENCES,
    Change,
    Choose,
    Delete,
    Living,
    Rename,
    Write,
    settings_of,
    text_of,
)
from tests.pipeline.plain_runs import reconcile_plainly
from tests.pipeline.workspaces import make_workspace, rows, table, write_document

paths = st.sampled_from(PATHS)
sentences = st.lists(st.integers(0, len(SENTENCES) - 1), max_size=10).map(tuple)
writes = st.builds(Write, paths, sentences)
choices = st.sampled_from(sorted(OPTIONS)).flatmap(
    lambda name: st.builds(Choose, st.just(name), st.integers(0, len(OPTIONS[name]) - 1))
)
changes = st.one_of(
    writes,
    writes,
    st.builds(Delete, st.integers(0, 5)),
    st.builds(Rename, st.integers(0, 5), paths),
    choices,
)
steps = st.lists(changes, min_size=1, max_size=3)


def live(llmsim: LlmSim, first: list[Change], sequence: list[list[Change]]) -> None:
    """Index some documents, then change and check, step by step."""
    llmsim.reset()
    with tempfile.TemporaryDirectory() as folder:
        living = Living(Path(folder), llmsim)
        for step in [first, *sequence]:
            living.apply(step)


first_steps = st.lists(writes, min_size=2, max_size=4, unique_by=lambda write: write.path)
quiet = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.timeout(300)
@settings(quiet, max_examples=5, derandomize=True, phases=[Phase.generate])
@given(first=first_steps, sequence=st.lists(steps, min_size=2, max_size=3))
def test_random_changes(llmsim_server: LlmSim, first: list[Change], sequence: list[list[Change]]) -> None:
    live(llmsim_server, first, sequence)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@settings(quiet, max_examples=60, phases=[Phase.generate])  # to shrink an example takes minutes
@given(first=first_steps, sequence=st.lists(steps, min_size=1, max_size=8))
def test_many_random_changes(llmsim_server: LlmSim, first: list[Change], sequence: list[list[Change]]) -> None:
    live(llmsim_server, first, sequence)


SEVERAL: list[Change] = [
    Write("a.txt", (0, 1, 2, 4, 5)),
    Write("b.txt", (6, 7, 9, 10)),
    Write("letters/d.txt", (3, 8, 11, 12, 13)),
]

SEQUENCES: dict[str, list[list[Change]]] = {
    "a batch goes and comes back": [
        [Choose("max_documents", 1), *SEVERAL],
        [Delete(2)],
        [Write("letters/d.txt", (3, 8, 11, 12, 13))],
    ],
    "what could not be used changes, and nothing else": [
        [*SEVERAL, Write("c.md", ())],
        [Rename(2, "z/y/x.txt")],
    ],
    "another embedding model and back": [
        SEVERAL,
        [Choose("embedding", 1), Delete(0)],
        [Choose("embedding", 0)],
    ],
    "an index loses all its documents": [
        SEVERAL,
        [Delete(0), Delete(0), Delete(0)],
        [Write("b.txt", (6, 7, 9, 10))],
    ],
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SEQUENCES)
def test_fixed_changes(llmsim_server: LlmSim, name: str) -> None:
    first, *sequence = SEQUENCES[name]
    live(llmsim_server, first, sequence)


@pytest.mark.timeout(300)
def test_without_a_cache_only_changes_are_asked_for(tmp_path: Path, llmsim: LlmSim) -> None:
    """What did not change is taken over from the tables, not from answers that happen to be kept."""
    options = {name: values[0] for name, values in OPTIONS.items()}
    sections = settings_of(llmsim, options) | {"cache": {"enabled": False}}
    texts = {"a.txt": text_of((0, 1, 4, 5)), "b.txt": text_of((6, 7, 9, 10)), "c.txt": text_of((11, 12, 0, 4))}
    root = make_workspace(tmp_path, texts, **sections)
    (root / "same.yaml").write_text("", encoding="utf-8")
    assert reconcile_plainly(root).calls["extract_graph"] == table(root, "text_units").num_rows

    (root / "input" / "b.txt").rename(root / "input" / "renamed.txt")
    assert reconcile_plainly(root).calls == {}

    before = {row["id"] for row in rows(root, "text_units")}
    described = {
        (row["id"], *row["descriptions"]) for name in ("entities", "relationships") for row in rows(root, name)
    }
    write_document(root, "d.txt", text_of((5, 13, 9)))
    calls = reconcile_plainly(root).calls
    assert calls["extract_graph"] == len({row["id"] for row in rows(root, "text_units")} - before) > 0
    summarised = [
        row
        for name in ("entities", "relationships")
        for row in rows(root, name)
        if len(row["descriptions"]) > 1 and (row["id"], *row["descriptions"]) not in described
    ]
    assert calls["summarize_descriptions"] == len(summarised) > 0
    assert calls["community_reports"] < table(root, "community_reports").num_rows

    (root / "input" / "d.txt").unlink()
    assert "extract_graph" not in reconcile_plainly(root).calls


def a_day_goes_by(root: Path) -> None:
    """What was tried last today was tried yesterday."""
    for file in (root / "output" / undone.FOLDER).rglob("*.json"):
        kept = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(
            json.dumps([row | {"last": row["last"] - undone.LONGEST_WAIT - 1} for row in kept]), encoding="utf-8"
        )


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("fault", "runs"), [("empty", undone.MOST_TRIES), ("error500", undone.MOST_TRIES + 2)])
def test_useless_answers_are_not_asked_for_without_end(tmp_path: Path, llmsim: LlmSim, fault: str, runs: int) -> None:
    """What the model cannot answer is tried in some runs; what could not be reached, whenever it is time."""
    options = {name: values[0] for name, values in OPTIONS.items()}
    sections = settings_of(llmsim, options)
    for entry in sections["completion_models"].values():
        entry["retry"] = {"max_retries": 1, "max_delay": 0.01}
    texts = {"a.txt": text_of((0, 1)), "b.txt": text_of((4, 5)), "c.txt": text_of((9, 10))}
    root = make_workspace(tmp_path, texts, **(sections | {"checks": {"max_failed_share": 1.0}}))
    (root / "same.yaml").write_text("", encoding="utf-8")
    llmsim.config(poison='"messages".*Blue Heron', poison_fault=fault, fault_kinds=["extract"])
    asked = []
    for _ in range(undone.MOST_TRIES + 2):
        asked.append(reconcile_plainly(root).calls.get("extract_graph", 0))
        a_day_goes_by(root)
    assert [count > 0 for count in asked] == [turn < runs for turn in range(undone.MOST_TRIES + 2)]
    (failed,) = [row for row in rows(root, "text_units") if row["status"] == "failed"]
    assert "Blue Heron" in failed["text"]
