"""Answers without a language model: the sentences of the retrieved texts that answer best, with their citations."""

from __future__ import annotations

from collections.abc import Sequence

from graphrag_assets.query.citations import marker
from graphrag_assets.query.context import REPORTS, SOURCES, Context
from graphrag_assets.query.index import Index
from graphrag_assets.query.judging import Judge
from graphrag_assets.query.quotable import Sentence, quotable
from graphrag_assets.query.result import Draft

HEADING = "Extractive answer (sentences of the documents, no language model):"
DECLINED = "Not in these documents: they do not seem to hold an answer to this question (extractive answer, no language model)."

#: Log odds from which the best sentence counts as an answer, chosen on one half of the questions of bench/answers.py.
THRESHOLD = 0.0

#: The same for a question that asks how or why, in the searches that tell the larger story: no sentence covers it.
ACCOUNT_THRESHOLD = -5.0

#: Further sentences may be this much less sure than the best one.
MARGIN = 3.0


async def extract(
    question: str, index: Index, contexts: Sequence[Context], judge: Judge, most: int, threshold: float = THRESHOLD
) -> Draft:
    """Put an extractive answer together.

    Args:
        question: The question.
        index: The snapshot that the contexts come from.
        contexts: What was retrieved.
        judge: Judges sentences.
        most: Most sentences of the answer.
        threshold: Log odds that the best sentence must reach.

    Returns:
        The best sentences in the order of the documents, each with its citation; or, where the best one does not reach
        the threshold, a text that says that the documents do not hold the answer.
    """
    judged = await judge.signs(question, quotable(index, contexts))
    if not judged or judged[0].odds < threshold:
        return _draft([], contexts)
    chosen = [signs.sentence for signs in judged[:most] if signs.odds >= judged[0].odds - MARGIN]
    return _draft(sorted(chosen, key=lambda s: (s.dataset != SOURCES, s.number, s.start)), contexts)


async def overview(question: str, index: Index, context: Context, judge: Judge) -> Draft:
    """Answer a question about the documents as a whole, which no single sentence answers.

    Args:
        question: The question.
        index: The snapshot that the context comes from.
        context: Reports, the most important ones first.
        judge: Judges sentences by their relevance; nothing is declined.

    Returns:
        The sentence of each report's summary (what stands before its first finding) that is nearest to the question,
        in the order of the reports.
    """
    summaries = {row.number: len(row.text.split("\n## ", 1)[0]) for row in context.rows(REPORTS)}
    found = [s for s in quotable(index, [context]) if s.start < summaries[s.number]]
    scores = await judge.relevance(question, found)
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
