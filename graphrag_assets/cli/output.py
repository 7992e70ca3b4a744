"""Output of commands: one JSON object or text on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from graphrag_assets import progress


def print_json(value: object) -> None:
    """Print one JSON object on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def fail(message: str) -> NoReturn:
    """End the command with a message on standard error and exit code 1."""
    click.echo(f"graphrag-assets: {message}", err=True)
    sys.exit(1)


def table(rows: list[dict[str, Any]], columns: list[str]) -> str:
    """Rows as aligned text columns."""
    cells = [columns, *[["" if row.get(c) is None else str(row[c]) for c in columns] for row in rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


@contextmanager
def progress_on_terminal() -> Iterator[None]:
    """Show progress on standard error: bars on a terminal, a line at the start and end of each stage elsewhere."""
    if sys.stderr.isatty():
        with _bars():
            yield
        return
    remove = progress.listen(_line)
    try:
        yield
    finally:
        remove()


def _line(stage: str, done: int, total: int) -> None:
    if done in (0, total) and (done or not total):
        click.echo(f"{stage}: {done} of {total}", err=True)


@contextmanager
def _bars() -> Iterator[None]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        remove = progress.listen(show)
        try:
            yield
        finally:
            remove()
