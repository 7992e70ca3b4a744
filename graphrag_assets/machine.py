"""What this process may use of the machine."""

from __future__ import annotations

import ctypes
import os
import sys


def cores() -> int:
    """Processor cores that this process may use: those it is bound to, where the system tells, else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


#: Parameter of glibc's mallopt: the most separate heaps that threads may have.
_M_ARENA_MAX = -8


def keep_memory_small() -> None:
    """Let freed memory be used again instead of being kept apart for each thread and library.

    Arrow, DuckDB and Lance run threads of their own, and by default each keeps what it once needed: at one megabyte of
    text an index run peaked at 708 MB, with this at 557 MB, at no measurable cost. Call it first of all in a process;
    where the C library is not glibc only Arrow's part has an effect.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        ctypes.CDLL("libc.so.6").mallopt(_M_ARENA_MAX, 1)
    except (OSError, AttributeError):
        return


class _NoPandas:
    """A finder of modules that says of pandas that it is not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """See :class:`importlib.abc.MetaPathFinder`."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def leave_out_pandas() -> None:
    """Keep Arrow from importing pandas, which nothing here uses, with the first list that it is given.

    Arrow looks for pandas once, to tell whether what it is given is of pandas; here it looks while pandas is hidden. The
    import took 28 MB and 0.4 seconds. Whoever imports pandas later gets it, and so does ``to_pandas``.
    """
    import pyarrow as pa

    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_NoPandas)
