"""What the last run of each stage did about answers that could not be used as they were; told by ``status``."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from graphrag_assets.storage.filesystem import FileSystem

logger = logging.getLogger(__name__)

FOLDER = "build/ladder"


def keep_ladder(storage: FileSystem, stage: str, counts: Mapping[str, Any]) -> None:
    """Keep the counts of a run; a help, never a reason to fail.

    Args:
        storage: The storage base.
        stage: Stage whose questions were asked.
        counts: calls, failed, and ladder: the steps with their counts.
    """
    try:
        storage.write(f"{FOLDER}/{stage}.json", json.dumps(dict(counts)).encode())
    except Exception as error:
        logger.debug("what was done about useless answers of %s is not kept: %s", stage, error)


def read_ladder(storage: FileSystem) -> dict[str, dict[str, Any]]:
    """The counts of the last run of each stage, by stage."""
    found = {}
    for info in storage.list(FOLDER):
        try:
            found[info.path.rpartition("/")[2].removesuffix(".json")] = json.loads(storage.read(info.path))
        except (FileNotFoundError, ValueError):
            continue
    return dict(sorted(found.items()))
