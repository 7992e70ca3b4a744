"""Prices and abilities of models, without importing LiteLLM."""

from __future__ import annotations

import subprocess
import sys

import pytest

from graphrag_assets.llm.prices import facts
from graphrag_assets.llm.providers.clients import TokenUsage
from graphrag_assets.llm.usage import StageUsage, total
from graphrag_assets.settings import ModelSettings


def model(provider: str, name: str, **more: object) -> ModelSettings:
    return ModelSettings.model_validate({"model_provider": provider, "model": name, **more})


def test_a_known_chat_model() -> None:
    known = facts(model("openai", "gpt-4o-mini"))
    assert (known.input_usd, known.output_usd) == (0.15e-6, 0.6e-6)
    assert known.context_window == 128_000
    assert known.structured_output
    assert known.usd(TokenUsage(1000, 100)) == pytest.approx(1000 * 0.15e-6 + 100 * 0.6e-6)
    assert known.usd(TokenUsage(1000, 100, cached_prompt=400)) == pytest.approx(
        600 * 0.15e-6 + 400 * 0.075e-6 + 100 * 0.6e-6
    )
    assert known.usd(None) is None


def test_a_known_embedding_model() -> None:
    known = facts(model("openai", "text-embedding-3-small"))
    assert known.vector_size == 1536
    assert known.usd(TokenUsage(1_000_000)) == pytest.approx(0.02)
    assert facts(model("openai", "text-embedding-3-small", call_args={"dimensions": 256})).vector_size == 256


def test_rows_of_other_providers_do_not_count() -> None:
    assert facts(model("azure", "gpt-4o")).input_usd == 2.5e-6
    assert facts(model("hosted_vllm", "gpt-4o")).input_usd is None
    assert facts(model("anthropic", "gpt-4o")).input_usd is None


def test_unknown_is_none_not_zero() -> None:
    unknown = facts(model("openai", "nobody-knows"))
    assert unknown.usd(TokenUsage(10, 10)) is None
    assert unknown.context_window is None
    assert not unknown.structured_output


def test_settings_win() -> None:
    own = facts(
        model(
            *("openai", "gpt-4o-mini"),
            prices={"input_per_million": 3, "output_per_million": 5},
            context_window=4096,
            structured_output=False,
        )
    )
    assert own.usd(TokenUsage(1_000_000, 1_000_000, cached_prompt=500_000)) == pytest.approx(8)
    assert (own.context_window, own.structured_output) == (4096, False)


def test_litellm_is_not_imported() -> None:
    code = (
        "import sys; from graphrag_assets.llm.prices import facts; from graphrag_assets.settings import ModelSettings;"
        "facts(ModelSettings(model='gpt-4o')); print('litellm' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_usage_says_what_it_does_not_know() -> None:
    usage = StageUsage()
    assert usage.usd == 0.0
    usage.answered(TokenUsage(10, 5), None)
    assert usage.usd is None
    assert usage.as_dict()["usd"] is None
    usage.answered(TokenUsage(10, 5), 0.25)
    assert (usage.usd, usage.unpriced_calls) == (0.25, 1)
    both = total([usage, usage])
    assert (both.prompt_tokens, both.completion_tokens, both.usd, both.unpriced_calls) == (40, 20, 0.5, 2)
