"""What a command shows on standard error while it works: progress and the log."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from graphrag_assets import interrupts, progress

#: Seconds between two lines about the same stage where standard error is no terminal: at first, and at most.
FIRST_GAP, LONGEST_GAP = 10.0, 60.0


class _OnStandardError(logging.Handler):
    """Log lines on standard error as it is at the moment: progress bars move out of their way."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            click.echo(self.format(record), err=True)
        except Exception:
            self.handleError(record)


class _Line(logging.Formatter):
    """A line for people: a warning says that it is one; where it comes from is told only with ``--verbose``."""

    def __init__(self, verbose: bool) -> None:
        super().__init__()
        self._verbose = verbose

    def format(self, record: logging.LogRecord) -> str:
        dagster = getattr(record, "dagster_meta", None)  # Dagster puts run and step before the message
        message = str(dagster["orig_message"]) if dagster else record.getMessage()
        if record.levelno >= logging.WARNING:
            message = f"{record.levelname.lower()}: {message}"
        if self._verbose:
            message = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {message}"
        if record.exc_info and self._verbose:
            message += "\n" + self.formatException(record.exc_info)
        return message


def show_log(verbose: bool) -> None:
    """Show warnings on standard error, with ``verbose`` our own steps and the causes of failures too.

    Other packages say little that a user could act on: of theirs, warnings only.
    """
    handler = _OnStandardError()
    handler.setFormatter(_Line(verbose))
    handler.addFilter(lambda record: _is_shown(record, verbose))
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, _OnStandardError)]:
        root.removeHandler(old)
    root.addHandler(handler)
    logging.getLogger("graphrag_assets").setLevel(logging.INFO if verbose else logging.WARNING)


def _is_shown(record: logging.LogRecord, verbose: bool) -> bool:
    """What breaks off because of Ctrl-C is not worth a line."""
    ours = record.name.startswith("graphrag_assets.") and record.name != progress.log.name
    return interrupts.received() is None and (record.levelno >= logging.WARNING or (verbose and ours))


@contextmanager
def progress_on_terminal() -> Iterator[None]:
    """Show progress on standard error: bars on a terminal, a line from time to time elsewhere."""
    if sys.stderr.isatty():
        with _bars():
            yield
        return
    remove = progress.listen(Lines())
    try:
        yield
    finally:
        remove()


class Lines:
    """Progress as lines: the end of each stage, and while a stage lasts one line at growing intervals."""

    def __init__(self) -> None:
        self._next: dict[str, tuple[float, float]] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take one report; see :data:`graphrag_assets.progress.Listener`."""
        if not total:
            return
        now = time.monotonic()
        if done == 0:
            self._next[stage] = (now + FIRST_GAP, FIRST_GAP)
            return
        if stage not in self._next:  # told already that it has ended
            return
        due, gap = self._next[stage]
        if done >= total:
            del self._next[stage]
        elif now >= due:
            gap = min(2 * gap, LONGEST_GAP)
            self._next[stage] = (now + gap, gap)
        else:
            return
        click.echo(f"{stage}: {done} of {total}", err=True)


@contextmanager
def _bars() -> Iterator[None]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int) -> None:
            if not total:
                return
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        remove = progress.listen(show)
        try:
            yield
        finally:
            remove()
