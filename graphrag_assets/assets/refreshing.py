"""Asking a model anew: which stages, and since when; kept in the storage base until the run that does it has ended.

An answer that was made before that moment counts as none, one that was made after it as any other. So a refresh that was
interrupted pays for nothing twice, and goes on with the next run, whoever starts it.
"""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Mapping, Sequence

from graphrag_assets.settings import Settings
from graphrag_assets.storage.filesystem import FileSystem

#: Stages that ask a chat model, and the stage of the index that each belongs to.
CHAT_STAGES: Mapping[str, str] = {
    "extract_graph": "extraction",
    "extract_claims": "extraction",
    "resolve_entities": "graph",
    "summarize_descriptions": "graph",
    "community_reports": "community_reports",
}

#: Where it is written down, in the storage base.
PATH = "build/refresh.json"


class RefreshError(ValueError):
    """A stage cannot be asked anew; the message says why."""


def check_stages(stages: Sequence[str], settings: Settings) -> None:
    """Refuse stages that there are not, or that ask nobody.

    Raises:
        RefreshError: The message names the stages that there are.
    """
    for stage in stages:
        if stage not in CHAT_STAGES:
            near = difflib.get_close_matches(stage, CHAT_STAGES, 1, 0.5)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise RefreshError(
                f"--refresh: no stage {stage!r} asks a language model; there are {', '.join(CHAT_STAGES)}{hint}"
            )
        if settings.effective_method == "fast":
            raise RefreshError(f"--refresh {stage}: the fast method asks no language model")
        if stage == "extract_claims" and not settings.extract_claims.enabled:
            raise RefreshError(f"--refresh {stage}: no claims are asked for (extract_claims.enabled)")
        if stage == "resolve_entities" and not settings.entity_resolution.llm:
            raise RefreshError(f"--refresh {stage}: the model is not asked about entities (entity_resolution.llm)")


def refreshing(storage: FileSystem) -> dict[str, float]:
    """Stages that are asked anew, with the moment since when (seconds since 1970); empty where there is none."""
    try:
        kept = json.loads(storage.read(PATH))
    except FileNotFoundError:
        return {}
    return {stage: float(since) for stage, since in kept.items() if stage in CHAT_STAGES}


def begin_refresh(storage: FileSystem, stages: Sequence[str]) -> None:
    """Ask stages anew from now on; one that an interrupted run has begun goes on."""
    begun = refreshing(storage)
    wanted = {stage: begun.get(stage, time.time()) for stage in stages} | begun
    if wanted != begun:
        storage.write(PATH, json.dumps(wanted).encode())


def end_refresh(storage: FileSystem) -> None:
    """All is asked anew that was to be."""
    storage.delete(PATH)


def made_again(stages: Mapping[str, float] | Sequence[str]) -> frozenset[str]:
    """Stages of the index that are made again where these are asked anew."""
    return frozenset(CHAT_STAGES[stage] for stage in stages)
