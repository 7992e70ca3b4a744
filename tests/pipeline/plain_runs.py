"""A reconcile without Dagster's machinery: the same asset functions, called one after the other.

Dagster records some hundred events a run, which takes seconds; a property test wants many reconciles. What is read, what
is computed and what is written is the same as in a run of Dagster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg

from graphrag_assets.assets.build import build_definitions
from graphrag_assets.assets.embeddings import VECTOR_TABLES
from graphrag_assets.assets.fingerprints import STAGE_ASSETS, Fingerprints
from graphrag_assets.assets.memory import spare_memory
from graphrag_assets.assets.models import RUN_USAGE
from graphrag_assets.assets.resources import Index
from graphrag_assets.automation.plan import Work, inventory_fingerprint, missing_work
from graphrag_assets.automation.reconcile import look_at_input
from graphrag_assets.cli.index import usage_json
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.build import Built, TableRef
from graphrag_assets.storage.io_managers import LanceVectors, ParquetTables
from graphrag_assets.storage.lease import exclusive
from tests.pipeline.workspaces import fresh_process


class _Partitions:
    """What a look at the input wants of a Dagster instance: keys of partitions, kept in a file beside the workspace."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def get_dynamic_partitions(self, name: str) -> list[str]:
        return json.loads(self._file.read_text()) if self._file.is_file() else []

    def add_dynamic_partitions(self, name: str, keys: Sequence[str]) -> None:
        self._file.write_text(json.dumps([*self.get_dynamic_partitions(name), *keys]))

    def delete_dynamic_partition(self, name: str, key: str) -> None:
        self._file.write_text(json.dumps([k for k in self.get_dynamic_partitions(name) if k != key]))


@cache
def _no_history() -> dg.DagsterInstance:
    """An instance that knows of no run."""
    return dg.DagsterInstance.ephemeral()


class _OutputContext(SimpleNamespace):
    """What the IO managers want to know of an output."""

    def add_output_metadata(self, metadata: object) -> None:
        """Dagster would record it."""


@dataclass(frozen=True)
class Reconciled:
    """What a reconcile did.

    Args:
        work: What was missing.
        llm: Calls of models, as the command ``index`` reports them.
        snapshot: Id of the published snapshot.
        metadata: Figures by asset.
        failed: Stages that got no usable answer to some question.
    """

    work: Work
    llm: dict[str, Any]
    snapshot: str
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: frozenset[str] = frozenset()

    @property
    def calls(self) -> dict[str, int]:
        """Calls that were paid for, by stage; stages without any are left out."""
        return {name: used["calls"] for name, used in self.llm["by_stage"].items() if used["calls"]}


def reconcile_plainly(root: Path, *, allow_empty: bool = True, recluster: bool = False) -> Reconciled:
    """Bring the index of a workspace to the state of its input and settings.

    Args:
        root: The workspace.
        allow_empty: Whether an input without documents may empty the index.
        recluster: Whether all communities are made afresh.
    """
    spare_memory()
    with fresh_process():
        made = _Reconcile(root)
        with exclusive(made.index.storage, "a plain reconcile", made.index.workspace.settings.automation.lease_seconds):
            return made.run(allow_empty, recluster)


class _Reconcile:
    def __init__(self, root: Path) -> None:
        self.index = Index(root=str(root))
        self.partitions = _Partitions(root / "partitions.json")
        definitions = build_definitions(load_workspace(root))
        self.assets = {
            key.path[-1]: definition
            for definition in definitions.assets or ()
            if isinstance(definition, dg.AssetsDefinition)
            for key in definition.keys
        }
        self.parquet = ParquetTables(self.index.storage)
        self.lance = LanceVectors(self.index.storage, VECTOR_TABLES)
        self.metadata: dict[str, dict[str, Any]] = {}

    def run(self, allow_empty: bool, recluster: bool) -> Reconciled:
        index = self.index
        found = look_at_input(index, self.partitions, allow_empty=allow_empty)  # type: ignore[arg-type]
        index.build.write("input_files", Built(found.files))
        index.build.write("input_inventory", Built(found.documents, inventory_fingerprint(index.workspace)))
        index.build.write("rejected_inputs", Built(found.rejected))
        prints = Fingerprints(index.workspace, found.documents)
        published = index.snapshots.current()
        fingerprint = str(published.info.get("fingerprint")) if published else None
        again = frozenset({"communities"} if recluster else ())
        work = missing_work(index.workspace, index.storage, prints, fingerprint, again)
        if work.batches:
            for stage in work.stages:
                self._make(STAGE_ASSETS[stage], work.batches)
        if work.publish:
            for stage in work.corpus_stages:
                self._make(STAGE_ASSETS[stage], [], recluster)
            self._make(("index_snapshot",), [])
        current = index.snapshots.current()
        assert current is not None
        return Reconciled(work, usage_json(dict(RUN_USAGE)), current.id, self.metadata, _failed())

    def _make(self, names: Sequence[str], batches: list[str], recluster: bool = False) -> None:
        definition = self.assets[names[0]]
        configs = {
            "communities": SimpleNamespace(recluster=recluster),
            "index_snapshot": SimpleNamespace(replace_imported=False),
        }
        given: dict[str, Any] = {"index": self.index}
        if names[0] in configs:
            given["config"] = configs[names[0]]
        for parameter, key in definition.keys_by_input_name.items():
            if parameter in _wanted(definition):
                given[parameter] = self._load(definition, parameter, key.path[-1], batches)
        log = SimpleNamespace(warning=lambda message: None)
        context = SimpleNamespace(partition_keys=batches, log=log, instance=_no_history())
        returned = _function(definition)(context, **given)
        for output in returned if hasattr(returned, "__next__") else [returned]:
            if isinstance(output, dg.AssetCheckResult):
                assert output.passed or output.severity is dg.AssetCheckSeverity.WARN, output
            elif isinstance(output, dg.Output):
                name = output.output_name if len(names) > 1 else names[0]
                self.metadata[name] = dict(output.metadata)
                self._store(name, output.value, batches)
            elif not isinstance(output, dg.MaterializeResult):
                self._store(names[0], output, batches)

    def _load(self, definition: dg.AssetsDefinition, parameter: str, name: str, batches: list[str]) -> Any:
        if name == "input_inventory":
            return self.index.build.read(name)
        if _wanted(definition)[parameter] is TableRef:
            return self.index.build.ref(name, self.index.fingerprints().batches)
        if not batches:
            return self.index.build.read(name)
        tables = {key: self.index.build.read(name, key) for key in batches}
        return tables[batches[0]] if len(batches) == 1 else tables

    def _store(self, name: str, value: Built | Mapping[str, Built], batches: list[str]) -> None:
        context = _OutputContext(
            asset_key=dg.AssetKey(name),
            has_asset_partitions=bool(batches),
            asset_partition_keys=batches,
            definition_metadata={},
            step_context=SimpleNamespace(add_asset_metadata=lambda *_, **__: None),
        )
        manager = self.lance if name in VECTOR_TABLES else self.parquet
        manager.handle_output(context, value)  # type: ignore[arg-type]


def _failed() -> frozenset[str]:
    return frozenset(stage for stage, used in RUN_USAGE.items() if used.failed)


def _function(definition: dg.AssetsDefinition) -> Any:
    return definition.node_def.compute_fn.decorated_fn  # type: ignore[attr-defined,union-attr]


def _wanted(definition: dg.AssetsDefinition) -> dict[str, Any]:
    """Parameters of an asset's function with their annotations."""
    found: dict[str, Any] = _function(definition).__wrapped__.__annotations__
    return found
