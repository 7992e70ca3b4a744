"""Batch APIs of providers: half the price, the same tables, nothing lost and nothing sent twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from graphrag_assets.assets.build import build_definitions
from graphrag_assets.assets.models import WAITING
from graphrag_assets.automation.instance import open_instance
from graphrag_assets.llm.batching.waiting import waiting_for_batches
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.settings_source import SettingsError
from tests.batch_server import BatchServer
from tests.pipeline.plain_runs import reconcile_plainly
from tests.pipeline.workspaces import (
    Run,
    arguments,
    assert_equal_indexes,
    copy_workspace,
    demo_texts,
    environment,
    fresh_process,
    index,
    invoke,
    log_entries,
    make_workspace,
    manifest,
    rows,
    simulated,
)

#: Enough for several questions of every stage and two levels of reports.
TEXT = demo_texts("minutes/railway-board-2032-08-11.md")["minutes/railway-board-2032-08-11.md"][:1600]
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
    return make_workspace(root, {"minutes.md": TEXT}, **settings)


def error(run: Run, code: int = 3) -> dict[str, Any]:
    assert run.code == code, (run.code, run.err[-2000:])
    found: dict[str, Any] = json.loads(run.out)["error"]
    return found


@dataclass(frozen=True)
class Indexed:
    """An index that is made once for all tests, which copy it where they change it.

    Args:
        root: Its workspace.
        llm: What the command reported of its calls.
        batches: Batches that the provider got.
        sent: Questions in them.
        direct_calls: Questions that were asked by ordinary calls.
    """

    root: Path
    llm: dict[str, Any]
    batches: int
    sent: list[str]
    direct_calls: int


def indexed(folder: Path, server: BatchServer, batch: Any, *options: str) -> Indexed:
    server.llmsim.reset()
    server.reset()
    root = workspace(folder, server, batch)
    llm = invoke("index", "--root", root, "--json", *options).json["llm"]
    return Indexed(root, llm, len(server.batches), server.sent, server.direct_calls)


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory, one_batch_server: BatchServer) -> Indexed:
    """The index as ordinary calls make it: what all others must be equal to."""
    return indexed(tmp_path_factory.mktemp("direct"), one_batch_server, None)


@pytest.fixture(scope="module")
def waited(tmp_path_factory: pytest.TempPathFactory, one_batch_server: BatchServer) -> Indexed:
    """The same by one command that waits for its batches."""
    return indexed(tmp_path_factory.mktemp("waited"), one_batch_server, BATCH, "--wait-for-batches")


def reconciled(root: Path) -> bool:
    """Reconcile without Dagster; returns whether all was there, else it ended since it waits for batches."""
    try:
        reconcile_plainly(root)
    except dg.Failure as failure:
        if WAITING not in failure.metadata:
            raise
        return False
    return True


def test_one_command_that_waits_gives_the_tables_of_direct_calls(direct: Indexed, waited: Indexed) -> None:
    assert_equal_indexes(direct.root, waited.root)
    assert direct.batches == 0
    assert waited.batches > 3
    assert len(set(waited.sent)) == len(waited.sent), "no question was sent twice"
    assert waited.direct_calls < len(waited.sent) / 4
    assert waited.llm["usd"] < direct.llm["usd"] * 0.65


def test_runs_that_end_and_come_back_give_the_same_tables(
    tmp_path: Path, batch_server: BatchServer, direct: Indexed
) -> None:
    root = workspace(tmp_path, batch_server)
    runs = 1
    while not reconciled(root):
        assert not log_entries(root), "nothing is published before it is whole"
        batch_server.finish()
        runs += 1
        assert runs < 60
    assert runs > 3
    assert_equal_indexes(direct.root, root)
    assert len(set(batch_server.sent)) == len(batch_server.sent), "no question was sent twice"
    assert not batch_server.files, "no text of a document stays at the provider"


def test_status_and_the_message_tell_what_is_waited_for(tmp_path: Path, batch_server: BatchServer) -> None:
    root = workspace(tmp_path, batch_server)
    run = invoke("index", "--root", root, "--json")
    told = error(run)
    assert told["type"] == "waiting"
    assert "run the command again to go on with the answers" in told["message"]
    assert "Traceback" not in run.err
    stages = {stage for batch in told["batches"] for stage in batch["stages"]}
    assert stages == {"extract_graph", "extract_claims", "text_unit_embeddings"}, "all that can be asked is under way"
    status = invoke("status", "--root", root, "--json").json
    assert status["provider_batches"] == told["batches"]
    assert "Waiting for batches of providers: 2" in invoke("status", "--root", root).out
    text = invoke("index", "--root", root)
    assert text.code == 3
    assert len(batch_server.batches) == 2, "what is under way is not sent again"


def test_the_published_snapshot_stays(tmp_path: Path, batch_server: BatchServer) -> None:
    root = workspace(tmp_path, batch_server)
    with waiting_for_batches():
        published = reconcile_plainly(root).snapshot
    texts = [f"Edda Lindrow met Tobin Ashe at the quarry of Skarne in May {year}. " * 9 for year in (2033, 2034, 2035)]
    for number, text in enumerate(texts):
        (root / "input" / f"new-{number}.txt").write_text(text)
    assert error(invoke("index", "--root", root, "--json"))["type"] == "waiting"
    assert manifest(root).id == published
    with waiting_for_batches():
        assert reconcile_plainly(root).snapshot != published
    assert invoke("status", "--root", root, "--json").json["provider_batches"] == []


def test_calls_of_batches_are_marked_and_cost_half(waited: Indexed) -> None:
    query = "select batched, count(*) as calls, sum(usd) as usd, sum(prompt_tokens) as prompt, "
    query += "sum(completion_tokens) as completion from calls where not cached and status = 'ok' group by all"
    told = json.loads(invoke("sql", query, "--root", waited.root, "--format", "json").out)
    listed = [dict(zip(told["columns"], row, strict=True)) for row in told["rows"]]
    found = {row["batched"]: row for row in listed}
    assert found[True]["calls"] > 5 * found.get(False, {"calls": 0})["calls"]
    full = found[True]["prompt"] * 1e-6 + found[True]["completion"] * 4e-6
    assert found[True]["usd"] == pytest.approx(full / 2, rel=1e-3)
    assert sum(row["usd"] for row in found.values()) == pytest.approx(waited.llm["usd"], rel=1e-3)


def test_a_plan_tells_the_price_of_batches(tmp_path: Path, batch_server: BatchServer) -> None:
    ordinary = workspace(tmp_path / "direct", batch_server, batch=None)
    root = workspace(tmp_path / "batch", batch_server)
    full, half = (invoke("plan", "--root", place, "--json").json for place in (ordinary, root))
    assert half["seconds_estimated"] is None
    assert any("batches of the provider" in note for note in half["notes"])
    for one, other in zip(full["stages"], half["stages"], strict=True):
        assert one["prompt_tokens"] == other["prompt_tokens"]
        if other["by_batch"]:
            assert other["usd"] == pytest.approx(one["usd"] / 2)
    assert {s["stage"] for s in half["stages"] if s["by_batch"]} >= {"extract_graph", "text_unit_embeddings"}
    assert "not known, since the provider answers in batches" in invoke("plan", "--root", root).out
    invoke("index", "--root", root)
    later = invoke("plan", "--root", root, "--json").json
    assert any("are under way already" in note for note in later["notes"])
    assert len(batch_server.batches) == 2, "a plan sends nothing"


def test_a_budget_ends_and_goes_on(tmp_path: Path, batch_server: BatchServer, direct: Indexed) -> None:
    root = workspace(tmp_path, batch_server)
    told = error(invoke("index", "--root", root, "--json", "--budget", 0, "--wait-for-batches"), 1)
    assert told["type"] == "budget"
    assert batch_server.batches == {}
    spent, runs = 0.0, 0
    while True:
        run = invoke("index", "--root", root, "--json", "--budget", 0.3, "--wait-for-batches")
        runs += 1
        if run.code == 0:
            break
        told = error(run, 1)
        assert (told["type"], told["spent_usd"] <= 0.3) == ("budget", True)
        spent += told["spent_usd"]
        assert runs < 30
    assert_equal_indexes(direct.root, root)
    assert len(set(batch_server.sent)) == len(batch_server.sent)


@pytest.mark.parametrize(
    "end",
    [
        "expired",
        pytest.param("cancelled", marks=pytest.mark.slow),
        pytest.param("failed:token_limit_exceeded:too much is queued", marks=pytest.mark.slow),
    ],
)
def test_whatever_becomes_of_batches_the_tables_are_the_same(
    tmp_path: Path, batch_server: BatchServer, direct: Indexed, end: str
) -> None:
    root = workspace(tmp_path, batch_server)
    batch_server.ends = [end, "completed"] * 4

    def spoil(output: list[bytes], errors: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        return [b"damaged", *reversed(output[1:])], errors

    batch_server.spoil = spoil
    batch_server.refusals = {"POST /files": [500, 429], "POST /batches": [503, 0, 429], "GET /batches": [500, 500]}
    with waiting_for_batches():
        reconcile_plainly(root)
    assert_equal_indexes(direct.root, root)


def start(root: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [*arguments("index", "--root", root), *options]
    return subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


@pytest.mark.parametrize(
    "kind",
    [
        "POST /batches",
        pytest.param("GET /files", marks=pytest.mark.slow),
        pytest.param("DELETE /files", marks=pytest.mark.slow),
    ],
)
def test_a_kill_at_any_step_loses_nothing_and_sends_nothing_twice(
    tmp_path: Path, batch_server: BatchServer, direct: Indexed, kind: str
) -> None:
    root = workspace(tmp_path, batch_server)
    reached = []

    def stop_there(found: str) -> None:
        if found == kind and not reached:
            reached.append(found)
            batch_server.refusals.setdefault(kind, []).append(0)  # the next one is carried out, and nobody hears of it

    batch_server.before = stop_there
    process = start(root, "--wait-for-batches")
    deadline = time.monotonic() + 120
    while sum(r.startswith(kind) for r in batch_server.requests) < 2 and time.monotonic() < deadline:
        time.sleep(0.002)
        if process.poll() is not None:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert reached
    batch_server.before = lambda found: None
    batch_server.refusals.clear()
    with waiting_for_batches():
        reconcile_plainly(root)
    assert_equal_indexes(direct.root, root)
    assert len(set(batch_server.sent)) == len(batch_server.sent), "no question was sent twice"


@pytest.mark.slow
def test_two_commands_at_once(tmp_path: Path, batch_server: BatchServer) -> None:
    """One works on the index; two indexes that share a cache send what both need once."""
    one = workspace(tmp_path / "one", batch_server, cache={"path": str(tmp_path / "cache" / "llm.sqlite")})
    two = workspace(tmp_path / "two", batch_server, cache={"path": str(tmp_path / "cache" / "llm.sqlite")})
    processes = [start(one, "--wait-for-batches"), start(two, "--wait-for-batches")]
    assert [process.wait(timeout=240) for process in processes] == [0, 0]
    assert_equal_indexes(one, two)
    assert len(set(batch_server.sent)) == len(batch_server.sent), "no question was sent twice"


# -- Dagster -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def daemon_root(tmp_path: Path, batch_server: BatchServer) -> Iterator[Path]:
    root = workspace(tmp_path, batch_server)
    with fresh_process():
        yield root


def test_the_sensor_goes_on_until_the_index_is_published(daemon_root: Path, batch_server: BatchServer) -> None:
    space = load_workspace(daemon_root)
    definitions = build_definitions(space)
    sensor = definitions.resolve_sensor_def("watch_batches")
    assert sensor.default_status == dg.DefaultSensorStatus.STOPPED
    job = definitions.resolve_job_def("reconcile")
    batch_server.moving = False

    def tick(instance: dg.DagsterInstance) -> dg.SensorResult:
        result = sensor(dg.build_sensor_context(instance=instance, repository_def=definitions.get_repository_def()))
        assert isinstance(result, dg.SensorResult)
        return result

    with open_instance(space) as instance:
        assert "no batch is under way" in str(tick(instance).skip_reason)
        assert job.execute_in_process(instance=instance).success, "a run that waits has not failed"
        for _ in range(60):
            result = tick(instance)
            if not result.run_requests:
                assert "questions of" in str(result.skip_reason)
                batch_server.finish()
                (request,) = tick(instance).run_requests or ()
                assert job.execute_in_process(instance=instance, tags=request.tags).success
            if log_entries(daemon_root):
                break
        assert log_entries(daemon_root)
        assert rows(daemon_root, "community_reports")
        assert "no batch is under way" in str(tick(instance).skip_reason)


def test_settings(tmp_path: Path, batch_server: BatchServer) -> None:
    root = workspace(tmp_path, batch_server, batch=True)
    with fresh_process():
        entry = load_workspace(root).settings.completion_models["default_completion_model"]
    assert entry.batch_api is not None
    assert entry.batch_api.price == 0.5
    workspace(tmp_path, batch_server, batch=True, cache={"enabled": False})
    with fresh_process(), pytest.raises(SettingsError, match=r"batch_api.*needs cache\.enabled"):
        load_workspace(root)


def test_switching_batches_on_or_off_makes_nothing_stale(
    tmp_path: Path, batch_server: BatchServer, waited: Indexed
) -> None:
    root = workspace(copy_workspace(waited.root, tmp_path / "copy"), batch_server, batch=None)
    report = index(root)
    assert (report["new_snapshot"], report["llm"]["calls"]) == (False, 0)
