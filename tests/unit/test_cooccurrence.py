"""Co-occurrence: who is related, how often, and which sentence says so."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets.indexing.cooccurrence import LONGEST_DESCRIPTION, TextUnitRows, text_unit_rows
from graphrag_assets.indexing.noun_phrases import NOUN_PHRASE, Mention
from graphrag_assets.storage.tables import EXTRACTED_ENTITIES, EXTRACTED_RELATIONSHIPS, EXTRACTION_STATUS
from graphrag_assets.text.sentences import sentences


def rows(
    text: str, span: str = "sentence", types: dict[str, str] | None = None, subjects: tuple[str, ...] = ()
) -> TextUnitRows:
    """Rows of a text in which every capitalised word that is no sentence opener in the list below is a mention."""
    openers = {"The", "He", "It", "Did", "A"}
    mentions = [
        Mention(
            m.start(),
            m.end(),
            m.group(),
            m.group().upper(),
            (types or {}).get(m.group(), "PERSON"),
            m.group() in subjects,
        )
        for m in re.finditer(r"[A-Z]\w+", text)
        if m.group() not in openers
    ]
    return text_unit_rows("u1", text, mentions, sentences(text), span)  # type: ignore[arg-type]


def weights(result: TextUnitRows) -> dict[tuple[str, str], float]:
    return {(r["source"], r["target"]): r["weight"] for r in result.relationships}


def test_a_shared_sentence_makes_a_relationship() -> None:
    result = rows("Zoe met Adam. Adam wrote to Zoe and to Eve. The end of Kim.")
    assert weights(result) == {("ADAM", "ZOE"): 2.0, ("ADAM", "EVE"): 1.0, ("EVE", "ZOE"): 1.0}
    assert result.status == {
        "text_unit_id": "u1",
        "status": "ok",
        "reason": "",
        "entities": 4,
        "relationships": 3,
        "claims": 0,
    }


def test_no_relationship_of_an_entity_with_itself() -> None:
    result = rows("Zoe and Zoe and Zoe.")
    assert result.relationships == []
    assert result.entities[0]["mentions"] == 3


def test_a_text_unit_may_be_the_span() -> None:
    assert weights(rows("Zoe came. Adam left.", span="text_unit")) == {("ADAM", "ZOE"): 1.0}
    assert weights(rows("Zoe came. Adam left.")) == {}


def test_descriptions_are_sentences_of_the_text() -> None:
    text = (
        "Did Zoe go? He saw Zoe there. The mill of Adam was sold to Zoe last winter. "
        "Zoe runs the old mill in the valley."
    )
    by_title = {r["title"]: r for r in rows(text, subjects=("Zoe",)).entities}
    assert by_title["ZOE"]["description"] in (
        "Zoe runs the old mill in the valley.",
        "The mill of Adam was sold to Zoe last winter.",
    )
    assert by_title["ADAM"]["description"] == "The mill of Adam was sold to Zoe last winter."
    assert rows(text).relationships[0]["description"] == "The mill of Adam was sold to Zoe last winter."


def test_the_sentence_in_which_it_is_the_subject_is_preferred() -> None:
    text = "A very long report about many other things and days was later read by Zoe. Zoe runs it."
    mentions = [Mention(text.index("Zoe"), text.index("Zoe") + 3, "Zoe", "ZOE", "PERSON", False)]
    second = text.rindex("Zoe")
    mentions.append(Mention(second, second + 3, "Zoe", "ZOE", "PERSON", True))
    assert text_unit_rows("u", text, mentions, sentences(text)).entities[0]["description"] == "Zoe runs it."


def test_a_long_sentence_is_cut_around_what_it_describes_and_says_so() -> None:
    text = "word " * 200 + "Zoe knows Adam " + "word " * 200
    result = rows(text)
    for description in (result.entities[0]["description"], result.relationships[0]["description"]):
        assert description.startswith("… ")
        assert description.endswith(" …")
        assert "Adam" in description
        assert len(description.split()) <= LONGEST_DESCRIPTION + 2


def test_types_are_voted_and_names_beat_phrases() -> None:
    text = "Apple x. Apple y. Apple z."
    marks = [("ORGANIZATION", 0), (NOUN_PHRASE, 9), (NOUN_PHRASE, 18)]
    mentions = [Mention(at, at + 5, "Apple", "APPLE", type_, False) for type_, at in marks]
    assert text_unit_rows("u", text, mentions, sentences(text)).entities[0]["type"] == "ORGANIZATION"


def test_an_empty_text_unit_has_a_status() -> None:
    result = rows("nothing here")
    assert (result.entities, result.relationships) == ([], [])
    assert result.status["status"] == "empty"
    assert result.status["reason"]


def test_a_list_without_stops_relates_near_names_only() -> None:
    text = " ".join(f"Name{i}" for i in range(3000))
    result = rows(text)
    assert len(result.entities) == 3000
    assert 0 < len(result.relationships) < 3000 * 24
    assert ("NAME0", "NAME1") in weights(result)
    assert ("NAME0", "NAME999") not in weights(result)


@given(st.lists(st.sampled_from(["Zoe", "Adam", "Eve", "Kim", "saw", "and", ".", "\n\n"]), max_size=60))
@settings(deadline=None)
def test_rows_fit_the_tables_in_canonical_order(words: list[str]) -> None:
    result = rows(" ".join(words))
    titles = [r["title"] for r in result.entities]
    assert titles == sorted(set(titles))
    pairs = [(r["source"], r["target"]) for r in result.relationships]
    assert pairs == sorted(set(pairs))
    assert all(source < target and {source, target} <= set(titles) for source, target in pairs)
    assert sum(r["mentions"] for r in result.entities) == sum(word in ("Zoe", "Adam", "Eve", "Kim") for word in words)
    EXTRACTED_ENTITIES.from_rows(result.entities)
    EXTRACTED_RELATIONSHIPS.from_rows(result.relationships)
    EXTRACTION_STATUS.from_rows([{**result.status, "input_hash": ""}])
