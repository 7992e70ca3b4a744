"""The history of runs, written with databases that stay open, is what Dagster's own classes write and read."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import dagster as dg
import pytest

from graphrag_assets.automation import sqlite
from graphrag_assets.automation.instance import open_instance, opened
from graphrag_assets.automation.sqlite import MOST_OPEN, OpenEvents
from graphrag_assets.settings_file import load_workspace
from tests.pipeline.workspaces import environment, fresh_process, make_workspace


@dg.asset
def table() -> int:
    """Something to materialize."""
    return 1


@dg.asset_check(asset=table)
def well() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


def materialize(instance: dg.DagsterInstance) -> str:
    definitions = dg.Definitions(assets=[table], asset_checks=[well], resources={"io_manager": dg.mem_io_manager})
    done = definitions.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
    assert done.success
    return done.run_id


def told(instance: dg.DagsterInstance, run_id: str) -> list[tuple[int, str]]:
    """The events of a run, in their order."""
    records = instance.get_records_for_run(run_id).records
    return [
        (r.storage_id, r.event_log_entry.dagster_event_type.value) for r in records if r.event_log_entry.dagster_event
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work", {"a.txt": "Edda Lindrow."}, method="fast")


def plain(root: Path) -> dg.DagsterInstance:
    """The instance as the UI and the daemon open it."""
    return dg.DagsterInstance.from_config(str(root / ".dagster"))


def test_dagsters_own_classes_read_it(root: Path) -> None:
    with fresh_process(), open_instance(load_workspace(root)) as instance:
        assert isinstance(instance.event_log_storage, OpenEvents)
        runs = [materialize(instance) for _ in range(MOST_OPEN + 2)]
        written = {run: told(instance, run) for run in runs}
        with plain(root) as other:  # while the databases are open
            assert {run: told(other, run) for run in runs} == written
            own = materialize(other)
        assert told(instance, own) == told(instance, runs[0]), "and the other way round"
    with plain(root) as other:
        assert {run: told(other, run) for run in runs} == written
        assert {run.run_id for run in other.get_runs()} == {*runs, own}
        assert len(other.fetch_materializations(table.key, limit=100).records) == len(runs) + 1
        (record,) = other.event_log_storage.get_latest_asset_check_execution_by_key([well.check_key]).values()
        assert record is not None
        assert record.status.value == "SUCCEEDED"
    assert not [f for f in (root / ".dagster" / "history" / "runs").iterdir() if f.suffix not in (".db", "")]


def test_no_database_is_open_once_the_instance_is_left(root: Path) -> None:
    def held() -> Counter[str]:
        found: Counter[str] = Counter()
        for entry in Path("/proc/self/fd").iterdir():
            try:
                target = os.readlink(entry)
            except OSError:
                continue
            if target.startswith(str(root)) and target.endswith(".db"):
                found[Path(target).stem] += 1
        return found

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("this system does not list open files")
    with fresh_process(), open_instance(load_workspace(root)) as instance:
        for _ in range(MOST_OPEN + 3):
            materialize(instance)
        assert 2 <= len(held()) <= MOST_OPEN + 1, "of the index, of some runs, and the table of runs"
    assert not held()


def test_a_power_cut_is_no_reason_to_wait(root: Path) -> None:
    with fresh_process(), open_instance(load_workspace(root)) as instance:
        for storage in (instance.event_log_storage.index_connection(), instance.run_storage.connect()):
            with storage as connection:
                assert connection.exec_driver_sql("pragma synchronous").scalar() == 1
                assert connection.exec_driver_sql("pragma journal_mode").scalar() == "wal"


def test_processes_write_at_once(root: Path) -> None:
    with fresh_process(), open_instance(load_workspace(root)) as instance:
        script = (
            "import sys; from pathlib import Path; from tests.unit.test_sqlite import *\n"
            "with open_instance(load_workspace(Path(sys.argv[1]))) as i: print([materialize(i) for _ in range(6)][-1])"
        )
        others = [
            subprocess.Popen([sys.executable, "-c", script, str(root)], stdout=-1, env=environment()) for _ in range(2)
        ]
        mine = [materialize(instance) for _ in range(6)]
        theirs = [other.communicate()[0].decode().split()[-1] for other in others]
        assert [other.returncode for other in others] == [0, 0]
        assert len(instance.get_runs()) == 18
        assert len({len(told(instance, run)) for run in [mine[-1], *theirs]}) == 1


def test_the_database_of_a_run_that_another_process_made_first(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fresh_process(), open_instance(load_workspace(root)) as instance:
        first = materialize(instance)
        real = os.link

        def beaten(source: str, target: str) -> None:
            events = plain(root).event_log_storage
            with events.run_connection(Path(target).stem):  # type: ignore[attr-defined]
                pass
            real(source, target)

        monkeypatch.setattr(sqlite.os, "link", beaten)
        second = materialize(instance)
        assert told(instance, second) == told(instance, first)


def test_runs_that_a_run_makes(root: Path) -> None:
    """As the job reconcile does, whose instance Dagster opened."""
    with fresh_process():
        open_instance(load_workspace(root)).dispose()
        with plain(root) as instance, opened(instance) as another:
            assert isinstance(another.event_log_storage, OpenEvents)
            run = materialize(another)
            assert told(instance, run) == told(another, run)
            with opened(another) as same:
                assert same is another
        with dg.DagsterInstance.ephemeral() as instance, opened(instance) as same:
            assert same is instance


def test_a_storage_of_ones_own_stays(root: Path) -> None:
    """At the place that it names; and where it is none of Dagster's own, as it is."""
    (root / "dagster.yaml").write_text(f"storage: {{sqlite: {{base_dir: {root / 'elsewhere'}}}}}\n")
    with fresh_process(), open_instance(load_workspace(root)) as instance:
        materialize(instance)
    assert sqlite3.connect(root / "elsewhere" / "history" / "runs.db").execute(
        "select count(*) from runs"
    ).fetchone() == (1,)
