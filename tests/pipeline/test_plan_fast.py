"""The plan of the fast method: no language model, and every vector that a configured embedding model would be asked for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.assets.expected import taken
from graphrag_assets.llm.ledger import read_calls
from graphrag_assets.plan import plan
from graphrag_assets.settings_file import load_workspace
from tests.llmsim_server import LlmSim
from tests.pipeline.test_calls import tokens
from tests.pipeline.workspaces import (
    FIVE_DOCUMENTS,
    demo_texts,
    fresh_process,
    index,
    invoke,
    make_workspace,
    simulated,
    write_document,
)

STAGES = {"text_unit_embeddings", "entity_embeddings", "community_report_embeddings"}
ONE_PROCESS = {"extract_graph_nlp": {"processes": 1}}


def workspace(root: Path, llmsim: LlmSim) -> Path:
    """Three documents, a model whose size of vectors nobody knows, and small text units."""
    settings = simulated(llmsim, method="fast", chunking={"size": 200, "overlap": 20}, **ONE_PROCESS)
    for entry in settings["embedding_models"].values():
        entry |= {"model": "own-embedding", "call_args": {}, "prices": {"input_per_million": 1.0}}
    return make_workspace(root, demo_texts(*FIVE_DOCUMENTS[:3]), **settings)


def planned(root: Path) -> dict[str, dict[str, Any]]:
    with fresh_process():
        found = plan(load_workspace(root), count=tokens).to_dict()
    return {stage["stage"]: stage for stage in found["stages"]}


def took(root: Path, since: float) -> dict[str, tuple[int, int]]:
    """Calls and tokens by stage, as the ledger has them."""
    workspace = load_workspace(root)
    place = workspace.uri(workspace.settings.storage.base)
    found = taken(read_calls(workspace.path(workspace.settings.cache.path), place, since))
    return {stage: (of["calls"], of["prompt_tokens"]) for stage, of in found.items() if of["calls"]}


@pytest.mark.slow
def test_a_plan_is_equal_to_the_token(tmp_path: Path, llmsim: LlmSim) -> None:
    """For a first run, and for one document more."""
    root = workspace(tmp_path, llmsim)
    for more in ((), FIVE_DOCUMENTS[3:4]):
        for path, text in demo_texts(*more).items() if more else ():
            write_document(root, path, text)
        sent, since = llmsim.requests, time.time()
        before = planned(root)
        assert llmsim.requests == sent, "a plan sends nothing"
        index(root)
        assert {name: (of["calls"], of["prompt_tokens"]) for name, of in before.items()} == took(root, since)
        assert set(before) == STAGES
        assert all(of["exact"]["prompt_tokens"] and of["usd"] > 0 for of in before.values())


def test_of_much_text_a_part_is_analysed(tmp_path: Path, llmsim: LlmSim, monkeypatch: pytest.MonkeyPatch) -> None:
    root = workspace(tmp_path, llmsim)
    exact = planned(root)
    monkeypatch.setattr("graphrag_assets.plan.fast.ANALYSED", 4_000)
    estimated = planned(root)
    for name in ("entity_embeddings", "community_report_embeddings"):
        assert not estimated[name]["exact"]["prompt_tokens"]
        low, high = estimated[name]["range"]["prompt_tokens"]
        assert low <= exact[name]["prompt_tokens"] <= high, name
    assert estimated["text_unit_embeddings"] == exact["text_unit_embeddings"]
    told = invoke("plan", "--root", root).out
    assert "are estimated from" in told


def test_vectors_of_the_embedded_model_have_no_price(tmp_path: Path) -> None:
    root = make_workspace(tmp_path, demo_texts(FIVE_DOCUMENTS[0]), method="fast", **ONE_PROCESS)
    told = invoke("plan", "--root", root, "--json").json
    assert (told["usd"], told["calls"], told["unpriced"]) == (0, 0, [])
    assert any("made on this machine by embedded/bge-small-en-v1.5" in note for note in told["notes"])
