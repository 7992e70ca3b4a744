"""The LLM simulator (tests/llmsim/llmsim.py) as a server for tests: one a test process, on a free loopback port."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parent / "llmsim" / "llmsim.py"


class LlmSim:
    """A running simulator.

    Args:
        port: 0 for any free port.
        options: Further options of its command line.
    """

    def __init__(self, *options: str, port: int = 0) -> None:
        command = [sys.executable, str(PROGRAM), "--port", str(port), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("llmsim listening on "), line
        self.url: str = line.split()[3].removesuffix("/v1")
        self._defaults = self.config()

    @property
    def base(self) -> str:
        """Address for api_base."""
        return self.url + "/v1"

    def config(self, **changes: Any) -> dict[str, Any]:
        """Read the options, or change some: ``faults={"error500": 0.2}``, ``latency=0.1``, ``api_key=...``."""
        return self._call("/config", changes or None)

    def reset(self, **changes: Any) -> None:
        """Options as at the start, but for these changes; counters at zero."""
        self.config(**{**self._defaults, **changes})
        self._call("/reset", {})

    def stats(self) -> dict[str, Any]:
        """Counters since the last reset."""
        return self._call("/stats", None)

    @property
    def requests(self) -> int:
        """Requests since the last reset."""
        return int(self.stats()["requests"])

    def stop(self) -> None:
        """End the server."""
        self._process.terminate()
        self._process.wait(timeout=10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _call(self, path: str, body: Any) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data=data), timeout=20) as response:
            answer: dict[str, Any] = json.loads(response.read())
        return answer


@pytest.fixture(scope="session")
def llmsim_server() -> Iterator[LlmSim]:
    """Start the simulator once a test process."""
    server = LlmSim()
    yield server
    server.stop()


@pytest.fixture
def llmsim(llmsim_server: LlmSim) -> LlmSim:
    """The simulator, faultless and with its counters at zero."""
    llmsim_server.reset()
    return llmsim_server
