"""Claims in other grammars than the one that was asked for: what a lenient reader finds is found, and no more."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from graphrag_assets.indexing.claim_answers import parse_claims, read_claims, salvage_claims
from graphrag_assets.storage.tables import EXTRACTED_CLAIMS
from tests.unit.worse_claims import OF_CLAIMS, claims_of

ROOT = Path(__file__).resolve().parents[2]
OWN = [
    "(ACME Ltd (UK)<|>City of York<|>TAX FRAUD<|>TRUE<|>2019-04-01<|>2020-03-31<|>ACME, a maker of soap, paid no tax; the "
    "city fined it.<|>ACME paid no tax (2019, 2020), and was fined)\n##\n"
    "(Jean-Luc O'Neil<|>NONE<|>BRIBERY<|>SUSPECTED<|>2015<|>NONE<|>He is said to have bribed a clerk: nobody saw it."
    '<|>"I never did," he said)\n##\n'
    "(Ann B. Li<|>ACME Ltd (UK)<|>SAFETY<|>FALSE<|>NONE<|>NONE<|>That Ann Li hid a report is refuted.<|>she hid nothing"
    ")\n<|COMPLETE|>",
    "(Владимир Орлов<|>ООО Заря<|>РАСТРАТА<|>SUSPECTED<|>2001-02-03<|>2001-02-05<|>Орлов, как говорят, растратил деньги."
    "<|>говорят, растратил)\n##\n(ООО Заря<|>NONE<|>ДОЛГ<|>TRUE<|>NONE<|>NONE<|>Заря не платила.<|>не платила)\n"
    "<|COMPLETE|>",
]


@pytest.fixture(scope="module")
def good(shared: Path) -> list[str]:
    prompt = (ROOT / "prompts" / "extract_claims.txt").read_text(encoding="utf-8")
    example = prompt.split("</text>\n")[1].split("\n\nYour task")[0]
    rows: list[dict[str, Any]] = pq.read_table(shared / "data" / "llm-zoo" / "responses.parquet").to_pylist()
    texts = [row["response"] for row in rows if row["kind"] == "claims"]
    real = [text for text in texts if "<|>COMPLETE" not in text and len(claims_of(text)) > 1]
    return [*OWN, example, *real]


def known(claims: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    parts = ("subject", "object", "type", "status", "start_date", "end_date")
    return Counter(tuple(claim[part] for part in parts) for claim in claims)


@pytest.mark.parametrize("name", OF_CLAIMS)
def test_worse_claims_are_read(name: str, good: list[str]) -> None:
    kept = strange = worded = total = 0
    for number, text in enumerate(good):
        right = parse_claims(text).claims
        assert len(right) == len(claims_of(text)) > 1
        try:
            claims = read_claims(OF_CLAIMS[name](text, Random(number))).claims
        except ValueError:
            claims = []
        EXTRACTED_CLAIMS.from_rows([{"text_unit_id": "u", **claim} for claim in claims])
        found = known(claims)
        kept, total = kept + (known(right) & found).total(), total + len(right)
        strange += len(found.keys() - known(right).keys())
        said = "\n".join("".join((claim["description"] + claim["source_text"]).split()) for claim in claims)
        worded += sum("".join(claim["description"].split())[:20] in said for claim in right)
    assert kept >= 0.95 * total
    assert strange <= 0.05 * total
    assert worded >= 0.8 * total


@pytest.mark.parametrize(
    "prose",
    [
        "It is true, the company was fined, in 2019, by the city, and again, for the same, in 2020.",
        "Status: true\nSummary: It is about a man.\nSubject: none\n",
        "- [Person] Elon Musk\n- [Organization] NASA",
        "| Year | Profit | True |\n|---|---|---|\n| 2020 | 7 | TRUE |\n",
        "**Claims:**\n- John works for ABC Inc.\n- Mary is married to John\n",
        "Whether this is true -> nobody knows. False -> we know. Suspected -> perhaps.",
        'def f(x):\n    return {"subject": x, "status": True}\n',
        "a, b, c, d, e, f, g, h, i, j, k",
    ],
)
def test_prose_and_programs_give_no_claims(prose: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        read_claims(prose)


def test_empty_lists_are_an_honest_nothing() -> None:
    for answer in ('{"claims": []}', "[]", "```json\n{}\n```"):
        assert read_claims(answer).claims == []


def test_claims_in_json_that_was_cut_are_salvaged() -> None:
    items = [dict(zip(("subject", "status", "description"), (n, "TRUE", "They lied."), strict=True)) for n in "ABCD"]
    answer = json.dumps({"claims": items})[:-30]
    with pytest.raises(ValueError, match="cut"):
        read_claims(answer)
    salvaged = salvage_claims(answer)
    assert salvaged is not None
    assert [claim["subject"] for claim in salvaged.claims] == ["A", "B", "C"]
