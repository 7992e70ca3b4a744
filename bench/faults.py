"""What a model's faults do to an index: every fault of the simulator, at 5, 20 and 50 %, alone and mixed.

    python bench/faults.py > matrix.md
    python bench/faults.py --faults truncated --faults empty --rates 0.2

Each cell indexes a small corpus over HTTP from nothing, with faults in that share of all requests, and compares what it
made with the index of a run without faults. Then the model is well again, and what failed is asked for once more.
Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from click.testing import CliRunner

if __name__ == "__main__":  # as a script; the tests import it as a module
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.simulator import Simulator
from graphrag_assets.cli.main import main as main_command
from graphrag_assets.storage.build import BuildArea
from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.snapshots import SnapshotStore
from tests.pipeline.plain_runs import reconcile_plainly
from tests.pipeline.workspaces import fresh_process

DEMO = Path(__file__).resolve().parent.parent / "examples" / "demo" / "input"
DOCUMENTS = (
    "letters/2031-10-23-castellan-to-maske.txt",
    "minutes/railway-board-2032-08-11.md",
)

#: Faults that pass, by how they show.
HTTP = ("error429", "error500", "error502", "error503", "bad_json_body", "timeout", "drop", "drop_mid", "slow")
REFUSED = ("error400", "context_length")
CONTENT = (
    *("truncated", "length", "malformed_json", "fenced", "prose", "garbage", "wrong_delims", "bad_schema"),
    *("empty", "null_content", "refusal", "content_filter"),
)
EMBEDDINGS = ("embed_short", "embed_nan", "embed_dim")
#: Faults that all calls would share, as a wrong key: the run is to stop at once.
LASTING = ("error401", "error404")
ALL = (*HTTP, *REFUSED, *CONTENT, *EMBEDDINGS, *LASTING)
RATES = (0.05, 0.2, 0.5)

#: Steps of the ladder, as the columns of the table are called.
STEPS = {
    "mended": "mended",
    "asked_again": "asked again",
    "asked_with_error": "with the error",
    "smaller_input": "smaller input",
    "fallback": "fallback",
    "part_kept": "part kept",
}

#: The name of an entry and its address in a message: "completion_models.chat (openai/m at http://…): ".
_SHORT = re.compile(r"^.*?\) ?: |^.*? at http\S+: ")

Rows = dict[str, dict[str, list[dict[str, Any]]]]


@dataclass
class Cell:
    """One run with faults, against the run without.

    Args:
        name: Fault, or mixed.
        rate: Share of requests at fault.
        outcome: published, or why it stopped.
        units: Text units by status.
        split: Text units that were read in parts.
        different: Text units that succeeded as a whole, and whose rows are not those of the run without faults.
        identical: Whether all published tables are those of the run without faults.
        calls: Requests of the run.
        faults: Faults that the simulator sent.
        wasted: Requests sent again although the answer had come undamaged.
        tried: Questions that came to a step of the ladder.
        recovered: Questions that got their answer there.
        failed: Questions without an answer.
        mended: Whether one more run, without faults, makes the index of the run without faults.
        seconds: Time of the run.
    """

    name: str
    rate: float
    outcome: str = ""
    units: Counter[str] = field(default_factory=Counter)
    split: int = 0
    different: int = 0
    identical: bool = False
    calls: int = 0
    faults: int = 0
    wasted: int = 0
    tried: Counter[str] = field(default_factory=Counter)
    recovered: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    mended: bool = True
    seconds: float = 0.0


def settings(simulator: str, fallback: bool) -> dict[str, Any]:
    """Settings of a workspace whose models are the simulator."""
    entry = {
        "model_provider": "openai",
        "api_base": f"{simulator}/v1",
        "api_key": "sk-bench-0123456789abcdef",
        "timeout": 2.0,
        "retry": {"base_delay": 1.01, "max_delay": 0.01},
    }
    models = {"default_completion_model": entry | {"model": "gpt-4o-mini"}}
    if fallback:
        models["default_completion_model"]["fallback_model_id"] = "other"
        models["other"] = entry | {"model": "gpt-4o"}
    return {
        "completion_models": models,
        "embedding_models": {
            "default_embedding_model": entry | {"model": "text-embedding-3-small", "call_args": {"dimensions": 64}}
        },
        "chunking": {"size": 100, "overlap": 0},
        "checks": {"max_failed_share": 1.0, "max_failed_reports_share": 1.0},
    }


def make(root: Path, simulator: str, *, fallback: bool = False, documents: Sequence[str] = DOCUMENTS) -> Path:
    """A workspace with a small corpus."""
    for name in documents:
        file = root / "input" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((DEMO / name).read_text(encoding="utf-8"), encoding="utf-8")
    (root / "settings.yaml").write_text(json.dumps(settings(simulator, fallback)), encoding="utf-8")
    return root


def index(root: Path, *, dagster: bool = False) -> tuple[str, dict[str, Any]]:
    """Bring an index up to date; why that failed (empty where it did not), and the usage of models by stage.

    Args:
        root: The workspace.
        dagster: Run ``graphrag-assets index``. Else the same assets are called one after the other: Dagster's records of a
            run take seconds, and decide nothing about its tables.
    """
    if not dagster:
        try:
            return "", reconcile_plainly(root).llm["by_stage"]
        except dg.Failure as failure:
            return failure.description or "failed", {}
    with fresh_process():
        done = CliRunner().invoke(main_command, ["index", "--root", str(root), "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    report = json.loads(done.stdout)
    return (report["error"]["message"], {}) if done.exit_code else ("", report["llm"]["by_stage"])


def extracted(root: Path) -> Rows:
    """Rows of the extraction by table and text unit."""
    area = BuildArea(open_filesystem(str(root / "output")))
    found: Rows = {}
    for name in ("extracted_entities", "extracted_relationships"):
        by_unit = found.setdefault(name, {})
        for batch in area.partitions(name):
            for row in area.read(name, batch).to_pylist():
                by_unit.setdefault(row["text_unit_id"], []).append(row)
    return found


def text_units(root: Path) -> list[dict[str, Any]]:
    """Rows of the published text units; empty where nothing is published."""
    storage = open_filesystem(str(root / "output"))
    manifest = SnapshotStore(storage).current()
    return [] if manifest is None else list(read_table(storage, manifest.tables["text_units"].path).to_pylist())


def content(root: Path) -> dict[str, str]:
    """Hashes of the published tables."""
    manifest = SnapshotStore(open_filesystem(str(root / "output"))).current()
    return {} if manifest is None else {name: file.sha256 for name, file in manifest.tables.items()}


def wasted(log: Path) -> int:
    """Chat requests that repeat one whose answer had come undamaged."""
    answered: set[str] = set()
    count = 0
    for line in log.read_text().splitlines():
        request = json.loads(line)
        if request["kind"] != "embedding":
            count += request["h"] in answered
            if request["status"] == 200 and not request["fault"]:
                answered.add(request["h"])
    return count


def measure(
    root: Path,
    right: Path,
    simulator: Simulator,
    name: str,
    faults: Mapping[str, float],
    *,
    fallback: bool = False,
    dagster: bool = False,
) -> Cell:
    """One cell.

    Args:
        root: Folder of the workspace, which is made.
        right: Workspace of the run without faults.
        simulator: The model.
        name: What the cell is called.
        faults: Rates by fault.
        fallback: Whether another model is asked where the first one fails.
        dagster: Whether it runs in Dagster.
    """
    cell = Cell(name, sum(faults.values()))
    log = root / "requests.jsonl"
    make(root, simulator.url, fallback=fallback)
    quiet = {"latency": 0.0, "retry_after": 0.02, "timeout_seconds": 0.2, "log": str(log), "seed": 5, "slow_factor": 5}
    simulator.reset(**{**quiet, "latency": 0.002 if "slow" in faults else 0.0, "faults": dict(faults)})
    started = time.monotonic()
    problem, stages = index(root, dagster=dagster)
    cell.seconds = time.monotonic() - started
    stats = simulator.stats()
    cell.calls, cell.faults, cell.wasted = stats["requests"], sum(stats["faults"].values()), wasted(log)
    cell.outcome = f"stopped: {_SHORT.sub('', problem)[:90]}" if problem else "published"
    for stage in stages.values():
        cell.failed += stage["failed"]
        for step, counts in stage["ladder"].items():
            cell.tried[step] += counts["tried"]
            cell.recovered[step] += counts["recovered"]
    units = text_units(root)
    cell.units = Counter(unit["status"] for unit in units)
    cell.split = sum("parts, since" in unit["reason"] for unit in units)
    good, found = extracted(right), extracted(root)
    whole = [unit["id"] for unit in units if unit["status"] in ("ok", "empty") and not unit["reason"]]
    cell.different = sum(any(found[name].get(unit) != good[name].get(unit) for name in good) for unit in whole)
    cell.identical = content(root) == content(right)
    simulator.reset(faults={}, log="")
    if problem or any(unit["status"] not in ("ok", "empty") for unit in units):
        problem, _ = index(root, dagster=dagster)
        cell.mended = not problem and all(unit["status"] in ("ok", "empty") for unit in text_units(root))
    return cell


HEAD = (
    *("fault", "rate", "outcome", "text units ok, in parts, failed", "rows not as without faults", "tables identical"),
    *("requests", "faults sent", "repeated after success"),
    *(f"{told} (recovered / came to it)" for told in STEPS.values()),
    *("questions failed", "next run mends", "s"),
)


def line(values: Sequence[object]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(map(str, values)) + " |"


def told(cell: Cell) -> str:
    """A cell as a line of the table."""
    ok = cell.units["ok"] + cell.units["empty"]
    units = f"{ok - cell.split}, {cell.split}, {cell.units.total() - ok}" if cell.units else "–"
    values: list[object] = [cell.name, f"{cell.rate:.0%}", cell.outcome, units, cell.different]
    values += ["yes" if cell.identical else "no", cell.calls, cell.faults, cell.wasted]
    values += [f"{cell.recovered[s]} / {cell.tried[s]}" if cell.tried[s] else "" for s in STEPS]
    values += [cell.failed, "yes" if cell.mended else "no", f"{cell.seconds:.0f}"]
    return line(values)


def shares(cells: Sequence[Cell]) -> str:
    """Over all cells: which share of the questions that needed it each step brought an answer."""
    recovered: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for cell in cells:
        recovered += cell.recovered
        tried += cell.tried
    needed = recovered.total() + sum(cell.failed for cell in cells)
    lines = ["| step | came to it | recovered | of all that needed one |", "| --- | --- | --- | --- |"]
    for step, name in STEPS.items():
        lines.append(f"| {name} | {tried[step]} | {recovered[step]} | {recovered[step] / max(1, needed):.1%} |")
    failed = sum(cell.failed for cell in cells)
    return "\n".join([*lines, f"| recorded as failed | {failed} | | {failed / max(1, needed):.1%} |"])


def mixed(rate: float) -> dict[str, float]:
    """All faults that a run can live through, in equal parts."""
    names = [name for name in ALL if name not in LASTING]
    return {name: rate / len(names) for name in names}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--faults", action="append", help="one of them, mixed, or one with a fallback; default: all")
    parser.add_argument("--rates", default=",".join(map(str, RATES)))
    parser.add_argument("--dagster", action="store_true", help="run graphrag-assets index, which takes longer")
    options = parser.parse_args()
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    names = options.faults or [*ALL, "mixed", *(f"{name}, with a fallback" for name in ("refusal", "mixed"))]
    cells = []
    with tempfile.TemporaryDirectory() as folder, Simulator() as simulator:
        right = make(Path(folder) / "right", simulator.url)
        problem, _ = index(right, dagster=options.dagster)
        assert not problem
        print(line(HEAD))
        print(line(["---"] * len(HEAD)), flush=True)
        for name in names:
            for rate in map(float, options.rates.split(",")):
                root = Path(folder) / f"{name}-{rate}"
                fault = name.partition(",")[0]
                faults = mixed(rate) if fault == "mixed" else {fault: rate}
                cells.append(
                    measure(root, right, simulator, name, faults, fallback="fallback" in name, dagster=options.dagster)
                )
                print(told(cells[-1]), flush=True)
    print()
    print(shares(cells))


if __name__ == "__main__":
    main()
