"""The Dagster instance of a workspace: its runs and materializations live in the hidden folder .dagster of the root."""

from __future__ import annotations

import os
import shutil
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


#: No capture of what steps print: a command shows it itself, and the processes that copy it would outlive a signal.
_NO_CAPTURE = {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}


#: Dagster's default storage, faster.
_OPEN_SQLITE = {"module": "graphrag_assets.automation.sqlite", "class": "OpenSqlite"}


def open_instance(workspace: Workspace) -> dg.DagsterInstance:
    """Open the Dagster instance of a workspace for runs of this process, creating its databases where there are none.

    Unless dagster.yaml says how, what the steps of these runs print is not captured, and the databases stay open until
    the instance is left.
    """
    import dagster as dg
    from dagster._core.instance.ref import InstanceRef

    home = dagster_home(workspace)
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    config = home / "dagster.yaml"
    own = (yaml.safe_load(config.read_text(encoding="utf-8")) if config.is_file() else None) or {}
    overrides: dict[str, Any] = {} if "compute_logs" in own else {"compute_logs": _NO_CAPTURE}
    if not any("storage" in name for name in own):
        overrides["storage"] = {"custom": _OPEN_SQLITE | {"config": {"base_dir": str(home)}}}
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home), overrides=overrides))
