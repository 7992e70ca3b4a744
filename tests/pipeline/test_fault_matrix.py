"""Some cells of the matrix of faults (bench/faults.py; docs/faults.md has all of them)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.faults import LASTING, Cell, index, make, measure, mixed, shares, told
from bench.simulator import Simulator

FEW = [("length", 0.2), ("malformed_json", 0.5), ("error401", 0.2), ("mixed", 0.2)]
MORE = [
    (name, rate)
    for name in ("truncated", "garbage", "empty", "refusal", "context_length", "error400", "drop_mid", "embed_short")
    for rate in (0.05, 0.5)
]


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    with Simulator() as made:
        yield made


@pytest.fixture(scope="module")
def right(simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of a run without faults."""
    root = make(tmp_path_factory.mktemp("right"), simulator.url)
    problem, stages = index(root)
    assert not problem
    assert all(not stage["ladder"] for stage in stages.values())
    return root


def check(cell: Cell) -> None:
    """What holds in every cell."""
    assert cell.wasted == 0, told(cell)
    assert cell.different == 0, told(cell)
    assert cell.mended, told(cell)
    if cell.name in LASTING:
        assert cell.outcome.startswith("stopped: HTTP 4"), told(cell)
    else:
        assert cell.outcome == "published", told(cell)
        assert cell.units.total() == 13
        assert cell.faults > 0 or cell.rate < 0.2, "of few calls, few faults may be none"


@pytest.mark.parametrize(("name", "rate"), FEW)
def test_a_cell(name: str, rate: float, simulator: Simulator, right: Path, tmp_path: Path) -> None:
    faults = mixed(rate) if name == "mixed" else {name: rate}
    cell = measure(tmp_path, right, simulator, name, faults)
    check(cell)
    assert "recorded as failed" in shares([cell])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rate"), MORE)
def test_more_cells(name: str, rate: float, simulator: Simulator, right: Path, tmp_path: Path) -> None:
    check(measure(tmp_path, right, simulator, name, {name: rate}))


@pytest.mark.slow
def test_a_fallback_helps(simulator: Simulator, right: Path, tmp_path: Path) -> None:
    cell = measure(tmp_path, right, simulator, "refusal", {"refusal": 0.5}, fallback=True)
    check(cell)
    assert cell.recovered["fallback"] > 0
