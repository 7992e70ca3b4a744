"""What indexing costs, against the simulated model: CPU a call, calls a second, memory, share of the LLM-bound ideal.

    python bench/index.py                                  # 0.2 MB at zero latency
    python bench/index.py --sizes 0.2,1,5 --latency 0.2 --slots 25,50
    python bench/index.py --competitor /path/to/venv       # also Microsoft GraphRAG, installed in a venv of its own

Every run is a process of its own: its CPU seconds and peak memory are those of `graphrag-assets index`, everything
included (imports, Dagster, chunking, snapshot). The ideal is simulated latency divided by slots. Figures of a shared
machine are noisy: compare ratios within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.simulator import Simulator
from bench.texts import make_text

COLUMNS = (
    *("system", "MB", "latency", "slots", "pass", "calls", "embeddings"),
    *("wall s", "cpu s", "ms cpu/call", "calls/s", "peak MB", "ideal s", "share"),
)


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


def measured(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Run a command; wall seconds, CPU seconds and peak memory (MB) of it and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    process = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, errors = process.communicate()
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        told = (output + errors).decode(errors="replace")[-3000:]
        sys.exit(f"{' '.join(command[-4:])} failed:\n{told}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = _peak(output)
    return {"wall": wall, "cpu": cpu, "peak": peak}


def _peak(output: bytes) -> float:
    """Peak memory that the wrapper printed as the last line."""
    last = output.decode(errors="replace").strip().splitlines()[-1:]
    return float(last[0].split()[-1]) / 1024 if last and last[0].startswith("peak_kb") else 0.0


def wrapper(module: str, function: str) -> str:
    """Code that runs a command line in its own process and prints its peak memory last."""
    return (
        f"import resource, sys\nfrom {module} import {function} as main\n"
        "try:\n    main(sys.argv[1:], standalone_mode=False)\n"
        "finally:\n    print('peak_kb', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )


OURS = wrapper("graphrag_assets.cli.main", "main")
THEIRS = wrapper("graphrag.cli.main", "app")


def row(
    system: str, size: float, latency: float, slots: int, label: str, run: dict[str, float], stats: dict[str, Any]
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
        "wall s": round(run["wall"], 1),
        "cpu s": round(run["cpu"], 1),
        "ms cpu/call": round(1000 * run["cpu"] / calls, 1) if calls else "",
        "calls/s": round(calls / run["wall"], 1) if calls else "",
        "peak MB": round(run["peak"]),
        "ideal s": round(ideal, 1),
        "share": f"{100 * ideal / run['wall']:.0f} %" if ideal else "",
    }


def bench_ours(simulator: Simulator, size: float, latency: float, slots: int) -> list[dict[str, Any]]:
    """First run, then a rebuild from the cache with an empty output folder."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_workspace(root, make_text(int(size * 1_000_000)), simulator.url, slots)
        command = [sys.executable, "-c", OURS, "index", "--root", str(root), "--json"]
        for label in ("first", "cached rebuild"):
            simulator.reset(latency=latency)
            run = measured(command, {"DAGSTER_HOME": "", "GRAPHRAG_ROOT": str(root)})
            rows.append(row("graphrag-assets", size, latency, slots, label, run, simulator.stats()))
            shutil.rmtree(root / "output")
            shutil.rmtree(root / ".dagster")
    return rows


def bench_competitor(simulator: Simulator, venv: Path, size: float, latency: float, slots: int) -> list[dict[str, Any]]:
    """Microsoft GraphRAG from its own venv, its default settings but for endpoint, slots and vector size."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        graphrag = str(venv / "bin" / "graphrag")
        init = [graphrag, "init", "--root", str(root), "--model", "simulated", "--embedding", "simulated-embedding"]
        subprocess.run(init, check=True, capture_output=True)
        settings = yaml.safe_load(
            (root / "settings.yaml").read_text(encoding="utf-8").replace("${GRAPHRAG_API_KEY}", "none")
        )
        for section in ("completion_models", "embedding_models"):
            for entry in settings[section].values():
                entry["api_base"] = f"{simulator.url}/v1"
        settings["concurrent_requests"] = slots
        settings["vector_store"]["vector_size"] = 1536
        (root / "settings.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        (root / "input").mkdir(exist_ok=True)
        (root / "input" / "text.txt").write_text(make_text(int(size * 1_000_000)), encoding="utf-8")
        simulator.reset(latency=latency)
        python = str(venv / "bin" / "python")
        command = [python, "-c", THEIRS, "index", "--root", str(root), "--skip-validation"]
        run = measured(command, {"LITELLM_LOCAL_MODEL_COST_MAP": "True"})
        return [row("graphrag", size, latency, slots, "first", run, simulator.stats())]


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="0.2", help="sizes of the text in MB, comma separated")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds a call takes")
    parser.add_argument("--slots", default="25", help="calls in flight, comma separated")
    parser.add_argument("--competitor", type=Path, help="venv with Microsoft GraphRAG")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with Simulator() as simulator:
        for size in (float(s) for s in options.sizes.split(",")):
            for slots in (int(s) for s in options.slots.split(",")):
                rows += bench_ours(simulator, size, options.latency, slots)
                if options.competitor:
                    rows += bench_competitor(simulator, options.competitor, size, options.latency, slots)
    print("| " + " | ".join(COLUMNS) + " |\n|" + " --- |" * len(COLUMNS))
    for line in rows:
        print("| " + " | ".join(str(line[c]) for c in COLUMNS) + " |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
