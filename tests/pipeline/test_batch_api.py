"""Batch APIs of providers: half the price, the same tables, nothing lost and nothing sent twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.batch_server import BatchServer
from tests.pipeline.workspaces import (
    Run,
    assert_equal_indexes,
    demo_texts,
    index,
    invoke,
    log_entries,
    make_workspace,
    simulated,
)

TEXTS = ("minutes/railway-board-2032-08-11.md", "notes/interview-edda-lindrow.md")
BATCH = {"min_requests": 2, "poll_seconds": 0.05}
PRICES = {"input_per_million": 1.0, "output_per_million": 4.0}


def workspace(root: Path, server: BatchServer, batch: Any = BATCH, **sections: Any) -> Path:
    """A workspace whose two models have a batch API."""
    settings = simulated(
        server.llmsim,
        **{
            "chunking": {"size": 100, "overlap": 0},
            "concurrent_requests": 8,
            "extract_claims": {"enabled": True},
            **sections,
        },
    )
    for models in (settings["completion_models"], settings["embedding_models"]):
        for entry in models.values():
            entry |= {"api_base": server.base, "prices": PRICES}
            if batch:
                entry["batch_api"] = batch
    return make_workspace(root, demo_texts(*TEXTS), **settings)


def error(run: Run, code: int = 3) -> dict[str, Any]:
    assert run.code == code, (run.code, run.err[-2000:])
    found: dict[str, Any] = json.loads(run.out)["error"]
    return found


def index_to_the_end(root: Path, server: BatchServer, most: int = 60) -> tuple[dict[str, Any], int]:
    """Run index again and again, as a sensor or a person does; returns its last report and the number of runs."""
    for number in range(1, most):
        run = invoke("index", "--root", root, "--json")
        if run.code == 0:
            return run.json, number
        assert error(run)["type"] == "waiting"
        assert not log_entries(root), "nothing is published before it is whole"
        server.finish()
    raise AssertionError(f"not done after {most} runs")


def test_one_command_that_waits_gives_the_tables_of_direct_calls(tmp_path: Path, batch_server: BatchServer) -> None:
    direct = workspace(tmp_path / "direct", batch_server, batch=None)
    told = index(direct)["llm"]
    batch_server.direct_calls = 0
    root = workspace(tmp_path / "batch", batch_server)
    run = invoke("index", "--root", root, "--json", "--wait-for-batches")
    in_batches = run.json["llm"]
    assert_equal_indexes(direct, root)
    assert len(batch_server.batches) > 3
    assert len(set(batch_server.sent)) == len(batch_server.sent), "no question was sent twice"
    assert batch_server.direct_calls < len(batch_server.sent) / 4
    assert in_batches["usd"] < told["usd"] * 0.65


def test_runs_that_end_and_come_back_give_the_same_tables(tmp_path: Path, batch_server: BatchServer) -> None:
    direct = workspace(tmp_path / "direct", batch_server, batch=None)
    index(direct)
    root = workspace(tmp_path / "batch", batch_server)
    _, runs = index_to_the_end(root, batch_server)
    assert runs > 3
    assert_equal_indexes(direct, root)
    assert len(set(batch_server.sent)) == len(batch_server.sent), "no question was sent twice"
    assert not batch_server.files, "no text of a document stays at the provider"
