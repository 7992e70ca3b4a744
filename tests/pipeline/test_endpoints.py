"""Models that cannot be used: one message, soon, that names what to check; an outage of a moment is ridden out."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import arguments, command, demo_texts, environment, make_workspace, simulated

ENTRY = "completion_models.default_completion_model (openai/gpt-4o-mini at "
TEXT = "notes/interview-edda-lindrow.md"


class At:
    """An address in the place of a simulator."""

    def __init__(self, base: str) -> None:
        self.base = base


def workspace(root: Path, base: str, **retry: object) -> Path:
    settings = simulated(At(base), chunking={"size": 100, "overlap": 0})  # type: ignore[arg-type]
    for section in ("completion_models", "embedding_models"):
        for entry in settings[section].values():
            entry["retry"] = retry
    return make_workspace(root, demo_texts(TEXT), **settings)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("base", "cause"),
    [("http://127.0.0.1:9/v1", "connection refused"), ("http://nobody.invalid/v1", "the host name cannot be resolved")],
)
def test_nothing_is_there(base: str, cause: str, tmp_path: Path) -> None:
    started = time.monotonic()
    run = command("index", "--root", workspace(tmp_path, base), "--json")
    assert time.monotonic() - started < 60
    assert run.code == 1
    warnings = [line for line in run.err.splitlines() if line.startswith("warning: ")]
    assert 1 <= len(warnings) <= 4
    assert warnings[0].startswith(f"warning: {ENTRY}{base}): {cause}")
    assert "trying again in" in warnings[0]
    assert "(1 of 7)" in warnings[0]
    errors = [line for line in run.err.splitlines() if line.startswith("graphrag-assets: ")]
    assert len(errors) == 1
    assert f"{ENTRY}{base}): {cause}" in errors[0]
    assert "check api_base" in errors[0]
    error = json.loads(run.out)["error"]
    assert error["type"] == "run"
    assert error["run_id"] in run.err.splitlines()[-1]
    assert "embedding" not in run.err, "no later step begins"
    assert "Traceback" not in run.err


@contextmanager
def refusing(status: int, body: dict[str, object]) -> Iterator[tuple[str, list[str]]]:
    """A provider that refuses every request; the list holds their paths."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            paths.append(self.path)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", paths
    finally:
        server.shutdown()


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("status", "code", "message", "mend"),
    [
        (401, "invalid_api_key", "Incorrect API key provided", "check api_key"),
        (403, "", "You have no access to this project", "check api_key"),
        (404, "model_not_found", "The model gpt-4o-mini does not exist", "check model and api_base"),
        (429, "insufficient_quota", "You exceeded your current quota", "no credit or quota left"),
        (400, "", "Unknown parameter: 'foo'", "check model and call_args"),
    ],
)
def test_refused(status: int, code: str, message: str, mend: str, tmp_path: Path) -> None:
    with refusing(status, {"error": {"message": message, "code": code}}) as (base, paths):
        run = command("index", "--root", workspace(tmp_path, base))
        asked = len(paths)
    assert run.code == 1
    assert asked <= 26  # what was in flight
    assert "warning" not in run.err, "nothing is tried again"
    errors = [line for line in run.err.splitlines() if line.startswith("graphrag-assets: ")]
    assert len(errors) == 1
    assert all(words in errors[0] for words in (ENTRY + base, f"HTTP {status}: {message}", mend))
    assert "Traceback" not in run.err


@pytest.mark.timeout(300)
def test_an_outage_in_mid_run_is_ridden_out(tmp_path: Path) -> None:
    server = LlmSim("--latency", "0.4")
    root = workspace(tmp_path, server.base, max_retries=7)
    settings = json.loads((root / "settings.yaml").read_text())
    (root / "settings.yaml").write_text(json.dumps(settings | {"concurrent_requests": 2}))
    process = subprocess.Popen(
        arguments("index", "--root", root, "--json"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    port = int(server.url.rsplit(":", 1)[1])
    try:
        while server.requests < 4:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        server.stop()
        time.sleep(9)
        server = LlmSim("--latency", "0.0", port=port)
        out, err = process.communicate(timeout=200)
    finally:
        process.kill()
        server.stop()
    assert process.returncode == 0, err
    assert json.loads(out)["text_units"]["failed"] == 0
    assert "connection refused; trying again" in err
