"""The graph of a snapshot for graph tools: GraphML, CSV for Gephi, CSV for the importer of Neo4j."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from graphrag_assets.exchange.exporting import Snapshot

#: Characters that XML cannot hold.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_ENTITY = ["id", "human_readable_id", "title", "type", "description", "frequency", "degree", "aliases"]
_RELATIONSHIP = ["id", "human_readable_id", "source", "target", "description", "weight", "combined_degree"]


def _entities(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Entities with their communities: community_0, community_1, … at the levels where they have one."""
    rows: list[dict[str, Any]] = snapshot.table("entities", _ENTITY).to_pylist()
    by_id = {row["id"]: row for row in rows}
    for row in rows:
        row["aliases"] = "; ".join(row["aliases"])
    for community in snapshot.table("communities", ["community", "level", "entity_ids"]).to_pylist():
        for own in community["entity_ids"]:
            by_id[own][f"community_{community['level']}"] = community["community"]
    return rows


def _relationships(snapshot: Snapshot) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = snapshot.table("relationships", _RELATIONSHIP).to_pylist()
    return rows


def write_graphml(snapshot: Snapshot, folder: Path) -> None:
    """graph.graphml: a directed graph whose nodes are named by the titles of entities."""
    import networkx as nx

    def clean(row: dict[str, Any], *without: str) -> dict[str, Any]:
        told = {key: value for key, value in row.items() if key not in without and value is not None}
        return {key: _NOT_XML.sub("", value) if isinstance(value, str) else value for key, value in told.items()}

    graph = nx.DiGraph()
    for entity in _entities(snapshot):
        title = clean({"title": entity["title"]})["title"]
        graph.add_node(title, label=title, **clean(entity, "title"))
    for relationship in _relationships(snapshot):
        ends = clean({end: relationship[end] for end in ("source", "target")})
        graph.add_edge(ends["source"], ends["target"], **clean(relationship, "source", "target"))
    nx.write_graphml(graph, folder / "graph.graphml", encoding="utf-8")


def write_csv(snapshot: Snapshot, folder: Path) -> None:
    """nodes.csv and edges.csv with the headers that Gephi and most tools take (Id, Label, Source, Target, Weight)."""
    entities = _entities(snapshot)
    levels = sorted({key for row in entities for key in row if key.startswith("community_")}, key=lambda k: int(k[10:]))
    id_of = {row["title"]: row["id"] for row in entities}
    names = ["Id", "Label", "Kind", "Description", "Frequency", "Degree", "Number", "Aliases", *levels]
    keys = ["id", "title", "type", "description", "frequency", "degree", "human_readable_id", "aliases", *levels]
    _write(folder / "nodes.csv", names, ([row.get(key) for key in keys] for row in entities))
    names = ["Source", "Target", "Type", "Id", "Weight", "Label", "Number"]
    edges = (
        [
            id_of[r["source"]],
            id_of[r["target"]],
            "Directed",
            r["id"],
            r["weight"],
            r["description"],
            r["human_readable_id"],
        ]
        for r in _relationships(snapshot)
    )
    _write(folder / "edges.csv", names, edges)


def write_neo4j(snapshot: Snapshot, folder: Path) -> None:
    """CSV files for neo4j-admin: the whole index as a graph, with text units, documents, communities and claims."""
    entities = snapshot.table("entities", _ENTITY).to_pylist()
    id_of = {row["title"]: row["id"] for row in entities}
    units = snapshot.table("text_units").to_pylist()
    communities = snapshot.table("communities").to_pylist()
    number_of = {row["community"]: row["id"] for row in communities}
    reports = {row["community"]: row for row in snapshot.table("community_reports").to_pylist()}
    claims = snapshot.table("covariates").to_pylist()
    files = [
        _nodes(folder, "Entity", entities, _ENTITY, {"aliases": lambda row: "; ".join(row["aliases"])}),
        _nodes(
            folder, "Document", snapshot.table("documents").to_pylist(), ["id", "human_readable_id", "title", "path"]
        ),
        _nodes(folder, "TextUnit", units, ["id", "human_readable_id", "text", "n_tokens", "position", "start", "end"]),
        _nodes(
            folder,
            "Community",
            [reports[row["community"]] | row | {"title": reports[row["community"]]["title"]} for row in communities],
            ["id", "community", "level", "title", "summary", "full_content", "rank", "size"],
        ),
        _nodes(
            folder,
            "Claim",
            claims,
            ["id", "human_readable_id", "type", "description", "status", "start_date", "end_date", "source_text"],
        ),
        _edges(
            folder,
            "RELATED",
            ("Entity", "Entity"),
            [(id_of[r["source"]], id_of[r["target"]], r) for r in _relationships(snapshot)],
            ["id", "human_readable_id", "description", "weight", "combined_degree"],
        ),
        _edges(folder, "MENTIONS", ("TextUnit", "Entity"), [(u["id"], e, {}) for u in units for e in u["entity_ids"]]),
        _edges(folder, "PART_OF", ("TextUnit", "Document"), [(u["id"], u["document_id"], {}) for u in units]),
        _edges(folder, "IN", ("Entity", "Community"), [(e, c["id"], {}) for c in communities for e in c["entity_ids"]]),
        _edges(
            folder,
            "INSIDE",
            ("Community", "Community"),
            [(c["id"], number_of[c["parent"]], {}) for c in communities if c["parent"] in number_of],
        ),
        _edges(
            folder,
            "ABOUT",
            ("Claim", "Entity"),
            [(c["id"], id_of[c["subject_id"]], {}) for c in claims if c["subject_id"] in id_of],
        ),
        _edges(folder, "FROM", ("Claim", "TextUnit"), [(c["id"], c["text_unit_id"], {}) for c in claims]),
    ]
    (folder / "README.md").write_text(_README.format(arguments=" \\\n  ".join(files)), encoding="utf-8")


_TYPES = {
    "human_readable_id": ":int",
    "frequency": ":int",
    "degree": ":int",
    "n_tokens": ":int",
    "position": ":int",
    "start": ":int",
    "end": ":int",
    "community": ":int",
    "level": ":int",
    "size": ":int",
    "combined_degree": ":int",
    "weight": ":double",
    "rank": ":double",
}

_README = """\
# A snapshot of graphrag-assets for Neo4j

With the database stopped, in this folder:

```sh
neo4j-admin database import full neo4j --overwrite-destination --multiline-fields=true \\
  {arguments}
```

Then, in the browser or in cypher-shell:

```cypher
CREATE INDEX entity_title IF NOT EXISTS FOR (e:Entity) ON (e.title);
MATCH (e:Entity)-[r:RELATED]-(other) RETURN e.title, other.title, r.weight ORDER BY r.weight DESC LIMIT 20;
MATCH (e:Entity {{title: 'THE TITLE'}})<-[:MENTIONS]-(u:TextUnit)-[:PART_OF]->(d:Document) RETURN d.title, u.text;
MATCH (e:Entity)-[:IN]->(c:Community {{level: 0}}) RETURN c.title, collect(e.title), c.summary;
```
"""


def _nodes(
    folder: Path, label: str, rows: Sequence[dict[str, Any]], columns: list[str], made: dict[str, Any] | None = None
) -> str:
    """Write nodes of one label; returns the argument of the importer."""
    made = made or {}
    heads = [f"id:ID({label})", *(name + _TYPES.get(name, "") for name in columns[1:]), ":LABEL"]
    cells = ([made[c](row) if c in made else row[c] for c in columns] + [label] for row in rows)
    file = f"{label.lower()}.csv"
    _write(folder / file, heads, cells)
    return f"--nodes={file}"


def _edges(
    folder: Path,
    kind: str,
    ends: tuple[str, str],
    edges: Sequence[tuple[str, str, dict[str, Any]]],
    columns: Sequence[str] = (),
) -> str:
    """Write relationships of one type; returns the argument of the importer."""
    heads = [
        f":START_ID({ends[0]})",
        f":END_ID({ends[1]})",
        *(name + _TYPES.get(name, "") for name in columns),
        ":TYPE",
    ]
    file = f"{kind.lower()}.csv"
    _write(folder / file, heads, ([a, b, *(row[c] for c in columns), kind] for a, b, row in edges))
    return f"--relationships={file}"


def _write(file: Path, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(heads)
        writer.writerows(rows)
