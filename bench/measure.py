"""Run a command and measure it: wall and CPU seconds, and the memory of it and all processes that it starts (Linux)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

#: Seconds between two looks at the processes.
INTERVAL = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Sample:
    """One look at a process and its descendants.

    Args:
        time: Seconds since 1970-01-01.
        cpu: CPU seconds used so far.
        memory: Memory in MB; what processes share counts once.
    """

    time: float
    cpu: float
    memory: float


@dataclass(frozen=True)
class Run:
    """What a command took, its descendants included.

    Args:
        wall: Seconds.
        cpu: CPU seconds.
        peak: Greatest memory at one time in MB, as far as the looks saw it, and never less than that of any one process.
        others: Cores that other programs kept busy meanwhile, the simulated model among them, on average: where all
            cores are busy, the command had to wait for them.
        samples: All looks, in order.
        out: Standard output.
    """

    wall: float
    cpu: float
    peak: float
    others: float
    samples: list[Sample] = field(repr=False)
    out: str = field(repr=False, default="")

    def between(self, begin: float, end: float) -> tuple[float, float]:
        """CPU seconds and peak memory between two times, to the nearest looks."""
        before = max((s.cpu for s in self.samples if s.time <= begin), default=0.0)
        inside = [s for s in self.samples if begin < s.time <= end + INTERVAL]
        return (max((s.cpu for s in inside), default=before) - before, max((s.memory for s in inside), default=0.0))


def measured(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Run:
    """Run a command to its end; ends this program where it fails."""
    samples: list[Sample] = []
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started, busy = time.monotonic(), _busy()
        process = subprocess.Popen(command, env=os.environ | (environment or {}), stdout=output, stderr=errors)
        done = threading.Event()
        looking = threading.Thread(target=_look, args=(process.pid, samples, done))
        looking.start()
        _, status, used = os.wait4(process.pid, 0)
        wall, busy = time.monotonic() - started, _busy() - busy
        process.returncode = os.waitstatus_to_exitcode(status)
        done.set()
        looking.join()
        told = []
        for file in (output, errors):
            file.seek(0)
            told.append(file.read().decode(errors="replace"))
        if process.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{''.join(told)[-3000:]}")
    peak = max([used.ru_maxrss / 1024, *(sample.memory for sample in samples)])
    cpu = used.ru_utime + used.ru_stime
    return Run(wall, cpu, peak, max(0.0, (busy - cpu) / wall), samples, told[0])


def _busy() -> float:
    """CPU seconds that all cores of the machine have worked since it started."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + softirq) / _TICKS


def _look(root: int, samples: list[Sample], done: threading.Event) -> None:
    while not done.wait(INTERVAL):
        cpu = memory = 0.0
        for pid in _tree(root):
            try:
                cpu += _cpu(pid)
                memory += _memory(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
        samples.append(Sample(time.time(), cpu, memory))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                children = file.read().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            yield from _tree(int(child))


def _cpu(pid: int) -> float:
    """CPU seconds of a process and of its children that have ended."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def _memory(pid: int) -> float:
    """Memory of a process in MB, its share of what it has in common with others included."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return next((int(line.split()[1]) / 1024 for line in file if line.startswith("Pss:")), 0.0)


def markdown(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as a Markdown table; columns are those of the first row."""
    columns = list(rows[0])
    cells = [columns, *([_cell(row[column]) for column in columns] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def _cell(value: object) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
