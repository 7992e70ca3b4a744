"""Tables of Microsoft GraphRAG before version 2, brought to the names and shapes of version 3.

Version 0.3 kept communities of entities in a table of nodes (one row for each entity and level), numbers and levels as
text, and vectors inside the table of entities; version 1 had names of its own for files, and nodes as well.
"""

from __future__ import annotations

from collections import Counter

from graphrag_assets.exchange.source import Source
from graphrag_assets.exchange.values import Rows, integer, strings, text

_RENAMED = {
    "documents": {"raw_content": "text", "attributes": "raw_data"},
    "entities": {"name": "title"},
    "relationships": {"rank": "combined_degree"},
    "communities": {"raw_community": "community"},
    "community_reports": {"rank_explanation": "rating_explanation"},
}


def modernise(source: Source) -> Source:
    """The same index with the columns of version 3; a source of version 2 or 3 is returned as it is."""
    if source.version not in ("0.3", "1"):
        return source
    tables = {name: _renamed(rows, _RENAMED.get(name, {})) for name, rows in source.tables.items() if name != "nodes"}
    nodes = source.tables["nodes"]
    degree = {text(node.get("title")): node.get("degree") for node in nodes}
    for entity in tables["entities"]:
        entity.setdefault("degree", degree.get(text(entity.get("title"))))
    _fill_communities(tables, nodes)
    for report in tables.get("community_reports", []):
        report["community"] = integer(report.get("community"))
    return Source(source.folder, source.version, tables, source.settings, source.record)


def _renamed(rows: Rows, names: dict[str, str]) -> Rows:
    return [
        {names.get(key, key) if names.get(key) not in row else key: value for key, value in row.items()} for row in rows
    ]


def _fill_communities(tables: dict[str, Rows], nodes: Rows) -> None:
    """Members by community from the nodes; parents are the communities one level above with most of the members."""
    entity_id = {text(e.get("title")): text(e.get("id")) for e in tables["entities"]}
    members: dict[int, dict[str, None]] = {}
    level_of: dict[int, int] = {}
    at_level: dict[tuple[str, int], int] = {}
    for node in nodes:
        community, level = integer(node.get("community")), integer(node.get("level"))
        entity = entity_id.get(text(node.get("title")))
        if community is None or level is None or entity is None or community < 0:
            continue
        members.setdefault(community, {})[entity] = None
        level_of.setdefault(community, level)
        at_level[entity, level] = community
    rows = tables.setdefault("communities", [])
    known = {integer(row.get("community", row.get("id"))) for row in rows}
    rows += [{"community": c, "title": f"Community {c}"} for c in sorted(members) if c not in known]
    for row in rows:
        number = integer(row.get("community", row.get("id")))
        row["community"] = number
        if number is None:
            continue
        row["level"] = row.get("level") if row.get("level") is not None else level_of.get(number)
        row["human_readable_id"] = number
        for name in ("relationship_ids", "text_unit_ids"):  # 0.3 joined the ids of some rows by commas
            row[name] = [part for item in strings(row.get(name)) for part in item.split(",")]
        if "entity_ids" not in row:
            row["entity_ids"] = list(members.get(number, {}))
        if "parent" not in row:
            level = integer(row["level"]) or 0
            above = Counter(at_level[e, level - 1] for e in members.get(number, {}) if (e, level - 1) in at_level)
            row["parent"] = above.most_common(1)[0][0] if above else -1
