"""Prices and abilities of models, from the table that LiteLLM ships, read without importing LiteLLM."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from graphrag_assets.llm.providers.clients import TokenUsage
from graphrag_assets.settings import ModelSettings

_TABLE = "model_prices_and_context_window_backup.json"

#: Providers whose models stand in the table under another provider's name.
_SAME_AS = {"ollama_chat": "ollama"}


@dataclass(frozen=True)
class ModelFacts:
    """What is known about a model; None is unknown.

    Args:
        input_usd: USD per prompt token.
        output_usd: USD per completion token.
        cached_input_usd: USD per prompt token that the provider took from its cache; None: as ``input_usd``.
        context_window: Most prompt tokens.
        vector_size: Numbers in a vector of an embedding model.
        structured_output: True where the model answers by JSON schema.
        max_output: Most tokens of an answer.
        reasoning: True where the model reasons before it answers.
    """

    input_usd: float | None = None
    output_usd: float | None = None
    cached_input_usd: float | None = None
    context_window: int | None = None
    vector_size: int | None = None
    structured_output: bool = False
    max_output: int | None = None
    reasoning: bool = False

    def usd(self, tokens: TokenUsage | None) -> float | None:
        """Price of a call; None where the model's price or the tokens are not known."""
        if tokens is None or self.input_usd is None or self.output_usd is None:
            return None
        cached = min(tokens.cached_prompt, tokens.prompt) if self.cached_input_usd is not None else 0
        fresh = tokens.prompt - cached
        return fresh * self.input_usd + cached * (self.cached_input_usd or 0.0) + tokens.completion * self.output_usd


def facts(model: ModelSettings) -> ModelFacts:
    """What is known about the model of an entry; prices, window and abilities set there win over the table.

    Args:
        model: Settings of the entry.
    """
    row = _row(model.model_provider, model.model)
    input_usd, output_usd = row.get("input_cost_per_token"), row.get("output_cost_per_token")
    cached_usd = row.get("cache_read_input_token_cost")
    if row.get("mode") == "embedding" and input_usd is not None:
        output_usd = output_usd or 0.0
    if model.prices is not None:
        input_usd, output_usd = model.prices.input_per_million / 1e6, model.prices.output_per_million / 1e6
        cached_usd = None
    structured = model.structured_output
    return ModelFacts(
        input_usd=input_usd,
        output_usd=output_usd,
        cached_input_usd=cached_usd,
        context_window=model.context_window
        or _served_window(model, known=bool(row))
        or _whole(model.call_args.get("num_ctx"))
        or _whole(row.get("max_input_tokens") or row.get("max_tokens")),
        vector_size=_whole(model.call_args.get("dimensions") or row.get("output_vector_size")),
        structured_output=bool(row.get("supports_response_schema")) if structured is None else structured,
        max_output=_whole(row.get("max_output_tokens")),
        reasoning=bool(row.get("supports_reasoning")),
    )


def ask_servers(models: Iterable[ModelSettings]) -> None:
    """Ask the servers of one's own among some models, which may take seconds, so that :func:`facts` need not wait."""
    from graphrag_assets.llm.providers.local_servers import runs_locally

    for model in models:
        if runs_locally(model):
            facts(model)


def _served_window(model: ModelSettings, *, known: bool) -> int | None:
    """Most prompt tokens as a server of one's own says, which knows better than a table how it was started.

    Another address on this machine is asked only for a model that the table does not know: it may be a proxy.
    """
    from graphrag_assets.llm.providers.local_servers import LOCAL_PROVIDERS, served

    if known and model.model_provider not in LOCAL_PROVIDERS:
        return None
    found = served(model)
    return found.prompt_room(model) if found is not None else None


def _row(provider: str, model: str) -> dict[str, Any]:
    """The table's row: by provider and name, else by name where the provider is the same."""
    table = _table()
    name = _SAME_AS.get(provider, provider)
    row = table.get(f"{name}/{model}")
    if row is None:
        row = table.get(model)
        if row is not None and not str(row.get("litellm_provider", "")).startswith(name):
            row = None
    return row or {}


@cache
def _table() -> dict[str, dict[str, Any]]:
    """The whole table (5,000 rows, 20 ms); empty where LiteLLM is not installed."""
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    path = Path(spec.origin).with_name(_TABLE)
    if not path.is_file():
        return {}
    keep = (
        "litellm_provider",
        "mode",
        "input_cost_per_token",
        "output_cost_per_token",
        "cache_read_input_token_cost",
        "max_input_tokens",
        "max_tokens",
        "max_output_tokens",
        "output_vector_size",
        "supports_response_schema",
        "supports_reasoning",
    )
    rows: dict[str, dict[str, Any]] = orjson.loads(path.read_bytes())
    return {name: {key: row[key] for key in keep if key in row} for name, row in rows.items()}


def _whole(value: Any) -> int | None:
    """A number of the table as an int; it holds some as text or fractions, and words for unknown."""
    try:
        return int(value) or None
    except (TypeError, ValueError):
        return None
