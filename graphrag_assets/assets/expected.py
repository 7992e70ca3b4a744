"""What a run was expected to take, kept from its beginning to its end, and what it took."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from graphrag_assets.assets.resources import Index
from graphrag_assets.llm.ledger import Call, read_calls

#: Where the expectation waits for the end of the run, in the storage base; a run that is interrupted leaves it behind.
PATH = "build/expected.json"

#: Figures that are compared.
FIGURES = ("calls", "cached", "prompt_tokens", "completion_tokens", "usd")

#: Those that the UI shows.
_TOLD = ("calls", "prompt_tokens", "completion_tokens", "usd")

#: Stages whose turns after the first are counted apart, and what their name ends with then.
_CONVERSATIONS, GLEANINGS = ("extract_graph", "extract_claims"), "_gleanings"

Figures = dict[str, Any]


def keep_expectation(index: Index, fingerprint: str, plan: Mapping[str, Any], by: str = "plan") -> None:
    """Keep a plan for the run that begins now.

    Args:
        index: The workspace.
        fingerprint: That of the snapshot that the run will publish.
        plan: The plan, as JSON, or a cheap estimate of the same form; figures that are not known are None.
        by: plan or estimate.
    """
    stages = {
        stage["stage"]: {name: stage[name] for name in (*FIGURES, "exact", "range")}
        for stage in plan["stages"]
        if stage["calls"] != 0 or stage["cached"]
    }
    kept = {
        "at": time.time(),
        "fingerprint": fingerprint,
        "stages": stages,
        "seconds": plan["seconds_estimated"],
        "by": by,
    }
    index.storage.write(PATH, json.dumps(kept).encode())


def expected_and_taken(index: Index, fingerprint: str) -> dict[str, Any]:
    """What the run that ends now was expected to take, and took; empty where nothing was expected of it."""
    try:
        kept = json.loads(index.storage.read(PATH))
    except (FileNotFoundError, ValueError):
        return {}
    if kept.get("fingerprint") != fingerprint:
        return {}
    settings = index.workspace.settings
    calls = read_calls(
        index.workspace.path(settings.cache.path), index.workspace.uri(settings.storage.base), kept["at"]
    )
    return {
        "expected": kept["stages"],
        "expected_by": kept.get("by", "plan"),
        "taken": taken(calls),
        "seconds_expected": kept["seconds"],
        "seconds": round(time.time() - kept["at"], 1),
    }


def taken(calls: list[Call]) -> dict[str, Figures]:
    """What calls took, by stage, in the figures of a plan: a question counts once, however often it was sent."""
    stages: dict[str, Figures] = {}
    for call in calls:
        name = call.stage + (GLEANINGS if call.turn > 1 and call.stage in _CONVERSATIONS else "")
        stage = stages.setdefault(
            name, {"calls": 0, "cached": 0, "prompt_tokens": 0, "completion_tokens": 0, "usd": 0.0}
        )
        if call.cached:
            stage["cached"] += 1 + call.row.count("\n") if call.stage.endswith("embeddings") else 1
            continue
        stage["calls"] += 1
        stage["prompt_tokens"] += call.prompt_tokens or 0
        stage["completion_tokens"] += call.completion_tokens or 0
        stage["usd"] = None if None in (stage["usd"], call.usd) else round(stage["usd"] + (call.usd or 0.0), 10)
    return stages


def compared(run: Mapping[str, Any]) -> list[Figures]:
    """Expectation and outcome side by side, one row a stage; empty where nothing was expected."""
    names = dict.fromkeys([*run.get("expected", {}), *run.get("taken", {})])
    rows = []
    for name in names:
        before, after = run.get("expected", {}).get(name, {}), run.get("taken", {}).get(name, {})
        figures = {
            f"{figure}_{side}": of.get(figure, 0)
            for figure in FIGURES
            for side, of in (("expected", before), ("taken", after))
        }
        rows.append({"stage": name, **figures, "exact": before.get("exact"), "range": before.get("range")})
    return rows if run.get("expected") is not None else []


def run_metadata(run: Mapping[str, Any]) -> dict[str, Any]:
    """The same as asset metadata: the sums as numbers that the UI plots over runs, the stages as a table."""
    rows = compared(run)
    if not rows:
        return {}
    found: dict[str, Any] = {}
    for side in ("expected", "taken"):
        for figure in _TOLD:
            values = [row[f"{figure}_{side}"] for row in rows]
            if None not in values:
                found[f"{side}/total/{figure}"] = round(sum(values), 10)
    return found | {"expected_and_taken": dg.MetadataValue.md(_table(rows))}


def _table(rows: Sequence[Figures]) -> str:
    """Expected and taken by stage."""
    lines = [
        "| stage | calls | prompt tokens | answer tokens | USD |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        pairs = (f"{_shown(row[f'{figure}_expected'])} / {_shown(row[f'{figure}_taken'])}" for figure in _TOLD)
        lines.append(f"| {row['stage']} | {' | '.join(pairs)} |")
    return "Expected / taken.\n\n" + "\n".join(lines)


def _shown(figure: float | None) -> str:
    if figure is None:
        return "not known"
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:.4f}"
