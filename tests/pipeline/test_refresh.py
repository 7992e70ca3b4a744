"""A stage is asked anew, all others are carried over, and nothing is paid for twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    assert_equal_indexes,
    demo_texts,
    index,
    invoke,
    make_workspace,
    manifest,
    simulated,
)

pytestmark = pytest.mark.storage

TEXTS = ("minutes/railway-board-2032-08-11.md", "notes/interview-edda-lindrow.md")


def workspace(root: Path, llmsim: LlmSim, **sections: object) -> Path:
    settings = simulated(llmsim, chunking={"size": 100, "overlap": 0}, concurrent_requests=4, **sections)
    return make_workspace(root, demo_texts(*TEXTS), **settings)


def refresh(root: Path, *stages: str) -> dict[str, dict[str, int]]:
    """Usage by stage of a run that asks stages anew."""
    options = [part for stage in stages for part in ("--refresh", stage)]
    found: dict[str, dict[str, int]] = invoke("index", "--root", root, "--json", *options).json["llm"]["by_stage"]
    return found


def test_only_the_stage_is_asked(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim, extract_claims={"enabled": True})
    first = index(root)
    asked = first["llm"]["by_stage"]
    for stage in ("extract_graph", "extract_claims", "summarize_descriptions", "community_reports"):
        sent = llmsim.requests
        planned = {s["stage"]: s for s in invoke("plan", "--root", root, "--json", "--refresh", stage).json["stages"]}
        assert llmsim.requests == sent, "a plan asks nobody"
        gleanings = planned.get(f"{stage}_gleanings", {"calls": 0})["calls"]
        again = refresh(root, stage)
        assert {name for name, used in again.items() if used["calls"]} == {stage}
        assert again[stage]["calls"] == llmsim.requests - sent == asked[stage]["calls"]
        assert planned[stage]["calls"] + gleanings == again[stage]["calls"]
        assert manifest(root).id == first["snapshot"], "equal answers give equal tables"
    sent = llmsim.requests
    assert index(root)["up_to_date"]
    assert llmsim.requests == sent


def test_what_is_carried_over_needs_no_cache(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim, extract_claims={"enabled": True})
    first = index(root)
    shutil.rmtree(root / ".cache")
    again = refresh(root, "extract_claims")
    assert {name for name, used in again.items() if used["calls"]} == {"extract_claims"}
    assert manifest(root).id == first["snapshot"]


def test_a_refresh_that_stopped_goes_on_and_pays_for_nothing_twice(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset(latency=0.02)
    root = workspace(tmp_path / "work", llmsim)
    whole = workspace(tmp_path / "whole", llmsim)
    asked = index(root)["llm"]["by_stage"]["extract_graph"]["calls"]
    index(whole)
    sent = llmsim.requests
    stopped = invoke("index", "--root", root, "--json", "--refresh", "extract_graph", "--budget-tokens", 30_000)
    assert json.loads(stopped.out)["error"]["type"] == "budget"
    part = llmsim.requests - sent
    assert 0 < part < asked
    waiting = invoke("status", "--root", root, "--json").json["waiting"]
    assert "extraction" in waiting["stages"]
    index(root)  # whoever runs next goes on with it
    assert llmsim.requests - sent == asked
    assert index(root)["up_to_date"]
    assert_equal_indexes(whole, root)


def test_an_answer_that_cannot_be_had_anew_stays(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim)
    first = index(root)
    llmsim.reset(faults={"refusal": 1.0})
    run = invoke("index", "--root", root, "--json", "--refresh", "community_reports")
    assert run.json["snapshot"] == first["snapshot"]
    assert "the earlier answer" in run.err


def test_what_cannot_be_asked_anew_is_told(tmp_path: Path, llmsim: LlmSim) -> None:
    root = workspace(tmp_path, llmsim)
    for stage, words in (
        ("community_report", "did you mean community_reports?"),
        ("embeddings", "there are extract_graph, extract_claims"),
        ("extract_claims", "extract_claims.enabled"),
        ("resolve_entities", "entity_resolution.llm"),
    ):
        for command in ("index", "plan"):
            run = invoke(command, "--root", root, "--json", "--refresh", stage)
            assert run.code == 1
            assert words in run.err
            assert json.loads(run.out)["error"]["type"] == "usage"
    assert "the fast method" in invoke("index", "--root", root, "--method", "fast", "--refresh", "extract_graph").err
