"""Which vectors of a text that is longer than the embedding model's window retrieve best?

Text units of some 1,200 tokens are embedded in windows of several sizes; a question then finds them by one pooled
vector (mean of the windows, plain or weighted by length, the first window alone) or by several vectors (the best
window, the best two, best and mean together).

Two retrieval sets are made of the data folder (environment variable GRAPHRAG_SHARED):

* novels: units of six books. The gold units of a question are those that hold most of the words of an evidence
  statement, weighted by rarity; a question counts by the share of its statements found. All books are searched at once.
* musique: Wikipedia passages in random order, joined to units; the gold units hold the passages that the question
  needs.

    python bench/long_text_embedding.py [--windows 126 254 510] [--questions N]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from graphrag_assets.llm.embedding.embedded import EmbeddedEmbedder

DATA = Path(os.environ.get("GRAPHRAG_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
WORDS, OVERLAP = 900, 75  # some 1,200 and 100 tokens
CUTS = (1, 5, 20)
_WORD = re.compile(r"\w+")


@dataclass
class RetrievalSet:
    """Units to search, questions, and for each question its gold: for each thing to find, the units that hold it."""

    name: str
    units: list[str]
    questions: list[str]
    gold: list[list[set[int]]]


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def gold_by_words(
    units: list[str], book_of: list[str], rows: list[dict[str, Any]]
) -> tuple[list[str], list[list[set[int]]]]:
    """Questions whose evidence can be found, and for each of their statements the units that hold most of its words.

    Words are weighted by rarity; a statement counts that some unit of its book holds to three fifths.
    """
    bags = [set(words(unit)) for unit in units]
    frequency = Counter(word for bag in bags for word in bag)
    weight = {word: math.log(len(units) / n) for word, n in frequency.items()}
    questions, gold = [], []
    for row in rows:
        own = [i for i, book in enumerate(book_of) if book == row["novel"]]
        found = []
        for statement in row["evidence"]:
            bag = set(words(statement))
            total = sum(weight.get(word, math.log(len(units))) for word in bag)
            share = {i: sum(weight[word] for word in bag & bags[i]) / total for i in own} if total else {}
            best = max(share.values(), default=0.0)
            if best >= 0.6:
                found.append({i for i, s in share.items() if s >= best - 0.02})
        if found:
            questions.append(row["question"])
            gold.append(found)
    return questions, gold


def novels(limit: int | None) -> RetrievalSet:
    """Units of the six books; gold by the words of the evidence statements."""
    units: list[str] = []
    book_of: list[str] = []
    for row in pq.read_table(DATA / "novel-qa/novels.parquet").to_pylist():
        tokens = row["text"].split()
        for start in range(0, max(1, len(tokens) - OVERLAP), WORDS - OVERLAP):
            units.append(" ".join(tokens[start : start + WORDS]))
            book_of.append(row["novel"])
    rows = pq.read_table(DATA / "novel-qa/questions.parquet").to_pylist()[:limit]
    questions, gold = gold_by_words(units, book_of, rows)
    return RetrievalSet("novels", units, questions, gold)


def musique(limit: int | None) -> RetrievalSet:
    """Wikipedia passages of all kinds joined to units; gold by passage."""
    passages = pq.read_table(DATA / "musique-openie/passages.parquet").to_pylist()
    random.Random(0).shuffle(passages)
    units: list[str] = []
    unit_of: dict[object, int] = {}
    parts: list[str] = []
    for row in passages:
        unit_of[row["passage_id"]] = len(units)
        parts.append(f"{row['title']}\n{row['text']}")
        if sum(len(part.split()) for part in parts) >= WORDS:
            units.append("\n\n".join(parts))
            parts = []
    units += ["\n\n".join(parts)] if parts else []
    rows = pq.read_table(DATA / "musique-openie/questions.parquet").to_pylist()[:limit]
    gold = [[{unit_of[p]} for p in row["gold_passage_ids"]] for row in rows]
    return RetrievalSet("musique", units, [row["question"] for row in rows], gold)


def unit_length(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def pooled(windows: np.ndarray, owners: np.ndarray, n: int) -> np.ndarray:
    """Plain mean of the windows of each unit."""
    sums = np.zeros((n, windows.shape[1]))
    np.add.at(sums, owners, windows)
    return unit_length(sums)


def best(scores: np.ndarray, owners: np.ndarray, n: int, top: int = 1) -> np.ndarray:
    """Mean of the best ``top`` windows of each unit."""
    out = np.zeros((scores.shape[0], n))
    for unit in range(n):
        own = np.sort(scores[:, owners == unit], axis=1)[:, ::-1][:, :top]
        out[:, unit] = own.mean(axis=1)
    return out


def recall(scores: np.ndarray, gold: list[list[set[int]]]) -> dict[str, float]:
    """Share of what is to be found that is among the first k units, averaged over the questions."""
    ranking = np.argsort(-scores, axis=1, kind="stable")
    return {
        f"R@{k}": round(
            float(
                np.mean(
                    [
                        np.mean([bool(units & set(row[:k])) for units in wanted])
                        for row, wanted in zip(ranking, gold, strict=True)
                    ]
                )
            ),
            3,
        )
        for k in CUTS
    }


def measure(data: RetrievalSet, model: str, window: int) -> list[dict[str, object]]:
    """All ways of using the windows of one size."""
    embedder = EmbeddedEmbedder(model, window=window)
    questions = embedder.encode(data.questions, "query")
    begun = time.process_time()
    vectors, owners = embedder.encode_windows(data.units)
    seconds = time.process_time() - begun
    n = len(data.units)
    scores = questions @ vectors.T
    first = vectors[np.searchsorted(owners, np.arange(n))]
    mean = questions @ pooled(vectors, owners, n).T
    ways: dict[str, Callable[[], np.ndarray]] = {
        "first window": lambda: questions @ first.T,
        "mean": lambda: mean,
        "mean, by length": lambda: questions @ embedder.encode(data.units).T,
        "best window": lambda: best(scores, owners, n),
        "mean of best two": lambda: best(scores, owners, n, 2),
        "half best, half mean": lambda: 0.5 * best(scores, owners, n) + 0.5 * mean,
    }
    common = {"set": data.name, "model": model, "window": window, "vectors_per_unit": round(len(vectors) / n, 2)}
    return [
        {**common, "way": name, **recall(way(), data.gold), "cpu_seconds": round(seconds, 1)}
        for name, way in ways.items()
    ]


def main() -> None:
    """Print one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bge-small-en-v1.5")
    parser.add_argument("--windows", type=int, nargs="+", default=[126, 254, 510])
    parser.add_argument("--questions", type=int, help="most questions of a set")
    arguments = parser.parse_args()
    for load in (novels, musique):
        data = load(arguments.questions)
        sys.stderr.write(f"{data.name}: {len(data.units)} units, {len(data.questions)} questions\n")
        for window in arguments.windows:
            for row in measure(data, arguments.model, window):
                sys.stdout.write(json.dumps(row) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
