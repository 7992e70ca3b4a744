"""The Dagster instance of a workspace: its runs and materializations live in the hidden folder .dagster of the root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from graphrag_assets.settings import Workspace

if TYPE_CHECKING:
    import dagster as dg
    from dagster._core.instance.ref import InstanceRef

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


#: Dagster's own storage, as an instance names it.
_SQLITE = "DagsterSqliteStorage"


def _kept_open(ref: InstanceRef) -> InstanceRef:
    """An instance whose databases stay open, where it has Dagster's own ones."""
    data = ref.storage_data
    if data is None or data.class_name != _SQLITE:
        return ref
    ours = data._replace(module_name="graphrag_assets.automation.sqlite", class_name="OpenSqlite")
    return ref._replace(storage_data=ours)


def open_instance(workspace: Workspace) -> dg.DagsterInstance:
    """Open the Dagster instance of a workspace for runs of this process, creating its databases where there are none.

    What the steps of these runs print is not captured, unless dagster.yaml says how. Dagster's own databases stay open
    until the instance is left.
    """
    import dagster as dg
    from dagster._core.instance.ref import InstanceRef

    home = dagster_home(workspace)
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    config = home / "dagster.yaml"
    own = yaml.safe_load(config.read_text(encoding="utf-8")) if config.is_file() else None
    overrides: dict[str, Any] = {} if own and "compute_logs" in own else {"compute_logs": _NO_CAPTURE}
    return dg.DagsterInstance.from_ref(_kept_open(InstanceRef.from_dir(str(home), overrides=overrides)))


@contextmanager
def opened(instance: dg.DagsterInstance) -> Iterator[dg.DagsterInstance]:
    """The instance in which a run is made, for runs that this one makes itself: its databases stay open meanwhile."""
    import dagster as dg

    ref = _kept_open(instance.get_ref()) if instance.is_persistent else None
    if ref is None or ref == instance.get_ref():
        yield instance
        return
    with dg.DagsterInstance.from_ref(ref) as another:
        yield another
