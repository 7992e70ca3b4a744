"""A process that reads an index over and over while others write it; started by test_many_processes.py.

    python -m tests.pipeline.reading ROOT SECONDS

Each round it takes the published snapshot, asks it something, and makes sure that it is whole. It prints one JSON object:
rounds, and the snapshots that it saw, in order. Whatever is torn ends it with an error.
"""

from __future__ import annotations

import json
import sys
import time

from graphrag_assets.query.engine import ask_sync
from graphrag_assets.query.index import open_index
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.snapshots import SnapshotStore
from tests.pipeline.whole import assert_whole


def main() -> None:
    workspace, seconds = load_workspace(sys.argv[1]), float(sys.argv[2])
    base = workspace.uri(workspace.settings.storage.base)
    storage = open_filesystem(base, workspace.settings.storage.endpoint_url)
    store = SnapshotStore(storage)
    deadline = time.monotonic() + seconds
    seen: list[str] = []
    rounds = 0
    while time.monotonic() < deadline:
        current = store.current()
        assert current is not None
        if not seen or seen[-1] != current.id:
            seen.append(current.id)
        held = open_index(base, current.id, workspace)
        method = ("basic", "local")[rounds % 2]
        answer = ask_sync(held, "Who wrote to Tobin Ashe?", method)  # type: ignore[arg-type]
        assert answer.snapshot == current.id
        assert_whole(storage, current)  # others may have published since: what is held stays as it is
        rounds += 1
    print(json.dumps({"rounds": rounds, "seen": seen}))


if __name__ == "__main__":
    main()
