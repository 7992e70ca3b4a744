"""What the sensor thinks: whether the input changed, whether it came to rest, and whether it is time to try again.

Nothing here needs Dagster. What is remembered between two looks is small whatever the size of the input, and is all that
is remembered: the sensor keeps it as its cursor, so that a daemon that starts again goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from graphrag_assets.assets.fingerprints import BATCH_STAGES, CORPUS_STAGES, Fingerprints, code_version
from graphrag_assets.automation.plan import inventory_fingerprint, last_inventory, missing_work
from graphrag_assets.ids import digest, digest_json
from graphrag_assets.input.folder import list_inputs, require_input
from graphrag_assets.input.inventory import FileChanges, compare_files
from graphrag_assets.settings import Workspace
from graphrag_assets.settings_automation import AutomationSettings
from graphrag_assets.storage.build import BuildArea
from graphrag_assets.storage.filesystem import FileInfo, FileSystem
from graphrag_assets.storage.snapshots import SnapshotStore


@dataclass(frozen=True)
class Look:
    """One look at the input and the index; no file of the input was opened.

    Args:
        state: Hash of all that was looked at.
        missing: Hash of what has to be done; empty where there is nothing to do.
        told: The same in words.
        modified: Times of modification of the new and changed files.
        gone: Whether files are gone.
        since: Where no file changed, times at which what is missing may have come about: those of the files that an
            earlier look took note of, and of the settings.
    """

    state: str
    missing: str = ""
    told: str = ""
    modified: tuple[float, ...] = ()
    gone: bool = False
    since: tuple[float, ...] = ()


def look(workspace: Workspace, source: FileSystem, storage: FileSystem, clean: str = "") -> Look:
    """Look at the input and the index.

    Where all is as it was when nothing was missing, one listing of the input and one small read tell so. Else the
    listing is compared with the files of the last inventory, and where they are the same, the plan is made.

    Args:
        workspace: Settings, freshly loaded.
        source: The input.
        storage: The storage base.
        clean: State in which nothing was missing; empty: not known.

    Raises:
        InputError: There is no input.
        StorageError: Input or storage cannot be read.
    """
    require_input(source)
    listed = list_inputs(source, workspace.settings.input)
    head, _ = SnapshotStore(storage).head()
    state = digest(_listing(listed), str(head), _versions(workspace))
    if state == clean:
        return Look(state)
    before = last_inventory(workspace, BuildArea(storage))
    changes = compare_files(listed, before.files if before else None)
    if any(changes.counts.values()):
        return _with_files(state, changes, _versions(workspace))
    if before is None:
        return Look(state)  # an empty input, and nothing was ever indexed
    published = SnapshotStore(storage).current()
    fingerprint = str(published.info.get("fingerprint")) if published else None
    work = missing_work(workspace, storage, Fingerprints(workspace, before.documents), fingerprint)
    if work.nothing or (published is not None and "imported" in published.info):
        return Look("" if work.due is not None else state)  # what failed is tried again when it is time
    stages = [*work.stages, *work.corpus_stages]
    of_batches = f"{len(work.batches)} batches and " if work.batches else ""
    told = f"no file changed since the last look at the input, but {of_batches}the stages {', '.join(stages)} have to be made"
    if not stages:
        told = "no file changed, but the published snapshot is not that of the input and the settings"
    since = [*before.files["modified"].to_pylist(), *_modified(workspace.file)]
    missing = digest_json([_versions(workspace), asdict(work) | {"due": None}])
    return Look(state, missing, told, since=tuple(since))


def _modified(file: Path | None) -> list[float]:
    """When a file was changed, where it is there."""
    return [file.stat().st_mtime] if file is not None and file.is_file() else []


def _with_files(state: str, changes: FileChanges, versions: str) -> Look:
    files = [*changes.new, *changes.changed]
    counts = ", ".join(f"{count} {name}" for name, count in changes.counts.items() if count)
    missing = digest(_listing(files), *changes.gone, versions)
    return Look(state, missing, f"files: {counts}", tuple(info.modified for info in files), bool(changes.gone))


def _listing(files: Sequence[FileInfo]) -> str:
    """Hash of what a listing shows of files."""
    told = hashlib.sha256()
    for info in files:
        problem = info.problem.reason if info.problem else ""
        told.update(f"{info.path}\0{info.size}\0{info.modified!r}\0{info.etag}\0{problem}\n".encode())
    return told.hexdigest()


def _versions(workspace: Workspace) -> str:
    """Hash of the settings, prompts and algorithms that decide what the tables are."""
    stages = (*BATCH_STAGES, *CORPUS_STAGES)
    return digest(inventory_fingerprint(workspace), *(code_version(workspace, stage) for stage in stages))


@dataclass(frozen=True)
class Memory:
    """What is remembered from one look to the next.

    Args:
        clean: State in which nothing was missing.
        missing: What was missing at the last look, by hash.
        since: Time since which exactly this is missing.
        first: Time since which anything is missing.
        attempts: Runs that were asked for to do it.
        key: Key of the last of them.
    """

    clean: str = ""
    missing: str = ""
    since: float = 0.0
    first: float = 0.0
    attempts: int = 0
    key: str = ""

    @classmethod
    def read(cls, cursor: str | None) -> Memory:
        """From a cursor; one that another release wrote is forgotten, which costs one more look."""
        try:
            return cls(**json.loads(cursor or "{}"))
        except (TypeError, ValueError):
            return cls()

    def to_json(self) -> str:
        """The cursor."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class LastRun:
    """The newest run that was started for a key.

    Args:
        id: Its id.
        ended: Time at which it ended.
        succeeded: Whether it succeeded.
        stopped: Whether a person stopped it.
    """

    id: str
    ended: float
    succeeded: bool
    stopped: bool = False


@dataclass(frozen=True)
class Decision:
    """What follows from a look.

    Args:
        memory: What to remember.
        reason: Why nothing is started, or what is.
        start: Whether to start a run, under ``memory.key``: a second request of the same key is none.
    """

    memory: Memory
    reason: str
    start: bool = False


def decide(
    memory: Memory, seen: Look, now: float, settings: AutomationSettings, last_run: Callable[[str], LastRun | None]
) -> Decision:
    """Decide whether to start a run. Depends on its arguments alone, so that equal triggers decide equally.

    What is missing must have been the same at the look before, and no changed file may be younger than
    ``settle_seconds``. An input that is never at rest is indexed after ``settle_at_most_seconds``, if something in it
    is; the run leaves out what is younger. What a run left undone is tried again ``retries`` times, at growing distances;
    any other change of what is missing begins anew.

    Args:
        memory: What the look before left.
        seen: The present look.
        now: The present time.
        settings: Waits and retries.
        last_run: Finds the newest run of a key; None where there is none (any more).
    """
    if not seen.missing:
        return Decision(Memory(clean=seen.state), "the index is up to date with the input and the settings")
    same = seen.missing == memory.missing
    memory = memory if same else Memory(missing=seen.missing, since=now, first=memory.first or now)
    if not memory.attempts:
        if wait := _unrest(memory, seen, now, settings, same):
            return Decision(memory, wait)
        return _start(memory, seen, 1)
    return _again(memory, seen, now, settings, last_run(memory.key))


def _unrest(memory: Memory, seen: Look, now: float, settings: AutomationSettings, same: bool) -> str:
    """Why what is missing has to wait; empty where it need not."""
    settle = settings.settle_seconds
    young = [modified for modified in seen.modified if 0 <= now - modified < settle]
    if same and (not young or now - memory.since >= settle):
        return ""
    overdue = now - memory.first >= settings.settle_at_most_seconds
    if overdue and (len(young) < len(seen.modified) or seen.gone or not seen.modified):
        return ""
    what = f"{seen.told}; waiting until they stay as they are for {settle:g} s"
    return what + (f" ({len(young)} changed within that time)" if young else "")


def _again(memory: Memory, seen: Look, now: float, settings: AutomationSettings, last: LastRun | None) -> Decision:
    """Decide about work that a run was asked for already."""
    if last is not None and last.stopped:
        return Decision(memory, f"{seen.told}; somebody stopped run {last.id}: waiting for a change, or for a person")
    how = "left this undone" if last is None or last.succeeded else "failed"
    named = f"run {last.id}" if last else "the last run"
    if memory.attempts > settings.retries:
        told = f"{memory.attempts} runs were made, and {named} {how}"
        return Decision(memory, f"{seen.told}; {told}: waiting for a change, for the schedule or for a person")
    due = (last.ended if last else memory.since) + settings.retry_seconds * 2 ** (memory.attempts - 1)
    if now < due:
        at = datetime.fromtimestamp(due, UTC).isoformat(timespec="seconds")
        return Decision(memory, f"{seen.told}; {named} {how}, trying again at {at}")
    return _start(memory, seen, memory.attempts + 1)


def _start(memory: Memory, seen: Look, attempt: int) -> Decision:
    """Start a run. Its key is made of what is missing, since when, and the attempt, all of which are remembered."""
    key = f"{seen.missing[:16]}-{memory.since:.0f}-{attempt}"
    return Decision(replace(memory, attempts=attempt, key=key, first=0.0), seen.told, start=True)
