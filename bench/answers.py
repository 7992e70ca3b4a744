"""Answers without a language model: found, declined, wrongly declined, on the demo corpus.

    python bench/answers.py [--modes auto basic local global drift] [--demo] [--half all|fit|held] [--list] [--json FILE]

Sets of questions, each asked in each mode of an index that is made in a temporary folder:

* answerable: the demo's 12 single facts and 48 more (bench/questions/demo.jsonl). Counted: a cited quote holds the known
  answer; and wrongly declined.
* unanswerable: the demo's 5 and 48 more, on people and things of the corpus and on others. Counted: declined.
* deleted: the answerable questions whose answer went with six deleted documents, asked of an index of the rest. Counted:
  declined.
* multi-hop and theme: the demo's 8 and 5. No share of right answers: no single quote holds them. Counted: declined, and
  with auto which search answered.

--demo asks the demo's 30 questions only. The weights and the threshold were chosen on these questions and on MuSiQue's
(bench/near_misses.py); --half asks one half of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from graphrag_assets.query import ask, open_index
from graphrag_assets.query.models import open_models
from graphrag_assets.settings_file import load_workspace

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "examples" / "demo"
DELETED = [
    "news/courant-in-brief.csv",
    "news/2033-05-07-council-election.html",
    "notes/record-room-notes.json",
    "reports/dace-orrell-condition-survey.md",
    "reports/water-board-statement.txt",
    "reports/wool-cooperative-annual-report.md",
]


def questions(half: str = "all") -> list[dict[str, Any]]:
    """The demo's single facts and unanswerable questions, and the further ones of this bench.

    Args:
        half: all; fit: even numbers; held: odd numbers.
    """
    lines = [json.loads(line) for line in (DEMO / "questions.jsonl").read_text("utf-8").splitlines()]
    further = [json.loads(line) for line in (ROOT / "bench/questions/demo.jsonl").read_text("utf-8").splitlines()]
    kept = lines + further
    parity = {"all": (0, 1), "fit": (0,), "held": (1,)}[half]
    return [q for q in kept if int(re.sub(r"\D", "", q["id"])) % 2 in parity]


def make_index(folder: Path, without: list[str]) -> Path:
    """Copy the demo without some files and index it."""
    folder.mkdir()
    shutil.copytree(DEMO / "input", folder / "input")
    shutil.copy(DEMO / "settings.yaml", folder)
    for name in without:
        (folder / "input" / name).unlink()
    command = [sys.executable, "-m", "graphrag_assets.cli.main", "index", "--root", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    return folder


@dataclass
class Tally:
    """What came of the questions of one set in one mode."""

    asked: int = 0
    found: int = 0
    declined: int = 0
    searches: dict[str, int] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)


async def measure(folder: Path, asked: list[dict[str, Any]], answerable: bool | None, mode: str) -> Tally:
    """Ask all questions in one mode."""
    workspace = load_workspace(folder)
    tally = Tally()
    with open_index(workspace.uri(workspace.settings.storage.base), None, workspace) as index:
        async with open_models(index) as models:
            for question in asked:
                answer = await ask(index, question["question"], mode, models=models)  # type: ignore[arg-type]
                quotes = " ".join(c.quote or "" for c in answer.citations).casefold()
                found = any(accepted.casefold() in quotes for accepted in question["accept"])
                tally.asked += 1
                tally.found += found
                tally.declined += answer.declined
                tally.searches[answer.method] = tally.searches.get(answer.method, 0) + 1
                if (not found if answerable else not answer.declined) and answerable is not None:
                    what = "declined" if answer.declined else answer.answer.split("\n")[2][:150]
                    tally.odd.append(f"{question['id']} {question['question']} -> {what}")
    return tally


def without_answer(folder: Path, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The questions none of whose accepted answers stands in a file of a corpus any more."""
    corpus = " ".join(p.read_text("utf-8") for p in sorted((folder / "input").rglob("*")) if p.is_file()).casefold()
    return [q for q in asked if not any(accepted.casefold() in corpus for accepted in q["accept"])]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="+", default=["auto", "basic", "local", "global", "drift"])
    parser.add_argument("--demo", action="store_true", help="only the 30 questions of the demo")
    parser.add_argument("--half", choices=["all", "fit", "held"], default="all")
    parser.add_argument("--list", action="store_true", help="print the questions that went wrong")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    asked = questions(options.half)
    if options.demo:
        asked = [q for q in asked if q["id"].startswith("q")]
    kinds = {kind: [q for q in asked if q.get("kind") == kind] for kind in ("multi_hop", "theme")}
    facts = [q for q in asked if q.get("kind") not in kinds]
    known = [q for q in facts if q["accept"]]
    unknown = [q for q in facts if not q["accept"]]
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        whole = make_index(Path(temporary) / "whole", [])
        rest = whole if options.demo else make_index(Path(temporary) / "rest", DELETED)
        sets: list[tuple[str, Path, list[dict[str, Any]], bool | None]] = [
            ("single facts", whole, [q for q in known if q["id"].startswith("q")], True),
            ("answerable", whole, known, True),
            ("unanswerable (demo)", whole, [q for q in unknown if q["id"].startswith("q")], False),
            ("unanswerable", whole, unknown, False),
            ("deleted", rest, without_answer(rest, known), False),
            ("multi-hop", whole, kinds["multi_hop"], None),
            ("theme", whole, kinds["theme"], None),
        ]
        if options.demo:
            sets = [s for s in sets if s[0] not in ("answerable", "unanswerable", "deleted")]
        print("| mode | questions | asked | quote holds the answer | declined | searches |\n" + "| --- " * 6 + "|")
        for mode in options.modes:
            for name, folder, some, answerable in sets:
                tally = asyncio.run(measure(folder, some, answerable, mode))
                results[f"{mode} {name}"] = vars(tally)
                found = f"{tally.found} ({tally.found / max(1, tally.asked):.0%})" if answerable else ""
                print(
                    f"| {mode} | {name} | {tally.asked} | {found} "
                    f"| {tally.declined} ({tally.declined / max(1, tally.asked):.0%}) "
                    f"| {', '.join(f'{k} {v}' for k, v in sorted(tally.searches.items())) if mode == 'auto' else ''} |",
                    flush=True,
                )
                if options.list:
                    print("".join(f"    {line}\n" for line in tally.odd), end="", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    main()
