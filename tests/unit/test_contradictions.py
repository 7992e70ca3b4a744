"""Contradictions: accounts that exclude each other are found, different events are left alone."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from graphrag_assets.indexing.assertions import agree, cause, clauses, dates
from graphrag_assets.indexing.conflicts import Conflict, Conflicts
from graphrag_assets.indexing.contradictions import find_conflicts
from graphrag_assets.indexing.statements import Statements, find_statements

FILLER = [
    "The choir of the valley sang in the evening.",
    "A baker sold forty loaves before breakfast.",
    "Snow closed the road over the pass for a week.",
    "The library lends maps to anyone who asks.",
    "Nobody at the mill could mend the wheel.",
]


def corpus(*documents: str, entities: list[str]) -> Statements:
    """One document and text unit per text, with some sentences about other things."""
    texts = [*documents, *FILLER]
    units = [{"id": f"u{i}", "document_id": f"d{i}", "text": text} for i, text in enumerate(texts)]
    rows = [
        {"title": t, "aliases": [], "text_unit_ids": [u["id"] for u in units if t in u["text"].upper()]}
        for t in entities
    ]
    return find_statements(units, rows)


def find(*documents: str, entities: list[str]) -> Conflicts:
    return find_conflicts(corpus(*documents, entities=entities))


def only(found: Conflicts) -> Conflict:
    assert len(found.conflicts) == 1, found
    return found.conflicts[0]


def test_different_dates_of_one_event() -> None:
    conflict = only(
        find(
            "Pier 3 of the Sallow Viaduct was last inspected on 9 September 2031, and nothing was found.",
            "His notebook shows that the Sallow Viaduct was last inspected on 9 June 2031.",
            entities=["SALLOW VIADUCT"],
        )
    )
    assert (conflict.kind, conflict.title) == ("date", "SALLOW VIADUCT")
    assert (conflict.first.value, conflict.second.value) == ("9 September 2031", "9 June 2031")
    assert (conflict.first.text_unit_id, conflict.second.text_unit_id) == ("u0", "u1")
    assert 0 < conflict.score <= 1


def test_different_hours_of_one_event() -> None:
    conflict = only(
        find(
            "Both gates of Ellerin Dam were opened at 02:00 on 17 November 2031.",
            "I opened both gates of Ellerin Dam at 23:15, on the order of the engineer.",
            "She says that both gates of Ellerin Dam were opened at two in the morning.",
            entities=["ELLERIN DAM"],
        )
    )
    assert (conflict.first.value, conflict.second.value) == ("17 November 2031 02:00", "23:15")
    assert (conflict.first.text_unit_id, conflict.first.also, conflict.second.text_unit_id) == ("u0", ("u2",), "u1")


def test_different_numbers_and_the_same_count_in_words() -> None:
    documents = (
        "The Border Hills Fund granted 8.4 million crowns for the bridge in January.",
        "The Border Hills Fund granted 6.4 million crowns for the bridge in January.",
    )
    conflict = only(find(*documents, entities=["BORDER HILLS FUND"]))
    assert (conflict.kind, conflict.first.value, conflict.second.value) == ("number", "8.4 million", "6.4 million")
    same = (
        "Eleven passengers of the Hindmoss train were injured that morning.",
        "The hospital confirms that 11 passengers of the Hindmoss train were injured that morning.",
    )
    assert not find(*same, entities=["HINDMOSS"]).conflicts


def test_different_causes() -> None:
    conflict = only(
        find(
            "The Sallow Viaduct fell because flood water scoured the bed from beneath the pier.",
            "The Sallow Viaduct fell because the roof of a disused lead mine collapsed.",
            entities=["SALLOW VIADUCT"],
        )
    )
    assert conflict.kind == "cause"
    assert "flood water" in conflict.first.value


def test_a_denial() -> None:
    conflict = only(
        find(
            "Skarne Stone searched for mine plans before blasting the bench.",
            "Skarne Stone never searched for mine plans before blasting the bench.",
            entities=["SKARNE STONE"],
        )
    )
    assert conflict.kind == "negation"


@pytest.mark.parametrize(
    "documents",
    [
        # other events of one entity
        ("The Sallow Viaduct was opened on 18 June 1903.", "The Sallow Viaduct was last painted on 3 May 2029."),
        # the same day, stated less exactly
        ("The Sallow Viaduct fell down on 17 November 2031.", "The Sallow Viaduct fell down in November 2031."),
        # one number is the other, rounded
        (
            "The Sallow Viaduct repair cost 8.4 million crowns in all.",
            "The Sallow Viaduct repair cost about 8 million crowns in all.",
        ),
        # numbers that count different things
        ("The Sallow Viaduct repair took 40 men last winter.", "The Sallow Viaduct repair took 12 weeks last winter."),
        # numbers that only name a thing
        (
            "Water was seen below pier 3 of the Sallow Viaduct then.",
            "Water was seen below pier 5 of the Sallow Viaduct then.",
        ),
        # figures of different days
        (
            "The Sallow Viaduct gauge read 118 mm of rain on 14 May.",
            "The Sallow Viaduct gauge read 90 mm of rain on 15 May.",
        ),
        # one cause, in other words
        (
            "The Sallow Viaduct fell because flood water scoured the bed.",
            "The Sallow Viaduct fell because the bed was scoured by flood water.",
        ),
        # a correction gives the other number itself
        (
            "Fourteen passengers of the Sallow Viaduct train were injured that morning.",
            "Eleven passengers of the Sallow Viaduct train were injured that morning; fourteen had been counted.",
        ),
    ],
)
def test_no_contradiction(documents: tuple[str, ...]) -> None:
    assert find(*documents, entities=["SALLOW VIADUCT"]).conflicts == ()


def test_a_diary_is_not_a_list_of_contradictions() -> None:
    days = [f"On {day} May 2031 we walked along the river to Tenter Mill." for day in range(1, 12)]
    one_document = [{"id": f"u{i}", "document_id": "diary", "text": text} for i, text in enumerate(days)]
    entities = [{"title": "TENTER MILL", "aliases": [], "text_unit_ids": [u["id"] for u in one_document]}]
    assert find_conflicts(find_statements(one_document, entities)).conflicts == ()
    found = find(*days, entities=["TENTER MILL"])
    assert found.conflicts == ()
    assert found.series == 1


def test_the_same_sentence_in_overlapping_text_units_is_one_statement() -> None:
    text = "The Sallow Viaduct fell on 17 November 2031 at dawn."
    units = [{"id": f"u{i}", "document_id": "d", "text": text} for i in range(2)]
    assert len(find_statements(units, []).all) == 1


def claim(number: int, **fields: str) -> dict[str, Any]:
    base = {"subject_id": "SKARNE STONE", "object_id": "NONE", "type": "SAFETY BREACH", "status": "TRUE"}
    base |= {
        "start_date": "2031-10-23",
        "end_date": "2031-10-23",
        "description": "Skarne Stone kept the hole in the bench secret",
    }
    return {"id": f"c{number}", "text_unit_id": f"u{number}", **base, **fields}


def test_claims_with_another_status_or_other_dates() -> None:
    nothing = find_statements([], [])
    conflict = only(find_conflicts(nothing, [claim(1), claim(2, status="FALSE")]))
    assert (conflict.kind, conflict.title) == ("status", "SKARNE STONE")
    assert {conflict.first.claim_id, conflict.second.claim_id} == {"c1", "c2"}
    dated = only(find_conflicts(nothing, [claim(1), claim(2, start_date="2032-02-01", end_date="2032-02-01")]))
    assert (dated.kind, {dated.first.value, dated.second.value}) == ("date", {"2031-10-23", "2032-02-01"})
    for other in (
        claim(2),
        claim(2, type="FINE", status="FALSE"),
        claim(2, status="FALSE", description="The managing director resigned after a vote"),
        claim(2, start_date="2031-10-01", end_date="2031-12-31"),
        claim(2, start_date="NONE", end_date="NONE"),
    ):
        assert not find_conflicts(nothing, [claim(1), other]).conflicts


def test_the_limit_keeps_the_most_certain_and_tells_the_rest() -> None:
    documents = []
    for i, town in enumerate(["ALDER", "BIRCH", "CEDAR"]):
        documents += [
            f"The {town} bridge was opened on {i + 1} May 2031 by the mayor.",
            f"The {town} bridge was opened on {i + 1} June 2031.",
        ]
    statements = corpus(*documents, entities=["ALDER", "BIRCH", "CEDAR"])
    everything = find_conflicts(statements).conflicts
    assert len(everything) == 3
    found = find_conflicts(statements, max_conflicts=2)
    assert found.conflicts == everything[:2]
    assert found.left_out == 1


def test_the_order_of_claims_changes_nothing() -> None:
    nothing = find_statements([], [])
    claims = [claim(i, status=("TRUE", "FALSE", "SUSPECTED")[i % 3], type=f"T{i % 2}") for i in range(12)]
    expected = find_conflicts(nothing, claims)
    assert expected.conflicts
    for seed in range(5):
        assert find_conflicts(nothing, random.Random(seed).sample(claims, len(claims))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 4 May 2032", [(2032, 5, 4)]),
        ("May 4, 2032", [(2032, 5, 4)]),
        ("2032-05-04", [(2032, 5, 4)]),
        ("between 14 and 17 November", [(None, 11, 14), (None, 11, 17)]),
        ("19, 20 and 21 March 2029", [(2029, 3, 19), (2029, 3, 20), (2029, 3, 21)]),
        ("am 4. Mai 2032", [(2032, 5, 4)]),
        ("le 4 août 2032", [(2032, 8, 4)]),
        ("el 4 de mayo de 2032", [(2032, 5, 4)]),
        ("in 1847", [(1847, None, None)]),
        ("November 2031", [(2031, 11, None)]),
        ("he may come, and 1847 sheep march", []),
    ],
)
def test_dates_are_read(text: str, expected: list[Any]) -> None:
    assert dates(text) == expected


def test_dates_agree_at_their_precision() -> None:
    assert agree((2031, 5, None), (2031, 5, 4))
    assert agree((None, 5, 4), (2031, 5, 4))
    assert not agree((2031, 5, 4), (2031, 6, 4))
    assert not agree((None, 5, 4), (2031, None, None)), "nothing in common is no agreement"


def test_numbers_are_read_with_what_they_count() -> None:
    (clause,) = clauses("It sold 1,130 crowns")
    assert (clause.numbers[0].value, clause.numbers[0].head) == (1130.0, "crown")
    assert clauses("see paragraph 18 of Exhibit 12")[0].numbers == ()
    assert cause("It did not fall because of the rain.") is None


def test_many_sentences_about_one_entity_take_no_quadratic_time() -> None:
    words = [f"word{i}" for i in range(400)]
    pick = random.Random(3)
    texts = [
        f"The Hub {' '.join(pick.sample(words, 6))} on {1 + i % 28} May {1900 + i % 100} with {i} crowns."
        for i in range(4_000)
    ]
    units = [{"id": f"u{i}", "document_id": f"d{i}", "text": text} for i, text in enumerate(texts)]
    statements = find_statements(units, [{"title": "HUB", "aliases": [], "text_unit_ids": [u["id"] for u in units]}])
    start = time.process_time()
    find_conflicts(statements)
    assert time.process_time() - start < 100
