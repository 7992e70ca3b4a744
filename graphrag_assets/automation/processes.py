"""Runs whose process died.

Dagster learns that a run ended from the run itself. A run of a command that was killed stays "started", and keeps its
place in the pools: the next run would wait for it for ever. So each process that runs the index holds a lock on a file
of its own, which the operating system opens whatever way the process ends, and each run names that file in a tag.
"""

from __future__ import annotations

import fcntl
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg

#: Tag of a run: name of the lock file of the process that executes it.
PROCESS_TAG = "graphrag/process"

FOLDER = "processes"


@contextmanager
def running(home: Path) -> Iterator[str]:
    """Hold the lock of this process.

    Args:
        home: Folder of the Dagster instance.

    Yields:
        Value of the tag for the runs of this process.
    """
    folder = home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    name = uuid.uuid4().hex
    with open(folder / name, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield name


def _is_dead(lock: Path) -> bool:
    """Whether nobody holds a lock any more; False where there is no such file, as for a process of another host."""
    try:
        with open(lock) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        return False
    return True


def end_dead_runs(instance: dg.DagsterInstance, home: Path) -> list[str]:
    """Mark runs as failed whose process died, and give their places in the pools to others.

    Args:
        instance: Where runs are recorded.
        home: Folder of the Dagster instance.

    Returns:
        Ids of the runs.
    """
    dead = {lock.name for lock in sorted((home / FOLDER).glob("*")) if _is_dead(lock)}
    if not dead:
        return []
    ended = end_runs(instance, dead, "the process of this run died; what it had not finished is computed again")
    for name in dead:
        (home / FOLDER / name).unlink(missing_ok=True)
    return ended


def end_runs(instance: dg.DagsterInstance, processes: Collection[str], message: str) -> list[str]:
    """Mark the unfinished runs of processes as failed, and give their places in the pools to others.

    Args:
        instance: Where runs are recorded.
        processes: Tags of the processes.
        message: Why.

    Returns:
        Ids of the runs.
    """
    import dagster as dg

    unfinished = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.NOT_STARTED]
    runs = instance.get_runs(dg.RunsFilter(statuses=unfinished, tags={PROCESS_TAG: sorted(processes)}))
    for run in runs:
        instance.report_run_failed(run, message)
        if instance.event_log_storage.supports_global_concurrency_limits:
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return [run.run_id for run in runs]
