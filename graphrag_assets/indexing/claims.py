"""Claims of one text unit by an LLM: who is said to have done what, how surely, when, and in which words.

The conversation is that of the graph extraction; all of its answers are read, gleaned ones too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from graphrag_assets.indexing.asking import Ask
from graphrag_assets.indexing.gleaning import Conversation, Status, converse, converse_in_parts
from graphrag_assets.indexing.tuples import DELIMITER, Record, read_claim_records
from graphrag_assets.text.dates import iso_date
from graphrag_assets.text.names import canonical_title, is_named_in
from graphrag_assets.text.refusals import RefusalError, is_refusal, is_short, says_nothing_found
from graphrag_assets.text.templates import render

Row = dict[str, Any]

#: What stands where nothing is known.
NONE = "NONE"
_UNKNOWN = frozenset(
    {"", "NONE", "NULL", "N/A", "NA", "UNKNOWN", "NOT SPECIFIED", "UNSPECIFIED", "-", "无", "未知", "なし"}
)
_TRUE = frozenset({"TRUE", "CONFIRMED", "VERIFIED", "YES", "真", "是", "真实", "确认"})
_FALSE = frozenset({"FALSE", "REFUTED", "UNTRUE", "DENIED", "NO", "假", "否", "错误"})
_SUSPECTED = frozenset(
    {
        "SUSPECTED",
        "SUSPECT",
        "ALLEGED",
        "UNVERIFIED",
        "UNCONFIRMED",
        "POSSIBLE",
        "LIKELY",
        "PENDING",
        "UNCERTAIN",
        "怀疑",
        "疑似",
        "可能",
    }
)
_FIELDS = 8


@dataclass
class ClaimAnswer:
    """Claims of one answer.

    Args:
        claims: Claims in their order, without the id of the text unit.
        ended: Whether the answer carries an end mark.
        cut: Whether it breaks off inside a claim (which is left out).
        dropped: What could not be used, counted by reason.
    """

    claims: list[Row] = field(default_factory=list)
    ended: bool = False
    cut: bool = False
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def unended(self) -> bool:
        """Whether it holds claims and does not say that they are all."""
        return bool(self.claims) and not self.ended


@dataclass
class ClaimExtraction:
    """What one text unit gave.

    Args:
        claims: Rows of the table extracted_claims, in its canonical order, each once.
        status: ok, empty (nothing found), or failed, truncated, refused.
        reason: What went wrong, in one line; empty when nothing did.
        attempts: Answers that were asked for; 0 when all came from the cache.
        passing: Whether something was not answered for a reason that may pass, so that another run may get more.
        dropped: What the answers held that could not be used, counted by reason.
        parts: In how many parts the text was read.
    """

    claims: list[Row] = field(default_factory=list)
    status: Status = "ok"
    reason: str = ""
    attempts: int = 0
    passing: bool = False
    dropped: dict[str, int] = field(default_factory=dict)
    parts: int = 1


async def extract_claims(
    text: str,
    ask: Ask,
    *,
    prompt: str,
    continue_prompt: str,
    loop_prompt: str,
    entity_specs: Sequence[str],
    claim_description: str,
    max_gleanings: int = 1,
    row: str = "",
) -> ClaimExtraction:
    """Extract claims from a text unit.

    Args:
        text: The text unit.
        ask: The model.
        prompt: Template with {entity_specs}, {claim_description} and {input_text}.
        continue_prompt: Asks for what was missed.
        loop_prompt: Asks whether there is more.
        entity_specs: Types or names of the entities whose claims are wanted.
        claim_description: What counts as a claim.
        max_gleanings: Further questions for what was missed.
        row: Id of the text unit.
    """
    variables = {"entity_specs": ", ".join(entity_specs), "claim_description": claim_description}

    async def talk(part: str, smaller: bool) -> Conversation[ClaimAnswer]:
        return await converse(
            ask,
            render(prompt, {**variables, "input_text": part}),
            parse=read_claims,
            salvage=salvage_claims,
            max_gleanings=max_gleanings,
            continue_prompt=continue_prompt,
            loop_prompt=loop_prompt,
            row=row,
            smaller=smaller,
        )

    said = await converse_in_parts(text.strip(), talk)
    examples = example_subjects(prompt)
    answers = (without_echoes(answer, part, examples) for part, each in said.conversations for answer in each.answers)
    merged = merge_claims(answers, row)
    merged.parts = said.count
    merged.attempts, merged.reason, merged.passing = said.attempts, said.reason, said.passing
    merged.status = "empty" if said.status == "ok" and not merged.claims else said.status
    return merged


def parse_claims(answer: str) -> ClaimAnswer:
    """Read an answer; never fails, what is no claim is left out and counted.

    Args:
        answer: Raw answer of a model.
    """
    read = read_claim_records(answer)
    found = ClaimAnswer(ended=read.ended, cut=read.cut)
    for record in read.records[: -1 if read.cut else None]:
        claim = _claim(record)
        if claim is None:
            found.dropped["no claim"] += 1
        else:
            found.claims.append(claim)
    return found


def read_claims(answer: str) -> ClaimAnswer:
    """Read an answer, and judge whether it is one; an honest "nothing found" is.

    Raises:
        RefusalError: The model declined.
        ValueError: The answer is empty, holds no claim and does not say that there is none, or was cut.
    """
    found = parse_claims(answer)
    if found.cut:
        raise ValueError("the answer breaks off inside a claim; expected all claims, then the end mark")
    if found.claims or (found.ended and is_short(answer)):
        return found
    if not answer.strip():
        raise ValueError("the answer is empty; expected claims, or the end mark alone when there are none")
    if is_refusal(answer):
        raise RefusalError("the model declined to answer")
    if says_nothing_found(answer):
        return found
    raise ValueError("the answer holds no claim; expected claims, or the end mark alone when there are none")


def salvage_claims(answer: str) -> ClaimAnswer | None:
    """The complete claims of an answer that :func:`read_claims` refuses; None when there are none."""
    found = parse_claims(answer)
    return found if found.claims else None


def without_echoes(answer: ClaimAnswer, text: str, examples: frozenset[str]) -> ClaimAnswer:
    """Leave out what the model copied instead of read.

    That is, claims about subjects of the examples in the prompt that the text does not name, and claim records that
    stand in the text itself.

    Args:
        answer: Answer of a model.
        text: Text unit that was asked about.
        examples: Subjects of the examples in the prompt.
    """
    planted = parse_claims(text).claims if re.search(DELIMITER, text) else []
    kept = [
        claim
        for claim in answer.claims
        if claim not in planted and (claim["subject"] not in examples or is_named_in(claim["subject"], text))
    ]
    dropped = answer.dropped.copy()
    dropped["echo"] += len(answer.claims) - len(kept)
    return ClaimAnswer(kept, answer.ended, answer.cut, +dropped)


@lru_cache(maxsize=8)
def example_subjects(prompt: str) -> frozenset[str]:
    """Subjects of the claims in the worked examples of a prompt."""
    return frozenset(claim["subject"] for claim in parse_claims(prompt).claims)


def merge_claims(answers: Iterable[ClaimAnswer], text_unit_id: str) -> ClaimExtraction:
    """Merge the answers about one text unit into its rows: each claim once, in canonical order.

    Args:
        answers: Answers in the order in which they were given.
        text_unit_id: Id of the text unit.
    """
    unique: dict[tuple[str, ...], Row] = {}
    dropped: Counter[str] = Counter()
    for answer in answers:
        dropped += answer.dropped
        for claim in answer.claims:
            unique.setdefault(tuple(claim.values()), claim)
    return ClaimExtraction(
        [{"text_unit_id": text_unit_id, **unique[key]} for key in sorted(unique)], dropped=dict(sorted(dropped.items()))
    )


def normalise_status(status: str) -> str | None:
    """TRUE, FALSE or SUSPECTED; None when the field is no status."""
    word = canonical_title(status).strip("*.()[] ")
    for name, words in (("TRUE", _TRUE), ("FALSE", _FALSE), ("SUSPECTED", _SUSPECTED)):
        if word in words:
            return name
    return None


def _claim(record: Record) -> Row | None:
    """The fields of a claim, in the order of the table; None when the record is none.

    A claim has a subject, a status where the status belongs, and words.
    """
    fields = (*record.fields, *[""] * _FIELDS)[: max(_FIELDS, len(record.fields))]
    subject, target, type_, status, start, end, description = fields[:7]
    source_text = " ".join(part for part in fields[7:] if part)
    verdict = normalise_status(status)
    title = canonical_title(subject)
    if verdict is None or title in _UNKNOWN or not (description or source_text) or not re.search(r"\w", title):
        return None
    return {
        "subject": title,
        "object": _title_or_none(target),
        "type": _title_or_none(type_),
        "status": verdict,
        "start_date": iso_date(start) or NONE,
        "end_date": iso_date(end) or NONE,
        "description": "" if description.upper() == NONE else description,
        "source_text": "" if source_text.upper() == NONE else source_text,
    }


def _title_or_none(field_: str) -> str:
    title = canonical_title(field_)
    return NONE if title in _UNKNOWN else title
