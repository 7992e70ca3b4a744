"""Contradictions between the texts, kept in the cache beside the answers of models.

Finding them reads every sentence: a fifth of the time of a rebuild whose answers are all in the cache. They follow from
the text units, the entities and the claims alone, so that a run after a change of a prompt, a model or the communities
takes them from the cache too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson
import pyarrow as pa

from graphrag_assets.assets.fingerprints import ALGORITHM_VERSIONS
from graphrag_assets.indexing.conflicts import Conflict, Conflicts, Side
from graphrag_assets.indexing.contradictions import find_conflicts
from graphrag_assets.indexing.statements import find_statements
from graphrag_assets.llm.caching.local import AnswerCache
from graphrag_assets.settings import Workspace

STAGE = "contradictions"

#: What of an entity decides where it is looked for, and what of a claim what it says.
_OF_ENTITIES = ["title", "aliases", "text_unit_ids"]


def cached_conflicts(
    units: pa.Table, tables: Mapping[str, pa.Table], workspace: Workspace, *, keep: bool = True
) -> Conflicts:
    """Where the texts contradict each other.

    Args:
        units: Columns id, text and document_id of all text units, in corpus order.
        tables: entities and covariates.
        workspace: Where the cache is.
        keep: Whether what had to be found is kept in the cache; else the cache is only read, and not made.
    """
    entities = tables["entities"].select(_OF_ENTITIES).to_pylist()
    claims = tables["covariates"].to_pylist()
    settings = workspace.settings.cache
    path = workspace.path(settings.path)
    cache = AnswerCache(path if settings.enabled and (keep or path.is_file()) else None)
    try:
        key = _key(units, entities, claims)
        known = cache.answer(key)
        if known is not None and (kept := _read(known)) is not None:
            return kept
        found = find_conflicts(find_statements(units.to_pylist(), entities), claims)
        if keep:
            cache.put_answer(key, orjson.dumps(asdict(found)), STAGE)
        return found
    finally:
        cache.close()


def known_conflicts(units: pa.Table, tables: Mapping[str, pa.Table], workspace: Workspace) -> Conflicts | None:
    """The same where an earlier run found them, else None; the cache is only read."""
    settings = workspace.settings.cache
    path = workspace.path(settings.path)
    cache = AnswerCache(path if settings.enabled and path.is_file() else None)
    try:
        entities = tables["entities"].select(_OF_ENTITIES).to_pylist()
        known = cache.answer(_key(units, entities, tables["covariates"].to_pylist()))
        return None if known is None else _read(known)
    finally:
        cache.close()


def _key(units: pa.Table, entities: list[dict[str, Any]], claims: list[dict[str, Any]]) -> bytes:
    """Hash of all that the contradictions follow from; the id of a text unit stands for its text and its document."""
    made_from = [STAGE, ALGORITHM_VERSIONS["community_reports"], units["id"].to_pylist(), entities, claims]
    return hashlib.sha256(orjson.dumps(made_from, option=orjson.OPT_SORT_KEYS)).digest()


def _read(stored: bytes) -> Conflicts | None:
    """What was found earlier; None where it cannot be read, as after the import of a cache of another release."""
    try:
        kept = orjson.loads(stored)
        conflicts = tuple(
            Conflict(**{**row, "first": _side(row["first"]), "second": _side(row["second"])})
            for row in kept["conflicts"]
        )
        return Conflicts(conflicts, kept["left_out"], kept["series"])
    except (ValueError, TypeError, KeyError):
        return None


def _side(kept: dict[str, Any]) -> Side:
    return Side(**{**kept, "also": tuple(kept["also"])})
