"""Options that every command has, and what comes before each."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from graphrag_assets.cli.output import fail
from graphrag_assets.cli.showing import show_log
from graphrag_assets.machine import leave_out_pandas

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


class FiniteRange(click.FloatRange):
    """A number within bounds; nan, which every comparison lets pass, and inf are none."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a number; ends the command where it is none."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


class Age(click.ParamType[float]):
    """A time such as 30d, 12h or 2w."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no age; expected a number with s, m, h, d or w, such as 30d", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


class Size(click.ParamType[int]):
    """A number of bytes such as 2GB or 500MB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?B?)", str(value).strip().upper())
        if found is None or found[2] not in _SIZES:
            self.fail(f"{value!r} is no size; expected a number with KB, MB, GB or TB, such as 2GB", param, ctx)
        return int(float(found[1]) * _SIZES[found[2]])


def common(command: F) -> F:
    """Options of every command."""
    command = click.option(
        "--root",
        type=click.Path(file_okay=False, path_type=Path),
        default=None,
        help="Workspace folder (default: GRAPHRAG_ROOT, else the current folder).",
    )(command)
    command = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")(command)
    return click.option("-v", "--verbose", is_flag=True, help="Show each step and the causes of failures.")(command)


def prepare(root: Path | None, verbose: bool) -> Any:
    """Load the workspace and set up logging; ends the command with a message when the settings are at fault."""
    from graphrag_assets.settings_file import SettingsError, load_workspace

    leave_out_pandas()
    show_log(verbose)
    if root is not None:
        if not root.is_dir():
            fail(f"{root} is not a folder; create a workspace with: graphrag-assets init {root}", "settings")
        os.environ["GRAPHRAG_ROOT"] = str(root.absolute())
    try:
        return load_workspace(root)
    except SettingsError as error:
        fail(str(error), "settings")
