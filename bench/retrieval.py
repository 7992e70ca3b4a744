"""Which text units do the searches find? Recall over passages that questions are known to need.

    python bench/retrieval.py DATA [--workspace DIR] [--sets musique novels] [--methods bm25 vectors …]

DATA holds one or both of these folders:

* musique-openie: passages.parquet (passage_id from 0, title, text), triples.parquet (passage_id, subject, predicate,
  object) and questions.parquet (question, gold_passage_ids, candidate_passage_ids, decomposition). Passages are
  published as a snapshot with the graph of the triples (bench/recorded_graph.py). Two rows: the multi-hop questions,
  and each of their steps that can be asked by itself as a single-fact question.
* novel-qa: novels.parquet (novel, text) and questions.parquet (novel, question, question_type, evidence). All books are
  one index of the fast method, in text units of 300 tokens (at 1,200 tokens 20 of them would be a tenth of all). The
  triples of the questions are not put into the graph: they are made of the very evidence that is looked for. Gold for
  a statement of the evidence are the text units of its book that hold most of its words, weighted by rarity; statements
  of which no text unit holds three fifths are left out.

Indexes and vectors are made once and kept in the workspace. What is measured is the product's own code; the reranker
reads the first 20 text units of basic. CPU is that of the process, without the embedding of the question.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow.parquet as pq

from bench.near_misses import RELATIONS
from bench.recorded_graph import Passage, publish
from graphrag_assets.llm.embedding.embedded import EmbeddedEmbedder, Reranker
from graphrag_assets.query import lookups, open_index
from graphrag_assets.query.basic import rerank, retrieve
from graphrag_assets.query.entities import choose_seeds, find_entities
from graphrag_assets.query.graph_ranking import rank_near
from graphrag_assets.query.index import Index
from graphrag_assets.query.lexical import search_text_units
from graphrag_assets.query.matching import terms
from graphrag_assets.storage.tables import TEXT_UNIT_VECTORS

CUTS = (2, 5, 20)
SEEDS = 10

#: Share of the weight of a statement's words that its text unit holds at least, and how much less than the best counts.
HELD, AS_GOOD = 0.6, 0.02


@dataclass(frozen=True)
class Asked:
    """A question and what is to be found: for each thing, the text units that hold it."""

    text: str
    gold: tuple[frozenset[int], ...]


Sets = dict[str, list[Asked]]
Vector = Sequence[float]
Method = Callable[[Index, str, Vector], list[int]]


# --- sets ------------------------------------------------------------------------------------------------------------


def musique(folder: Path, workspace: Path) -> tuple[Index, Sets]:
    """Passages with recorded triples, as an index, and its questions."""
    base = workspace / "musique" / "output"
    passages = pq.read_table(folder / "passages.parquet").sort_by("passage_id").to_pylist()
    if not (base / "snapshots").exists():
        triples: dict[int, list[tuple[str, str, str]]] = defaultdict(list)
        for row in pq.read_table(folder / "triples.parquet").to_pylist():
            triples[row["passage_id"]].append((row["subject"], row["predicate"], row["object"]))
        publish(base, [Passage(row["title"], row["text"], triples[row["passage_id"]]) for row in passages])
    place = {row["passage_id"]: number for number, row in enumerate(passages)}
    rows = pq.read_table(folder / "questions.parquet").to_pylist()
    multi = [Asked(row["question"], tuple(frozenset([place[i]]) for i in row["gold_passage_ids"])) for row in rows]
    needed = {i for row in rows for i in row["gold_passage_ids"]}
    single: dict[str, Asked] = {}
    for row in rows:
        for text, passage in _steps(row):
            if passage in needed:
                single.setdefault(text, Asked(text, (frozenset([place[passage]]),)))
    return open_index(str(base)), {"MuSiQue, multi-hop": multi, "MuSiQue, single steps": list(single.values())}


def _steps(row: dict[str, object]) -> list[tuple[str, int]]:
    """Steps of a question that can be asked by themselves, each with the passage that answers it."""
    answers: dict[int, str] = {}
    found = []
    for number, step in enumerate(json.loads(str(row["decomposition"])), start=1):
        text = step["question"]
        for before, answer in answers.items():
            text = text.replace(f"#{before}", answer)
        answers[number] = step["answer"]
        subject, arrow, relation = (part.strip() for part in text.partition(">>"))
        if "#" in text or (arrow and relation not in RELATIONS):
            continue
        asked = RELATIONS[relation].format(subject) if arrow else f"{subject[0].upper()}{subject[1:].rstrip(' ?')}?"
        candidates = row["candidate_passage_ids"]
        assert isinstance(candidates, list)
        found.append((asked, candidates[step["paragraph_support_idx"]]))
    return found


def novels(folder: Path, workspace: Path) -> tuple[Index, Sets]:
    """Books as one index of the fast method, and their questions by type."""
    root = workspace / "novel"
    if not (root / "output" / "snapshots").exists():
        (root / "input").mkdir(parents=True, exist_ok=True)
        for row in pq.read_table(folder / "novels.parquet").to_pylist():
            (root / "input" / f"{row['novel']}.txt").write_text(row["text"], "utf-8")
        (root / "settings.yaml").write_text("chunking:\n  size: 300\n  overlap: 50\n", "utf-8")
        command = [sys.executable, "-m", "graphrag_assets.cli.main", "index", "--root", str(root)]
        subprocess.run(command, check=True)
    index = open_index(str(root / "output"))
    units = index.rows(
        """select t.human_readable_id as number, t.text, d.path from text_units t
           join documents d on d.id = t.document_id order by number"""
    )
    bags = [set(terms(unit["text"])) for unit in units]
    frequency = Counter(word for bag in bags for word in bag)
    weight = {word: math.log(len(units) / n) for word, n in frequency.items()}
    sets: Sets = defaultdict(list)
    for row in pq.read_table(folder / "questions.parquet").to_pylist():
        own = [unit["number"] for unit in units if unit["path"] == f"{row['novel']}.txt"]
        gold = []
        for statement in row["evidence"]:
            bag = set(terms(statement))
            total = sum(weight.get(word, math.log(len(units))) for word in bag)
            share = {i: sum(weight[word] for word in bag & bags[i]) / total for i in own} if total else {}
            best = max(share.values(), default=0.0)
            if best >= HELD:
                gold.append(frozenset(i for i, value in share.items() if value >= best - AS_GOOD))
        if gold:
            sets[f"novels, {row['question_type'].lower()}"].append(Asked(row["question"], tuple(gold)))
    return index, {name: asked for name, asked in sorted(sets.items()) if len(asked) >= 50}


# --- methods ---------------------------------------------------------------------------------------------------------


def _numbers(index: Index, ids: Sequence[str]) -> list[int]:
    numbers = lookups.numbers_of(index, "text_units", ids)
    return [numbers[i] for i in ids]


def bm25(index: Index, question: str, vector: Vector) -> list[int]:
    """Words alone."""
    return _numbers(index, [hit.id for hit in search_text_units(index, question, max(CUTS))])


def vectors(index: Index, question: str, vector: Vector) -> list[int]:
    """Meaning alone."""
    return _numbers(index, [hit.id for hit in index.vectors(TEXT_UNIT_VECTORS).nearest(vector, max(CUTS))])


def basic(index: Index, question: str, vector: Vector) -> list[int]:
    """Basic search."""
    return _numbers(index, [hit.id for hit in retrieve(index, question, vector, max(CUTS))])


def reranked(index: Index, question: str, vector: Vector) -> list[int]:
    """Basic search with its reranker."""
    hits = rerank(index, question, retrieve(index, question, vector, max(CUTS)), _reranker().score)
    return _numbers(index, [hit.id for hit in hits])


def local_reference(index: Index, question: str, vector: Vector) -> list[int]:
    """Text units of local search in the order of Microsoft GraphRAG."""
    seeds = choose_seeds(find_entities(index, question, vector, SEEDS), SEEDS)
    return lookups.text_units_of(index, [seed.entity.number for seed in seeds])


def local_graph(index: Index, question: str, vector: Vector) -> list[int]:
    """Text units of local search as ranked over the graph."""
    found = find_entities(index, question, vector, SEEDS)
    return [number for number, _ in rank_near(index, question, vector, found).text_units]


_LOADED: list[Reranker] = []


def _reranker() -> Reranker:
    if not _LOADED:
        _LOADED.append(Reranker(1))
    return _LOADED[0]


METHODS: dict[str, Method] = {
    "bm25": bm25,
    "vectors": vectors,
    "basic": basic,
    "basic, reranked": reranked,
    "local, reference": local_reference,
    "local, graph": local_graph,
}


# --- figures ---------------------------------------------------------------------------------------------------------


def measure(index: Index, asked: Sequence[Asked], questions: Sequence[Vector], method: Method) -> list[str]:
    """Recall at the cuts, share of questions with everything found at the last two, CPU milliseconds a question."""
    begun = time.process_time()
    rankings = [method(index, a.text, vector) for a, vector in zip(asked, questions, strict=True)]
    spent = (time.process_time() - begun) / len(asked) * 1000
    hits = {
        k: [[bool(gold & set(ranking[:k])) for gold in a.gold] for a, ranking in zip(asked, rankings, strict=True)]
        for k in CUTS
    }
    recall = [sum(sum(h) / len(h) for h in hits[k]) / len(asked) for k in CUTS]
    complete = [sum(all(h) for h in hits[k]) / len(asked) for k in CUTS[1:]]
    return [*(f"{value:.3f}".lstrip("0") for value in (*recall, *complete)), f"{spent:.0f}"]


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--workspace", type=Path, default=Path(tempfile.gettempdir()) / "retrieval")
    parser.add_argument("--sets", nargs="+", choices=["musique", "novels"], default=["musique", "novels"])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    options = parser.parse_args()
    embedder = EmbeddedEmbedder()
    heads = ["questions", "number", "method", *(f"R@{k}" for k in CUTS), *(f"all@{k}" for k in CUTS[1:]), "CPU ms"]
    sys.stdout.write(f"| {' | '.join(heads)} |\n| {' | '.join('---' for _ in heads)} |\n")
    for name in options.sets:
        load, folder = (musique, "musique-openie") if name == "musique" else (novels, "novel-qa")
        index, sets = load(options.data / folder, options.workspace)
        for title, asked in sets.items():
            questions = [vector.tolist() for vector in embedder.encode([a.text for a in asked], "query")]
            for method in options.methods:
                figures = measure(index, asked, questions, METHODS[method])
                sys.stdout.write(f"| {' | '.join([title, str(len(asked)), method, *figures])} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
