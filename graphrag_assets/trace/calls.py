"""The calls of models that rows were made with, out of the records of the snapshot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from graphrag_assets.query.index import Index
from graphrag_assets.storage.call_tables import CALL_ROWS, CALLS

_SUMMED = ("prompt_tokens", "completion_tokens")


def calls_behind(index: Index, rows: Sequence[str], stages: Collection[str], limit: int) -> dict[str, Any]:
    """The calls that served some rows.

    Args:
        index: The snapshot.
        rows: Ids of rows, and pairs of titles.
        stages: Stages that count.
        limit: Most calls that are listed; the sums are over all of them.

    Returns:
        ``known`` (else ``why`` it is not), ``total``, ``by_stage`` and ``calls``, of which ``listed`` are shown.
    """
    if CALLS.name not in index.manifest.records:
        return {"known": False, "why": _why_unknown(index)}
    links = index.take(CALL_ROWS.name, "row", sorted(set(rows)), ["stage", "call"])
    pairs = zip(links["stage"].to_pylist(), links["call"].to_pylist(), strict=True)
    numbers = sorted({call for stage, call in pairs if stage in stages})
    found = index.take(CALLS.name, "call", numbers, CALLS.column_names).to_pylist()
    if not found:
        why = "" if index.count(CALLS.name) or index.manifest.records[CALLS.name].rows else _why_unknown(index)
        return {"known": not why, "why": why, "total": _sum([]), "by_stage": [], "count": 0, "calls": []}
    groups: dict[tuple[str, str, str, int], list[dict[str, Any]]] = {}
    for call in found:
        groups.setdefault((call["stage"], call["model"], call["prompt"], call["turn"]), []).append(call)
    by_stage = [
        {"stage": stage, "model": model, "prompt": prompt, "turn": turn, **_sum(calls)}
        for (stage, model, prompt, turn), calls in sorted(groups.items())
    ]
    return {
        "known": True,
        "total": _sum(found),
        "by_stage": by_stage,
        "count": len(found),
        "calls": [_plain(call) for call in found[:limit]],
    }


def _why_unknown(index: Index) -> str:
    info = index.manifest.info
    if "imported" in info:
        return "the snapshot was imported: its calls were made elsewhere"
    if info.get("method") == "fast":
        return "the fast method asks no language model"
    if CALLS.name in index.manifest.records:
        return "no call is on record: the answer cache, which keeps them, was switched off or moved"
    return "the snapshot was published by a release that kept no record of calls"


def _sum(calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums over calls; a price is None where that of any call is not known."""
    prices = [call["usd"] for call in calls]
    return {
        "calls": len(calls),
        "cached": sum(call["cached"] for call in calls),
        **{name: sum(call[name] or 0 for call in calls) for name in _SUMMED},
        "usd": None if None in prices else round(sum(prices), 8),
    }


def _plain(call: dict[str, Any]) -> dict[str, Any]:
    """A call as JSON has it."""
    times = {name: call[name].isoformat(timespec="milliseconds") + "Z" for name in ("made", "asked") if call[name]}
    return {**call, "made": None, **times}
