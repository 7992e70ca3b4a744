"""What a question costs on large indexes: building its context warm and cold, memory, and many questions at a time.

    python bench/query.py                                        # 10,000 entities
    python bench/query.py --sizes 10000,100000 --folder /data    # keep the synthetic indexes there and use them again
    python bench/query.py --reference .venv-reference/bin/python # also Microsoft GraphRAG's local search on these tables

Each index has five relationships, one text unit and .13 reports an entity; see synthetic.py. Times of contexts are
without the embedding of the question, which has nothing to do with the size of the index. A cold start is the whole
command in a process of its own, imports, settings and embedding included, less what it does after the context is there
(the answer). CPU seconds of a machine whose cores others keep busy are upper bounds: the run says how busy they were.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measure import markdown, measured

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 16


def memory() -> dict[str, float]:
    """Memory of this process in MB: now, greatest so far, and how much of the present is not files."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    return {name: int(lines[key].split()[0]) / 1024 for name, key in (("now", "VmRSS"), ("peak", "VmHWM"))}


def steps(index: Any, tokenizer: Any) -> dict[str, Callable[[Any], object]]:
    """What is measured, by name."""
    from graphrag_assets.query import global_search
    from graphrag_assets.query.basic import build_basic_context
    from graphrag_assets.query.filters import Filter
    from graphrag_assets.query.local import LocalParameters, build_local_context

    s = index.settings
    local, drift = LocalParameters.of(s), LocalParameters.of_drift(s)
    level = s.global_search.community_level
    selected: list[Any] = []

    def select(_: Any) -> None:
        selected[:] = global_search.select_reports(index, level)

    def filtered(question: Any) -> None:
        inside = index.within(Filter.of(["department=board", "year>=1990"]))
        build_local_context(inside, question.text, question.vector, local, tokenizer)

    return {
        "local": lambda q: build_local_context(index, q.text, q.vector, local, tokenizer),
        "basic": lambda q: build_basic_context(
            index, q.text, q.vector, s.basic_search.k, s.basic_search.max_context_tokens, tokenizer
        ),
        "drift: a local step": lambda q: build_local_context(index, q.text, q.vector, drift, tokenizer),
        "drift: nearest reports": lambda q: global_search.nearest_reports(index, q.vector, 20, None, level),
        "local with a new filter": filtered,
        "global: selection": select,
        "global: batches": lambda _: global_search.build_batches(
            index, selected, s.global_search.max_context_tokens, s.global_search.seed, tokenizer
        ),
    }


def measure(folder: Path, count: int) -> dict[str, Any]:
    """Warm contexts of every mode in this process."""
    from bench.synthetic import questions
    from graphrag_assets.llm.tokens import tokenizer
    from graphrag_assets.query import open_index

    index, asked = open_index(str(folder / "output")), questions(folder / "output")
    found: dict[str, Any] = {"steps": {}}
    made = steps(index, tokenizer(index.settings.chunking.encoding_model))
    for name, step in made.items():
        few = name.startswith("global") or "filter" in name
        step(asked[-1])
        cpu, wall = [], []
        for question in asked[: 3 if few else count]:
            c, w = time.process_time(), time.perf_counter()
            step(question)
            cpu.append(time.process_time() - c)
            wall.append(time.perf_counter() - w)
        found["steps"][name] = {"cpu": sorted(cpu), "wall": sorted(wall), "memory": memory()}
        if name == "basic":
            found["at_once"] = {mode: at_once(made[mode], asked) for mode in ("local", "basic")}
    return found


def at_once(step: Callable[[Any], object], asked: list[Any]) -> dict[str, float]:
    """Wall seconds of sixteen questions one after another and side by side."""
    begin = time.perf_counter()
    for question in asked[:AT_ONCE]:
        step(question)
    alone = time.perf_counter() - begin
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(step, asked[-AT_ONCE:]))  # threads open files of their own
        begin = time.perf_counter()
        list(pool.map(step, asked[:AT_ONCE]))
        together = time.perf_counter() - begin
    return {"one_by_one_s": alone, "together_s": together, "peak_mb": memory()["peak"]}


#: The command, which tells on its last line of standard error when the first context was there.
COLD = """
import os, sys, time
from graphrag_assets.cli.main import main
from graphrag_assets.query import basic, local
def told(join):
    def first(*given):
        found = join(*given)
        print(time.time() - float(os.environ["BEGIN"]), time.process_time(), file=sys.stderr)
        return found
    return first
basic.join = local.join = told(local.join)
main()
"""


def cold(folder: Path, question: str, method: str) -> dict[str, float]:
    """The command, from its start to the first context; its answer is not counted."""
    command = [sys.executable, "-c", COLD, "query", question, "--method", method, "--root", str(folder), "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    best = {"first_context_s": float("inf")}
    for _ in range(3):
        begin = {"BEGIN": str(time.time())}
        done = subprocess.run(command, capture_output=True, text=True, env=environment | begin, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr[-3000:]}")
        wall, cpu = next(line.split() for line in done.stderr.splitlines() if line.count(".") == 2 and " " in line)
        best = min(
            best,
            {"first_context_s": float(wall), "first_context_cpu_s": float(cpu)},
            key=lambda b: b["first_context_s"],
        )
    run = measured(command, environment | {"BEGIN": "0"})
    return best | {"peak_mb_with_answer": run.peak, "cores_others_kept_busy": run.others}


def reference(python: str, folder: Path, count: int) -> dict[str, Any]:
    """The reference's local search on the same tables."""
    from bench.synthetic import questions
    from graphrag_assets.query import open_index
    from graphrag_assets.storage.tables import ENTITY_VECTORS

    index = open_index(str(folder / "output"))
    near = index.vectors(ENTITY_VECTORS)
    asked = [
        {"text": q.text, "entities": [hit.id for hit in near.nearest(q.vector, 20)]}
        for q in questions(folder / "output")[:count]
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(asked, file)
        file.flush()
        tables = folder / "output" / Path(index.manifest.tables["entities"].path).parent
        command = [python, str(ROOT / "bench" / "reference_local.py"), str(tables), file.name]
        # The encodings that come with litellm, since tiktoken would load them from the network.
        spec = importlib.util.find_spec("litellm")
        assert spec is not None
        assert spec.origin is not None
        encodings = str(Path(spec.origin).parent / "litellm_core_utils" / "tokenizers")
        environment = os.environ | {"TIKTOKEN_CACHE_DIR": encodings}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"the reference failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def percentile(values: list[float], share: float) -> float:
    """A percentile in milliseconds, of ascending seconds."""
    return round(values[min(len(values) - 1, int(share * len(values)))] * 1000, 1)


def rows_of(size: int, found: dict[str, Any]) -> list[dict[str, object]]:
    """Lines of the table of warm contexts."""
    return [
        {
            "entities": size,
            "step": name,
            "CPU p50 ms": percentile(step["cpu"], 0.5),
            "CPU p95 ms": percentile(step["cpu"], 0.95),
            "wall p50 ms": percentile(step["wall"], 0.5),
            "wall p95 ms": percentile(step["wall"], 0.95),
            "peak MB so far": round(step["memory"]["peak"]),
        }
        for name, step in found["steps"].items()
    ]


def prepared(base: Path, size: int) -> Path:
    """Folder of a workspace with a synthetic index of this size; it is made where it is not there yet."""
    folder = base / str(size)
    if not (folder / "output" / "questions.json").exists():
        (folder / "output").mkdir(parents=True, exist_ok=True)
        (folder / "input").mkdir(exist_ok=True)
        (folder / "settings.yaml").write_text("method: fast\n", encoding="utf-8")
        code = (
            "import sys; from pathlib import Path; from bench.synthetic import publish; "
            "from graphrag_assets.llm.embedding.embedded import EmbeddedEmbedder; "
            "publish(Path(sys.argv[1]), int(sys.argv[2]), f'embedded/{EmbeddedEmbedder().model}')"
        )
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", code, str(folder / "output"), str(size)], env=environment, check=True)
    return folder


def main() -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000", help="entities, a list")
    parser.add_argument("--folder", type=Path, help="where the indexes are kept; default: a temporary folder")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--reference", help="Python of an environment with graphrag 3.x")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        from graphrag_assets.machine import keep_memory_small

        keep_memory_small()
        json.dump(measure(options.measure, options.questions), sys.stdout)
        return
    with tempfile.TemporaryDirectory() as temporary:
        base = options.folder or Path(temporary)
        for size in map(int, options.sizes.split(",")):
            folder = prepared(base, size)
            command = [sys.executable, __file__, "--measure", str(folder), "--questions", str(options.questions)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            print(markdown(rows_of(size, found)), "\n")
            for mode, times in found["at_once"].items():
                told(size, f"{AT_ONCE} {mode} contexts", times)
            question = json.loads((folder / "output" / "questions.json").read_text(encoding="utf-8"))[0]["text"]
            for mode in ("local", "basic"):
                told(size, f"cold query --method {mode}", cold(folder, question, mode))
            if options.reference:
                theirs = reference(options.reference, folder, 3)
                shown = {k: v for k, v in theirs.items() if not isinstance(v, list)}
                shown |= {f"{k[:-2]}_p50_s": sorted(v)[len(v) // 2] for k, v in theirs.items() if isinstance(v, list)}
                told(size, "reference, local", shown)


def told(size: int, what: str, values: dict[str, float]) -> None:
    """Print one line."""
    print(f"{size:,} {what}: {', '.join(f'{name} {value:.2f}' for name, value in values.items())}", flush=True)


if __name__ == "__main__":
    main()
