"""graphrag-assets ui: Dagster's web server and daemon on one workspace."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import click

from graphrag_assets.automation.instance import dagster_home, open_instance
from graphrag_assets.cli.output import fail
from graphrag_assets.settings import Workspace

#: Name of the code location, as in workspace.yaml: schedules and sensors keep their state under it.
LOCATION = "graphrag"
CODE = ("-m", "graphrag_assets.definitions", "--location-name", LOCATION, "--log-level", "warning")

#: Addresses that stand for every network interface.
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104

#: Seconds that a process has to end in, after it was asked to.
PATIENCE = 20.0


def ui_command(workspace: Workspace, host: str, port: int) -> None:
    """Run code server, web server and daemon until one of them ends or the command is interrupted."""
    if find_spec("dagster_webserver") is None:
        fail("the Dagster web server is not installed; install it with: pip install 'graphrag-assets[ui]'", "ui")
    _require_free(host, port)
    home = dagster_home(workspace)
    prepare_instance(workspace)
    environment = os.environ | {
        "GRAPHRAG_ROOT": str(workspace.root),
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
    }
    processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(name: str, *command: str) -> None:
        processes[name] = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", *command],
            env=environment,
            cwd=workspace.root,
            start_new_session=True,  # so that Ctrl-C reaches it once, through this process
        )

    click.echo(f"Starting the Dagster UI of {workspace.root} …", err=True)
    with _interruptible(), tempfile.TemporaryDirectory(prefix="graphrag-ui-") as folder:
        try:
            code, locations = Path(folder) / "code.socket", Path(folder) / "workspace.yaml"
            server = {"socket": str(code), "location_name": LOCATION}
            locations.write_text(json.dumps({"load_from": [{"grpc_server": server}]}))
            # One code server for both: the daemon alone would start one of its own every minute.
            start("code server", "dagster", "code-server", "start", *CODE, "--socket", str(code))
            _wait(processes, lambda: _listens(code))
            start("web server", "dagster_webserver", "-h", host, "-p", str(port), "-w", str(locations))
            start("daemon", "dagster._daemon", "run", "-w", str(locations))
            url = f"http://{'127.0.0.1' if host in EVERYWHERE else host}:{port}"
            if _wait(processes, lambda: _answers(url)):
                click.echo(f"The Dagster UI is ready: {url}  (stop with Ctrl-C)", err=True)
            _wait(processes, lambda: False)
        except KeyboardInterrupt:
            click.echo("\nStopping …", err=True)
            return
        finally:
            _stop(processes)
    ended = ", ".join(f"{name} (exit code {process.returncode})" for name, process in processes.items())
    fail(f"the Dagster UI ended by itself: {ended}; its log above says why", "ui")


def prepare_instance(workspace: Workspace) -> None:
    """Make the Dagster instance ready: its databases, and a history that knows the tables that are there."""
    from graphrag_assets.assets.resources import Index
    from graphrag_assets.automation.history import restore_history

    # Several processes at once on a new home would race to create its databases: this one does it before they start.
    with open_instance(workspace) as instance:
        try:
            restored = restore_history(Index(root=str(workspace.root)), instance)
        except Exception as error:  # the UI is where people look for what is wrong: it starts all the same
            click.echo(f"Could not compare the Dagster history with the storage: {error}", err=True)
            return
    if restored:
        click.echo(
            f"{restored} tables that are in the storage were unknown to the Dagster history; added them.", err=True
        )


def _require_free(host: str, port: int) -> None:
    """End the command where the address cannot be used."""
    try:
        with socket.create_server((host, port)):
            pass
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        fail(f"cannot listen on {host}:{port}: {reason}; choose another port with --port (make ui PORT=3001)", "ui")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Treat a request to terminate like Ctrl-C, so that no process is left behind."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(processes: dict[str, subprocess.Popen[bytes]], done: Callable[[], bool]) -> bool:
    """Wait for something; False where one of the processes ended before."""
    while all(process.poll() is None for process in processes.values()):
        if done():
            return True
        time.sleep(0.3)
    return False


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return path.exists() and client.connect_ex(str(path)) == 0


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/server_info", timeout=2):  # noqa: S310
            return True
    except OSError:
        return False


def _stop(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """Ask the processes to end, those that others talk to last, and end those that do not."""
    for process in reversed(processes.values()):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
