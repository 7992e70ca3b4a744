"""The calls of a snapshot, trace and plan, as users ask for them: on a small standard index that changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.texts import make_text
from graphrag_assets.plan import plan
from graphrag_assets.prompt_files import load_prompt, prompt_version
from graphrag_assets.settings_file import load_workspace
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    FIVE_DOCUMENTS,
    copy_workspace,
    demo_texts,
    fresh_process,
    index,
    invoke,
    make_workspace,
    manifest,
    published_files,
    rows,
    simulated,
    write_document,
)

pytestmark = pytest.mark.storage

CHANGED = FIVE_DOCUMENTS[2]


def tokens(text: str) -> int:
    """Tokens as the simulator counts them."""
    return (len(text) + 3) // 4


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator knows no tokens that begin an answer."""
    monkeypatch.setattr("graphrag_assets.plan.asking.CHAT_TOKENS", 0)


def planned(root: Path) -> dict[str, Any]:
    """The plan of a workspace, in the tokens of the simulator."""
    with fresh_process():
        return plan(load_workspace(root), count=tokens).to_dict()


def sql(root: Path, query: str) -> list[list[Any]]:
    """Rows of a query."""
    found: list[list[Any]] = invoke("sql", query, "--root", root, "--json").json["rows"]
    return found


def trace(root: Path, what: str, *more: object) -> dict[str, Any]:
    """What trace tells of a row."""
    return invoke("trace", what, "--root", root, "--json", *more).json


def by_stage(found: dict[str, Any], name: str) -> dict[str, Any]:
    """One stage of a plan."""
    return next(stage for stage in found["stages"] if stage["stage"] == name)


def close(estimate: float, actual: float, within: float) -> bool:
    return abs(estimate - actual) <= within * max(estimate, actual)


@pytest.mark.timeout(900)
def test_plan_index_calls_and_trace(llmsim: LlmSim, tmp_path: Path, counted: None) -> None:
    estimated = {"budget": {"estimate_runs": True}}
    root = make_workspace(tmp_path / "one", demo_texts(*FIVE_DOCUMENTS), **simulated(llmsim, **estimated))

    # --- a plan before anything was done: nothing is sent, nothing is written
    before = sorted(path for path in root.rglob("*"))
    first = planned(root)
    assert llmsim.requests == 0
    assert sorted(path for path in root.rglob("*")) == before
    assert first["documents"]["added"] == 5
    done = index(root)
    assert_plan_holds(first, done)

    # --- the calls of the snapshot
    totals = sql(root, "select count(*), sum(prompt_tokens), sum(completion_tokens), sum(usd) from calls")[0]
    llm = done["llm"]
    assert totals[:3] == [llm["calls"], llm["prompt_tokens"], llm["completion_tokens"]]
    assert totals[3] == pytest.approx(llm["usd"])
    assert sql(root, "select count(*) from calls where cached or status <> 'ok'") == [[0]]
    assert sql(root, "select distinct stage from calls order by 1") == [[s] for s in sorted(llm["by_stage"])]
    with fresh_process():
        version = prompt_version(load_prompt(load_workspace(root), "extract_graph"))
    assert sql(root, "select distinct prompt from calls where stage = 'extract_graph' and turn = 1") == [[version]]
    units = {row["id"] for row in rows(root, "text_units")}
    served = sql(root, "select distinct row from calls where stage = 'extract_graph'")
    assert {row for (row,) in served} == units
    assert sql(root, "select count(*) from call_log") == [[llm["calls"]]]

    # --- what was expected is kept beside what the run took
    status = invoke("status", "--root", root, "--json").json["published"]["expected_and_taken"]
    graph = next(row for row in status if row["stage"] == "extract_graph")
    assert graph["calls_expected"] == graph["calls_taken"] == 5
    assert "expected to take / took" in invoke("status", "--root", root).out

    # --- trace upstream and downstream
    assert_traces(root, done)

    # --- nothing to do: zeros
    again = planned(root)
    assert again["nothing_to_do"]
    assert (again["calls"], again["usd"], again["seconds_estimated"]) == (0, 0.0, 0.0)
    assert "Nothing to do" in invoke("plan", "--root", root).out

    # --- an edit: only its own text unit is asked for, and the calls of all other rows stay on record
    old = manifest(root).id
    text = demo_texts(CHANGED)[CHANGED]
    write_document(root, CHANGED, text + "\n\nEdda Lindrow met Gideon Maske in Ostrey on Monday.\n")
    second = planned(root)
    assert by_stage(second, "extract_graph")["calls"] == 1
    assert second["documents"]["edited"] == 1
    requests = llmsim.requests
    after = index(root)
    assert llmsim.requests - requests == after["llm"]["calls"]
    stage = by_stage(second, "extract_graph")
    assert stage["exact"]["prompt_tokens"]
    taken = manifest(root).run["taken"]["extract_graph"]
    assert (stage["calls"], stage["prompt_tokens"]) == (taken["calls"], taken["prompt_tokens"])
    units = {row["id"] for row in rows(root, "text_units")}
    served = sql(root, "select distinct row from calls where stage = 'extract_graph'")
    assert {row for (row,) in served} == units
    document = trace(root, CHANGED)
    versions = [entry["version"] for entry in document["snapshots"]["in"]]
    assert len(versions) == len(set(versions)) == 2
    assert trace(root, CHANGED, "--snapshot", old)["snapshot"] == old

    # --- another workspace with the same input publishes the same bytes, although its calls took other times
    other = make_workspace(tmp_path / "two", {}, **simulated(llmsim))
    shutil.copytree(root / "input", other / "input")
    index(other)
    fresh = published_files(other)
    same = [name for name, data in published_files(root).items() if fresh[name] == data]
    assert {"documents", "text_units", "entities", "relationships"} <= set(same)
    assert "calls" not in fresh


def assert_plan_holds(found: dict[str, Any], done: dict[str, Any]) -> None:
    """Exact stages to the token, the others within the range that the plan itself tells."""
    actual = done["llm"]["by_stage"]
    first = by_stage(found, "extract_graph")
    more = by_stage(found, "extract_graph_gleanings")
    assert first["calls"] + more["calls"] == actual["extract_graph"]["calls"]
    assert first["exact"]["prompt_tokens"]
    vectors = by_stage(found, "text_unit_embeddings")
    assert vectors["prompt_tokens"] == actual["text_unit_embeddings"]["prompt_tokens"]
    assert vectors["calls"] == actual["text_unit_embeddings"]["calls"]
    assert found["usd_range"][0] <= done["llm"]["usd"] <= found["usd_range"][1]
    for name in ("summarize_descriptions", "community_reports"):
        low, high = by_stage(found, name)["range"]["prompt_tokens"]
        assert low <= actual[name]["prompt_tokens"] <= high, name


def assert_traces(root: Path, done: dict[str, Any]) -> None:
    """Every kind of row, by every way of naming it."""
    entity = max(rows(root, "entities"), key=lambda row: row["frequency"])
    found = trace(root, entity["title"].title())
    assert (found["kind"], found["id"]) == ("entity", entity["id"])
    assert found["passages"]["count"] == entity["frequency"]
    texts = {row["path"]: row["text"] for row in rows(root, "documents")}
    for passage in found["passages"]["listed"]:
        assert texts[passage["document"]][passage["start"] : passage["end"]] == passage["quote"]
    stages = {row["stage"] for row in found["calls"]["by_stage"]}
    assert {"extract_graph", "summarize_descriptions", "entity_embeddings"} <= stages
    assert found["calls"]["total"]["usd"] > 0
    assert found["snapshots"]["first"] == found["snapshots"]["last"] == done["snapshot"]

    link = rows(root, "relationships")[0]
    for name in (f"{link['source']} -> {link['target']}", f"{link['target']}|{link['source']}", link["id"]):
        assert trace(root, name)["id"] == link["id"]
    unit = rows(root, "text_units")[1]
    below = trace(root, unit["id"])["downstream"]
    assert below["entities"]["count"] == len(unit["entity_ids"])
    assert below["relationships"]["count"] == len(unit["relationship_ids"])
    assert below["reports"]["count"] >= 1
    bounded = trace(root, unit["id"], "--limit", 1)["downstream"]["entities"]
    assert (bounded["count"], len(bounded["listed"])) == (len(unit["entity_ids"]), 1)
    assert "more (--limit shows them)" in invoke("trace", unit["id"], "--root", root, "--limit", 1).out
    report = rows(root, "community_reports")[0]
    for name in (f"Reports ({report['community']})", f"[Data: Reports ({report['community']})]", report["id"]):
        found = trace(root, name, "--kind", "report")
        assert found["id"] == report["id"]
        assert "community_reports" in {row["stage"] for row in found["calls"]["by_stage"]}
    assert trace(root, "Sources (1)")["id"] == unit["id"]
    assert trace(root, "Community 0")["kind"] == "community"

    several = invoke("trace", "[Data: Entities (0, 1)]", "--root", root, "--json")
    assert several.code == 1
    assert [choice["number"] for choice in json.loads(several.out)["error"]["choices"]] == [0, 1]
    unknown = invoke("trace", entity["title"][:-1] + "X", "--root", root, "--json")
    assert unknown.code == 1
    assert entity["title"] in json.loads(unknown.out)["error"]["near"]


@pytest.mark.timeout(300)
def test_the_fast_method_asks_nothing_and_says_so(tmp_path: Path) -> None:
    root = make_workspace(tmp_path, demo_texts(*FIVE_DOCUMENTS[:2]))
    found = invoke("plan", "--root", root, "--json").json
    assert (found["method"], found["calls"], found["usd"]) == ("fast", 0, 0.0)
    assert not (root / "output").exists()
    assert "the fast method asks no language model" in invoke("plan", "--root", root).out
    index(root)
    entity = rows(root, "entities")[0]
    told = trace(root, entity["id"])["calls"]
    assert not told["known"]
    assert "fast method" in told["why"]


@pytest.mark.timeout(300)
def test_an_unknown_price_is_said(llmsim: LlmSim, tmp_path: Path) -> None:
    settings = simulated(llmsim)
    settings["completion_models"]["default_completion_model"]["model"] = "house-model"
    root = make_workspace(tmp_path, demo_texts(*FIVE_DOCUMENTS[:1]), **settings)
    found = invoke("plan", "--root", root, "--json").json
    assert found["usd"] is None
    assert found["unpriced"] == ["openai/house-model"]
    assert "the price is not known" in invoke("plan", "--root", root).out


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_plans_of_the_demo_are_within_a_fifth(llmsim: LlmSim, tmp_path: Path, counted: None) -> None:
    """A first run, and one more document: exact stages to the token, the sums and the reports within 20 %.

    What a model will find in three new text units is a guess, and how many communities that touches varies by some 17 %.
    So one new document must be within the range that its plan tells, and the sum over several within 20 %.
    """
    base = make_workspace(tmp_path / "base", demo_texts(), **simulated(llmsim, budget={"estimate_runs": True}))
    assert_within_a_fifth([planned_and_taken(base)])
    additions = []
    for seed in (74, 75, 76, 77):
        root = tmp_path / f"with-{seed}"
        copy_workspace(base, root)
        write_document(root, "zz/new.txt", make_text(9000, seed))
        additions.append(planned_and_taken(root))
    assert_within_a_fifth(additions)


def planned_and_taken(root: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A plan, then the use of the run: as a whole and by stage. Exact stages must be exact, and the sum in its range."""
    found = planned(root)
    done = index(root)["llm"]
    taken = manifest(root).run["taken"]
    for name in ("extract_graph", "text_unit_embeddings"):
        stage = by_stage(found, name)
        assert stage["exact"]["prompt_tokens"]
        assert (stage["calls"], stage["prompt_tokens"]) == (taken[name]["calls"], taken[name]["prompt_tokens"])
    assert found["usd_range"][0] <= done["usd"] <= found["usd_range"][1]
    return found, done, taken


def assert_within_a_fifth(runs: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]) -> None:
    """The sums over runs of what was planned and what was taken."""
    assert close(sum(found["usd"] for found, _, _ in runs), sum(done["usd"] for _, done, _ in runs), 0.2)
    for figure in ("prompt_tokens", "completion_tokens"):
        assert close(sum(found[figure] for found, _, _ in runs), sum(done[figure] for _, done, _ in runs), 0.2)
        planned_reports = sum(by_stage(found, "community_reports")[figure] for found, _, _ in runs)
        assert close(planned_reports, sum(taken["community_reports"][figure] for _, _, taken in runs), 0.2)
