"""The demo corpus by the fast method, as `make demo` indexes it: the contracts of index and query, and good answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.query import ask_sync, open_index
from graphrag_assets.settings_file import load_workspace
from tests.pipeline.workspaces import (
    DEMO,
    command,
    dagster_runs,
    fresh_process,
    invoke,
    manifest,
    published_files,
    rows,
    table,
)

pytestmark = pytest.mark.timeout(900)

LLM = {"calls", "cached", "prompt_tokens", "completion_tokens", "usd", "by_stage"}
QUESTIONS = [json.loads(line) for line in (DEMO / "questions.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The indexed demo and what the command said, run as a user runs it."""
    root = tmp_path_factory.mktemp("demo")
    shutil.copytree(DEMO / "input", root / "input")
    run = command("index", "--root", root, "--json")
    assert run.code == 0, run.err[-3000:]
    return root, run.json


def test_report(demo: tuple[Path, dict[str, Any]]) -> None:
    root, report = demo
    keys = {"snapshot", "documents", "batches", "llm", "tables", "text_units", "reports", "seconds"}
    assert keys <= report.keys()
    assert report["documents"] == {"added": 35, "edited": 0, "deleted": 0, "unchanged": 0, "rejected": 0}
    assert report["batches"] == 1
    assert report["llm"].keys() >= LLM
    assert report["llm"]["calls"] == 0
    assert report["text_units"].keys() == {"ok", "empty", "failed"}
    assert report["text_units"]["failed"] == 0
    assert sum(report["text_units"].values()) == report["tables"]["text_units"] >= 35
    assert report["reports"] == {"written": report["tables"]["community_reports"], "reused": 0}
    assert report["seconds"] > 0
    published = manifest(root)
    assert report["snapshot"] == published.id
    assert report["tables"] == {name: table(root, name).num_rows for name in published.tables}
    assert all(
        report["tables"][name] > 20 for name in ("entities", "relationships", "communities", "community_reports")
    )


def test_every_check_passed(demo: tuple[Path, dict[str, Any]]) -> None:
    """Each declared check was evaluated in the instance of the workspace, and passed."""
    import dagster as dg

    from graphrag_assets.assets.snapshot import SNAPSHOT, TABLES_CHECK
    from graphrag_assets.automation import alerts
    from graphrag_assets.automation.instance import open_instance
    from graphrag_assets.indexing.validation import CHECKS

    root, _ = demo
    with fresh_process(), open_instance(load_workspace(root)) as instance:
        events = [
            event
            for run in instance.get_runs()
            for event in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        ]
    found = {}
    for event in events:
        evaluation = event.dagster_event.event_specific_data  # type: ignore[union-attr]
        place = (evaluation.asset_key.path[-1], evaluation.check_name)
        found[place] = found.get(place, True) and evaluation.passed
    expected = {(check.asset or SNAPSHOT, check.name): True for check in CHECKS}
    expected |= {(SNAPSHOT, name): True for name in (TABLES_CHECK, alerts.FRESH, alerts.FAILED)}
    assert found == expected


def test_nothing_to_do(demo: tuple[Path, dict[str, Any]]) -> None:
    root, report = demo
    runs, files = dagster_runs(root), published_files(root)
    again = invoke("index", "--root", root, "--json").json
    assert again["documents"] == {"added": 0, "edited": 0, "deleted": 0, "unchanged": 35, "rejected": 0}
    assert (again["batches"], again["llm"]["calls"], again["reports"]["written"]) == (0, 0, 0)
    assert again["snapshot"] == report["snapshot"]
    assert again["tables"] == report["tables"]
    assert again.keys() == report.keys()
    assert dagster_runs(root) == runs
    assert published_files(root) == files


@pytest.mark.parametrize(
    ("method", "question"),
    [
        ("basic", "How many people were injured when the viaduct fell?"),
        ("local", "Who is Dr. Ilka Sérendal and what did she find?"),
        ("global", "Which disputes run through the whole story?"),
        ("drift", "Why did pier 3 fail, and who knew of the mine?"),
    ],
)
def test_query(demo: tuple[Path, dict[str, Any]], method: str, question: str) -> None:
    root, report = demo
    answer = invoke("query", question, "--root", root, "--method", method, "--json").json
    assert answer.keys() >= {
        "answer",
        "method",
        "snapshot",
        "citations",
        "dropped_citations",
        "context",
        "llm",
        "seconds",
    }
    assert answer["method"] == method
    assert answer["snapshot"] == report["snapshot"]
    assert answer["answer"].strip()
    assert answer["context"]["tokens"] > 0
    assert answer["context"]["sections"]
    assert answer["llm"].keys() >= LLM
    assert answer["seconds"]["total"] > 0
    assert answer["citations"]
    assert answer["dropped_citations"] == []
    check_citations(root, answer["citations"])
    assert all(citation["marker"] in answer["answer"] for citation in answer["citations"])


def check_citations(root: Path, citations: list[dict[str, Any]]) -> None:
    """Every citation leads to a row; those with a passage to exactly that passage of an existing document."""
    texts = {row["path"]: row["text"] for row in rows(root, "documents")}
    numbers = {
        "text_unit": {row["human_readable_id"] for row in rows(root, "text_units")},
        "entity": {row["human_readable_id"] for row in rows(root, "entities")},
        "relationship": {row["human_readable_id"] for row in rows(root, "relationships")},
        "claim": {row["human_readable_id"] for row in rows(root, "covariates")},
        "report": {row["community"] for row in rows(root, "community_reports")},
    }
    for citation in citations:
        assert citation.keys() == {"marker", "kind", "id", "title", "document", "start", "end", "quote"}
        assert citation["id"] in numbers[citation["kind"]], citation
        assert citation["title"]
        assert citation["document"] in texts, citation
        passage = texts[citation["document"]][citation["start"] : citation["end"]]
        assert passage == citation["quote"]
        assert passage.strip()


def test_query_as_a_process(demo: tuple[Path, dict[str, Any]]) -> None:
    """Standard output holds the JSON object and nothing else."""
    root, report = demo
    run = command("query", "Who built the new bridge?", "--root", root, "--method", "basic", "--json")
    assert run.json["snapshot"] == report["snapshot"]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "floor"), [("basic", 10), ("local", 9)])
def test_single_facts_are_quoted(demo: tuple[Path, dict[str, Any]], method: str, floor: int) -> None:
    """A cited passage holds the known answer; a few questions are beyond sentences put together without a model."""
    root, _ = demo
    workspace = load_workspace(root)
    asked = [q for q in QUESTIONS if q["kind"] == "single_fact"]
    assert len(asked) == 12
    missed = []
    with open_index(str(root / "output"), None, workspace) as opened:
        for question in asked:
            answer = ask_sync(opened, question["question"], method)  # type: ignore[arg-type]
            quotes = " ".join(citation.quote or "" for citation in answer.citations).lower()
            if not any(accepted.lower() in quotes for accepted in question["accept"]):
                missed.append(question["id"])
    assert len(asked) - len(missed) >= floor, f"missed: {missed}"
