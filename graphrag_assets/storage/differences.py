"""What differs between two snapshots: documents, entities, relationships, communities, reports."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.snapshots import Manifest

#: Per table: the columns that name a row for people, and those that make it another version of itself. A report is told by
#: its community, so that one that was written again counts as changed.
_COMPARED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "documents": ("id", ("path",), ("content_hash",)),
    "entities": ("id", ("title",), ("type", "description", "text_unit_ids", "degree", "aliases")),
    "relationships": ("id", ("source", "target"), ("description", "weight", "text_unit_ids", "combined_degree")),
    "communities": ("id", ("id",), ("entity_ids", "relationship_ids")),
    "community_reports": ("community_id", ("title",), ("id",)),
}


@dataclass
class Difference:
    """Rows of one table that only one snapshot has, or that differ.

    Args:
        added: Names of rows that only the later one has.
        removed: Names of rows that only the earlier one has.
        changed: Names of rows that differ.
        unchanged: Number of rows that are equal.
    """

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: int = 0

    def as_dict(self, examples: int) -> dict[str, Any]:
        """Counts, and the first names of each kind."""
        kinds = {"added": self.added, "removed": self.removed, "changed": self.changed}
        counts: dict[str, Any] = {kind: len(names) for kind, names in kinds.items()}
        return counts | {"unchanged": self.unchanged, "examples": {k: v[:examples] for k, v in kinds.items() if v}}


def compare(filesystem: FileSystem, earlier: Manifest, later: Manifest) -> dict[str, Difference]:
    """Compare two snapshots table by table.

    Args:
        filesystem: The storage base.
        earlier: A snapshot.
        later: Another one.

    Returns:
        Differences by table; names in alphabetical order.
    """
    found = {}
    for table in _COMPARED:
        before, after = (_rows(filesystem, manifest, table) for manifest in (earlier, later))
        difference = Difference()
        for key in before.keys() | after.keys():
            if key not in before:
                difference.added.append(after[key][0])
            elif key not in after:
                difference.removed.append(before[key][0])
            elif before[key][1] != after[key][1]:
                difference.changed.append(after[key][0])
            else:
                difference.unchanged += 1
        for names in (difference.added, difference.removed, difference.changed):
            names.sort()
        found[table] = difference
    return found


def _rows(filesystem: FileSystem, manifest: Manifest, table: str) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """Name and version of each row by its key."""
    if table not in manifest.tables:
        return {}
    if table == "community_reports":
        communities = read_table(filesystem, manifest.tables["communities"].path, ["id", "community"])
        ids = dict(zip(communities["community"].to_pylist(), communities["id"].to_pylist(), strict=True))
        reports = read_table(filesystem, manifest.tables[table].path, ["id", "community", "title"]).to_pylist()
        return {str(ids.get(row["community"], row["community"])): (row["title"], (row["id"],)) for row in reports}
    key, names, values = _COMPARED[table]
    rows = read_table(filesystem, manifest.tables[table].path, list(dict.fromkeys([key, *names, *values]))).to_pylist()
    return {row[key]: (" - ".join(row[name] for name in names), tuple(row[v] for v in values)) for row in rows}


def community_lineage(filesystem: FileSystem, earlier: Manifest, later: Manifest) -> list[dict[str, Any]]:
    """What became of each community.

    Returns:
        One row for each community of either snapshot: ``id``; ``fate``: kept (the same members), grown, shrunk or changed
        (the same id, other members), split (gone, and its members went to several), merged (new, from several), new, gone;
        ``size_before``, ``size``; ``related``: ids of the communities of the same level that its members went to or came
        from, where it is not the same one.
    """
    before, after = (_members(filesystem, manifest) for manifest in (earlier, later))
    homes_before, homes_after = _homes(before), _homes(after)
    rows = []
    for identity in sorted(before.keys() | after.keys()):
        level, was = before.get(identity, (0, frozenset[str]()))
        level, now = after.get(identity, (level, frozenset[str]()))
        related: list[str] = []
        if identity not in after:
            related = _related(level, was, homes_after)
            fate = "split" if len(related) > 1 else "gone"
        elif identity not in before:
            related = _related(level, now, homes_before)
            fate = "merged" if len(related) > 1 else "new"
        else:
            fate = _fate(was, now)
        rows.append({"id": identity, "fate": fate, "size_before": len(was), "size": len(now), "related": related})
    return rows


def _members(filesystem: FileSystem, manifest: Manifest) -> dict[str, tuple[int, frozenset[str]]]:
    rows = read_table(filesystem, manifest.tables["communities"].path, ["id", "level", "entity_ids"]).to_pylist()
    return {row["id"]: (row["level"], frozenset(row["entity_ids"])) for row in rows}


def _homes(communities: Mapping[str, tuple[int, frozenset[str]]]) -> dict[tuple[int, str], str]:
    """Community by level and entity."""
    return {(level, entity): name for name, (level, members) in communities.items() for entity in members}


def _related(level: int, members: Iterable[str], homes: Mapping[tuple[int, str], str]) -> list[str]:
    """Communities of a level that at least two of the members are in, the one with most first."""
    counts: dict[str, int] = defaultdict(int, Counter(homes[level, m] for m in members if (level, m) in homes))
    return sorted((name for name, count in counts.items() if count > 1), key=lambda name: (-counts[name], name))


def _fate(was: frozenset[str], now: frozenset[str]) -> str:
    if was == now:
        return "kept"
    if was < now:
        return "grown"
    return "shrunk" if now < was else "changed"
