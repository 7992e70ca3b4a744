"""What models took, as the Dagster UI plots it: numbers of constant names on every materialization, and sums over runs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from graphrag_assets.automation.instance import open_instance
from graphrag_assets.settings_file import load_workspace
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    FIVE_DOCUMENTS,
    REPOSITORY,
    demo_texts,
    fresh_process,
    index,
    invoke,
    make_workspace,
    simulated,
    write_document,
)

pytestmark = pytest.mark.storage

DOCS = REPOSITORY / "docs" / "cost.md"

PRICES = {"input_per_million": 1.0, "output_per_million": 4.0}
STAGES = {
    "extraction_status": "extract_graph",
    "entities": "summarize_descriptions",
    "community_reports": "community_reports",
}
VECTORS = ("text_unit_embeddings", "entity_embeddings", "community_report_embeddings")
FIGURES = {"llm_calls", "cached_answers", "failed_answers", "repeated_calls", "prompt_tokens", "completion_tokens"} | {
    "seconds_waited",
    "cost_usd",
}


def workspace(root: Path, llmsim: LlmSim, **sections: Any) -> Path:
    settings = simulated(llmsim, batches={"max_documents": 2}, **sections)
    for models in (settings["completion_models"], settings["embedding_models"]):
        for entry in models.values():
            entry["prices"] = PRICES
    return make_workspace(root, demo_texts(*FIVE_DOCUMENTS[:3]), **settings)


def materializations(root: Path, asset: str) -> list[dict[str, Any]]:
    """Metadata of each materialization, the oldest first; the partition is among it."""
    with fresh_process(), open_instance(load_workspace(root)) as instance:
        records = instance.fetch_materializations(dg.AssetKey(asset), limit=100).records
    events = [record.asset_materialization for record in reversed(records)]
    return [{n: v.value for n, v in e.metadata.items()} | {"partition": e.partition} for e in events if e is not None]


def of_stage(metadata: dict[str, Any], stage: str) -> dict[str, Any]:
    return {n.rpartition("/")[2]: v for n, v in metadata.items() if n.startswith(f"{stage}/")}


def test_every_asset_that_asks_tells_its_usage_and_the_snapshot_the_sums(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path / "one", llmsim)
    runs = [index(root)["llm"]]
    write_document(
        root, FIVE_DOCUMENTS[2], "Mirela Stroud signed the paper of the Castellan at Cold Rigg. Dace Orrell saw it."
    )
    runs.append(index(root)["llm"])
    (root / "input" / FIVE_DOCUMENTS[2]).unlink()  # nothing has to be asked of the extraction
    runs.append(index(root)["llm"])
    assert runs[0]["usd"] > runs[1]["usd"] > 0

    spent: Counter[str] = Counter()
    for asset, stage in STAGES.items():
        found = materializations(root, asset)
        assert len(found) >= 3
        for metadata in found:
            figures = of_stage(metadata, stage)
            assert figures.keys() == FIGURES, (asset, "the same names in each, so that a plot has no gaps")
            assert all(isinstance(value, int | float) for value in figures.values())
            spent[stage] += figures["llm_calls"]
    for asset in VECTORS:
        found = materializations(root, asset)
        assert all(FIGURES | {"vectors_computed", "vectors_reused"} <= metadata.keys() for metadata in found)
        assert not any(name.startswith("whole_run") for metadata in found for name in metadata)
        spent[asset] += sum(metadata["llm_calls"] for metadata in found)
    for stage, calls in spent.items():
        assert calls == sum(run["by_stage"].get(stage, {}).get("calls", 0) for run in runs), stage

    published = materializations(root, "index_snapshot")
    assert len(published) == 3
    for metadata, run in zip(published, runs, strict=True):
        assert metadata["usage/total/requests"] == run["calls"]
        assert metadata["usage/total/prompt_tokens"] == run["prompt_tokens"]
        assert metadata["usage/total/completion_tokens"] == run["completion_tokens"]
        assert metadata["usage/total/usd"] == pytest.approx(run["usd"])
        assert metadata["usage/total/cached"] == run["cached"]
        for stage in (*STAGES.values(), *VECTORS):
            assert metadata[f"usage/{stage}/requests"] == run["by_stage"].get(stage, {}).get("calls", 0)
            assert metadata[f"usage/{stage}/seconds"] >= 0
    names = [{name for name in metadata if name.startswith("usage/")} for metadata in published]
    assert names[0] == names[1] == names[2]
    table = published[2]["usage_over_runs"].splitlines()
    assert len(table) == 2 + 3, "all runs, the newest first"
    assert f"{runs[2]['usd']:.4f}" in table[2]
    assert f"{runs[0]['usd']:.4f}" in table[4]


def test_a_price_that_is_not_known_is_left_out(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    settings = simulated(llmsim)
    settings["completion_models"]["default_completion_model"]["model"] = "a-model-that-no-price-list-knows"
    root = make_workspace(tmp_path / "one", demo_texts(*FIVE_DOCUMENTS[:1]), **settings)
    index(root)
    [published] = materializations(root, "index_snapshot")
    assert published["usage/total/calls"] > 0
    assert "usage/total/usd" not in published
    assert "usage/extract_graph/usd" not in published
    assert published["usage/text_unit_embeddings/usd"] > 0
    assert "| not known |" in published["usage_over_runs"]


def test_calls_of_a_run_that_failed_are_in_the_next_sum(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path / "one", llmsim, budget={"tokens_per_run": 12_000})
    assert invoke("index", "--root", root).code == 1
    before = llmsim.requests
    assert before > 0
    assert invoke("index", "--root", root, "--budget-tokens", 10**9).code == 0
    [published] = materializations(root, "index_snapshot")
    assert published["usage/total/requests"] == llmsim.requests > before


def test_nothing_where_no_model_is_asked(tmp_path: Path) -> None:
    root = make_workspace(
        tmp_path / "one", demo_texts(FIVE_DOCUMENTS[0]), method="fast", extract_graph_nlp={"processes": 1}
    )
    index(root)
    [published] = materializations(root, "index_snapshot")
    assert not any(name.startswith("usage") for name in published)
    [vectors] = materializations(root, "text_unit_embeddings")
    assert vectors["vectors_computed"] > 0
    assert "llm_calls" not in vectors


def test_the_table_of_calls_and_the_examples_of_the_docs(tmp_path: Path, llmsim: LlmSim) -> None:
    """One row for each question, with all that was paid for; every query that docs/cost.md shows gives an answer."""
    llmsim.reset(faults={"error500": 0.1, "malformed_json": 0.05}, seed=4)
    root = workspace(tmp_path / "one", llmsim)
    llm = index(root)["llm"]

    def sql(query: str) -> list[list[Any]]:
        rows: list[list[Any]] = invoke("sql", query, "--root", root, "--json").json["rows"]
        return rows

    paid = "from call_log where not cached"
    # A call that failed for good is a row as well, and of no price.
    assert sql(f"select sum(attempts), sum(prompt_tokens), sum(completion_tokens) {paid}") == [
        [llmsim.requests, llm["prompt_tokens"], llm["completion_tokens"]]
    ]
    assert sql(f"select sum(usd) {paid}")[0][0] == pytest.approx(llm["usd"])
    assert {stage for (stage,) in sql(f"select distinct stage {paid}")} == {*STAGES.values(), *VECTORS}
    assert sql("select count(*) from calls where row = '' or model = '' or seconds is null or attempts < 1") == [[0]]
    assert sql("select count(*) from calls where prompt = '' and stage not like '%embeddings'") == [[0]]
    assert sql("select max(attempts) > 1 from calls") == [[True]], "repeats are counted"
    served = "select count(distinct r.row) from call_rows r join calls c using (call) where c.stage = 'extract_graph'"
    assert sql(served) == sql("select count(*) from text_units")

    examples = re.findall(r'^ +graphrag-assets sql "(.+)"$', DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(examples) >= 8
    for query in examples:
        found = invoke("sql", query.replace("…", "none"), "--root", root, "--json").json
        assert found["rows"] or "…" in query, query


def test_a_plan_needs_no_key(tmp_path: Path, llmsim: LlmSim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    llmsim.reset()
    settings = simulated(llmsim)
    for models in (settings["completion_models"], settings["embedding_models"]):
        for entry in models.values():
            del entry["api_key"], entry["api_base"]
    root = make_workspace(tmp_path, demo_texts(*FIVE_DOCUMENTS[:1]), **settings)
    assert invoke("plan", "--root", root, "--json").json["calls"] > 0


def test_what_a_plan_supposes_is_not_told_as_progress(tmp_path: Path, llmsim: LlmSim) -> None:
    """A run with a budget plans first; nobody should read that reports are written before anything was extracted."""
    llmsim.reset()
    done = invoke("index", "--root", workspace(tmp_path, llmsim), "--budget-tokens", 1)
    assert done.code == 1
    assert "the budget is reached" in done.err
    assert "reading the input" in done.err
    assert "writing reports" not in done.err


@pytest.mark.slow
def test_a_cache_that_cannot_be_reached_is_told_once_in_a_run(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path / "one", llmsim, cache={"redis_url": "redis://127.0.0.1:1/0"})
    for text in ("Mirela Stroud signed the paper.", "Dace Orrell saw it at Cold Rigg."):
        write_document(root, FIVE_DOCUMENTS[2], text)
        done = invoke("index", "--root", root)
        assert done.code == 0
        assert done.err.count("when the shared cache answers again") == 1, "in each run, not in each step"
