"""What a change costs, against the simulated model: model calls, reports written, time, beside the first run.

    python bench/incremental.py                                   # 0.2 MB of generated text in 60 documents
    python bench/incremental.py FOLDER                            # documents of a folder, such as the podcasts
    python bench/incremental.py --competitor                      # also Microsoft GraphRAG's update (make reference)

All documents but one of about a sixtieth of the text are indexed; then, one after the other, nothing is changed, that
document is added, it is deleted again, and a sentence is put into the middle of the longest one. The last step is done
once more in a workspace of its own with the chunker ``stable``, where text units behind an edit stay as they are.

Every run is a process of its own; its CPU seconds are those of `graphrag-assets index` and all that it starts. "needed"
are the calls that a change cannot do without, told from the published tables before and after it: calls for text units
whose text is new, one for each entity or relationship whose several descriptions are not what they were, one for each
community whose entities and relationships are not those of any community before.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.competitor import parse, prepare
from bench.measure import Run, markdown, measured
from bench.simulator import Simulator
from bench.texts import documents, make_text

INSERTED = "The lamplighter of the harbour wrote in his ledger that nothing at all had happened that evening."


def corpus(options: argparse.Namespace) -> dict[str, str]:
    """Text by file name."""
    if options.source:
        found = [text for _, text in documents(options.source)]
        found = found[: options.documents] if options.documents else found
    else:
        number = options.documents or 60
        text = make_text(int(options.size * 1_000_000))
        found = [text[i * len(text) // number : (i + 1) * len(text) // number] for i in range(number)]
    if len(found) < 2:
        sys.exit("at least two documents are needed")
    return {f"{number:04d}.txt": text for number, text in enumerate(found)}


# --- the index -------------------------------------------------------------------------------------------------------


@dataclass
class Tables:
    """What of the published tables tells which calls a change needs.

    Args:
        texts: Texts of the text units, with how often each occurs.
        described: Titles and descriptions of entities and relationships that have several.
        communities: What the report on each community is about.
    """

    texts: Counter[str]
    described: set[str]
    communities: set[str]

    @classmethod
    def read(cls, root: Path) -> Tables:
        """The tables of the published snapshot."""
        entry = json.loads(sorted((root / "output/snapshots/log").glob("*.json"))[-1].read_bytes())
        folder = root / "output/snapshots" / entry["snapshot"]

        def rows(name: str, *columns: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = pq.read_table(folder / f"{name}.parquet", columns=list(columns)).to_pylist()
            return found

        entities = rows("entities", "id", "title", "descriptions", "description")
        relationships = rows("relationships", "id", "source", "target", "descriptions", "description")
        told = {row["id"]: json.dumps([row["title"], row["description"]]) for row in entities}
        told |= {row["id"]: json.dumps([row["source"], row["target"], row["description"]]) for row in relationships}
        several = [row for row in (*entities, *relationships) if len(row["descriptions"]) > 1]
        communities = rows("communities", "entity_ids", "relationship_ids")
        return cls(
            Counter(row["text"] for row in rows("text_units", "text")),
            {json.dumps([row["id"], row["descriptions"]]) for row in several},
            {"\n".join(sorted(told[i] for i in row["entity_ids"] + row["relationship_ids"])) for row in communities},
        )


def split(texts: Mapping[str, str]) -> tuple[list[str], str]:
    """Documents of the first run, and the one that is added: that nearest to a sixtieth of all."""
    share = sum(map(len, texts.values())) / 60
    added = min(texts, key=lambda file: abs(len(texts[file]) - share))
    return [file for file in texts if file != added], added


class Ours:
    """A workspace whose models are the simulator.

    Args:
        root: Its folder.
        simulator: The models.
        chunking: Section ``chunking`` of the settings.
    """

    def __init__(self, root: Path, simulator: Simulator, chunking: Mapping[str, Any]) -> None:
        self.root = root
        self.simulator = simulator
        entry = {"model_provider": "openai", "api_base": f"{simulator.url}/v1", "api_key": "none"}
        settings = {
            "completion_models": {"default_completion_model": entry | {"model": "simulated"}},
            "embedding_models": {"default_embedding_model": entry | {"model": "simulated-embedding"}},
            "chunking": dict(chunking),
        }
        (root / "input").mkdir(parents=True)
        (root / "settings.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        self.name = f"graphrag-assets, {chunking['type']}"
        self.first: Run | None = None
        self.calls_a_unit = 0.0
        self.before: Tables | None = None

    def write(self, file: str, text: str) -> None:
        """Write a document."""
        (self.root / "input" / file).write_text(text, encoding="utf-8")

    def delete(self, file: str) -> None:
        """Delete a document."""
        (self.root / "input" / file).unlink()

    def index(self, label: str) -> dict[str, Any]:
        """Reconcile; a line of the table."""
        self.simulator.reset()
        command = [sys.executable, "-m", "graphrag_assets.cli.main", "index", "--root", str(self.root), "--json"]
        run = measured(command, {"DAGSTER_HOME": "", "GRAPHRAG_ROOT": str(self.root)})
        report, stats, now = json.loads(run.out), self.simulator.stats(), Tables.read(self.root)
        before = self.before or Tables(Counter(), set(), set())
        new_units = len(now.texts.keys() - before.texts.keys())
        if self.first is None:
            self.first = run
            self.calls_a_unit = report["llm"]["by_stage"]["extract_graph"]["calls"] / new_units
        needed = round(new_units * self.calls_a_unit)
        needed += len(now.described - before.described) + len(now.communities - before.communities)
        self.before = now
        asked = stats["chat_requests"]
        reports = report["reports"]
        return {
            "system": self.name,
            "step": label,
            "text units": sum(now.texts.values()),
            "new": new_units,
            "calls": asked,
            "needed": needed,
            "calls/needed": round(asked / needed, 2) if needed else None,
            "embeddings": stats["embedding_requests"],
            "reports written": reports["written"],
            "reused %": round(100 * reports["reused"] / max(1, sum(reports.values())), 1),
            **times(run, self.first),
        }


def times(run: Run, first: Run) -> dict[str, Any]:
    """Wall and CPU seconds, and what share of the first run they are."""
    return {
        "wall s": round(run.wall, 1),
        "cpu s": round(run.cpu, 1),
        "wall % of first": round(100 * run.wall / first.wall),
        "cpu % of first": round(100 * run.cpu / first.cpu),
        "peak MB": round(run.peak),
    }


def edited(text: str) -> str:
    """A text with one more sentence in the middle, behind the end of a sentence."""
    place = text.find(". ", len(text) // 2) + 2 if ". " in text[len(text) // 2 :] else len(text) // 2
    return f"{text[:place]}{INSERTED} {text[place:]}"


def bench_ours(simulator: Simulator, texts: Mapping[str, str], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All steps with the chunker ``tokens``, then the edit with ``stable``."""
    most, last = split(texts)
    longest = max(most, key=lambda file: len(texts[file]))
    for kind in options.chunkers:
        with tempfile.TemporaryDirectory() as folder:
            chunking = {"type": kind} | ({"size": 1800, "overlap": 0} if kind == "stable" else {})
            index = Ours(Path(folder) / "workspace", simulator, chunking)
            for file in most:
                index.write(file, texts[file])
            yield index.index("first run")
            if kind == options.chunkers[0]:
                yield (line := index.index("nothing changed"))
                if line["calls"]:  # the model gave some useless answers, and was asked once more
                    yield index.index("nothing changed, again")
                index.write(last, texts[last])
                yield index.index("one document added")
                index.delete(last)
                yield index.index("the same deleted")
            index.write(longest, edited(texts[longest]))
            yield index.index("one sentence put in")


# --- the competitor --------------------------------------------------------------------------------------------------


def bench_competitor(simulator: Simulator, texts: Mapping[str, str], venv: Path) -> Iterator[dict[str, Any]]:
    """Microsoft GraphRAG: index, then update; it knows no deletion, and takes no notice of an edit."""
    most, last = split(texts)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        graphrag = prepare(root, venv, simulator.url)
        for file in most:
            (root / "input" / file).write_text(texts[file], encoding="utf-8")
        first: Run | None = None
        for command, label in (("index", "first run"), ("update", "one document added")):
            simulator.reset()
            run = measured(
                [graphrag, command, "--root", str(root), "--skip-validation"], {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
            )
            first, stats = first or run, simulator.stats()
            units = pq.read_table(root / "output" / "text_units.parquet", columns=["id"]).num_rows
            yield {
                "system": "graphrag",
                "step": label,
                "text units": units,
                "calls": stats["chat_requests"],
                "embeddings": stats["embedding_requests"],
                **times(run, first),
            }
            (root / "input" / last).write_text(texts[last], encoding="utf-8")


def main() -> None:
    """Measure, and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, nargs="?", help="folder with texts or with Parquet files of texts")
    parser.add_argument("--documents", type=int, help="take only so many documents (generated text: 60)")
    parser.add_argument("--size", type=float, default=0.2, help="MB of generated text")
    parser.add_argument("--chunkers", nargs="+", default=["tokens", "stable"], help="the first one does all steps")
    options = parse(parser)
    texts = corpus(options)
    print(f"{len(texts)} documents, {sum(map(len, texts.values())):,} characters", file=sys.stderr)
    rows: list[dict[str, Any]] = []
    with Simulator() as simulator:
        steps = [bench_ours(simulator, texts, options)]
        if options.competitor:
            steps.append(bench_competitor(simulator, texts, options.competitor))
        for step in steps:
            for line in step:
                rows.append(line)
                told = ", ".join(f"{name} {value}" for name, value in line.items() if value is not None)
                print(told, file=sys.stderr, flush=True)
                if options.json:
                    options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    columns = list(rows[0])
    print(markdown([{column: row.get(column) for column in columns} for row in rows]))


if __name__ == "__main__":
    main()
