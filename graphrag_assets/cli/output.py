"""Output of commands: one JSON object or text on standard output, everything else on standard error."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import click


class CommandError(click.ClickException):
    """A command cannot do what it was asked for.

    Args:
        message: What is wrong and how to mend it.
        kind: One word by which a program can tell failures apart; ``type`` in the JSON output.
        details: Further keys of the JSON output.
    """

    def __init__(self, message: str, kind: str = "failed", **details: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.details = details


class Waiting(CommandError):  # noqa: N818 (an end, not a fault)
    """An index run waits for a provider's batch; exit code 3."""

    exit_code = 3


def fail(message: str, kind: str = "failed", **details: Any) -> NoReturn:
    """End the command with a message on standard error and exit code 1; with ``--json`` with an object as well.

    Args:
        message: What is wrong and how to mend it.
        kind: See :class:`CommandError`.
        details: Further keys of the JSON output.
    """
    raise CommandError(message, kind, **details)


def print_json(value: object) -> None:
    """Print one JSON object on standard output; what UTF-8 cannot carry, as bytes of an argument, is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    click.echo(text.encode("utf-8", "backslashreplace").decode())


def print_error(message: str) -> None:
    """Print what went wrong on standard error."""
    click.echo(f"graphrag-assets: {message}", err=True)


def table(rows: list[dict[str, Any]], columns: list[str]) -> str:
    """Rows as aligned text columns."""
    cells = [columns, *[["" if row.get(c) is None else str(row[c]) for c in columns] for row in rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )
