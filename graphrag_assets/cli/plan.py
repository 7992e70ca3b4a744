"""graphrag-assets plan: what index would do and cost, before anything is spent."""

from __future__ import annotations

from typing import Any

import click

from graphrag_assets.cli.output import print_json, table
from graphrag_assets.settings import Workspace


def plan_command(
    workspace: Workspace, *, recluster: bool, refresh: tuple[str, ...], retry_failed: bool, as_json: bool
) -> None:
    """Make a plan and print it; nothing is sent, and nothing is written.

    Args:
        workspace: Root and settings.
        recluster: As for ``index --recluster``.
        refresh: As for ``index --refresh``.
        retry_failed: As for ``index --retry-failed``.
        as_json: Print one JSON object.
    """
    from graphrag_assets.assets.refreshing import check_stages
    from graphrag_assets.cli.plan_budgets import budgets_of
    from graphrag_assets.plan import plan

    check_stages(refresh, workspace.settings)
    made = plan(workspace, recluster=recluster, refresh=refresh, retry_failed=retry_failed)
    found = made.to_dict() | {"budgets": budgets_of(workspace, made)}
    if as_json:
        print_json(found)
    else:
        click.echo(_described(found))


def _described(found: dict[str, Any]) -> str:
    from graphrag_assets.cli.plan_budgets import budget_lines

    lines = ["Documents: " + ", ".join(f"{count} {name}" for name, count in found["documents"].items())]
    if found["nothing_to_do"]:
        return "\n".join([*lines, "Nothing to do: the index is up to date with the input and the settings."])
    units = found["text_units"]
    lines += [
        f"Text units: {units['all']}, of which {units['extracted']} would be extracted",
        f"Stages: {', '.join(found['work']) or 'none, only publishing'}",
        "",
        table([_row(stage) for stage in found["stages"]], _COLUMNS),
        "",
        _price(found),
        _time(found["seconds_estimated"]),
        *budget_lines(found["budgets"], found["unpriced"]),
        *(f"Note: {note}." for note in found["notes"]),
        "Nothing was sent, nothing was written.",
    ]
    return "\n".join(lines)


_COLUMNS = ["stage", "calls", "cached", "prompt tokens", "completion tokens", "usd", "counted"]


def _row(stage: dict[str, Any]) -> dict[str, Any]:
    bounds = stage["range"]
    return {
        "stage": stage["stage"],
        "calls": _figure(stage["calls"], bounds["calls"]),
        "cached": stage["cached"],
        "prompt tokens": _figure(stage["prompt_tokens"], bounds["prompt_tokens"]),
        "completion tokens": _figure(stage["completion_tokens"], bounds["completion_tokens"]),
        "usd": "unknown" if stage["usd"] is None else f"{stage['usd']:.4f}",
        "counted": _how(stage),
    }


def _figure(value: int, bounds: list[int]) -> str:
    """A figure, with its range where it is estimated."""
    return f"{value}" if bounds[0] == bounds[1] else f"~{value} ({bounds[0]}-{bounds[1]})"


def _how(stage: dict[str, Any]) -> str:
    by = ", by batch" if stage["by_batch"] else ""
    if all(stage["exact"].values()):
        return f"exact{by}"
    return ("prompts exact, answers estimated" if stage["exact"]["prompt_tokens"] else "estimated") + by


def _price(found: dict[str, Any]) -> str:
    tokens = f"{found['calls']} calls, {found['prompt_tokens']} + {found['completion_tokens']} tokens"
    if found["usd"] is None:
        return f"In all: {tokens}; the price is not known, since that of {', '.join(found['unpriced'])} is not"
    low, high = found["usd_range"]
    return f"In all: {tokens}, {found['usd']:.4f} USD ({low:.4f} to {high:.4f})"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "Time expected: not known, since the provider answers in batches"
    return f"Time expected at the configured limits: {_duration(seconds)}, waiting for models alone"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
