"""What an index by the fast method costs, step by step, per million tokens.

    python bench/fast_method.py /path/to/podcasts            # transcripts as Parquet (columns file, text), or
    python bench/fast_method.py /path/to/folder              # any folder of .txt and .md files
    python bench/fast_method.py /path/to/folder --tokens 50000 --processes 1

The whole `graphrag-assets index` runs as one process with its children, embedded models and all; what each step took is
read from the step's times in Dagster's history and from looks at the processes every tenth of a second. "cores" is CPU
seconds by wall seconds: near the number of cores, all of them work; other programs on the machine lower it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measure import Run, markdown, measured
from bench.texts import documents

#: What the steps of the DAG are counted as; all others, and what lies between the steps, are the rest.
PARTS = {
    "extraction": "language analysis",
    "text_unit_embeddings": "embedding",
    "entity_embeddings": "embedding",
    "community_report_embeddings": "embedding",
}


def write_workspace(root: Path, source: Path, most: int | None, processes: int | None) -> int:
    """A workspace of the fast method with the documents, or as many as have so many tokens; returns their tokens."""
    from graphrag_assets.llm.tokens import tokenizer

    counter = tokenizer("o200k_base")
    (root / "input").mkdir()
    settings: dict[str, Any] = {"method": "fast"}
    if processes:
        settings["extract_graph_nlp"] = {"processes": processes}
    (root / "settings.yaml").write_text(json.dumps(settings), encoding="utf-8")
    total = 0
    for number, (_, document) in enumerate(documents(source)):
        text = document if most is None else counter.truncate(document, most - total)
        total += counter.count(text)
        (root / "input" / f"{number:05d}.txt").write_text(text, encoding="utf-8")
        if most is not None and total >= most:
            break
    if not total:
        sys.exit(f"{source} holds no .parquet, .txt or .md file with text")
    return total


def step_times(root: Path) -> list[tuple[str, float, float]]:
    """Name, begin and end of each step of all runs of a workspace, from Dagster's history."""
    import dagster as dg

    from graphrag_assets.automation.instance import open_instance
    from graphrag_assets.settings_file import load_workspace

    times = []
    with open_instance(load_workspace(root)) as instance:
        for run in instance.get_runs():
            begun: dict[str | None, float] = {}
            for event in instance.all_logs(run.run_id):
                kind, step = event.dagster_event_type, str(event.step_key)
                if kind == dg.DagsterEventType.STEP_START:
                    begun[step] = event.timestamp
                elif kind == dg.DagsterEventType.STEP_SUCCESS:
                    times.append((step, begun[step], event.timestamp))
    return sorted(times, key=lambda step: step[1])


def parts(run: Run, steps: list[tuple[str, float, float]], tokens: int) -> list[dict[str, Any]]:
    """The table: language analysis, embedding, each other step, what lies between, and the whole."""
    spent: dict[str, list[float]] = {}
    for step, begin, end in steps:
        cpu, peak = run.between(begin, end)
        part = spent.setdefault(PARTS.get(step, step), [0.0, 0.0, 0.0])
        part[0] += cpu
        part[1] += end - begin
        part[2] = max(part[2], peak)
    named = {name: spent.pop(name) for name in dict.fromkeys(PARTS.values()) if name in spent}
    known = [*named.values(), *spent.values()]
    between = [run.cpu - sum(p[0] for p in known), run.wall - sum(p[1] for p in known), 0.0]
    rest = [run.cpu - sum(p[0] for p in named.values()), run.wall - sum(p[1] for p in named.values()), 0.0]
    whole = [run.cpu, run.wall, run.peak]
    others = {f"  {name}": part for name, part in spent.items()} | {"  imports and between steps": between}
    rows: Mapping[str, list[float]] = {**named, "all the rest": rest, **others, "whole index": whole}
    millions = tokens / 1e6
    return [
        {
            "part": name,
            "CPU s": round(cpu, 1),
            "wall s": round(wall, 1),
            "CPU s/M tokens": round(cpu / millions, 1),
            "wall s/M tokens": round(wall / millions, 1),
            "cores": round(cpu / wall, 2) if wall > 0 else None,
            "peak MB": round(peak) if peak else None,
        }
        for name, (cpu, wall, peak) in rows.items()
    ]


def main() -> None:
    """Index, and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder with texts or with Parquet files of texts")
    parser.add_argument("--tokens", type=int, help="take only so many tokens (o200k_base); all by default")
    parser.add_argument("--processes", type=int, help="processes of the language analysis; one a core by default")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        tokens = write_workspace(root, options.source, options.tokens, options.processes)
        os.environ.pop("DAGSTER_HOME", None)
        command = [sys.executable, "-m", "graphrag_assets.cli.main", "index", "--root", str(root), "--json"]
        run = measured(command, {"GRAPHRAG_ROOT": str(root)})
        rows = parts(run, step_times(root), tokens)
    print(f"{tokens:,} tokens; other programs kept {run.others:.1f} of {os.cpu_count()} cores busy\n\n{markdown(rows)}")
    if options.json:
        options.json.write_text(
            json.dumps({"tokens": tokens, "others_cores": run.others, "parts": rows}, indent=1), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
