"""A workspace of Microsoft GraphRAG, in a virtual environment of its own, that asks the simulator."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

import yaml

REFERENCE = Path(__file__).resolve().parent.parent / ".venv-reference"


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of a measurement, with those that all of them have: competitor and json."""
    parser.add_argument(
        "--competitor",
        type=Path,
        nargs="?",
        const=REFERENCE,
        help="also Microsoft GraphRAG, from this venv (.venv-reference where none is named)",
    )
    parser.add_argument("--json", type=Path, help="also write the rows to this file, after each run")
    options = parser.parse_args()
    if options.competitor and not (options.competitor / "bin" / "graphrag").exists():
        parser.error(f"{options.competitor} has no bin/graphrag; make it with: make reference")
    return options


def prepare(root: Path, venv: Path, url: str, **settings: Any) -> str:
    """Make a workspace with the default settings but for endpoint and vector size, and an empty folder of input.

    Args:
        root: Folder of the workspace.
        venv: Virtual environment with the package graphrag.
        url: Address of the simulator.
        settings: Further top-level settings.

    Returns:
        The command.
    """
    graphrag = str(venv / "bin" / "graphrag")
    init = [graphrag, "init", "--root", str(root), "--model", "simulated", "--embedding", "simulated-embedding"]
    subprocess.run(init, check=True, capture_output=True)
    file = root / "settings.yaml"
    tree = yaml.safe_load(file.read_text(encoding="utf-8").replace("${GRAPHRAG_API_KEY}", "none"))
    for section in ("completion_models", "embedding_models"):
        for entry in tree[section].values():
            entry["api_base"] = f"{url}/v1"
    tree["vector_store"]["vector_size"] = 1536
    file.write_text(yaml.safe_dump(tree | settings), encoding="utf-8")
    (root / "input").mkdir(exist_ok=True)
    return graphrag
