from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def reference_python() -> str:
    """Python of an environment with Microsoft GraphRAG."""
    python = os.environ.get("GRAPHRAG_REFERENCE_PYTHON")
    if not python:
        pytest.skip("Microsoft GraphRAG is not installed: run make reference, or set GRAPHRAG_REFERENCE_PYTHON")
    return python
