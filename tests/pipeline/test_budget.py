"""A budget ends an index run in good order, and the next run goes on from there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    assert_equal_indexes,
    demo_texts,
    index,
    invoke,
    log_entries,
    make_workspace,
    manifest,
    simulated,
)

pytestmark = pytest.mark.storage

TEXTS = ("minutes/railway-board-2032-08-11.md", "notes/interview-edda-lindrow.md")
PRICES = {"input_per_million": 1.0, "output_per_million": 4.0}


def workspace(root: Path, llmsim: LlmSim, prices: dict[str, float] | None = PRICES, **sections: Any) -> Path:
    settings = simulated(llmsim, chunking={"size": 100, "overlap": 0}, concurrent_requests=4, **sections)
    for models in (settings["completion_models"], settings["embedding_models"]):
        for entry in models.values():
            entry |= {"prices": prices} if prices else {"model": "a-model-that-no-price-list-knows"}
    return make_workspace(root, demo_texts(*TEXTS), **settings)


def test_stopping_three_times_ends_as_one_run_does(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset(latency=0.05)
    whole = workspace(tmp_path / "whole", llmsim)
    once = index(whole)["llm"]
    llmsim.reset(latency=0.05)
    root = workspace(tmp_path / "work", llmsim)
    spent, calls = 0.0, 0
    share = once["usd"] / 3
    for _ in range(3):
        # The longest usual answer has to fit beside what is spent, before a call is sent.
        run = invoke("index", "--root", root, "--json", "--budget", share)
        if run.code == 0:
            break
        error = json.loads(run.out)["error"]
        assert error["type"] == "budget"
        assert "the budget is reached" in run.err
        assert "go on from there" in run.err
        assert "Traceback" not in run.err
        assert 0 < error["spent_usd"] <= share
        assert not log_entries(root), "nothing was published"
        spent += error["spent_usd"]
    assert spent > 0
    last = index(root)["llm"]
    spent += last["usd"]
    calls = llmsim.requests
    assert calls == once["calls"], "no call was lost, none made twice"
    assert abs(spent - once["usd"]) < 1e-6
    assert_equal_indexes(whole, root)


def test_the_budget_of_the_settings(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim, budget={"tokens_per_run": 12_000})
    run = invoke("index", "--root", root)
    assert run.code == 1
    assert "of 12,000 tokens are spent" in run.err
    assert llmsim.requests > 0
    assert manifest_exists(root) is False
    assert invoke("index", "--root", root, "--budget-tokens", 10**9).code == 0
    assert manifest(root)


def manifest_exists(root: Path) -> bool:
    return bool(log_entries(root))


def test_the_published_snapshot_stays(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim)
    published = index(root)["snapshot"]
    sent = llmsim.requests
    (root / "input" / "new.txt").write_text("Edda Lindrow met Tobin Ashe at the quarry of Skarne in May 2033.")
    run = invoke("index", "--root", root, "--budget", 0)
    assert run.code == 1
    assert llmsim.requests == sent, "a budget of nothing sends nothing"
    assert manifest(root).id == published
    assert index(root)["snapshot"] != published


def test_an_unknown_price_is_told(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim, prices=None)
    run = invoke("index", "--root", root, "--budget", 5)
    assert run.code == 1
    assert "the price of the model is not known" in run.err
    assert "prices (input_per_million, output_per_million)" in run.err
    assert llmsim.requests == 0


@pytest.mark.local_disk
def test_what_is_cached_needs_no_budget(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim)
    index(root)
    for folder in ("output", ".dagster"):
        shutil.rmtree(root / folder, ignore_errors=True)
    sent = llmsim.requests
    assert invoke("index", "--root", root, "--budget", 0).code == 0
    assert llmsim.requests == sent
