"""Local contexts by Microsoft GraphRAG's own code on the tables of a snapshot; runs in the reference's Python.

    $REFERENCE_PYTHON bench/reference_local.py TABLES QUESTIONS

TABLES is a folder of Parquet files, QUESTIONS a JSON list of objects with text and entities (ids, nearest first). Its
search by vector is not counted: it is given the ids. Prints one JSON object.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

started = time.perf_counter()

import pandas as pd  # noqa: E402 (what is imported counts)
from graphrag.query import indexer_adapters as adapters  # noqa: E402
from graphrag.query.structured_search.local_search.mixed_context import LocalSearchMixedContext  # noqa: E402

LEVEL = 2


class Nearest:
    """Stands for the vector store: gives the entities that are known to be nearest."""

    ids: list[str] = []  # noqa: RUF012 (set before each question)

    def similarity_search_by_text(self, k: int, **_: Any) -> list[Any]:
        return [SimpleNamespace(document=SimpleNamespace(id=i)) for i in self.ids[:k]]


def main() -> None:
    """Load, then build the contexts."""
    folder, asked = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    names = ("entities", "communities", "community_reports", "text_units", "relationships", "covariates")
    frames = {name: pd.read_parquet(folder / f"{name}.parquet") for name in names}
    builder = LocalSearchMixedContext(
        community_reports=adapters.read_indexer_reports(frames["community_reports"], frames["communities"], LEVEL),
        text_units=adapters.read_indexer_text_units(frames["text_units"]),
        entities=adapters.read_indexer_entities(frames["entities"], frames["communities"], LEVEL),
        relationships=adapters.read_indexer_relationships(frames["relationships"]),
        covariates={"claims": adapters.read_indexer_covariates(frames["covariates"])},
        entity_text_embeddings=Nearest(),
        text_embedder=None,
    )
    loaded, cpu = time.perf_counter() - started, time.process_time()
    seen = {"load_s": loaded, "load_cpu_s": cpu, "cpu_s": [], "wall_s": []}
    for question in asked:
        Nearest.ids = question["entities"]
        cpu, wall = time.process_time(), time.perf_counter()
        builder.build_context(query=question["text"], max_context_tokens=12_000, include_entity_rank=True)
        seen["cpu_s"].append(time.process_time() - cpu)
        seen["wall_s"].append(time.perf_counter() - wall)
    seen["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
