"""After any sequence of changes the index equals what a rebuild would give: examples made at random, and fixed ones."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.llmsim_server import LlmSim
from tests.pipeline.living import OPTIONS, PATHS, SENTENCES, Change, Choose, Delete, Living, Rename, Write

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


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(quiet, max_examples=60, phases=[Phase.generate])  # to shrink an example takes minutes
@given(first=first_steps, sequence=st.lists(steps, min_size=1, max_size=8))
def test_many_random_changes(llmsim_server: LlmSim, first: list[Change], sequence: list[list[Change]]) -> None:
    live(llmsim_server, first, sequence)


SEVERAL: list[Change] = [
    Write("a.txt", (0, 1, 2, 4, 5)),
    Write("b.txt", (6, 7, 9, 10)),
    Write("letters/d.txt", (3, 8, 11, 12, 13)),
]
