"""Sensor, schedules and the job reconcile on a real Dagster instance, with the input on a disk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from graphrag_assets.assets.build import build_definitions
from graphrag_assets.automation.alerts import shown
from graphrag_assets.automation.instance import open_instance
from graphrag_assets.automation.jobs import RECONCILE_TAG
from graphrag_assets.automation.sensors import CHANGE_TAG
from graphrag_assets.settings_file import SettingsError, load_workspace
from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.lease import Lease
from graphrag_assets.storage.snapshots import SnapshotStore
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import FIVE_DOCUMENTS, demo_texts, fresh_process, make_workspace, simulated

FAST = {"method": "fast", "extract_graph_nlp": {"processes": 1}, "batches": {"max_documents": 2}}


@dataclass
class Daemon:
    """What the daemon does, step by step: evaluate the sensor, drop requests whose key is known, run the others."""

    root: Path
    definitions: dg.Definitions
    instance: dg.DagsterInstance
    cursor: str | None = None
    health: str | None = None

    def tick(self) -> dg.SensorResult:
        result = self._evaluate("watch_input", self.cursor)
        self.cursor = result.cursor
        return result

    def _evaluate(self, name: str, cursor: str | None) -> dg.SensorResult:
        context = dg.build_sensor_context(
            instance=self.instance, cursor=cursor, repository_def=self.definitions.get_repository_def()
        )
        result = self.definitions.resolve_sensor_def(name)(context)
        assert isinstance(result, dg.SensorResult)
        return result

    def alerts(self) -> dict[str, tuple[bool, str]]:
        result = self._evaluate("watch_health", self.health)
        self.health = result.cursor
        found = {}
        for event in result.asset_events:
            assert isinstance(event, dg.AssetCheckEvaluation)
            found[event.check_name] = (event.passed, event.description or "")
            self.instance.report_runless_asset_event(event)
        return found

    def runs(self, request: dg.RunRequest) -> list[dg.DagsterRun]:
        return self.instance.get_runs(dg.RunsFilter(tags={"dagster/run_key": request.run_key or ""}))

    def run(self, request: dg.RunRequest) -> dg.DagsterRun | None:
        """Run what the sensor asked for, unless a run of its key was made before."""
        if self.runs(request):
            return None
        done = self.definitions.resolve_job_def("reconcile").execute_in_process(
            instance=self.instance,
            tags={**request.tags, "dagster/run_key": request.run_key or ""},
            run_config=request.run_config,
            raise_on_error=False,
        )
        return self.instance.get_run_by_id(done.run_id)

    def until_rest(self) -> list[dg.DagsterRun]:
        """Tick and run until the sensor has nothing to do and nothing to wait for."""
        made: list[dg.DagsterRun] = []
        for _ in range(10):
            result = self.tick()
            for request in result.run_requests or []:
                if run := self.run(request):
                    made.append(run)
            if result.skip_reason and "index is up to date" in str(result.skip_reason.skip_message):
                return made
        raise AssertionError(f"no rest: {result}")

    def published(self) -> str | None:
        return SnapshotStore(open_filesystem(str(self.root / "output"))).head()[1]


def settle(root: Path) -> None:
    """Let the last changes of the input be a while ago."""
    for file in (root / "input").rglob("*"):
        if file.is_file() and file.stat().st_mtime > time.time() - 60:
            os.utime(file, (time.time() - 100 - file.stat().st_size % 50,) * 2)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with fresh_process():
        root = make_workspace(tmp_path / "work", demo_texts(*FIVE_DOCUMENTS[:3]), **FAST)
        settle(root)
        workspace = load_workspace(root)
        with open_instance(workspace) as instance:
            yield Daemon(root, build_definitions(workspace), instance)


def reason(result: dg.SensorResult) -> str:
    assert result.skip_reason is not None, result
    return str(result.skip_reason.skip_message)


def test_one_change_is_one_run(daemon: Daemon) -> None:
    """First all that is there, then a dropped file; the materializations are those of the batches that it concerns."""
    assert "files: 3 new; waiting" in reason(daemon.tick())
    before = daemon.cursor
    first = daemon.tick()
    daemon.cursor = before  # a second daemon, or one that was killed before it wrote the cursor
    second = daemon.tick()
    assert first.run_requests is not None
    assert second.run_requests is not None
    assert [r.run_key for r in first.run_requests] == [r.run_key for r in second.run_requests]
    run = daemon.run(first.run_requests[0])
    assert run is not None
    assert run.status == dg.DagsterRunStatus.SUCCESS
    assert daemon.run(second.run_requests[0]) is None
    published = daemon.published()
    assert published is not None
    assert "up to date" in reason(daemon.tick())
    inner = daemon.instance.get_runs(dg.RunsFilter(tags={RECONCILE_TAG: run.run_id}))
    assert len(inner) == 3
    assert daemon.instance.get_materialized_partitions(dg.AssetKey("text_units")) == {"batch-000001", "batch-000002"}

    (daemon.root / "input" / "more.txt").write_text("The Ferryman Ottokar met Amaranth Quill at the Lantern Bridge.")
    assert "(1 changed within that time)" in reason(daemon.tick())
    assert daemon.published() == published
    settle(daemon.root)
    (run,) = daemon.until_rest()
    assert run.status == dg.DagsterRunStatus.SUCCESS
    assert daemon.published() != published
    inner = daemon.instance.get_runs(dg.RunsFilter(tags={RECONCILE_TAG: run.run_id}))
    event = daemon.instance.get_latest_materialization_event(dg.AssetKey("documents"))
    assert event is not None
    assert event.run_id in {r.run_id for r in inner}
    assert event.asset_materialization is not None
    assert event.asset_materialization.partition == "batch-000002"

    (daemon.root / "input" / "more.txt").unlink()
    published = daemon.published()
    (run,) = daemon.until_rest()
    assert run.status == dg.DagsterRunStatus.SUCCESS
    assert daemon.published() != published


def test_while_another_works_the_sensor_skips(daemon: Daemon) -> None:
    storage = open_filesystem(str(daemon.root / "output"))
    lease = Lease(storage, "graphrag-assets index", 60)
    lease.acquire()
    told = reason(daemon.tick())
    assert told.startswith("skipped: the index is being worked on by graphrag-assets index (process ")
    assert not daemon.cursor
    lease.release()
    assert "waiting" in reason(daemon.tick())
    run = daemon.instance.create_run_for_job(
        daemon.definitions.resolve_job_def("reconcile"), status=dg.DagsterRunStatus.STARTED
    )
    assert reason(daemon.tick()) == f"skipped: run {run.run_id} of the job reconcile is started"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_that_failed_is_tried_again(tmp_path: Path, llmsim: LlmSim) -> None:
    """The model does not answer, then it does: back-off between the runs, and nothing is paid twice."""
    retrying = {"retry_seconds": 0.01, "retries": 2, "settle_seconds": 0}
    with fresh_process():
        settings = simulated(llmsim, automation=retrying, chunking={"size": 200, "overlap": 0})
        settings["completion_models"]["default_completion_model"]["api_key"] = "sk-wrong"
        settings["completion_models"]["default_completion_model"]["api_base"] = "http://127.0.0.1:9"
        settings["completion_models"]["default_completion_model"]["retry"]["max_retries"] = 0
        root = make_workspace(tmp_path / "work", demo_texts(FIVE_DOCUMENTS[0]), **settings)
        workspace = load_workspace(root)
        with open_instance(workspace) as instance:
            daemon = Daemon(root, build_definitions(workspace), instance)
            failed: list[Any] = []
            for _ in range(12):
                result = daemon.tick()
                for request in result.run_requests or []:
                    run = daemon.run(request)
                    assert run is not None
                    assert run.status == dg.DagsterRunStatus.FAILURE
                    failed.append(run)
                time.sleep(0.05)
            assert 1 + 2 < len(failed) <= 2 * (1 + 2), "for the files, then for what the first run left"
            assert "runs were made, and run" in reason(result)
            assert "failed: waiting for a change" in reason(result)
            assert len({run.tags[CHANGE_TAG] for run in failed}) == len(failed)
    # The settings are mended; the sensor reads them anew, and takes that for the change it waits for.
    good = simulated(llmsim, automation=retrying, chunking={"size": 200, "overlap": 0})
    make_workspace(root, {}, **good)
    with fresh_process():
        workspace = load_workspace(root)
        with open_instance(workspace) as instance:
            daemon = Daemon(root, build_definitions(workspace), instance, daemon.cursor)
            (run,) = daemon.until_rest()
            assert run.status == dg.DagsterRunStatus.SUCCESS
            assert daemon.published() is not None


def test_alerts_between_publications(daemon: Daemon) -> None:
    assert daemon.alerts() == {"input_is_published": (True, ""), "nothing_failed": (True, "")}
    daemon.until_rest()
    assert daemon.alerts() == {}, "it says so only when something changed"
    file = daemon.root / "input" / "late.txt"
    file.write_text("The Ferryman Ottokar.")
    make_workspace(daemon.root, {}, **FAST, automation={"stale_hours": 0.0001})
    daemon.alerts()
    time.sleep(0.5)
    passed, told = daemon.alerts()["input_is_published"]
    assert not passed
    assert told.startswith("files: 1 new, since ")
    assert f"answers come from snapshot {daemon.published()}" in told
    file.unlink()
    assert daemon.alerts() == {"input_is_published": (True, ""), "nothing_failed": (True, "")}


def page(instance: dg.DagsterInstance) -> dict[str, str]:
    """What the page of index_snapshot shows of the alerts."""
    keys = [dg.AssetCheckKey(dg.AssetKey("index_snapshot"), name) for name in ("input_is_published", "nothing_failed")]
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return {key.name: record.status.value for key, record in found.items() if record is not None}


def test_a_run_that_failed_leaves_no_alert_that_is_not_true(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says at once what is the matter with what is published: nothing; and later, that a change waits too long."""
    daemon.until_rest()
    daemon.alerts()
    well = {"input_is_published": "SUCCEEDED", "nothing_failed": "SUCCEEDED"}
    assert page(daemon.instance) == well
    (daemon.root / "input" / "more.txt").write_text("The Ferryman Ottokar met Amaranth Quill at the Lantern Bridge.")
    settle(daemon.root)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the disk is on fire")

    with monkeypatch.context() as patch:
        patch.setattr("graphrag_assets.assets.graph.merge_graph", broken)
        daemon.tick()
        (request,) = daemon.tick().run_requests or []
        run = daemon.run(request)
        assert run is not None
        assert run.status == dg.DagsterRunStatus.FAILURE
        assert page(daemon.instance) == well, "the run came to no check of the snapshot: nothing is wrong with that"
        assert daemon.alerts() == {}, "the sensor has nothing to mend"
        # By hand, in a run that is no reconcile: the sensor mends it at its next look.
        job = daemon.definitions.resolve_job_def("build_graph")
        assert not job.execute_in_process(instance=daemon.instance, raise_on_error=False).success
        assert page(daemon.instance) != well
        assert daemon.alerts() == {"input_is_published": (True, ""), "nothing_failed": (True, "")}
        make_workspace(daemon.root, {}, **FAST, automation={"stale_hours": 0.0001})
        time.sleep(0.5)
        (passed, told) = daemon.alerts()["input_is_published"]
        assert not passed
        assert told.startswith("no file changed since the last look at the input, but the stages graph, covariates, ")


@pytest.mark.parametrize("who", ["sensor", "reconcile"])
def test_a_run_that_was_killed_after_it_published(daemon: Daemon, who: str) -> None:
    """Its alerts were evaluated for the snapshot before: the sensor, or the next reconcile, says them of this one."""
    daemon.until_rest()
    daemon.instance.report_runless_asset_event(dg.AssetMaterialization("index_snapshot"))
    assert set(shown(daemon.instance).values()) == {None}
    if who == "sensor":
        daemon.alerts()
    else:
        job = daemon.definitions.resolve_job_def("reconcile")
        assert job.execute_in_process(instance=daemon.instance).success
    assert shown(daemon.instance) == {"input_is_published": True, "nothing_failed": True}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_upkeep(daemon: Daemon) -> None:
    """The weekly schedule's job: communities afresh, and old snapshots go."""
    daemon.until_rest()
    for text in ("One more text by Amaranth Quill.", "Another text by Amaranth Quill."):
        (daemon.root / "input" / "more.txt").write_text(text)
        settle(daemon.root)
        daemon.until_rest()
    store = SnapshotStore(open_filesystem(str(daemon.root / "output")))
    assert len(store.all()) == 3
    make_workspace(daemon.root, {}, **FAST, automation={"keep_snapshots": 1, "keep_days": 0})
    with fresh_process():
        definitions = build_definitions(load_workspace(daemon.root))
        schedule = definitions.resolve_schedule_def("weekly")
        context = dg.build_schedule_context(instance=daemon.instance, repository_def=definitions.get_repository_def())
        (request,) = schedule.evaluate_tick(context).run_requests or []
        done = definitions.resolve_job_def("upkeep").execute_in_process(
            instance=daemon.instance, run_config=request.run_config
        )
    assert done.success
    assert [manifest.id for manifest in store.all()] == [daemon.published()]
    inner = daemon.instance.get_runs(dg.RunsFilter(tags={RECONCILE_TAG: done.run_id}))
    made = {key.path[-1] for run in inner for key in run.asset_selection or ()}
    assert "communities" in made


def test_off_unless_asked_for(daemon: Daemon) -> None:
    """What spends money or deletes waits to be switched on; the alerts cost nothing."""
    on = {s.name for s in daemon.definitions.sensors or () if s.default_status == dg.DefaultSensorStatus.RUNNING}
    assert on == {"watch_health"}
    assert all(s.default_status == dg.DefaultScheduleStatus.STOPPED for s in daemon.definitions.schedules or ())
    every = {"watch_input": True, "watch_batches": True, "nightly": True, "weekly": True, "timezone": "Europe/Berlin"}
    make_workspace(daemon.root, {}, **FAST, automation=every)
    with fresh_process():
        definitions = build_definitions(load_workspace(daemon.root))
    assert all(s.default_status == dg.DefaultSensorStatus.RUNNING for s in definitions.sensors or ())
    assert all(s.default_status == dg.DefaultScheduleStatus.RUNNING for s in definitions.schedules or ())
    assert all(s.description for s in [*(definitions.sensors or ()), *(definitions.schedules or ())])
    make_workspace(daemon.root, {}, **FAST, automation={"nightly_cron": "at night"})
    with fresh_process(), pytest.raises(SettingsError, match=r"automation.nightly_cron 'at night'"):
        build_definitions(load_workspace(daemon.root))
