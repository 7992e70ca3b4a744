"""Answers without a language model: the sentences of the retrieved texts that answer best, with their citations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from graphrag_assets.query.citations import marker
from graphrag_assets.query.context import REPORTS, SOURCES, Context
from graphrag_assets.query.result import Draft
from graphrag_assets.text.citations import strip_citations
from graphrag_assets.text.sentences import sentences

HEADING = "Extractive answer (sentences of the documents, no language model):"
DECLINED = "These documents do not seem to hold an answer to this question (extractive answer, no language model)."

#: Sentences shorter than this say nothing on their own (headings, signatures).
MIN_CHARACTERS = 20


@dataclass(frozen=True)
class Scorer:
    """How well sentences answer a question.

    Args:
        score: Takes the question and sentences, returns a number for each; higher is better.
        threshold: The best sentence must reach it, or there is no answer.
        margin: Further sentences may be this much worse than the best one.
        name: What scores, for explanations.
    """

    score: Callable[[str, Sequence[str]], Awaitable[Sequence[float]]]
    threshold: float
    margin: float
    name: str


@dataclass(frozen=True)
class Sentence:
    """A sentence that may be quoted.

    Args:
        dataset: Sources or Reports.
        number: Row that holds it.
        start: First character in the text of the row.
        text: The sentence, without citations of its own.
    """

    dataset: str
    number: int
    start: int
    text: str


def candidates(contexts: Sequence[Context]) -> list[Sentence]:
    """Sentences of all text units and reports in some contexts, each text once, in the order of the contexts."""
    found: dict[str, Sentence] = {}
    for context in contexts:
        for dataset in (SOURCES, REPORTS):
            for row in context.rows(dataset):
                for start, end in sentences(row.text):
                    text = " ".join(strip_citations(row.text[start:end]).split())
                    if len(text) >= MIN_CHARACTERS and not text.startswith("#"):
                        found.setdefault(text, Sentence(dataset, row.number, start, text))
    return list(found.values())


async def extract(question: str, contexts: Sequence[Context], scorer: Scorer, most: int) -> Draft:
    """Put an extractive answer together.

    Args:
        question: The question.
        contexts: What was retrieved.
        scorer: Judges sentences.
        most: Most sentences of the answer.

    Returns:
        The best sentences in the order of the documents, each with its citation; or, where the best one does not reach
        the threshold, a text that says that the documents do not hold the answer.
    """
    found = candidates(contexts)
    scores = list(await scorer.score(question, [s.text for s in found])) if found else []
    ranked = sorted(range(len(found)), key=lambda i: (-scores[i], i))
    limit = max(scorer.threshold, scores[ranked[0]] - scorer.margin) if ranked else scorer.threshold
    chosen = [found[i] for i in ranked[:most] if scores[i] >= limit]
    return _draft(sorted(chosen, key=lambda s: (s.dataset != SOURCES, s.number, s.start)), contexts)


async def overview(question: str, context: Context, scorer: Scorer) -> Draft:
    """Answer a question about the documents as a whole, which no single sentence answers.

    Args:
        question: The question.
        context: Reports, the most important ones first.
        scorer: Judges sentences; its threshold does not count here.

    Returns:
        The sentence of each report's summary (what stands before its first finding) that is nearest to the question,
        in the order of the reports.
    """
    summaries = {row.number: len(row.text.split("\n## ", 1)[0]) for row in context.rows(REPORTS)}
    found = [s for s in candidates([context]) if s.start < summaries[s.number]]
    scores = list(await scorer.score(question, [s.text for s in found])) if found else []
    best: dict[int, int] = {}
    for i, sentence in enumerate(found):
        if sentence.number not in best or scores[i] > scores[best[sentence.number]]:
            best[sentence.number] = i
    return _draft([found[i] for i in best.values()], [context])


def _draft(chosen: Sequence[Sentence], contexts: Sequence[Context]) -> Draft:
    if not chosen:
        return Draft(DECLINED, tuple(contexts), extractive=True, declined=True)
    lines = [f"- {s.text} {marker(s.dataset, s.number)}" for s in chosen]
    return Draft("\n".join([HEADING, "", *lines]), tuple(contexts), extractive=True)
