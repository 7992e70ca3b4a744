"""What indexing costs, against the simulated model: CPU a call, calls a second, memory, share of the LLM-bound ideal.

    python bench/index.py                                                         # 0.2 MB at zero latency
    python bench/index.py --sizes 0.2,1,5 --latency 0,0.2 --slots 25,50           # the whole matrix
    python bench/index.py --sizes 0.2,1 --competitor                              # also Microsoft GraphRAG (make reference)

Sizes, latencies and slots are lists, and every combination is run; at zero latency, where slots make no difference, only
the first number of slots is. For each size the index is then rebuilt from the cache, into an empty output folder.

Every run is a process of its own: its CPU seconds and peak memory are those of `graphrag-assets index` and of all
processes that it starts, everything included (imports, Dagster, chunking, snapshot). The ideal is the simulated latency
of all calls divided by the slots. Wall times and shares of a machine whose cores others keep busy are lower bounds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.competitor import parse, prepare
from bench.measure import Run, markdown, measured
from bench.simulator import Simulator
from bench.texts import make_text


def write_workspace(root: Path, text: str, url: str, slots: int) -> None:
    """A workspace whose models are the simulator."""
    (root / "input").mkdir(parents=True)
    (root / "input" / "text.txt").write_text(text, encoding="utf-8")
    prices = {"input_per_million": 0.4, "output_per_million": 1.6}
    entry = {"model_provider": "openai", "api_base": f"{url}/v1", "api_key": "none", "prices": prices}
    settings = {
        "completion_models": {"default_completion_model": entry | {"model": "simulated"}},
        "embedding_models": {"default_embedding_model": entry | {"model": "simulated-embedding"}},
        "concurrent_requests": slots,
    }
    (root / "settings.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def row(
    system: str, size: float, latency: float, slots: int, label: str, run: Run, stats: dict[str, Any]
) -> dict[str, Any]:
    """One line of the table."""
    calls = stats["chat_requests"] + stats["embedding_requests"]
    ideal = stats["simulated_latency_s"] / slots
    return {
        "system": system,
        "MB": size,
        "latency": latency,
        "slots": slots,
        "pass": label,
        "calls": stats["chat_requests"],
        "embeddings": stats["embedding_requests"],
        "wall s": round(run.wall, 1),
        "cpu s": round(run.cpu, 1),
        "ms cpu/call": round(1000 * run.cpu / calls, 1) if calls else None,
        "calls/s": round(calls / run.wall, 1) if calls else None,
        "peak MB": round(run.peak),
        "ideal s": round(ideal, 1) if ideal else None,
        "share %": round(100 * ideal / run.wall) if ideal else None,
        "others' cores": round(run.others, 1),
    }


def bench_ours(
    simulator: Simulator, size: float, latency: float, slots: int, rebuild: bool
) -> Iterator[dict[str, Any]]:
    """First run, then, where asked for, a rebuild from the cache with an empty output folder."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_workspace(root, make_text(int(size * 1_000_000)), simulator.url, slots)
        command = [sys.executable, "-m", "graphrag_assets.cli.main", "index", "--root", str(root), "--json"]
        for label in ("first", "cached rebuild") if rebuild else ("first",):
            simulator.reset(latency=latency)
            run = measured(command, {"DAGSTER_HOME": "", "GRAPHRAG_ROOT": str(root)})
            yield row("graphrag-assets", size, latency, slots, label, run, simulator.stats())
            shutil.rmtree(root / "output")
            shutil.rmtree(root / ".dagster")


def bench_competitor(simulator: Simulator, venv: Path, size: float, latency: float, slots: int) -> dict[str, Any]:
    """Microsoft GraphRAG from its own venv, its default settings but for endpoint, slots and vector size."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        graphrag = prepare(root, venv, simulator.url, concurrent_requests=slots)
        (root / "input" / "text.txt").write_text(make_text(int(size * 1_000_000)), encoding="utf-8")
        simulator.reset(latency=latency)
        command = [graphrag, "index", "--root", str(root), "--skip-validation"]
        run = measured(command, {"LITELLM_LOCAL_MODEL_COST_MAP": "True"})
        return row("graphrag", size, latency, slots, "first", run, simulator.stats())


def combinations(options: argparse.Namespace) -> Iterator[tuple[float, float, int, bool]]:
    """Size, latency, slots of each run, and whether the index of that size is still to be rebuilt from the cache."""
    for size in options.sizes:
        rebuild = True
        for latency in options.latency:
            for slots in options.slots if latency else options.slots[:1]:
                yield size, latency, slots, rebuild
                rebuild = False


def bench(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Run everything; yields a line of the table after each run."""
    with Simulator() as simulator:
        for size, latency, slots, rebuild in combinations(options):
            yield from bench_ours(simulator, size, latency, slots, rebuild)
            if options.competitor:
                yield bench_competitor(simulator, options.competitor, size, latency, slots)


def numbers(text: str) -> list[float]:
    """A comma-separated list of numbers."""
    return [float(part) for part in text.split(",")]


def counts(text: str) -> list[int]:
    """A comma-separated list of whole numbers."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Measure, and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=numbers, default=[0.2], help="sizes of the text in MB, comma separated")
    parser.add_argument("--latency", type=numbers, default=[0.0], help="seconds that a call takes, comma separated")
    parser.add_argument("--slots", type=counts, default=[25], help="calls in flight, comma separated")
    options = parse(parser)
    rows: list[dict[str, Any]] = []
    for line in bench(options):
        rows.append(line)
        told = ", ".join(f"{name} {value}" for name, value in line.items() if value is not None)
        print(told, file=sys.stderr, flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print(markdown(rows))


if __name__ == "__main__":
    main()
