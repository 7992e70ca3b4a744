"""The Dagster instance of a workspace: its runs and materializations live in the hidden folder .dagster of the root."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from graphrag_assets.settings import Workspace

if TYPE_CHECKING:
    import dagster as dg

TEMPLATE = Path(__file__).parent.parent / "cli" / "templates" / "dagster.yaml"


def dagster_home(workspace: Workspace) -> Path:
    """Folder of the Dagster instance: DAGSTER_HOME where it is set, else .dagster below the root.

    dagster.yaml is taken from the root (else from the template), so that people edit one file they can see.
    """
    if home := os.environ.get("DAGSTER_HOME"):
        return Path(home)
    home_path = workspace.root / ".dagster"
    home_path.mkdir(parents=True, exist_ok=True)
    own = workspace.root / "dagster.yaml"
    source = own if own.is_file() else TEMPLATE
    target = home_path / "dagster.yaml"
    if not target.is_file() or target.read_bytes() != source.read_bytes():
        shutil.copyfile(source, target)
    return home_path


def has_history(workspace: Workspace) -> bool:
    """Whether the Dagster instance of a workspace has databases of its own; told without opening it, which costs seconds.

    An instance whose databases are elsewhere, as PostgreSQL, has none of its own.
    """
    home = os.environ.get("DAGSTER_HOME") or workspace.root / ".dagster"
    return (Path(home) / "history").is_dir()


def _relax_sqlite() -> None:
    """Do not wait for the disk at each of the hundreds of events that Dagster records in a run.

    With write-ahead logging SQLite stays consistent, whatever happens; a power cut may lose the last events of a run's
    history. The index itself is written with its own flushes.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    if not event.contains(Engine, "connect", _normal_synchronous):
        event.listen(Engine, "connect", _normal_synchronous)


def _normal_synchronous(connection: Any, _record: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("pragma synchronous = normal")


#: No capture of what steps print: a command shows it itself, and the processes that copy it would outlive a signal.
_NO_CAPTURE = {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}


def open_instance(workspace: Workspace) -> dg.DagsterInstance:
    """Open the Dagster instance of a workspace for runs of this process, creating its databases where there are none.

    What the steps of these runs print is not captured, unless dagster.yaml says how.
    """
    import dagster as dg
    from dagster._core.instance.ref import InstanceRef

    _relax_sqlite()
    home = dagster_home(workspace)
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    config = home / "dagster.yaml"
    own = yaml.safe_load(config.read_text(encoding="utf-8")) if config.is_file() else None
    overrides: dict[str, Any] = {} if own and "compute_logs" in own else {"compute_logs": _NO_CAPTURE}
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home), overrides=overrides))
