"""The clustering of the published snapshot, whose communities stay as far as they can."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from graphrag_assets.assets.fingerprints import code_version
from graphrag_assets.assets.resources import Index
from graphrag_assets.indexing.keeping import Earlier, Standing
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import BuildArea
from graphrag_assets.storage.parquet import read_table

#: Part of a snapshot's facts: what its communities were made with, and what is known of fresh ones.
CLUSTERING = "clustering"


def earlier_clustering(index: Index) -> Earlier | None:
    """The communities of the published snapshot, which are to stay; None where they were made by other settings.

    The published ones, not those of the build area: a run that did not come to its end leaves no trace in the next.
    """
    published = index.snapshots.current()
    known = published.info.get(CLUSTERING) if published else None
    if published is None or not known or known["version"] != code_version(index.workspace, "communities"):
        return None

    def read(name: str, *columns: str) -> pa.Table:
        return read_table(index.storage, published.tables[name].path, list(columns))

    return Earlier(
        read("communities", "id", "community", "parent", "entity_ids"),
        read("entities", "id", "title"),
        read("relationships", "source", "target", "weight"),
        known["top"],
        known["leaves"],
    )


def clustering_info(workspace: Workspace, area: BuildArea) -> dict[str, Any]:
    """The same of the build area, for the facts of a snapshot."""
    figures = area.facts("communities").figures
    return {"version": code_version(workspace, "communities"), "top": figures["top"], "leaves": figures["leaves"]}


def standing_figures(standing: Standing, earlier: Earlier | None, communities: pa.Table) -> dict[str, Any]:
    """How many communities stayed, for the page of the asset."""
    was = {} if earlier is None else dict(zip(*_ids_and_members(earlier.communities), strict=True))
    now = dict(zip(*_ids_and_members(communities), strict=True))
    return {
        "communities_made": standing.how,
        "compared_with_fresh": standing.compared,
        "communities_as_before": sum(now.get(name) == members for name, members in was.items()),
        "communities_changed": sum(name in now and now[name] != members for name, members in was.items()),
        "communities_new": sum(name not in was for name in now),
        "communities_gone": sum(name not in now for name in was),
    }


def _ids_and_members(communities: pa.Table) -> tuple[list[str], list[list[str]]]:
    return communities["id"].to_pylist(), communities["entity_ids"].to_pylist()
