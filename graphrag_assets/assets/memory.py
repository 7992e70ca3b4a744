"""Memory between the steps of a run in one process: what a step freed goes back to the system before the next begins."""

from __future__ import annotations

import ctypes
import sys

import pyarrow as pa

from graphrag_assets.indexing.relational import close_database


def give_back_memory() -> None:
    """Return freed memory to the operating system.

    DuckDB, Arrow and the C library all keep freed memory for later use; the next step needs it elsewhere.
    """
    close_database()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
        if trim is not None:
            trim(0)
