"""Vectors through the gateway: cache per text, windows, packing, checks of what comes back; the choice of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.llm.embedding.long_texts import at_unit_length, pool, windows
from graphrag_assets.llm.embedding.models import ConfiguredEmbedder, LocalEmbedder, embedder
from graphrag_assets.llm.embedding.vectors import _check
from graphrag_assets.llm.errors import PassingError
from graphrag_assets.llm.gateway import Gateway, GatewayError, StageUsage
from graphrag_assets.llm.providers.clients import Vector, VectorAnswer
from graphrag_assets.settings import Settings, Workspace
from tests.llmsim_server import LlmSim
from tests.unit.llm_workspaces import workspace


def embed(space: Workspace, texts: Sequence[str], kind: Any = "document") -> tuple[Vector, StageUsage]:
    async def main() -> tuple[Vector, StageUsage]:
        async with Gateway(space) as gateway:
            return await gateway.embed("stage", "vectors", texts, kind), gateway.usage()["stage"]

    return asyncio.run(main())


def texts(count: int) -> list[str]:
    return [f"Text number {i} about Scrooge, Marley and the Royal Exchange." for i in range(count)]


def test_shape_length_and_order(llmsim: LlmSim, tmp_path: Path) -> None:
    vectors, usage = embed(workspace(tmp_path, llmsim), [*texts(20), "", " \n", texts(1)[0]])
    assert vectors.shape == (23, 1536)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors[:20], axis=1) == pytest.approx(1, abs=1e-5)
    assert not vectors[20:22].any()
    assert (vectors[22] == vectors[0]).all()
    stats = llmsim.stats()
    assert stats["embedded_texts"] == 20, "equal texts are sent once, blank ones not at all"
    assert (usage.calls, usage.cached) == (2, 0)
    alone, _ = embed(workspace(tmp_path / "other", llmsim), [texts(20)[7]])
    assert alone[0] == pytest.approx(vectors[7], abs=1e-6)


def test_nothing_to_embed(llmsim: LlmSim, tmp_path: Path) -> None:
    assert embed(workspace(tmp_path, llmsim), [])[0].shape == (0, 1536)
    assert embed(workspace(tmp_path, llmsim), [" "])[0].shape == (1, 1536)
    assert llmsim.requests == 0


@pytest.mark.parametrize(
    "fault", ["embed_short", "embed_nan", "embed_dim", "error500", "error429", "bad_json_body", "drop", "drop_mid"]
)
@pytest.mark.parametrize("model", ["text-embedding-3-small", "nobody-knows"])
def test_a_fifth_of_the_calls_at_fault(fault: str, model: str, llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim, embedding={"model": model, "batch_size": 4}, cache={"enabled": False})
    right, _ = embed(space, texts(120))
    llmsim.reset(faults={fault: 0.2}, seed=2, retry_after=0.02)
    vectors, usage = embed(space, texts(120))
    assert llmsim.stats()["faults"][fault] >= 3
    assert (vectors == right).all()
    assert usage.retries > 0 or fault == "embed_dim"


@pytest.mark.parametrize(
    ("fault", "words"), [("error401", "api_key"), ("error400", "HTTP 400"), ("embed_nan", "number")]
)
def test_what_cannot_be_had_is_told(fault: str, words: str, llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(faults={fault: 1.0})
    with pytest.raises(GatewayError, match=rf"embedding_models\.vectors.*{words}"):
        embed(workspace(tmp_path, llmsim), texts(40))


def test_what_was_embedded_before_a_failure_is_kept(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim, embedding={"batch_size": 1})
    llmsim.reset(poison="number 7 ", poison_fault="error400")
    with pytest.raises(GatewayError, match="1 of 40 texts could not be embedded"):
        embed(space, texts(40))
    llmsim.reset()
    embed(space, texts(40))
    assert llmsim.stats()["embedded_texts"] == 1


def test_the_cache_is_per_text_not_per_batch(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim)
    first, _ = embed(space, texts(50))
    llmsim.reset()
    second, usage = embed(space, ["a new one", *reversed(texts(50)), "and another"])
    assert llmsim.stats()["embedded_texts"] == 2
    assert (second[1:51] == first[::-1]).all(), "a cached vector equals the fresh one to the bit"
    assert usage.cached == 50


@pytest.mark.parametrize("change", [{"call_args": {"dimensions": 64}}, {"model": "text-embedding-3-large"}])
def test_another_model_or_dimension_is_another_vector(change: dict[str, Any], llmsim: LlmSim, tmp_path: Path) -> None:
    embed(workspace(tmp_path, llmsim), texts(3))
    vectors, usage = embed(workspace(tmp_path, llmsim, embedding=change), texts(3))
    assert usage.cached == 0
    assert vectors.shape == (3, change.get("call_args", {}).get("dimensions", 1536))


def test_equal_texts_in_flight_are_sent_once(llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(latency=0.05)

    async def main() -> None:
        async with Gateway(workspace(tmp_path, llmsim)) as gateway:
            one, two = await asyncio.gather(
                gateway.embed("stage", "vectors", texts(20)), gateway.embed("stage", "vectors", texts(30)[10:])
            )
            assert (one[10:] == two[:10]).all()

    asyncio.run(main())
    assert llmsim.stats()["embedded_texts"] == 30


def test_calls_hold_no_more_texts_and_tokens_than_set(llmsim: LlmSim, tmp_path: Path) -> None:
    long = [f"{i} " + "word " * 300 for i in range(20)]  # about 300 tokens each
    space = workspace(tmp_path, llmsim, embed_text={"batch_size": 16, "batch_max_tokens": 1000})
    embed(space, long)
    assert llmsim.requests == 7
    llmsim.reset()
    embed(workspace(tmp_path / "b", llmsim), texts(33))
    assert llmsim.requests == 3


def test_a_long_text_is_cut_into_windows_and_nothing_is_lost(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim, embed_text={"batch_max_tokens": 200})
    head = "Scrooge walked to the Royal Exchange. " * 60
    vectors, _ = embed(space, [head, head + "Zebras graze near the volcano in the jungle. " * 60])
    assert llmsim.stats()["embedded_texts"] > 6
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert float(vectors[0] @ vectors[1]) < 0.95, "the end of the text counts"
    llmsim.reset()
    again, _ = embed(space, [head])
    assert llmsim.requests == 0
    assert (again[0] == vectors[0]).all()
    embed(workspace(tmp_path, llmsim, embed_text={"batch_max_tokens": 100}), [head])
    assert llmsim.requests > 0, "other windows, another vector"


def test_a_window_that_only_the_provider_knows(llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(context_window=100)  # tokens of the whole call, four characters each
    some = ["Scrooge walked to the Royal Exchange. " * 40, *texts(5)]
    vectors, _ = embed(workspace(tmp_path, llmsim), some)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    llmsim.reset(context_window=100)
    embed(workspace(tmp_path, llmsim), some)
    assert llmsim.requests == 0


def test_prefixes_of_documents_and_questions(llmsim: LlmSim, tmp_path: Path) -> None:
    prefixes = {"document_prefix": "passage: ", "query_prefix": "query: "}
    space = workspace(tmp_path, llmsim, embedding=prefixes)
    document, _ = embed(space, ["Scrooge"])
    query, _ = embed(space, ["Scrooge"], "query")
    plain, _ = embed(workspace(tmp_path, llmsim), ["passage: Scrooge"])
    assert (document == plain).all()
    assert not (document == query).all()


@given(st.text(min_size=1, max_size=400), st.integers(1, 40))
def test_windows_make_up_the_text(text: str, limit: int) -> None:
    parts = windows(text, limit, lambda part: len(part.split()) + len(part) // 5)
    kept = "".join(part for part, _ in parts)
    assert [c for c in kept if not c.isspace()] == [c for c in text if not c.isspace()]
    assert all(tokens <= limit or len(part) == 1 for part, tokens in parts)


def test_windows_break_at_white_space() -> None:
    parts = windows("alpha beta gamma delta " * 50, 40, lambda part: len(part) // 5)
    assert all(part.endswith(" ") for part, _ in parts)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=5))
def test_pooling(weights: list[int]) -> None:
    rng = np.random.default_rng(1)
    vectors = list(rng.normal(size=(len(weights), 8)).astype(np.float32))
    pooled = pool(vectors, weights)
    assert np.linalg.norm(pooled) == pytest.approx(1, abs=1e-5)
    assert pooled.dtype == np.float32
    assert not pool([np.zeros(4, np.float32)], [3]).any()


def test_the_configured_model_else_the_embedded_one(llmsim: LlmSim, tmp_path: Path) -> None:
    async def main() -> None:
        space = workspace(tmp_path, llmsim, embed_text={"embedding_model_id": "vectors"})
        async with Gateway(space) as gateway:
            configured = embedder(space, gateway)
            assert isinstance(configured, ConfiguredEmbedder)
            assert configured.model == f"openai/text-embedding-3-small@{llmsim.base.removeprefix('http://')}"
            assert configured.dimension == 1536
            assert (await configured.embed(["text"], "query", "stage")).shape == (1, 1536)
            unknown = workspace(tmp_path, llmsim, embedding={"model": "nobody-knows"})
            async with Gateway(unknown) as other:
                fresh = embedder(unknown, other, "vectors")
                with pytest.raises(GatewayError, match="embed a text first"):
                    _ = fresh.dimension
                await fresh.embed(["text"], "query", "stage")
                assert fresh.dimension == 1536
            with pytest.raises(KeyError, match="embedding_models has no entry 'other'"):
                embedder(space, gateway, "other")
        plain = Workspace(root=tmp_path, settings=Settings())
        async with Gateway(plain) as gateway:
            local = embedder(plain, gateway)
            assert isinstance(local, LocalEmbedder)
            assert local.model.startswith("embedded/bge-small-en-v1.5")

    asyncio.run(main())


def test_the_embedded_model_computes_beside_the_event_loop(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    space = Workspace(root=tmp_path, settings=Settings())

    async def main() -> None:
        async with Gateway(space) as gateway:
            local = embedder(space, gateway)
            vectors = await local.embed(["Scrooge walked home.", "A zebra grazes."], "document", "stage")
            assert vectors.shape == (2, local.dimension) == (2, 384)
            assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-3)

    asyncio.run(main())


@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=7, max_size=7), min_size=1, max_size=5))
def test_vectors_of_a_batch_are_scaled_as_each_alone(rows: list[list[float]]) -> None:
    vectors = [np.array(row, np.float32) for row in rows]
    together = at_unit_length(vectors)
    assert [row.tobytes() for row in together] == [pool([vector], [1]).tobytes() for vector in vectors]


@pytest.mark.parametrize(("value", "fine"), [(1.0, True), (3e38, True), (float("nan"), False), (float("inf"), False)])
def test_large_numbers_are_numbers(value: float, fine: bool) -> None:
    vector = np.array([0.5, value, -value], dtype=np.float32)
    with nullcontext() if fine else pytest.raises(PassingError, match="not a number"):
        _check(VectorAnswer([vector, vector], None), 2, None)
