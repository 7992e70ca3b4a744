"""What a small change of a large graph costs its communities, beside a fresh clustering.

The graph of WordNet (environment variable GRAPHRAG_SHARED, folder data/graph-scale-wordnet): a share of its
relationships goes, and as many come; told are CPU seconds, modularity of level 0 and of the leaves, and the share of
communities that are as they were.

    python -m bench.communities [--share 0.001] [--times 3]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from graphrag_assets import ids
from graphrag_assets.indexing.communities import Clustering, cluster
from graphrag_assets.indexing.keeping import Earlier

DATA = Path(os.environ.get("GRAPHRAG_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
Pairs = set[tuple[str, str]]


def read_pairs() -> Pairs:
    """Related synsets, each pair once."""
    relations = pq.read_table(DATA / "graph-scale-wordnet/relations.parquet", columns=["source", "target"])
    ends = zip(relations["source"].to_pylist(), relations["target"].to_pylist(), strict=True)
    return {(min(pair), max(pair)) for pair in ends if pair[0] != pair[1]}


def tables(pairs: Pairs) -> tuple[pa.Table, pa.Table]:
    """Entities and relationships."""
    titles = sorted({title for pair in pairs for title in pair})
    ordered = sorted(pairs)
    none = pa.array([[] for _ in titles], pa.list_(pa.string()))
    entities = pa.table({"id": [ids.entity_id(t) for t in titles], "title": titles, "text_unit_ids": none})
    relationships = pa.table(
        {
            "id": [ids.relationship_id(*pair) for pair in ordered],
            "source": [source for source, _ in ordered],
            "target": [target for _, target in ordered],
            "weight": [1.0] * len(ordered),
            "text_unit_ids": pa.array([[] for _ in ordered], pa.list_(pa.string())),
        }
    )
    return entities, relationships


def changed(pairs: Pairs, share: float, chance: random.Random) -> Pairs:
    """The pairs with a share of them replaced by others."""
    known = sorted(pairs)
    names = sorted({name for pair in known for name in pair})
    after = pairs - set(chance.sample(known, int(len(known) * share)))
    while len(after) < len(pairs):
        a, b = sorted(chance.sample(names, 2))
        after.add((a, b))
    return after


def timed(*graph: pa.Table, **options: object) -> tuple[Clustering, float]:
    started = time.process_time()
    result = cluster(*graph, **options)  # type: ignore[arg-type]
    return result, time.process_time() - started


def same(before: Clustering, after: Clustering) -> float:
    """Share of the communities that have the members they had."""
    was, now = (
        {row["id"]: row["entity_ids"] for row in result.communities.select(["id", "entity_ids"]).to_pylist()}
        for result in (before, after)
    )
    return sum(now.get(name) == members for name, members in was.items()) / len(was)


def row(way: str, before: Clustering | None, result: Clustering, seconds: float) -> None:
    """Print one line."""
    told = {
        "way": way,
        "cpu_s": round(seconds, 2),
        "communities": result.communities.num_rows,
        "modularity_level_0": round(result.levels[0].modularity, 4),
        "modularity_leaves": round(result.levels[-1].modularity, 4),
        "as_before": round(same(before, result), 4) if before else None,
        "compared_with_fresh": result.standing.compared,
    }
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Print one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.001, help="share of the relationships that changes")
    parser.add_argument("--times", type=int, default=3, help="changes, one after the other")
    arguments = parser.parse_args()
    chance = random.Random(0)
    pairs = read_pairs()
    graph = tables(pairs)
    result, seconds = timed(*graph)
    row("first", None, result, seconds)
    for _ in range(arguments.times):
        earlier = Earlier(result.communities, *graph, result.standing.top, result.standing.leaves)
        pairs = changed(pairs, arguments.share, chance)
        graph = tables(pairs)
        fresh, seconds = timed(*graph)
        row("fresh", result, fresh, seconds)
        kept, seconds = timed(*graph, earlier=earlier)
        row("kept up", result, kept, seconds)
        result = kept


if __name__ == "__main__":
    main()
