"""What Dagster's history lacks: tables that are there, though this instance has no record of a run that made them.

The index is in the storage; the Dagster instance only keeps its history. Where the folder of the instance was deleted, or
another machine opens the same storage, Dagster would show nothing as materialized. Then each table in the build area and
the published snapshot are reported to the instance as they are found: rows, size, place, and the tags by which Dagster
tells what is out of date. Nothing is computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from graphrag_assets.assets.build import build_definitions
from graphrag_assets.assets.embeddings import VECTOR_TABLES
from graphrag_assets.assets.fingerprints import BATCH_STAGES, CORPUS_STAGES, STAGE_ASSETS, Fingerprints, complete
from graphrag_assets.assets.partitions import BATCHES_NAME
from graphrag_assets.assets.resources import Index
from graphrag_assets.assets.snapshot import snapshot_metadata
from graphrag_assets.automation.plan import last_inventory
from graphrag_assets.ids import digest
from graphrag_assets.storage.io_managers import LINEAGE, table_metadata, vector_metadata
from graphrag_assets.storage.vectors import read_marker

#: Told with each materialization that is reported here.
FOUND = "Found in the storage. The history of this Dagster instance does not have the run that made it."

INVENTORY = ("input_files", "input_inventory", "rejected_inputs")
SNAPSHOT = "index_snapshot"

_STAGE_OF = {asset: stage for stage, assets in STAGE_ASSETS.items() for asset in assets}
_PER_BATCH = tuple(asset for stage in BATCH_STAGES for asset in STAGE_ASSETS[stage])
_WHOLE = (*INVENTORY, *(asset for stage in CORPUS_STAGES for asset in STAGE_ASSETS[stage]), SNAPSHOT)


@dataclass(frozen=True)
class Found:
    """A table, or one batch of it, as it lies in the storage.

    Args:
        version: Hash of what it was made from, or of what it is.
        metadata: What its materialization tells.
    """

    version: str
    metadata: dict[str, Any] = field(default_factory=dict)


def restore_history(index: Index, instance: dg.DagsterInstance) -> int:
    """Report what is in the storage, and unknown to a Dagster instance, as materialized.

    Where the instance knows everything, a few look-ups tell, and nothing is written.

    Args:
        index: The workspace.
        instance: Dagster instance.

    Returns:
        Number of materializations reported.
    """
    inventory = last_inventory(index.workspace, index.build)
    if inventory is None:
        return 0  # nothing was ever indexed here, or the input will be read anew
    prints = Fingerprints(index.workspace, inventory.documents)
    unknown = _unknown(instance, prints.batches)
    if not unknown:
        return 0
    known = set(instance.get_dynamic_partitions(BATCHES_NAME))
    if missing := [batch for batch in prints.batches if batch not in known]:
        instance.add_dynamic_partitions(BATCHES_NAME, missing)
    graph = build_definitions(index.workspace).resolve_asset_graph()
    reported = 0
    for key in graph.toposorted_asset_keys:
        asset, node = key.path[-1], graph.get(key)
        if asset not in unknown:
            continue
        inputs = _input_tags(instance, node.parent_keys)
        lineage = {LINEAGE: node.metadata[LINEAGE]} if LINEAGE in node.metadata else {}
        for batch in unknown[asset]:
            found = _find(index, asset, batch)
            if found is None:
                continue
            instance.report_runless_asset_event(
                dg.AssetMaterialization(
                    key,
                    description=FOUND,
                    metadata=lineage | found.metadata,
                    partition=batch,
                    tags=inputs
                    | {
                        "dagster/data_version": found.version,
                        "dagster/code_version": _code_version(prints, asset, batch, found.version, node.code_version),
                    },
                )
            )
            reported += 1
    return reported


def _unknown(instance: dg.DagsterInstance, batches: list[str]) -> dict[str, list[str | None]]:
    """Assets that the instance knows no materialization of; of those made for each batch, the batches."""
    records = instance.get_asset_records([dg.AssetKey(asset) for asset in _WHOLE])
    known = {record.asset_entry.asset_key.path[-1] for record in records if record.asset_entry.last_materialization}
    unknown: dict[str, list[str | None]] = {asset: [None] for asset in _WHOLE if asset not in known}
    for asset in _PER_BATCH:
        there = instance.get_materialized_partitions(dg.AssetKey(asset))
        if missing := [batch for batch in batches if batch not in there]:
            unknown[asset] = [*missing]
    return unknown


def _find(index: Index, asset: str, batch: str | None) -> Found | None:
    """What the storage holds of an asset or one batch of it; None where it holds nothing."""
    if asset == SNAPSHOT:
        manifest = index.snapshots.current()
        return Found(manifest.id, snapshot_metadata(index.storage, manifest)) if manifest else None
    if asset in VECTOR_TABLES:
        marker = read_marker(index.storage, asset, batch)
        if marker is None:
            return None
        return Found(marker.fingerprint, vector_metadata(index.storage, VECTOR_TABLES[asset], marker))
    try:
        facts = index.build.facts(asset, batch)
    except FileNotFoundError:
        return None
    version = facts.fingerprint or digest(asset, str(facts.rows), str(facts.size))
    return Found(version, table_metadata(index.build, asset, batch, facts.rows, facts.size))


def _code_version(prints: Fingerprints, asset: str, batch: str | None, version: str, present: str | None) -> str:
    """The present code version where the table is what the input and the settings ask for, else another one.

    So that Dagster shows as out of date what the next index run would make again.
    """
    stage = _STAGE_OF.get(asset)
    if stage is None or present is None:
        return version
    wanted = prints.batch(stage, batch) if batch else prints.corpus(stage)
    return present if complete(version) == wanted else f"unknown ({version[:12]})"


def _input_tags(instance: dg.DagsterInstance, parents: Iterable[dg.AssetKey]) -> dict[str, str]:
    """The tags by which Dagster sees later that an input changed: its latest materialization, and the version of that."""
    tags = {}
    for parent in parents:
        latest = next(iter(instance.fetch_materializations(parent, limit=1).records), None)
        materialization = latest.asset_materialization if latest else None
        name = parent.to_user_string()
        if latest and materialization:
            tags[f"dagster/input_event_pointer/{name}"] = str(latest.storage_id)
            tags[f"dagster/input_data_version/{name}"] = (materialization.tags or {}).get(
                "dagster/data_version", "INITIAL"
            )
        else:
            tags[f"dagster/input_event_pointer/{name}"] = "NULL"
            tags[f"dagster/input_data_version/{name}"] = "INITIAL"
    return tags
