"""Claims out of one answer, whatever its form."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from graphrag_assets.indexing.claim_items import CLAIMS, claims_in, claims_in_rows
from graphrag_assets.indexing.listings import read_listing
from graphrag_assets.indexing.odd_claims import claims_by_status
from graphrag_assets.indexing.tuples import DELIMITER, LABELLED, Record, clean_field, prepared, read_claim_records
from graphrag_assets.text.claim_words import PARTS, claim_role, claim_status
from graphrag_assets.text.dates import iso_date
from graphrag_assets.text.json_answers import CutError, is_json, json_values
from graphrag_assets.text.names import canonical_title, is_named_in
from graphrag_assets.text.reasoning import strip_reasoning
from graphrag_assets.text.record_words import kind
from graphrag_assets.text.refusals import RefusalError, is_refusal, is_short, says_nothing_found

Row = dict[str, Any]

#: What stands where nothing is known.
NONE = "NONE"
_UNKNOWN = frozenset(
    {"", "NONE", "NULL", "N/A", "NA", "UNKNOWN", "NOT SPECIFIED", "UNSPECIFIED", "-", "无", "未知", "なし"}
)
_FIELDS = len(PARTS)


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


def parse_claims(answer: str) -> ClaimAnswer:
    """Read an answer; never fails, what is no claim is left out and counted.

    Args:
        answer: Raw answer of a model.
    """
    read = read_claim_records(answer)
    found = _of_records(read.records[: -1 if read.cut else None])
    found.ended, found.cut = read.ended, read.cut
    records = claims_by_status(prepared(answer)[0])
    cut = bool(records) and not read.ended and not records[-1].whole
    better = _of_records(records[: -1 if cut else None])
    if len(better.claims) < len(found.claims) or not records:
        return found
    better.dropped = found.dropped if len(better.claims) == len(found.claims) else better.dropped
    better.ended, better.cut = read.ended, cut or read.cut
    return better


def _of_records(records: Iterable[Record]) -> ClaimAnswer:
    found = ClaimAnswer()
    for record in records:
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
    found = _read(answer)
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
    found = _read(answer, partial=True)
    return found if found.claims else None


def _read(answer: str, *, partial: bool = False) -> ClaimAnswer:
    """The claims of an answer in the form in which it holds most of them.

    Raises:
        CutError: It is JSON and was cut, and the part is not wanted.
    """
    found = parse_claims(answer)
    if found.claims and re.search(DELIMITER, html.unescape(html.unescape(answer))) and not is_json(answer):
        return found
    text = strip_reasoning(answer)
    named = (_in_values(answer, partial), _of_records(read_listing(text, CLAIMS)), _of_records(claims_in_rows(text)))
    best = max((*named, found), key=lambda other: len(other.claims))
    best.ended = best.ended or found.ended
    return best


def _in_values(answer: str, partial: bool) -> ClaimAnswer:
    """The claims of all JSON in an answer, whatever its shape."""
    values: list[Any] = []
    try:
        values.extend(json_values(answer, partial=partial))
    except CutError:
        if any(True for value in values for _ in claims_in(value)) or '"status"' in answer.lower():
            raise
    found = _of_records(dict.fromkeys(record for value in values for record in claims_in(value)))
    found.ended = bool(values) and (bool(found.claims) or is_json(_unfenced(answer)))
    return found


def _unfenced(answer: str) -> str:
    """An answer without the code fence round all of it."""
    fence = re.fullmatch(r"```\w*\n(.*)\n```", strip_reasoning(answer), re.DOTALL)
    return fence[1] if fence else answer


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


def _claim(record: Record) -> Row | None:
    """The fields of a claim, in the order of the table; None when the record is none.

    A claim has a subject, a status where the status belongs, and words.
    """
    fields = _in_order(record.fields)
    subject, target, type_, status, start, end, description = fields[:7]
    source_text = " ".join(part for part in fields[7:] if part)
    verdict = claim_status(status)
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


def _in_order(fields: Sequence[str]) -> tuple[str, ...]:
    """Fields where they belong: without a number or a kind before them, and by the names that stand in them."""
    filled = (*fields, *[""] * _FIELDS)[: max(_FIELDS, len(fields))]
    named = [(claim_role(label["label"]), field[label.end() :]) for field in fields if (label := LABELLED.match(field))]
    by_name = {part: text for part, text in named if part is not None}
    if {"subject", "status"} <= by_name.keys() and len(by_name) > _FIELDS // 2:
        return tuple(clean_field(by_name.get(part, "")) for part in PARTS)
    is_shifted = claim_status(filled[4]) is not None
    return filled[1:] if is_shifted and (fields[0].strip("#. ").isdigit() or kind(fields[0])) else filled
