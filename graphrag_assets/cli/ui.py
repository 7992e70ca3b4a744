"""graphrag-assets ui: Dagster's web server and daemon on one workspace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import click

from graphrag_assets.automation.instance import dagster_home, open_instance
from graphrag_assets.cli.output import fail
from graphrag_assets.settings import Workspace

MODULE = "graphrag_assets.definitions"
LOCATION = "graphrag"


def ui_command(workspace: Workspace, host: str, port: int) -> None:
    """Run the web server and the daemon until one of them ends or the command is interrupted."""
    if find_spec("dagster_webserver") is None:
        fail("the Dagster web server is not installed; install it with: pip install 'graphrag-assets[ui]'")
    environment = os.environ | {
        "GRAPHRAG_ROOT": str(workspace.root),
        "DAGSTER_HOME": str(dagster_home(workspace)),
        "DAGSTER_DISABLE_TELEMETRY": "1",
    }
    with open_instance(workspace):  # both processes at once on a new home would race to create its databases
        pass
    code = ["-m", MODULE]
    commands = [
        [sys.executable, "-m", "dagster_webserver", "-h", host, "-p", str(port), *code],
        [sys.executable, "-m", "dagster._daemon", "run", *code],
    ]
    click.echo(f"Dagster UI of {workspace.root}: http://{host}:{port}  (stop with Ctrl-C)", err=True)
    processes = [subprocess.Popen(command, env=environment, cwd=workspace.root) for command in commands]  # noqa: S603
    try:
        while all(process.poll() is None for process in processes):
            time.sleep(0.5)
    except KeyboardInterrupt:
        pass
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        codes = [process.wait(timeout=30) for process in processes]
    sys.exit(max(codes))
