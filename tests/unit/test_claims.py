"""Extraction of claims."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.indexing.asking import AnswerError
from graphrag_assets.indexing.claim_answers import parse_claims, read_claims
from graphrag_assets.indexing.claims import ClaimExtraction, extract_claims
from graphrag_assets.storage.tables import EXTRACTED_CLAIMS
from graphrag_assets.text.claim_words import claim_status
from graphrag_assets.text.dates import iso_date
from tests.unit.asking_doubles import Scripted

PROMPT = (Path(__file__).resolve().parents[2] / "prompts" / "extract_claims.txt").read_text(encoding="utf-8")
CLAIM = "(Company A<|>NONE<|>fraud<|>True<|>January 10, 2022<|>2022-01-10T00:00:00<|>Company A was fined.<|>was fined)"
OTHER = '("Person C"<|>Company A<|>BRIBERY<|>alleged<|>2015<|>NONE<|>Person C bribed.<|>said to have bribed)'
END = "\n<|COMPLETE|>"


def run(ask: Scripted, text: str = "Company A and Person C", **parameters: Any) -> ClaimExtraction:
    given = {
        "prompt": PROMPT,
        "continue_prompt": "more?",
        "loop_prompt": "Y/N",
        "max_gleanings": 0,
        "row": "u",
        **parameters,
    }
    return asyncio.run(extract_claims(text, ask, entity_specs=["person"], claim_description="any", **given))


def test_fields_are_normalised() -> None:
    found = run(Scripted([f"{CLAIM}\n##\n{OTHER}{END}"]))
    assert found.status == "ok"
    EXTRACTED_CLAIMS.from_rows(found.claims)
    assert found.claims[0] == {
        "text_unit_id": "u",
        "subject": "COMPANY A",
        "object": "NONE",
        "type": "FRAUD",
        "status": "TRUE",
        "start_date": "2022-01-10",
        "end_date": "2022-01-10",
        "description": "Company A was fined.",
        "source_text": "was fined",
    }
    assert (found.claims[1]["subject"], found.claims[1]["status"], found.claims[1]["start_date"]) == (
        "PERSON C",
        "SUSPECTED",
        "2015",
    )


def test_gleaned_claims_are_read() -> None:
    """The reference pays for gleanings and throws their answers away."""
    found = run(Scripted([f"{CLAIM}{END}", f"{OTHER}\n##\n{CLAIM}{END}"]), max_gleanings=1)
    assert [claim["subject"] for claim in found.claims] == ["COMPANY A", "PERSON C"]


def test_garbage_is_dropped_and_counted() -> None:
    found = run(
        Scripted([f"{CLAIM}##\n(junk<|>line)##\n(A<|>B<|>T<|>PERHAPS<|>NONE<|>NONE<|>d<|>q)##\nnot a record##{END}"])
    )
    assert len(found.claims) == 1
    assert found.dropped == {"no claim": 2}


def test_claims_of_the_example_are_dropped() -> None:
    echo = "(PEVEREL QUOYLE<|>NONE<|>X<|>TRUE<|>NONE<|>NONE<|>d<|>q)"
    assert run(Scripted([f"{CLAIM}##{echo}{END}"])).dropped == {"echo": 1}
    assert len(run(Scripted([f"{echo}{END}"]), text="Peverel Quoyle did it").claims) == 1


def test_outcomes() -> None:
    assert run(Scripted([END])).status == "empty"
    assert run(Scripted(["No claims were found."])).status == "empty"
    assert run(Scripted([AnswerError("failed", "500")])).status == "failed"
    assert run(Scripted(["I cannot help with this."])).status == "refused"
    cut = run(Scripted([f"{CLAIM}##(Person C<|>Comp"]))
    assert (cut.status, len(cut.claims)) == ("truncated", 1)
    with pytest.raises(ValueError, match="expected"):
        read_claims("- [Person] Elon Musk\n- [Organization] NASA")


@pytest.mark.parametrize(
    ("word", "status"),
    [("TRUE", "TRUE"), ("**False**", "FALSE"), ("Suspected.", "SUSPECTED"), ("怀疑", "SUSPECTED"), ("blue", None)],
)
def test_status(word: str, status: str | None) -> None:
    assert claim_status(word) == status


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2022-01-10T00:00:00", "2022-01-10"),
        ("2022-01-10T14:30:00Z", "2022-01-10T14:30:00Z"),
        ("1843", "1843"),
        ("March 1999", "1999-03"),
        ("25 December 1843", "1843-12-25"),
        ("the 3rd of May", None),
        ("May 3rd, 1900", "1900-05-03"),
        ("3. Mai 1900", "1900-05-03"),
        ("2021年3月4日", "2021-03-04"),
        ("03/04/2021", None),
        ("2022-02-31", None),
        ("NONE", None),
        ("", None),
    ],
)
def test_dates(text: str, date: str | None) -> None:
    assert iso_date(text) == date


@given(st.text() | st.text(alphabet="(A<|>TRUE)#\n NONE"))
def test_any_answer_is_read(text: str) -> None:
    EXTRACTED_CLAIMS.from_rows([{"text_unit_id": "u", **claim} for claim in parse_claims(text).claims])
