"""Killing index runs, and counting what the models were asked twice for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.pipeline.workspaces import arguments, environment


@dataclass(frozen=True)
class Killed:
    """A run that was to be killed.

    Args:
        at: Time of its death, seconds since 1970-01-01.
        finished: Whether it had come to its end before.
    """

    at: float
    finished: bool


def killed_run(root: Path, ready: Callable[[], bool], log: Path, **more: str) -> Killed:
    """Start `index` in a process group of its own, and kill the whole group with SIGKILL once it is ready.

    Args:
        root: The workspace.
        ready: Tells when; it is asked every few milliseconds.
        log: File for what the command says.
        more: Further variables of its environment.
    """
    with open(log, "wb") as file:
        process = subprocess.Popen(
            arguments("index", "--root", root),
            env=environment(**more),
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        while process.poll() is None and not ready():
            time.sleep(0.005)
        at, finished = time.time(), process.poll() is not None
        if not finished:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not finished or process.returncode == 0, log.read_text()[-3000:]
    return Killed(at, finished)


def asked_again(log: Path) -> list[tuple[float, str]]:
    """Questions that were asked once more after an answer had come undamaged: time of that first answer, and question.

    Args:
        log: The log of the simulator.
    """
    answered: dict[str, float] = {}
    found = []
    for line in log.read_text().splitlines():
        request = json.loads(line)
        if request["h"] in answered:
            found.append((answered[request["h"]], str(request["h"])))
        if request["status"] == 200 and not request["fault"]:
            answered[request["h"]] = float(request["t"])
    assert answered
    return found
