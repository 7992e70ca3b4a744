"""Every run is compared with what was expected of it, by a look that costs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.assets.fingerprints import Fingerprints
from graphrag_assets.assets.resources import Index
from graphrag_assets.automation.plan import last_inventory, missing_work
from graphrag_assets.plan.estimating import estimate
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    DEMO,
    demo_texts,
    fresh_process,
    index,
    invoke,
    make_workspace,
    simulated,
    write_document,
)


def compared(root: Path) -> dict[str, dict[str, Any]]:
    published = invoke("status", "--root", root, "--json").json["published"]
    assert published["expected_by"] == "estimate"
    return {row["stage"]: row for row in published["expected_and_taken"]}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, llmsim_server: LlmSim) -> Path:
    """The demo corpus but for some documents, indexed once."""
    llmsim_server.reset()
    files = [path for path in (DEMO / "input").rglob("*") if path.suffix in (".txt", ".md")]
    texts = demo_texts(*sorted(path.relative_to(DEMO / "input").as_posix() for path in files))
    root = tmp_path_factory.mktemp("estimates") / "work"
    make_workspace(root, texts, **simulated(llmsim_server, chunking={"size": 200, "overlap": 20}))
    held = sorted(texts)[::6]
    for path in held:
        (root / "input" / path).unlink()
    index(root)
    (root / "held.txt").write_text("\n".join(held))
    return root


def test_the_first_run_tells_what_it_can(demo: Path) -> None:
    rows = compared(demo)
    first = rows["extract_graph"]
    low, high = first["range"]["calls"]
    assert low <= first["calls_taken"] <= high
    assert first["exact"] == {"calls": False, "prompt_tokens": False, "completion_tokens": False}
    assert rows["community_reports"]["calls_expected"] is None, "no past call tells how many there will be"
    assert "unknown / " in invoke("status", "--root", demo).out


def test_a_later_run_is_within_the_range(demo: Path) -> None:
    held = (demo / "held.txt").read_text().split("\n")
    for path, text in demo_texts(*held).items():
        write_document(demo, path, text)
    index(demo)
    rows = compared(demo)
    asked = {stage: row for stage, row in rows.items() if row["calls_taken"]}
    assert {"extract_graph", "extract_graph_gleanings", "summarize_descriptions", "community_reports"} <= set(asked)
    for stage, row in asked.items():
        for figure in ("calls", "prompt_tokens", "completion_tokens", "usd"):
            low, high = row["range"][figure]
            assert low <= row[f"{figure}_taken"] <= high, (stage, figure, row)
    assert "(from lengths and past calls)" in invoke("status", "--root", demo).out


def test_it_takes_a_moment_and_asks_nobody(demo: Path, llmsim: LlmSim) -> None:
    write_document(demo, "new.txt", "Edda Lindrow met Tobin Ashe at the quarry of Skarne in May 2033. " * 40)
    sent = llmsim.requests
    with fresh_process():
        place = Index(root=str(demo))
        from graphrag_assets.input.inventory import take_inventory

        before = last_inventory(place.workspace, place.build)
        inventory = take_inventory(place.input, place.workspace.settings, before)
        prints = Fingerprints(place.workspace, inventory.documents)
        work = missing_work(place.workspace, place.storage, prints, "other")
        found = estimate(place, inventory, work, {})
    stages = {stage["stage"]: stage for stage in found["stages"]}
    assert stages["extract_graph"]["calls"] in (3, 4, 5)
    assert found["seconds_estimated"] > 0
    assert llmsim.requests == sent


def test_none_where_it_is_not_wanted(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    texts = {"a.txt": "Edda Lindrow met Tobin Ashe at the quarry of Skarne in May 2033."}
    root = make_workspace(tmp_path, texts, **simulated(llmsim, budget={"estimate_runs": False}))
    index(root)
    published = invoke("status", "--root", root, "--json").json["published"]
    assert (published["expected_by"], published["expected_and_taken"]) == (None, [])
