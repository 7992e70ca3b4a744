"""The simulated model of the tests as a process of its own, for measurements."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).resolve().parent.parent / "tests" / "llmsim" / "llmsim.py"


class Simulator:
    """Starts the simulator on a free port; a context manager.

    Args:
        workers: Processes of the simulator.
    """

    def __init__(self, workers: int = 1) -> None:
        self._workers = workers
        self.url = ""

    def __enter__(self) -> Simulator:
        command = [sys.executable, str(PROGRAM), "--port", "0", "--workers", str(self._workers)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.url = next(word for word in line.split() if word.startswith("http")).removesuffix("/v1")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=10)

    def _call(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return dict(json.loads(answer.read() or b"{}"))

    def reset(self, **options: Any) -> None:
        """Zero the counters and set options such as latency or faults."""
        self._call("/config", options)
        self._call("/reset", {})

    def stats(self) -> dict[str, Any]:
        """Counters since the last reset."""
        return self._call("/stats")
