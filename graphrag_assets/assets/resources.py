"""The workspace as a Dagster resource: settings, storage, input, models."""

from __future__ import annotations

from functools import lru_cache

import dagster as dg

from graphrag_assets.settings import Workspace
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.build import BuildArea
from graphrag_assets.storage.filesystem import FileSystem, open_filesystem
from graphrag_assets.storage.snapshots import SnapshotStore


@lru_cache(maxsize=8)
def _workspace(root: str) -> Workspace:
    return load_workspace(root or None)


class Index(dg.ConfigurableResource):  # type: ignore[misc]
    """Where the index lives and what it is made with.

    Args:
        root: Folder with settings.yaml; empty: the environment variable GRAPHRAG_ROOT, else the current folder.
    """

    root: str = ""

    @property
    def workspace(self) -> Workspace:
        """Settings and root folder."""
        return _workspace(self.root)

    @property
    def storage(self) -> FileSystem:
        """The storage base."""
        storage = self.workspace.settings.storage
        return open_filesystem(self.workspace.uri(storage.base), storage.endpoint_url, storage.region)

    @property
    def input(self) -> FileSystem:
        """The input folder or prefix."""
        folder = self.workspace.settings.input_storage
        return open_filesystem(self.workspace.uri(folder.base_dir), folder.endpoint_url, folder.region)

    @property
    def build(self) -> BuildArea:
        """The build area of the storage base."""
        return BuildArea(self.storage)

    @property
    def snapshots(self) -> SnapshotStore:
        """The snapshots of the storage base."""
        return SnapshotStore(self.storage)
