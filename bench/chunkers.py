"""Which chunker should be the default: what retrieval finds, and what an edit costs.

Six books (environment variable GRAPHRAG_SHARED, folder data/novel-qa) are cut by each chunker at its default sizes.

* Retrieval: text units are embedded as the index embeds them (windows of the embedded model, the best one counts). The
  gold of a question are the text units that hold most of the words of an evidence statement. Chunkers make units of
  other lengths, so recall is told for the first k units and for the units that fill a budget of tokens.
* Edits: one sentence is inserted into, or taken out of, a book at random places; told is the share of text units whose
  text is new after it, which is what must be extracted and embedded again.

    python bench/chunkers.py [--questions N] [--edits N]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow.parquet as pq

from bench.long_text_embedding import DATA, best, gold_by_words
from graphrag_assets.indexing.chunking import Chunk, ChunkerType, chunk
from graphrag_assets.llm.embedding.embedded import EmbeddedEmbedder
from graphrag_assets.llm.tokens import tokenizer
from graphrag_assets.text.sentences import sentences

#: Chunkers with their sizes; stable text units are on average three fifths of the greatest size, so two sizes are told.
CHUNKERS: tuple[tuple[ChunkerType, int], ...] = (
    ("tokens", 1200),
    ("sentence", 1200),
    ("stable", 1200),
    ("stable", 1800),
)
CUTS = (1, 5, 20)
#: Tokens of text units that a local and a basic context hold by default.
BUDGETS = (6_000, 12_000)
INSERTED = " The lamplighter of the harbour wrote in his ledger that nothing at all had happened that evening."


def books() -> dict[str, str]:
    """Text by name."""
    return {row["novel"]: row["text"] for row in pq.read_table(DATA / "novel-qa/novels.parquet").to_pylist()}


def cut(text: str, kind: ChunkerType, size: int) -> list[Chunk]:
    return chunk(text, tokenizer("o200k_base"), type=kind, size=size)


def retrieval(kind: ChunkerType, size: int, limit: int | None) -> dict[str, float]:
    """Recall of evidence, all books searched at once."""
    units: list[Chunk] = []
    book_of: list[str] = []
    for name, text in books().items():
        pieces = cut(text, kind, size)
        units += pieces
        book_of += [name] * len(pieces)
    rows = pq.read_table(DATA / "novel-qa/questions.parquet").to_pylist()[:limit]
    questions, gold = gold_by_words([unit.text for unit in units], book_of, rows)
    embedder = EmbeddedEmbedder("bge-small-en-v1.5")
    vectors, owners = embedder.encode_windows([unit.text for unit in units])
    scores = best(embedder.encode(questions, "query") @ vectors.T, owners, len(units))
    ranking = np.argsort(-scores, axis=1, kind="stable")
    sizes = np.array([unit.n_tokens for unit in units])

    def recall(firsts: list[int]) -> float:
        found = [
            statistics.fmean(bool(held & set(row[:first])) for held in wanted)
            for row, first, wanted in zip(ranking, firsts, gold, strict=True)
        ]
        return round(statistics.fmean(found), 3)

    told = {f"R@{k}": recall([k] * len(questions)) for k in CUTS}
    for budget in BUDGETS:
        told[f"R@{budget} tokens"] = recall([int((np.cumsum(sizes[row]) <= budget).sum()) for row in ranking])
    return {"units": len(units), "mean_tokens": round(float(sizes.mean()), 0), "questions": len(questions), **told}


def edited(text: str, edits: int, seed: random.Random) -> Iterator[str]:
    """The text after one edit each: a sentence inserted, or one taken out."""
    spans = sentences(text)
    for i in range(edits):
        start, end = spans[seed.randrange(len(spans))]
        yield text[:end] + INSERTED + text[end:] if i % 2 == 0 else text[:start] + text[end:]


def edit_cost(kind: ChunkerType, size: int, edits: int) -> dict[str, float]:
    """Share of the text units of a book that an edit of one sentence makes new: mean and worst."""
    shares = []
    for text in books().values():
        before = {piece.text for piece in cut(text, kind, size)}
        for after in edited(text, edits, random.Random(0)):
            pieces = cut(after, kind, size)
            shares.append(sum(piece.text not in before for piece in pieces) / len(pieces))
    return {"new_units_mean": round(statistics.fmean(shares), 3), "new_units_worst": round(max(shares), 3)}


def main() -> None:
    """Print one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, help="most questions")
    parser.add_argument("--edits", type=int, default=10, help="edits of each book")
    arguments = parser.parse_args()
    for kind, size in CHUNKERS:
        costs, found = edit_cost(kind, size, arguments.edits), retrieval(kind, size, arguments.questions)
        row = {"chunker": kind, "size": size, **costs, **found}
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
