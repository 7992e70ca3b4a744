"""What the fast method costs per million tokens: language analysis and embedding, each measured in its own process.

Reads the podcast transcripts of the data folder (environment variable GRAPHRAG_SHARED) and prints one
JSON object a stage: CPU seconds and wall seconds per million tokens (cl100k_base, as the data set counts them), and
peak memory of the process and of its largest child.

    python bench/fast_method.py [--parts 170] [--workers 2]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

DATA = Path(os.environ.get("GRAPHRAG_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
STAGES = ("analysis", "embedding")


def text_units(parts: int | None) -> tuple[list[dict[str, str]], int]:
    """Transcript parts, spread over all episodes, and their tokens."""
    import pyarrow.parquet as pq

    rows = pq.read_table(DATA / "podcasts/transcript_parts.parquet", columns=["text", "n_tokens"]).to_pylist()
    step = max(1, len(rows) // parts) if parts else 1
    rows = rows[::step][:parts]
    return [{"id": str(i), "text": row["text"]} for i, row in enumerate(rows)], sum(row["n_tokens"] for row in rows)


def analyse(units: list[dict[str, str]], workers: int | None) -> dict[str, int]:
    from graphrag_assets.indexing.fast_extraction import analyse_batch
    from graphrag_assets.settings import ExtractGraphNlpSettings

    rows = analyse_batch(units, ExtractGraphNlpSettings(), workers)
    return {"entities": sum(len(r.entities) for r in rows), "relationships": sum(len(r.relationships) for r in rows)}


def embed(units: list[dict[str, str]], workers: int | None) -> dict[str, int]:
    from graphrag_assets.llm.embedded import EmbeddedEmbedder

    vectors, _ = EmbeddedEmbedder(threads=workers).encode_windows([unit["text"] for unit in units])
    return {"vectors": len(vectors)}


def measure(stage: str, parts: int | None, workers: int | None) -> dict[str, object]:
    """Run one stage in this process, imports and loading of the model included."""
    begun = time.perf_counter()
    units, tokens = text_units(parts)
    before = _cpu()
    result = analyse(units, workers) if stage == "analysis" else embed(units, workers)
    millions = tokens / 1e6
    return {
        "stage": stage,
        "text_units": len(units),
        "tokens": tokens,
        "cpu_seconds_per_million_tokens": round((_cpu() - before) / millions, 1),
        "wall_seconds_per_million_tokens": round((time.perf_counter() - begun) / millions, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "peak_mb_largest_child": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
        **result,
    }


def _cpu() -> float:
    """CPU seconds of this process and of its finished children."""
    return sum(
        u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main() -> None:
    """Run both stages, each in a process of its own, and print one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--parts", type=int, help="transcript parts, spread over the episodes; all 1,669 (a million tokens) by default"
    )
    parser.add_argument(
        "--workers", type=int, help="processes of the analysis, threads of the embedding; one a core by default"
    )
    parser.add_argument("--stage", choices=STAGES, help="run only this stage, in this process")
    arguments = parser.parse_args()
    if arguments.stage:
        sys.stdout.write(json.dumps(measure(arguments.stage, arguments.parts, arguments.workers)) + "\n")
        return
    for stage in STAGES:
        subprocess.run([sys.executable, __file__, "--stage", stage, *sys.argv[1:]], check=True)


if __name__ == "__main__":
    main()
