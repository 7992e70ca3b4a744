"""Plans and what became of them: `plan` before a first run and before a change, beside what the runs took.

    python bench/plans.py                                   # the demo, then 1 MB of generated text
    python bench/plans.py --sizes 1 --method fast

The model is simulated and counts a token for four letters; the plan counts alike. First all documents but the last are
indexed, then the last one is added. For each stage it tells calls and tokens as planned and as taken, and how far the plan
is off; what was told as exact has to be equal.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.measure import markdown  # noqa: E402
from bench.simulator import Simulator  # noqa: E402
from bench.texts import DEMO, make_text  # noqa: E402

#: Documents of a generated text.
PARTS = 60

FIGURES = ("calls", "prompt_tokens", "completion_tokens", "usd")


def tokens(text: str) -> int:
    """Tokens as the simulator counts them."""
    return (len(text) + 3) // 4


def corpus(size: float) -> dict[str, str]:
    """Texts by path: the demo for a size of 0, else so many MB of generated text."""
    if not size:
        files = sorted(path for path in DEMO.rglob("*") if path.suffix in (".txt", ".md"))
        return {path.relative_to(DEMO).as_posix(): path.read_text(encoding="utf-8") for path in files}
    text = make_text(int(size * 1_000_000))
    ends = [len(text) * part // PARTS for part in range(PARTS + 1)]
    return {f"{part:04d}.txt": text[ends[part] : ends[part + 1]] for part in range(PARTS)}


def write(root: Path, documents: Mapping[str, str]) -> None:
    """Put documents into the input of a workspace."""
    for path, text in documents.items():
        file = root / "input" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def settings(url: str, method: str) -> str:
    """Settings of a workspace whose models are the simulator."""
    prices = {"input_per_million": 0.4, "output_per_million": 1.6}
    entry = {"model_provider": "openai", "api_base": f"{url}/v1", "api_key": "none", "prices": prices}
    return yaml.safe_dump(
        {
            "method": method,
            "completion_models": {"default_completion_model": entry | {"model": "simulated"}},
            "embedding_models": {"default_embedding_model": entry | {"model": "simulated-embedding"}},
        }
    )


def step(root: Path) -> Iterator[dict[str, Any]]:
    """Plan, run, and one line for each stage that was planned or asked."""
    from graphrag_assets.assets.expected import taken
    from graphrag_assets.llm.ledger import read_calls
    from graphrag_assets.plan import asking, plan
    from graphrag_assets.settings_file import load_workspace

    asking.CHAT_TOKENS = 0  # the simulator knows no tokens that begin an answer
    workspace = load_workspace(root)
    began = time.process_time()
    planned = {stage["stage"]: stage for stage in plan(workspace, count=tokens).to_dict()["stages"]}
    print(f"a plan: {time.process_time() - began:.1f} s CPU", file=sys.stderr, flush=True)
    began = time.time()
    command = [sys.executable, "-m", "graphrag_assets.cli.main", "index", "--root", str(root), "--json"]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    place = workspace.uri(workspace.settings.storage.base)
    done = taken(read_calls(workspace.path(workspace.settings.cache.path), place, began))
    nothing = dict.fromkeys(FIGURES, 0)
    for stage in [*planned, *(name for name in done if name not in planned)]:
        before, after = planned.get(stage, nothing), done.get(stage, nothing)
        exact = before.get("exact", {})
        yield {
            "stage": stage,
            **{name: _beside(before[name], after[name]) for name in FIGURES},
            "exact": ", ".join(name for name in FIGURES if exact.get(name)),
            "as told": "yes" if _kept(before, after) else "NO",
        }
    sums = [{name: sum(of[name] for of in all_of.values()) for name in FIGURES} for all_of in (planned, done)]
    yield {
        "stage": "all",
        **{name: _beside(sums[0][name], sums[1][name]) for name in FIGURES},
        "exact": "",
        "as told": "",
    }


def _beside(before: float, after: float) -> str:
    """A figure as planned and as taken, and how far the plan was off."""
    told = f"{before:,} / {after:,}" if isinstance(before, int) else f"{before:.5f} / {after:.5f}"
    return told + (f" ({before / after - 1:+.0%})" if after and before != after else "")


def _kept(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether exact figures are equal, and the others within the range that the plan told."""
    bounds = before.get("range", {})
    exact = [name for name in FIGURES if before.get("exact", {}).get(name)]
    ranged = [name for name in FIGURES if name in bounds]
    return all(before[name] == after[name] for name in exact) and all(
        bounds[name][0] * (1 - 1e-9) <= after[name] <= bounds[name][1] * (1 + 1e-9) for name in ranged
    )


def numbers(text: str) -> list[float]:
    """A comma-separated list of numbers."""
    return [float(part) for part in text.split(",")]


def main() -> None:
    """Measure, and print a table for each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=numbers, default=[0, 1], help="MB of generated text; 0: the demo")
    parser.add_argument("--method", choices=["standard", "fast"], default="standard")
    given = parser.parse_args()
    with Simulator() as simulator:
        for size in given.sizes:
            with tempfile.TemporaryDirectory() as folder:
                root, texts = Path(folder), corpus(size)
                simulator.reset()
                (root / "settings.yaml").write_text(settings(simulator.url, given.method), encoding="utf-8")
                last = list(texts)[-1]
                for name, some in (
                    ("first run", {path: text for path, text in texts.items() if path != last}),
                    ("one document more", {last: texts[last]}),
                ):
                    write(root, some)
                    print(f"\n{f'{size:g} MB' if size else 'demo'}, {given.method}: {name}\n", flush=True)
                    print(markdown(list(step(root))), flush=True)


if __name__ == "__main__":
    main()
