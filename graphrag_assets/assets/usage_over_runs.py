"""What models took between two publications, on the page of index_snapshot: numbers to plot, and a table of the last runs.

The figures are those of the ledger of this host since the materialization before. So their sum over all materializations
is all that index runs took, runs that failed and assets that were materialized by hand included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from graphrag_assets.assets.fingerprints import STAGE_ASSETS
from graphrag_assets.assets.models import asking_stages
from graphrag_assets.assets.resources import Index
from graphrag_assets.llm.ledger import SEVERAL, Call, read_calls
from graphrag_assets.settings import Workspace

#: Runs in the table.
SHOWN = 15

#: Figures of a stage; the price is left out where it is not known.
FIGURES = ("calls", "cached", "failed", "requests", "prompt_tokens", "completion_tokens", "usd", "seconds")

TOTAL = "total"

Figures = dict[str, float | None]


def usage_over_runs(index: Index, instance: dg.DagsterInstance, asset: str) -> dict[str, Any]:
    """Metadata of a publication; empty where no model is asked, or answers are not kept.

    Args:
        index: The workspace.
        instance: Knows the publications before.
        asset: The asset that is materialized for each.
    """
    workspace = index.workspace
    stages = [stage for assets in STAGE_ASSETS.values() for name in assets for stage in asking_stages(workspace, name)]
    if not workspace.settings.cache.enabled or not stages:
        return {}
    before = instance.fetch_materializations(dg.AssetKey(asset), limit=SHOWN - 1).records
    since = before[0].timestamp if before else 0.0
    found = by_stage(_calls(workspace, since), stages)
    numbers = {f"usage/{stage}/{name}": figure for stage, of in found.items() for name, figure in of.items()}
    earlier = [
        (record.timestamp, {name: _number(record.asset_materialization, f"usage/{TOTAL}/{name}") for name in FIGURES})
        for record in before
    ]
    rows = [(datetime.now(UTC).timestamp(), found[TOTAL]), *earlier]
    known = {name: figure for name, figure in numbers.items() if figure is not None}
    return {**known, "usage_over_runs": dg.MetadataValue.md(_table(rows))}


def by_stage(calls: Iterable[Call], stages: Sequence[str]) -> dict[str, Figures]:
    """Sums by stage and in total.

    Args:
        calls: Rows of the ledger.
        stages: Stages that are told even where nothing was asked in them.

    Returns:
        By stage, and by :data:`TOTAL`: questions that were asked and those answered from the cache (texts, of vectors),
        questions without a usable answer, requests, tokens, USD (None where a price is not known), and seconds of waiting,
        summed over calls.
    """
    found: dict[str, Figures] = {stage: _nothing() for stage in dict.fromkeys(stages)}
    total = _nothing()
    for call in calls:
        for sums in (found.setdefault(call.stage, _nothing()), total):
            _add(sums, call)
    return {**dict(sorted(found.items())), TOTAL: total}


def _nothing() -> Figures:
    return dict.fromkeys(FIGURES, 0)


def _add(sums: Figures, call: Call) -> None:
    def add(name: str, figure: float | None) -> None:
        present = sums[name]
        sums[name] = None if present is None or figure is None else round(present + figure, 10)

    if call.cached:
        add("cached", 1 + call.row.count(SEVERAL) if call.stage.endswith("embeddings") else 1)
        return
    add("calls", 1)
    add("failed", call.status != "ok")
    add("requests", call.attempts)
    add("prompt_tokens", call.prompt_tokens or 0)
    add("completion_tokens", call.completion_tokens or 0)
    add("usd", call.usd)
    add("seconds", call.seconds or 0.0)


def _calls(workspace: Workspace, since: float) -> list[Call]:
    settings = workspace.settings
    return read_calls(workspace.path(settings.cache.path), workspace.uri(settings.storage.base), since)


def _number(materialization: dg.AssetMaterialization | None, name: str) -> float | None:
    value = materialization.metadata.get(name) if materialization is not None else None
    found = value.value if value is not None else None
    return found if isinstance(found, int | float) else None


def _table(rows: Sequence[tuple[float, Mapping[str, float | None]]]) -> str:
    """The last publications, the newest first."""
    lines = ["| published (UTC) | calls | from the cache | tokens | USD |", "| --- | ---: | ---: | ---: | ---: |"]
    for at, figures in rows:
        if figures["calls"] is None:  # a publication of an earlier release, or one that was restored
            continue
        when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
        tokens = (figures["prompt_tokens"] or 0) + (figures["completion_tokens"] or 0)
        usd = "not known" if figures["usd"] is None else f"{figures['usd']:.4f}"
        lines.append(f"| {when} | {figures['calls']:,.0f} | {figures['cached'] or 0:,.0f} | {tokens:,.0f} | {usd} |")
    return "\n".join(lines)
