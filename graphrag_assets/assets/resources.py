"""The workspace as a Dagster resource: settings, storage, input, models."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import dagster as dg

from graphrag_assets import interrupts
from graphrag_assets.assets.fingerprints import (
    ASKING_STAGES,
    BATCH_STAGES,
    CORPUS_STAGES,
    INCOMPLETE,
    MOST_RUNS,
    STAGE_ASSETS,
    Fingerprints,
    complete,
)
from graphrag_assets.settings import Workspace
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.build import BuildArea
from graphrag_assets.storage.filesystem import INPUT_BASE, FileSystem, open_filesystem
from graphrag_assets.storage.lease import BusyError, check, exclusive
from graphrag_assets.storage.snapshots import SnapshotStore
from graphrag_assets.storage.undone import Undone, keep_undone
from graphrag_assets.telemetry import telemetry_of

log = logging.getLogger(__name__)


@lru_cache(maxsize=8)
def _workspace(root: str) -> Workspace:
    return load_workspace(root or None)


def open_storage(workspace: Workspace) -> FileSystem:
    """The storage base of a workspace.

    Raises:
        StorageError: The address cannot be used.
    """
    storage = workspace.settings.storage
    return open_filesystem(workspace.uri(storage.base), storage.endpoint_url, storage.region)


def open_input(workspace: Workspace) -> FileSystem:
    """The input folder or prefix of a workspace.

    Raises:
        StorageError: The address cannot be used.
    """
    folder = workspace.settings.input_storage
    return open_filesystem(workspace.uri(folder.base_dir), folder.endpoint_url, folder.region, INPUT_BASE)


class Index(dg.ConfigurableResource[None]):
    """Where the index lives and what it is made with.

    Args:
        root: Folder with settings.yaml; empty: the environment variable GRAPHRAG_ROOT, else the current folder.
    """

    root: str = ""

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Any]:
        """A run holds the lease of the index from its beginning to its end, and waits for it where another one has it.

        So whatever is materialized by hand, in whatever process of whatever host, never mixes with a reconcile.
        """

        def tell(busy: BusyError) -> None:
            log.warning("waiting, since the index is being worked on by %s", busy.holder.told())

        run = context.run
        what = f"Dagster run {run.run_id} of {run.job_name}" if run else "a Dagster run"
        seconds = self.workspace.settings.automation.lease_seconds
        telemetry = telemetry_of(self.workspace.settings.telemetry)
        with exclusive(self.storage, what, seconds, wait=True, waiting=tell):
            yield self
        telemetry.send()

    @property
    def workspace(self) -> Workspace:
        """Settings and root folder."""
        return _workspace(self.root)

    @property
    def storage(self) -> FileSystem:
        """The storage base."""
        return open_storage(self.workspace)

    @property
    def input(self) -> FileSystem:
        """The input folder or prefix."""
        return open_input(self.workspace)

    @property
    def build(self) -> BuildArea:
        """The build area of the storage base."""
        return BuildArea(self.storage)

    def fingerprints(self) -> Fingerprints:
        """Fingerprints of all tables that the index ought to have, by the inventory in the build area.

        Assets read the inventory here rather than as an input: it decides nothing about their rows, and every asset
        stands downstream of it anyway, through the documents. No step begins where the process was asked to end, or has
        lost the lease of the index.
        """
        interrupts.check()
        check(self.storage)
        return Fingerprints(self.workspace, self.build.read("input_inventory"))

    def stamp(
        self,
        prints: Fingerprints,
        stage: str,
        key: str | None = None,
        *,
        failed: bool = False,
        undone: Iterable[Undone] = (),
    ) -> str:
        """Fingerprint to write a table with.

        It is marked as incomplete where something failed, or a table that it was made from is not what the inventory and
        the settings ask for, as after a single asset was materialized by hand; the next reconcile then makes it again.
        What a model gave no usable answer to is kept with the number of tries: a reconcile asks again when it is time
        (:mod:`graphrag_assets.storage.undone`).

        Args:
            prints: What the index ought to have.
            stage: Stage of the table.
            key: Batch; None for a table of the whole corpus.
            failed: Whether some rows could not be made, and one more run may make them.
            undone: Rows that no model gave a usable answer for.
        """
        wanted = prints.batch(stage, key) if key else prints.corpus(stage)
        sources = BATCH_STAGES[stage] if key else CORPUS_STAGES[stage]
        keys = {source: [key] if key else prints.batches if source in BATCH_STAGES else [None] for source in sources}
        true = all(self._is_true(prints, source, part) for source, parts in keys.items() for part in parts)
        left = keep_undone(self.storage, stage, key, undone, time.time()) if stage in ASKING_STAGES else []
        if true and not failed and not left:
            return wanted
        if not true or left:
            return wanted + INCOMPLETE
        found = self.build.fingerprint(STAGE_ASSETS[stage][0], key) or ""
        runs = 1 + (found.count(INCOMPLETE) if complete(found) == wanted else 0)
        return wanted + INCOMPLETE * runs if runs < MOST_RUNS else wanted

    def _is_true(self, prints: Fingerprints, stage: str, key: str | None) -> bool:
        found = self.build.fingerprint(STAGE_ASSETS[stage][0], key) or ""
        return complete(found) == (prints.batch(stage, key) if key else prints.corpus(stage))

    @property
    def snapshots(self) -> SnapshotStore:
        """The snapshots of the storage base."""
        return SnapshotStore(self.storage)
