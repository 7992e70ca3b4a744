"""The demo: index the corpus beside this file with the embedded defaults, then ask one question in each search mode."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
QUESTIONS = {
    "basic": "How many people were injured when the viaduct fell?",
    "local": "Who is Dr. Ilka Sérendal and what did she find?",
    "global": "Which disputes run through the whole story?",
    "drift": "Why did pier 3 fail, and who knew of the mine?",
}


def run(*arguments: str) -> None:
    """Run one command of the product as a user would, showing it first."""
    shown = " ".join(f'"{a}"' if " " in a else a for a in arguments)
    print(f"\n$ graphrag-assets {shown}", flush=True)
    command = [sys.executable, "-m", "graphrag_assets.cli.main", *arguments, "--root", str(ROOT)]
    done = subprocess.run(command, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    """Index, ask, and say where to go next."""
    print("Indexing the documents in examples/demo/input: no key, no network.")
    run("index")
    for method, question in QUESTIONS.items():
        run("query", question, "--method", method)
    print("\nSee every table as an asset, with lineage, partitions and metadata: make ui")
    print("Use your own documents: see README.md, section 'Your own documents'.")


if __name__ == "__main__":
    main()
