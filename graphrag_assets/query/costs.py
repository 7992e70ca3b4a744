"""What each search would cost for a question on an index: calls, tokens and price, estimated from sizes and budgets."""

# ruff: noqa: S608 (SQL is put together from names and integers only)

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from graphrag_assets.llm.prices import ModelFacts
from graphrag_assets.query import lookups
from graphrag_assets.query.global_search import select_reports
from graphrag_assets.query.writing import Question

#: Tokens of a prompt without its data, and of the answers of each step: rough means.
PROMPT, ANSWER, POINTS, STEP, RATING = 400, 500, 300, 400, 60

#: Reports whose size is measured.
_SAMPLE = 20


@dataclass(frozen=True)
class Cost:
    """Estimated cost of one search.

    Args:
        method: The search.
        calls: Calls of the language model; of DRIFT at most so many.
        prompt_tokens: Tokens sent.
        completion_tokens: Tokens received.
        usd: Price; None where that of the model is not known.
    """

    method: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    usd: float | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def estimate(question: Question) -> dict[str, Cost]:
    """What each search would cost; without a language model nothing.

    Args:
        question: The question.

    Returns:
        Costs by method; global and DRIFT only where there are reports.
    """
    has_reports = question.index.count("community_reports") > 0
    methods = ["basic", "local", *(["global", "drift"] if has_reports else [])]
    if question.models.chat is None:
        return {method: Cost(method, 0, 0, 0, 0.0) for method in methods}
    steps = {"basic": _basic(question), "local": _local(question)}
    if has_reports:
        steps |= {"global": _global(question), "drift": _drift(question)}
    return {method: _priced(question, method, *steps[method]) for method in methods}


def _priced(question: Question, method: str, calls: int, prompt: int, completion: int) -> Cost:
    facts = _facts(question, method)
    usd = None
    if facts is not None and facts.input_usd is not None and facts.output_usd is not None:
        usd = round(prompt * facts.input_usd + completion * facts.output_usd, 6)
    return Cost(method, calls, prompt, completion, usd)


def _facts(question: Question, method: str) -> ModelFacts | None:
    if question.models.facts is None:
        return None
    try:
        return question.models.facts(getattr(question.settings, f"{method}_search").completion_model_id)
    except Exception:  # an entry that cannot work is told when it is used
        return None


def _corpus(question: Question) -> tuple[int, float]:
    """Tokens of all text units, and of one on average."""
    row = question.index.rows(
        "select coalesce(sum(n_tokens), 0) as total, coalesce(avg(n_tokens), 0) as mean from text_units"
    )
    return int(row[0]["total"]), float(row[0]["mean"])


def _basic(question: Question) -> tuple[int, int, int]:
    settings = question.settings.basic_search
    total, mean = _corpus(question)
    return 1, PROMPT + min(settings.max_context_tokens, total, math.ceil(settings.k * mean)), ANSWER


def _local(question: Question) -> tuple[int, int, int]:
    settings = question.settings.local_search
    texts = min(int(settings.max_context_tokens * settings.text_unit_prop), _corpus(question)[0])
    return 1, PROMPT + texts + int(settings.max_context_tokens * (1 - settings.text_unit_prop)), ANSWER


def _global(question: Question) -> tuple[int, int, int]:
    settings = question.settings.global_search
    selected = len(select_reports(question.index, question.community_level))
    tokens = math.ceil(selected * _report_tokens(question))
    batches = max(1, math.ceil(tokens / settings.max_context_tokens))
    read = min(settings.data_max_tokens, batches * POINTS)
    return batches + 1, (batches + 1) * PROMPT + tokens + read, batches * POINTS + ANSWER


def _drift(question: Question) -> tuple[int, int, int]:
    settings = question.settings.drift_search
    reports = min(settings.drift_k_followups, question.index.count("community_reports"))
    folds = min(settings.primer_folds, reports)
    primer = min(folds * settings.primer_llm_max_tokens, math.ceil(reports * _report_tokens(question)))
    rounds = settings.n_depth * settings.drift_k_followups
    step = min(settings.local_search_max_data_tokens, 2 * _corpus(question)[0])
    calls = folds + rounds + 1
    prompt = calls * PROMPT + primer + rounds * step + min(settings.data_max_tokens, rounds * STEP)
    return calls, prompt, (folds + rounds) * STEP + ANSWER


def _report_tokens(question: Question) -> float:
    """Tokens of a report on average, from the first ones of the table."""
    rows = question.index.rows(
        f"""select full_content as content from community_reports
            where {lookups.USABLE_REPORT} and level <= {int(question.community_level)} order by community limit {_SAMPLE}"""
    )
    sizes = [question.models.tokenizer.count(row["content"]) for row in rows]
    return sum(sizes) / len(sizes) if sizes else 0.0
