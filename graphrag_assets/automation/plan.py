"""What is missing: the input and the settings against the build area. Nothing here needs Dagster."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from graphrag_assets.assets.fingerprints import (
    ASKING_STAGES,
    BATCH_STAGES,
    CORPUS_STAGES,
    STAGE_ASSETS,
    Fingerprints,
    complete,
)
from graphrag_assets.assets.refreshing import made_again, refreshing
from graphrag_assets.ids import digest_json
from graphrag_assets.input.inventory import Changes, Inventory, count_unusable, file_changes
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import BuildArea
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.s3 import S3FileSystem
from graphrag_assets.storage.snapshots import SnapshotStore
from graphrag_assets.storage.undone import due, read_undone
from graphrag_assets.storage.vectors import read_marker

#: Looks at tables of an object store at one time.
LOOKS_AT_ONCE = 32

VECTOR_STAGES = ("text_unit_embeddings", "entity_embeddings", "community_report_embeddings")

#: Raised when the readers make another document of an equal file, or the inventory gets another column.
READERS_VERSION = 2


def inventory_fingerprint(workspace: Workspace) -> str:
    """Hash of the settings that decide how the input is read; a change means that every file is read again."""
    settings = workspace.settings
    return digest_json(
        [READERS_VERSION, settings.input.model_dump(), settings.input_storage.model_dump(), settings.language]
    )


def last_inventory(workspace: Workspace, area: BuildArea) -> Inventory | None:
    """The inventory in the build area; None where there is none, or it was taken with other input settings."""
    if area.fingerprint("input_inventory") != inventory_fingerprint(workspace):
        return None
    try:
        tables = [area.read(name) for name in ("input_inventory", "input_files", "rejected_inputs")]
    except FileNotFoundError:
        return None
    count = tables[0].num_rows
    return Inventory(
        tables[0], tables[1], tables[2], Changes(0, 0, 0, count, count_unusable(tables[2]["reason"].to_pylist()))
    )


@dataclass(frozen=True)
class Work:
    """What has to be computed.

    Args:
        batches: Batch keys that lack one or more of the per-batch stages, in order.
        stages: Per-batch stages that some batch lacks.
        corpus_stages: Whole-corpus stages that are missing or no longer true.
        publish: Whether a snapshot has to be assembled.
        due: When the first of what failed is tried again, in seconds since 1970; None where nothing waits.
    """

    batches: list[str]
    stages: list[str]
    corpus_stages: list[str]
    publish: bool
    due: float | None = field(default=None, compare=False)

    @property
    def nothing(self) -> bool:
        """Whether the index is as the input and the settings want it."""
        return not (self.batches or self.corpus_stages or self.publish)


def missing_work(
    workspace: Workspace,
    storage: FileSystem,
    prints: Fingerprints,
    published: str | None,
    again: frozenset[str] = frozenset(),
    *,
    retry_failed: bool = False,
) -> Work:
    """Compare what the index ought to be with what the build area holds.

    Args:
        workspace: Settings.
        storage: The storage base.
        prints: Fingerprints of all tables that the index ought to have.
        published: Fingerprint of the published snapshot, or None.
        again: Stages that are to be computed in any case; those of a refresh that has not ended always are.
        retry_failed: Whether what failed is tried again at once; else when it is time.
    """
    area = BuildArea(storage)
    again |= made_again(refreshing(storage))
    now, waiting = time.time(), list[float]()

    def is_done(stage: str, key: str | None, found: set[str | None], wanted: str) -> bool:
        """Whether a table is there, or waits for its time: some rows failed, and were tried not long ago."""
        if found == {wanted}:
            return True
        marked = next(iter(found)) if len(found) == 1 else None
        if retry_failed or stage not in ASKING_STAGES or marked is None or complete(marked) != wanted:
            return False
        rows = read_undone(storage, stage, key)
        at = due(rows)
        if not rows or (at is not None and at <= now):
            return False
        waiting.extend([at] if at is not None else [])
        return True

    def present(stage: str, key: str | None) -> set[str | None]:
        if stage in VECTOR_STAGES:
            marker = read_marker(storage, stage, key)
            return {marker.fingerprint if marker else None}
        return {area.fingerprint(asset, key) for asset in STAGE_ASSETS[stage]}

    # Each look is one small request where the storage is an object store, which answers many at once.
    looks = [(stage, key) for key in prints.batches for stage in BATCH_STAGES]
    with ThreadPoolExecutor(LOOKS_AT_ONCE if isinstance(storage, S3FileSystem) else 1) as pool:
        found = dict(zip(looks, pool.map(lambda look: present(*look), looks), strict=True))
    lacking = {
        (stage, key)
        for (stage, key), prints_found in found.items()
        if stage in again or not is_done(stage, key, prints_found, prints.batch(stage, key))
    }
    stages = _with_followers({stage for stage, _ in lacking}, BATCH_STAGES)
    stale = {stage for stage in CORPUS_STAGES if not is_done(stage, None, present(stage, None), prints.corpus(stage))}
    corpus = _with_followers({*stages, *stale, *again}, CORPUS_STAGES)
    return Work(
        batches=sorted({key for _, key in lacking}),
        stages=[stage for stage in BATCH_STAGES if stage in stages],
        corpus_stages=[stage for stage in CORPUS_STAGES if stage in corpus],
        publish=bool(lacking or corpus) or published != _wanted(prints, area),
        due=min(waiting, default=None),
    )


def _wanted(prints: Fingerprints, area: BuildArea) -> str:
    """Fingerprint of the snapshot that ought to be published."""
    try:
        return prints.snapshot(area.read("rejected_inputs"))
    except FileNotFoundError:
        return prints.whole_input()


def _with_followers(stages: set[str], made_from: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The stages and everything that is made from them; the stages are listed in the order in which they are computed."""
    found = set(stages)
    for stage, sources in made_from.items():
        if found.intersection(sources):
            found.add(stage)
    return found


def contiguous(keys: list[str], order: list[str], most: int) -> list[list[str]]:
    """Group batch keys into runs of neighbours in partition order, at most ``most`` in a group.

    A run over several partitions covers a range of keys, so that a gap ends a group.
    """
    position = {key: i for i, key in enumerate(order)}
    groups: list[list[str]] = []
    for key in sorted(keys, key=lambda k: position[k]):
        last = groups[-1] if groups else []
        if last and position[key] == position[last[-1]] + 1 and len(last) < most:
            last.append(key)
        else:
            groups.append([key])
    return groups


def nothing_to_do(workspace: Workspace, source: FileSystem, storage: FileSystem, *, retry_failed: bool = False) -> bool:
    """Whether a reconcile would change nothing; a listing of the input and a few small reads tell.

    Args:
        workspace: Settings.
        source: The input.
        storage: The storage base.
        retry_failed: Whether what failed would be tried again at once.
    """
    before = last_inventory(workspace, BuildArea(storage))
    if before is None or any(file_changes(source, workspace.settings, before).values()):
        return False
    published = SnapshotStore(storage).current()
    fingerprint = str(published.info.get("fingerprint")) if published else None
    prints = Fingerprints(workspace, before.documents)
    return missing_work(workspace, storage, prints, fingerprint, retry_failed=retry_failed).nothing
