"""Which calls a snapshot was made with: the ledger of this host and the records of the snapshot before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from graphrag_assets.llm.ledger import SEVERAL, read_calls
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.call_tables import CALL_ROWS, CALLS, tables_of
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.snapshots import Manifest

#: Between two titles of a pair that a model was asked about.
PAIR = " | "

#: Seconds by which a clock may differ between the process that publishes and those that ask.
_MARGIN = 2.0

Row = dict[str, Any]


def call_tables(
    workspace: Workspace, storage: FileSystem, parent: Manifest | None, known: Known
) -> dict[str, pa.Table]:
    """The records ``calls`` and ``call_rows`` of a snapshot that is about to be published.

    Every stage asks for all that it makes anew, if only in the cache; what it carries over was asked for before. So the
    calls behind a row are those of the last run that asked for it: in the ledger since the snapshot before, else in
    that snapshot's own records.

    Args:
        workspace: Where the ledger is.
        storage: The storage base.
        parent: The snapshot that is published now.
        known: Rows of the snapshot.
    """
    before = earlier_calls(storage, parent)
    since = datetime.fromisoformat(parent.created).timestamp() - _MARGIN if parent is not None and before else 0.0
    ledger = read_calls(
        workspace.path(workspace.settings.cache.path), workspace.uri(workspace.settings.storage.base), since
    )
    return tables_of(_newest([*before, *(call.as_row() for call in ledger)], known))


class Known:
    """Rows of a snapshot that calls may have served.

    Args:
        published: Tables of the snapshot by name; ids are read, and titles with their aliases.
    """

    def __init__(self, published: Mapping[str, pa.Table]) -> None:
        with_ids = ("text_units", "entities", "relationships", "communities", "community_reports")
        self._ids = {row for name in with_ids for row in published[name]["id"].to_pylist()}
        self._titles = set(published["entities"]["title"].to_pylist())
        self._titles.update(published["entity_aliases"]["alias"].to_pylist())

    def __contains__(self, row: str) -> bool:
        """Whether the snapshot holds a row, or both titles of a pair."""
        if row in self._ids:
            return True
        first, _, second = row.partition(PAIR)
        return bool(second) and first in self._titles and second in self._titles


def earlier_calls(storage: FileSystem, manifest: Manifest | None) -> list[Row]:
    """The calls that a snapshot was made with, each with all of its rows; empty where its manifest names none."""
    if manifest is None or not {CALLS.name, CALL_ROWS.name} <= manifest.records.keys():
        return []
    calls = read_table(storage, manifest.records[CALLS.name].path).to_pylist()
    served: dict[int, list[str]] = {}
    for link in read_table(storage, manifest.records[CALL_ROWS.name].path, ["row", "call"]).to_pylist():
        served.setdefault(link["call"], []).append(link["row"])
    return [{**call, "served": served.get(call["call"], [call["row"]])} for call in calls]


def _newest(calls: Sequence[Row], known: Known) -> list[Row]:
    """For each row and stage the calls of the last run that asked for it; of equal ones the one that was paid for."""
    last: dict[tuple[str, str], str] = {}
    for call in calls:
        for row in call["served"]:
            last[call["stage"], row] = call["run"]
    kept: dict[tuple[str, str, str], Row] = {}
    for call in calls:
        rows = [row for row in call["served"] if last[call["stage"], row] == call["run"] and row in known]
        if not rows:
            continue
        place = (call["stage"], call["answer"], "" if call["stage"].endswith("embeddings") else SEVERAL.join(rows))
        there = kept.get(place)
        if there is None or (there["cached"] and not call["cached"]):
            kept[place] = {**call, "served": rows}
    return list(kept.values())
