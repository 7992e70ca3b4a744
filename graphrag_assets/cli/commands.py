"""How a command ends: with its result, with one message about what is wrong, or because it was interrupted."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from graphrag_assets import interrupts
from graphrag_assets.cli.output import CommandError, print_error, print_json

#: What is true after a command was interrupted.
KEPT = {"index": "what is finished is kept, run the same command again to go on"}


#: Errors whose message is made for people, by class name (their modules need not be loaded), and what they are about.
KINDS = {
    "SettingsError": "settings",
    "InitError": "init",
    "InputError": "input",
    "StorageError": "storage",
    "SnapshotError": "snapshot",
    "NoSnapshotError": "no_snapshot",
    "QueryError": "query",
    "GatewayError": "model",
    "RefreshError": "usage",
    "BusyError": "busy",
    "LeaseLostError": "busy",
    "ExchangeError": "exchange",
    "CacheFileError": "exchange",
    "PipelineMissingError": "settings",
    "PromptError": "prompts",
    "TelemetryError": "settings",
}


class _InterruptedError(Exception):
    """Ctrl-C or a request to terminate; click would print an empty line for a KeyboardInterrupt."""


class Commands(click.Group):
    """The group of all commands: every failure is one message, and one JSON object where ``--json`` was given."""

    def invoke(self, ctx: click.Context) -> Any:
        """See :class:`click.Group`."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _InterruptedError from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """See :class:`click.Group`."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        words = list(sys.argv[1:] if args is None else args)
        options = words[: words.index("--")] if "--" in words else words
        as_json = "--json" in options
        verbose = not {"-v", "--verbose"}.isdisjoint(options)
        with interrupts.watched(_still_at_work):
            try:
                code = super().main(words, prog_name, complete_var, standalone_mode=False, **extra)
                sys.exit(code if isinstance(code, int) else 0)
            except CommandError as error:
                print_error(error.message)
                _end(as_json, error.message, error.kind, error.exit_code, error.details)
            except click.ClickException as error:
                error.show()
                _end(as_json, error.format_message(), "usage", error.exit_code)
            except (_InterruptedError, click.Abort):
                interrupts.end_by_signals()
                command = next((word for word in words if word in self.commands), "")
                message = "Interrupted" + (f"; {KEPT[command]}" if command in KEPT else "")
                click.echo(message, err=True)
                _end(as_json, message, "interrupted", 128 + (interrupts.received() or 2))
            except Exception as error:
                if verbose:
                    traceback.print_exc()
                kind, message = _told(error)
                print_error(message)
                _end(as_json, message, kind, 1)


def _told(error: Exception) -> tuple[str, str]:
    """What an error is about, and its message."""
    if kind := kind_of(error):
        return kind, str(error)
    if isinstance(error, PermissionError | NotADirectoryError):
        return "files", f"{error.filename or 'a file'} cannot be read: {error.strerror or error}"
    return "unexpected", unexpected(error)


def kind_of(error: Exception) -> str:
    """What an error whose message is made for people is about; empty for any other error."""
    return next((KINDS[base.__name__] for base in type(error).__mro__ if base.__name__ in KINDS), "")


def unexpected(error: Exception) -> str:
    """What to say of an error that nothing foresaw: what it is, and where in this package it came up."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "graphrag_assets" in frame.filename]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    told = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {told}{place}; if nothing in it can be mended, this is a fault of " + (
        "graphrag-assets; --verbose shows the whole trace"
    )


def _still_at_work() -> None:
    click.echo("Stopping: what is under way comes to its end first; Ctrl-C again ends at once.", err=True)


def _end(as_json: bool, message: str, kind: str, code: int, details: dict[str, Any] | None = None) -> NoReturn:
    if as_json:
        print_json({"error": {"message": message, "type": kind, **(details or {})}})
    sys.exit(code)
