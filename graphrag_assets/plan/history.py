"""What past calls teach a plan: how long answers are, how long they take, how much a text unit gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphrag_assets.plan.supposing import GLEANED_ENTITIES, GLEANED_RELATIONSHIPS, Density, Names, names_in
from graphrag_assets.storage.build import BuildArea
from graphrag_assets.storage.call_tables import CALLS
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.snapshots import Manifest

#: Fewest calls of a stage, or text units, that teach anything.
LEAST = 3

#: Text units that are looked at to learn how much one gives, and the most that is supposed of one.
SAMPLE, MOST = 60, 80

#: Seconds until the first token of an answer, and tokens of an answer in a second, where no past call tells.
_FIRST_TOKEN, _TOKENS_PER_SECOND = 0.6, 70.0


@dataclass(frozen=True)
class History:
    """What is known of earlier calls of this index.

    Args:
        answers: Mean tokens of an answer, by stage, model and whether it was a gleaning.
        seconds: Mean time of a call, by the same.
        density: What a text unit gives.
    """

    answers: dict[tuple[str, str, bool], float] = field(default_factory=dict)
    seconds: dict[tuple[str, str, bool], float] = field(default_factory=dict)
    density: Density = field(default_factory=Density)

    def latency(self, key: tuple[str, str, bool], completion: float) -> float:
        """Seconds that a call takes."""
        return self.seconds.get(key, _FIRST_TOKEN + completion / _TOKENS_PER_SECOND)


def history_of(
    storage: FileSystem, published: Manifest | None, area: BuildArea, batches: Sequence[str], gleanings: bool
) -> History:
    """Read what there is; nothing is known of an index that was never published, or whose calls are not on record."""
    if published is None or CALLS.name not in published.records:
        return History()
    columns = ["stage", "model", "turn", "completion_tokens", "seconds", "attempts", "status"]
    groups: dict[tuple[str, str, bool], list[dict[str, Any]]] = {}
    for call in read_table(storage, published.records[CALLS.name].path, columns).to_pylist():
        if call["status"] == "ok" and call["completion_tokens"] is not None and call["attempts"]:
            groups.setdefault((call["stage"], call["model"], call["turn"] > 1), []).append(call)
    taught = {key: calls for key, calls in groups.items() if len(calls) >= LEAST}
    return History(
        {key: _mean([c["completion_tokens"] / c["attempts"] for c in calls]) for key, calls in taught.items()},
        {key: _mean([c["seconds"] / c["attempts"] for c in calls]) for key, calls in taught.items()},
        _density(area, batches, gleanings),
    )


def _density(area: BuildArea, batches: Sequence[str], gleanings: bool) -> Density:
    """The bounds with which supposed answers about known text units would hold as much as the model's did."""
    status = {row["text_unit_id"]: row for row in area.ref("extraction_status", batches).table().to_pylist()}
    units = area.ref("text_units", batches).table(["id", "text"]).slice(0, SAMPLE).to_pylist()
    titles = _titles(area, batches, {unit["id"] for unit in units})
    known = [(names_in(unit["text"]), status[unit["id"]]) for unit in units if unit["id"] in status]
    known = [(names, row) for names, row in known if row["status"] == "ok"]
    if len(known) < LEAST:
        return Density()
    share = (1 + GLEANED_ENTITIES, 1 + GLEANED_RELATIONSHIPS) if gleanings else (1.0, 1.0)
    return Density(
        _bound([len(names.entities) for names, _ in known], _mean([row["entities"] for _, row in known]), share[0]),
        _bound([len(names.pairs) for names, _ in known], _mean([row["relationships"] for _, row in known]), share[1]),
        max(1, round(_mean([row["claims"] for _, row in known]))) if any(r["claims"] for _, r in known) else 4,
        _agreement(known, titles),
    )


def _titles(area: BuildArea, batches: Sequence[str], units: set[str]) -> dict[str, set[str]]:
    """Titles that the model found, by text unit."""
    found: dict[str, set[str]] = {}
    rows = area.ref("extracted_entities", batches).table(["text_unit_id", "title"])
    for unit, title in zip(rows["text_unit_id"].to_pylist(), rows["title"].to_pylist(), strict=True):
        if unit in units:
            found.setdefault(unit, set()).add(title)
    return found


def _agreement(known: Sequence[tuple[Names, dict[str, Any]]], titles: Mapping[str, set[str]]) -> float:
    """Share of the supposed names, as many as the model found, that are among its own."""
    shares = []
    for names, row in known:
        found = titles.get(row["text_unit_id"], set())
        supposed = [name for name, _ in names.entities[: len(found)]]
        if supposed:
            shares.append(sum(name in found for name in supposed) / len(supposed))
    return _mean(shares) if shares else 1.0


def _bound(there: Sequence[int], wanted: float, share: float) -> int:
    """The least bound with which texts give as much on average as is wanted."""
    for bound in range(1, MOST):
        if _mean([min(count, bound * share) for count in there]) >= wanted:
            return bound
    return MOST


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
