"""The tuple grammar: what models write instead of it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.indexing.tuples import Record, clean_field, read_claim_records, read_graph_records, read_weight

A = Record("entity", ("A", "PERSON", "a (b) c"))
B = Record("relationship", ("A", "B", "knows", "7"))
ENTITY = '("entity"<|>A<|>PERSON<|>a (b) c)'
LINK = '("relationship"<|>A<|>B<|>knows<|>7)'


@pytest.mark.parametrize(
    "answer",
    [
        f"{ENTITY}##{LINK}<|COMPLETE|>",
        f"{ENTITY}\n##\n{LINK}\n<|COMPLETE|>",
        f"{ENTITY}\n{LINK}",
        f"{ENTITY}{LINK}",
        f"{ENTITY}<|COMPLETE|>{LINK}<|COMPLETE|>",
        f"{ENTITY} ##\n## {LINK}##\n\n(<|COMPLETE|>)",
        f"Here they are:\n```\n{ENTITY}\n##\n{LINK}\n```\nAnything else?",
        f"**Entities**\n\n- {ENTITY}\n\n**Relationships**\n\n1. {LINK}\n\nThat is all I found (so far).",
        f"- **{ENTITY}**\n- **{LINK}**",
        f"<think>{ENTITY.replace('A', 'Z')}</think>\n{ENTITY}{LINK}",
        ENTITY[:-1] + "\n##\n" + LINK[:-1] + "\n<|COMPLETE|>",
        ENTITY[1:] + "\n##\n" + LINK[1:] + "\n##\n<|COMPLETE|>",
        f"{ENTITY}##{LINK}".replace('"', "'"),
        f"{ENTITY}##{LINK}".replace('"', ""),
        f"{ENTITY}##{LINK}".replace('"entity"', "“entity”").replace('"relationship"', "«relationship»"),
        f"{ENTITY}##{LINK}".replace("relationship", "relation"),
        f"{ENTITY}##{LINK}".replace("<|>", " <|> "),
        f"{ENTITY}##{LINK}".replace("<|>", "<||>"),
        f"{ENTITY}##{LINK}".replace("<|>", "<|>|"),
        f"{ENTITY}##{LINK}".replace("<|>", "＜｜＞"),
        f"{ENTITY}##{LINK}".replace("<|>", "｜"),
        f"{ENTITY}##{LINK}".replace("<|>", " | "),
        f"{ENTITY}##{LINK}".replace("<|>", "{tuple_delimiter}").replace("##", "{record_delimiter}")
        + "{completion_delimiter}",
        f"{ENTITY}##{LINK}".replace("##", "；\n"),
        f"（{ENTITY[1:-1]}）##（{LINK[1:-1]}）",
        f"[{ENTITY[1:-1]}]\n[{LINK[1:-1]}]",
        "entity<|>A<|>PERSON<|>a (b) c\nrelationship<|>A<|>B<|>knows<|>7\n<|COMPLETE|>",
        '("entity"<|>"A"<|>"PERSON"<|>"a (b) c")##("relationship"<|>"A"<|>"B"<|>"knows"|>7)',
    ],
)
def test_two_records_in_any_dress(answer: str) -> None:
    assert read_graph_records(answer).records == (A, B)


def test_a_stray_delimiter_gives_an_empty_field() -> None:
    assert read_graph_records('("entity"<|>A<|>B<|>d<|>)\n').records == (Record("entity", ("A", "B", "d", "")),)


def test_a_strength_behind_the_separator_is_taken_along() -> None:
    answer = '("relationship"<|>A<|>B<|>d>##7)##\n("relationship"<|>A<|>C<|>e)##6)\n<|COMPLETE|>'
    assert [record.fields for record in read_graph_records(answer).records] == [
        ("A", "B", "d", "7"),
        ("A", "C", "e", "6"),
    ]


def test_an_answer_that_breaks_off_is_told() -> None:
    assert read_graph_records(f'{ENTITY}##("relationship"<|>A<|>B<|>kno').cut
    for torn in ("(", '("', '("rel', '("relationship"', '("relationship"<|'):
        assert read_graph_records(f"{ENTITY}##\n{torn}").cut, torn
    assert not read_graph_records(f"{ENTITY}##{LINK}").cut
    assert not read_graph_records(f"{ENTITY}##{LINK}##\n").cut, "many models end so"
    assert not read_graph_records(f'{ENTITY}##("relationship"<|>A<|>B<|>kno\n<|COMPLETE|>').cut
    assert read_graph_records(f"{ENTITY}<|COMPLETE|>").ended


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "No entities.",
        "The entity | relationship model",
        "def f(entity):\n    return entity",
        "An entity<|>in prose",
        '("foo"<|>bar)',
    ],
)
def test_no_records(answer: str) -> None:
    assert read_graph_records(answer).records == ()


@pytest.mark.parametrize(
    ("field", "weight"),
    [
        ("8", 8),
        ('"8"', 8),
        ("8.5", 8.5),
        ("7>", 7),
        ("**9**", 9),
        ("8/10", 8),
        ("Strength: 8", 8),
        ("8 (strong)", 8),
        ("0", 0),
    ]
    + [
        (f, None)
        for f in ("", "high", "in 1843", "nan", "inf", "-3", "1e400", "99999999999", "8 out of many people", "A7")
    ],
)
def test_weights(field: str, weight: float | None) -> None:
    assert read_weight(field) == weight


CLAIM = "A<|>B<|>FRAUD<|>TRUE<|>NONE<|>NONE<|>A (with C) cheated.<|>he cheated"


@pytest.mark.parametrize(
    "answer",
    [
        f"({CLAIM})\n##\n({CLAIM})\n<|COMPLETE|>",
        f"({CLAIM})\n##\n({CLAIM})\n<|>COMPLETE|>",
        f"({CLAIM})({CLAIM})<|COMPLETE|>",
        f"Sure:\n\n({CLAIM})\n({CLAIM})\n\nBye",
        f"- ({CLAIM})\n- ({CLAIM})",
        f"{CLAIM}\n{CLAIM}",
        f'("claim"<|>{CLAIM})##("claim"<|>{CLAIM})',
    ],
)
def test_two_claims_in_any_dress(answer: str) -> None:
    records = read_claim_records(answer).records
    assert [record.fields for record in records] == [tuple(clean_field(f) for f in CLAIM.split("<|>"))] * 2


@pytest.mark.parametrize(
    "bad",
    [
        '("entity"<|>' * 30_000,
        "(" * 300_000,
        '("entity"<|>A<|>B<|>' + "(" * 300_000,
        "##" * 200_000,
        "<|>" * 100_000,
        "\n" * 300_000,
        "( " * 200_000,
        "x" + "\n" * 300_000 + "x",
        '("entity" | A' + " " * 300_000 + "x",
        '("entity"<|>A<|>' + "x)" * 200_000,
    ],
)
def test_hostile_answers_cost_little(bad: str) -> None:
    started = time.perf_counter()
    read_graph_records(bad)
    read_claim_records(bad)
    assert time.perf_counter() - started < 10


@given(st.text() | st.text(alphabet='("entity)<|>#ralionshp\n*`{}；（）COMPLETE'))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    for record in (*read_graph_records(text).records, *read_claim_records(text).records):
        for field in record.fields:
            field.encode("utf-8")


FIELD = (
    st.text(st.characters(categories=["Lu", "Ll", "Lo", "Nd"], include_characters=" -.,'"), min_size=1)
    .map(clean_field)
    .filter(lambda f: f and f == clean_field(f) and not f.startswith(("'", "-", ".", ",")) and not f.endswith("'"))
)
RECORDS = st.lists(
    st.builds(lambda n, t, d: Record("entity", (n, t, d)), FIELD, FIELD, FIELD)
    | st.builds(lambda s, t, d, w: Record("relationship", (s, t, d, str(w))), FIELD, FIELD, FIELD, st.integers(1, 10)),
    min_size=1,
)


@given(
    RECORDS,
    st.sampled_from(["##", "\n##\n", " ##\n", "\n"]),
    st.sampled_from(["<|COMPLETE|>", "\n<|COMPLETE|>", "", "\n##\n<|COMPLETE|>"]),
)
def test_well_formed_records_come_back(records: list[Record], separator: str, end: str) -> None:
    answer = separator.join(f'("{r.kind}"<|>{"<|>".join(r.fields)})' for r in records) + end
    read = read_graph_records(answer)
    assert list(read.records) == records
    assert read.ended is bool(end)
    assert not read.cut
