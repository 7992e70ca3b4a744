"""Near misses: are questions declined whose passage was taken out of the context? And what do the weights say?

    python bench/near_misses.py MUSIQUE [--workspace DIR] [--every 2]

MUSIQUE is a folder with passages.parquet (passage_id, title, text) and questions.parquet (decomposition,
candidate_passage_ids): MuSiQue's passages and its multi-hop questions with their single steps. The passages are indexed
in the workspace, if it holds no index yet. Each single step is asked twice in basic search: with the whole context, and
without the passage that holds its answer (those whose answer stands elsewhere in the context are left out).

Printed: shares of both that are declined as the weights stand, and the weights of a logistic regression over the signs
of these questions, beside which the ones in use can be judged (they are rounded ones from this set and the demo).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pandas as pd

from graphrag_assets.query import open_index
from graphrag_assets.query.basic import build_basic_context
from graphrag_assets.query.context import Context
from graphrag_assets.query.extractive import THRESHOLD
from graphrag_assets.query.judging import Signs
from graphrag_assets.query.models import RERANKER_WEIGHTS, open_models
from graphrag_assets.query.quotable import quotable
from graphrag_assets.settings_file import load_workspace

#: Questions for the relations that MuSiQue writes as "subject >> relation".
RELATIONS = {
    "performer": "Who performed {}?",
    "country": "In which country is {}?",
    "located in the administrative territorial entity": "In which county or state is {} located?",
    "composer": "Who composed {}?",
    "country of citizenship": "Which country is {} a citizen of?",
    "author": "Who wrote {}?",
    "educated at": "Where was {} educated?",
    "place of birth": "Where was {} born?",
    "place of death": "Where did {} die?",
    "producer": "Who produced {}?",
    "director": "Who directed {}?",
    "spouse": "Who is the spouse of {}?",
    "location": "Where did {} take place?",
    "continent": "On which continent is {}?",
    "father": "Who is the father of {}?",
    "mother": "Who is the mother of {}?",
    "shares border with": "Which place borders {}?",
    "conflict": "In which conflict did {} take part?",
    "record label": "On which record label is {}?",
    "employer": "Who employed {}?",
    "publisher": "Who published {}?",
}


def single_steps(folder: Path) -> list[tuple[str, str, str]]:
    """Question, answer and passage of every step that can be asked by itself, each question once."""
    passages = pd.read_parquet(folder / "passages.parquet").set_index("passage_id")
    found: dict[str, tuple[str, str, str]] = {}
    for row in pd.read_parquet(folder / "questions.parquet").itertuples():
        answers: dict[int, str] = {}
        for number, step in enumerate(json.loads(row.decomposition), start=1):
            text = step["question"]
            for before, answer in answers.items():
                text = text.replace(f"#{before}", answer)
            answers[number] = step["answer"]
            subject, arrow, relation = (part.strip() for part in text.partition(">>"))
            if "#" in text or (arrow and relation not in RELATIONS):
                continue
            asked = (
                RELATIONS[relation].format(subject) if arrow else subject[0].upper() + subject[1:].rstrip(" ?") + "?"
            )
            passage = passages.loc[row.candidate_passage_ids[step["paragraph_support_idx"]]]
            if step["answer"].casefold() in f"{passage.title} {passage.text}".casefold():
                found.setdefault(asked, (asked, step["answer"].casefold(), passage.text))
    return list(found.values())


def make_index(folder: Path, workspace: Path) -> None:
    """Index the passages, a document each."""
    (workspace / "input").mkdir(parents=True, exist_ok=True)
    passages = pd.read_parquet(folder / "passages.parquet")[["passage_id", "title", "text"]]
    passages.rename(columns={"passage_id": "id"}).to_csv(workspace / "input" / "passages.csv", index=False)
    (workspace / "settings.yaml").write_text("{}\n", "utf-8")
    command = [sys.executable, "-m", "graphrag_assets.cli.main", "index", "--root", str(workspace)]
    subprocess.run(command, check=True)


def without(context: Context, passage: str) -> Context:
    """A context without the text units that hold a passage."""
    kept = tuple(
        replace(section, rows=tuple(row for row in section.rows if passage[:80] not in row.text))
        for section in context.sections
    )
    return replace(context, sections=kept)


async def collect(workspace: Path, steps: list[tuple[str, str, str]]) -> list[tuple[bool, str, list[Signs]]]:
    """Signs of the best sentences for each question, with and without its passage."""
    opened = load_workspace(workspace)
    found: list[tuple[bool, str, list[Signs]]] = []
    with open_index(opened.uri(opened.settings.storage.base), None, opened) as index:
        async with open_models(index) as models:
            judge = models.judge(index)
            settings = index.settings.basic_search
            for question, answer, passage in steps:
                vector = (await models.embedder.embed([question], "query", "bench"))[0].tolist()
                context = build_basic_context(
                    index, question, vector, settings.k, settings.max_context_tokens, models.tokenizer
                )
                found.append((True, answer, await judge.signs(question, quotable(index, [context]))))
                rest = quotable(index, [without(context, passage)])
                if not any(answer in sentence.text.casefold() for sentence in rest):
                    found.append((False, answer, await judge.signs(question, rest)))
    return found


def regression(found: list[tuple[bool, str, list[Signs]]]) -> Any:
    """Bias and weights of relevance, coverage and missing kind; the sentence with the answer stands for its question."""
    rows, labels = [], []
    for answerable, answer, signs in found:
        best = next(
            (s for s in signs if answerable and answer in s.sentence.text.casefold()), signs[0] if signs else None
        )
        if best:
            rows.append([1.0, best.relevance, best.coverage, float(best.no_kind)])
            labels.append(float(answerable))
    x, y = np.array(rows), np.array(labels)
    weights = np.zeros(x.shape[1])
    for _ in range(50):  # Newton's method with a little ridge
        p = 1 / (1 + np.exp(-x @ weights))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-2 * np.eye(x.shape[1])
        weights += np.linalg.solve(hessian, x.T @ (y - p) - 1e-2 * weights)
    return weights.round(2)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("musique", type=Path)
    parser.add_argument("--workspace", type=Path, default=Path(tempfile.gettempdir()) / "near-misses")
    parser.add_argument("--every", type=int, default=1, help="ask every n-th question only")
    options = parser.parse_args()
    if not (options.workspace / "output").exists():
        make_index(options.musique, options.workspace)
    found = asyncio.run(collect(options.workspace, single_steps(options.musique)[:: options.every]))
    for answerable, name in ((True, "with its passage"), (False, "without it")):
        some = [signs for has, _, signs in found if has is answerable]
        declined = sum(not signs or signs[0].odds < THRESHOLD for signs in some)
        print(f"{name}: {len(some)} questions, {declined} declined ({declined / max(1, len(some)):.0%})")
    quoted = [any(a in s.sentence.text.casefold() for s in signs[:5]) for has, a, signs in found if has]
    print(f"the five surest sentences hold the answer: {np.mean(quoted):.0%}")
    print(f"bias, relevance, coverage, no kind: fitted here {regression(found)}, in use {RERANKER_WEIGHTS}")


if __name__ == "__main__":
    main()
