"""A budget ends an index run in good order, and the next run goes on from there."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    arguments,
    assert_equal_indexes,
    demo_texts,
    environment,
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


def set_day(root: Path, **budget: float) -> None:
    settings = json.loads((root / "settings.yaml").read_text())
    (root / "settings.yaml").write_text(json.dumps(settings | {"budget": budget}))


def test_a_day_ends_runs_and_another_one_goes_on(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset(latency=0.05)
    whole = workspace(tmp_path / "whole", llmsim)
    once = index(whole)["llm"]
    llmsim.reset(latency=0.05)
    root = workspace(tmp_path / "work", llmsim)
    for third in (1, 2, 3):
        ceiling = once["usd"] * third / 3
        set_day(root, usd_per_day=ceiling)  # as if another day had begun with a third of the budget
        run = invoke("index", "--root", root, "--json")
        if run.code == 0:
            break
        error = json.loads(run.out)["error"]
        assert error["type"] == "budget"
        assert "the budget of the day is reached" in run.err
        assert "Traceback" not in run.err
        assert error["day"]["usd"]["spent"] <= ceiling
        assert error["day"]["usd"]["reserved"] == 0
        assert not log_entries(root), "nothing was published"
        again = invoke("index", "--root", root, "--json")
        assert json.loads(again.out)["error"]["spent_usd"] == 0, "the same day has nothing more to give"
    set_day(root, usd_per_day=10 * once["usd"])
    index(root)
    assert llmsim.requests == once["calls"], "no call was lost, none made twice"
    assert_equal_indexes(whole, root)
    day = invoke("status", "--root", root, "--json").json["day"]
    assert day["usd"]["spent"] == pytest.approx(once["usd"])
    assert day["usd"]["left"] == pytest.approx(9 * once["usd"])
    assert "USD (" in invoke("status", "--root", root).out


def test_questions_count_for_the_day_and_are_kept_to_it(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim)
    index(root)
    set_day(root, tokens_per_day=10**6)
    asked = invoke("query", "--root", root, "--json", "--method", "basic", "Who met whom?").json["llm"]
    day = invoke("status", "--root", root, "--json").json["day"]
    assert day["tokens"]["spent"] == asked["prompt_tokens"] + asked["completion_tokens"] > 0
    set_day(root, tokens_per_day=1)
    sent = llmsim.requests
    refused = invoke("query", "--root", root, "--json", "--method", "basic", "Why was the quarry closed?")
    assert "the budget of the day is reached" in refused.out
    assert llmsim.requests == sent
    # What was asked before costs nothing and is answered the same, also on such a day.
    again = invoke("query", "--root", root, "--json", "--method", "basic", "Who met whom?").json["llm"]
    assert (again["calls"], llmsim.requests) == (0, sent)


def test_two_runs_at_once_keep_one_day(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    cost = index(workspace(tmp_path / "one", llmsim))["llm"]["usd"]
    llmsim.reset(latency=0.02)
    limits = {"path": str(tmp_path / "limits.sqlite")}
    roots = [workspace(tmp_path / name, llmsim, limits=limits, budget={"usd_per_day": cost}) for name in "ab"]
    runs = [
        subprocess.Popen(
            arguments("index", "--root", root, "--json"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for root in roots
    ]
    told = [json.loads(run.communicate()[0]) for run in runs]
    assert any("error" in one and one["error"]["type"] == "budget" for one in told)
    day = invoke("status", "--root", roots[0], "--json").json["day"]
    assert 0 < day["usd"]["spent"] <= cost
    assert day["usd"]["reserved"] == 0


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
