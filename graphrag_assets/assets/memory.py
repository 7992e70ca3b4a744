"""Memory between the steps of a run in one process: what a step freed goes back to the system before the next begins."""

from __future__ import annotations

import ctypes
import gc
import sys

import pyarrow as pa

from graphrag_assets.indexing.relational import close_database

#: Objects made between two looks for garbage in the youngest generation. Tables as Python rows are many objects and few
#: cycles, so that Python's own 700 costs a fifth of the time of a step and frees nothing.
_YOUNG_OBJECTS = 20_000


#: Whether this process was set up by :func:`spare_memory`.
_runs_all_steps = False


def spare_memory() -> None:
    """Set up a process that runs all steps, beside :func:`graphrag_assets.machine.keep_memory_small`.

    What is loaded by now, and by the end of each step, stays until the end of the process, so that the garbage collector
    need not look at it again.
    """
    global _runs_all_steps
    _runs_all_steps = True
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)


def give_back_memory() -> None:
    """Return freed memory to the operating system.

    DuckDB, Arrow and the C library all keep freed memory for later use; the next step needs it elsewhere.
    """
    close_database()
    gc.collect()
    if _runs_all_steps:
        gc.freeze()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
        if trim is not None:
            trim(0)
