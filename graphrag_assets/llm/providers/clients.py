"""The small interface behind which a provider is reached, and the choice of the way to it.

Two ways: plain HTTP to endpoints that speak OpenAI's protocol (:mod:`graphrag_assets.llm.providers.direct`: a fraction of the
CPU, no slow import), and LiteLLM (:mod:`graphrag_assets.llm.providers.through_litellm`) for all other providers. A client sends
one request and says what came back; repeating, limits, prices and the cache are not its business.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from graphrag_assets.llm.errors import GatewayError
from graphrag_assets.settings import ModelSettings
from graphrag_assets.settings_telemetry import TelemetrySettings
from graphrag_assets.telemetry import telemetry_of

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one call as the provider counted them.

    Args:
        prompt: Tokens sent.
        completion: Tokens received, reasoning included.
        cached_prompt: Those of the prompt that the provider took from its own cache, at a lower price.
    """

    prompt: int = 0
    completion: int = 0
    cached_prompt: int = 0


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """One answer of a chat model, as it came.

    Args:
        text: Text, possibly with reasoning; None where the provider sent null.
        finish: Why it ended: stop, length, content_filter, or the provider's own word.
        refusal: Text of a refusal, where the provider marks it as such.
        usage: Tokens, None where the provider does not say.
        model: Model that answered, as the provider names it; empty where it does not.
        id: The provider's id of the answer; empty where there is none.
    """

    text: str | None
    finish: str = "stop"
    refusal: str | None = None
    usage: TokenUsage | None = None
    model: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class VectorAnswer:
    """Vectors of one call, in the order of the texts, not yet checked.

    Args:
        vectors: One array per vector that came.
        usage: Tokens, None where the provider does not say.
        model: Model that answered, as the provider names it; empty where it does not.
    """

    vectors: list[Vector]
    usage: TokenUsage | None = None
    model: str = ""


@dataclass(slots=True)
class StreamEnd:
    """How a streamed answer ended; filled while it is read.

    Args:
        finish: As in :class:`ChatAnswer`, empty as long as the answer has not ended.
        refused: True where the provider sent a refusal.
        usage: Tokens, None where the provider does not say.
        model: As in :class:`ChatAnswer`.
        id: As in :class:`ChatAnswer`.
    """

    finish: str = ""
    refused: bool = False
    usage: TokenUsage | None = None
    model: str = ""
    id: str = ""


class Client(Protocol):
    """One model at one endpoint. All methods raise CallError (see :mod:`graphrag_assets.llm.errors`)."""

    async def chat(
        self, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], schema: Mapping[str, Any] | None
    ) -> ChatAnswer:
        """Send a conversation.

        Args:
            messages: Role and content of each turn.
            parameters: Parameters of the call beside those of the entry (they win).
            schema: JSON schema that the answer is asked to follow.
        """
        ...

    def stream(
        self, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], end: StreamEnd
    ) -> AsyncGenerator[str]:
        """Send a conversation and yield the pieces of the answer as they come; ``end`` tells how it ended."""
        ...

    async def embed(self, texts: Sequence[str], kind: str) -> VectorAnswer:
        """Send texts to embed.

        Args:
            texts: At least one text, none of them empty.
            kind: document or query, for providers that tell them apart.
        """
        ...

    def chat_body(
        self, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], schema: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """The body by which :meth:`chat` asks, in OpenAI's form, for a file of questions."""
        ...

    def embed_body(self, texts: Sequence[str], kind: str) -> dict[str, Any]:
        """The body by which :meth:`embed` asks, in OpenAI's form, for a file of questions."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


@dataclass(frozen=True)
class Provider:
    """A provider whose endpoint speaks OpenAI's protocol.

    Args:
        base: Usual address, None where there is none.
        base_env: Environment variables that may hold the address.
        key_env: Environment variables that may hold the key.
        path: Path that the address ends with; added where it is missing.
        key_needed: True where the usual address refuses calls without a key.
    """

    base: str | None
    base_env: tuple[str, ...]
    key_env: tuple[str, ...]
    path: str = ""
    key_needed: bool = False


#: Providers by their names in LiteLLM.
DIRECT: Mapping[str, Provider] = {
    "openai": Provider(
        "https://api.openai.com/v1", ("OPENAI_BASE_URL", "OPENAI_API_BASE"), ("OPENAI_API_KEY",), key_needed=True
    ),
    "openai_like": Provider(None, ("OPENAI_LIKE_API_BASE",), ("OPENAI_LIKE_API_KEY",)),
    "hosted_vllm": Provider(None, ("HOSTED_VLLM_API_BASE",), ("HOSTED_VLLM_API_KEY",)),
    "ollama": Provider("http://localhost:11434/v1", ("OLLAMA_API_BASE",), ("OLLAMA_API_KEY",), path="/v1"),
    "ollama_chat": Provider("http://localhost:11434/v1", ("OLLAMA_API_BASE",), ("OLLAMA_API_KEY",), path="/v1"),
    "lm_studio": Provider("http://localhost:1234/v1", ("LM_STUDIO_API_BASE",), ("LM_STUDIO_API_KEY",)),
    "llamafile": Provider("http://127.0.0.1:8080/v1", ("LLAMAFILE_API_BASE",), ("LLAMAFILE_API_KEY",)),
}

#: Providers that tell documents and questions apart by a parameter.
INPUT_TYPES: Mapping[str, Mapping[str, str]] = {
    "cohere": {"document": "search_document", "query": "search_query"},
    "voyage": {"document": "document", "query": "query"},
    "nvidia_nim": {"document": "passage", "query": "query"},
}

#: Parameters of Ollama's own protocol; its OpenAI-compatible endpoint would ignore them without a word.
_OLLAMA_OWN = frozenset({"num_ctx", "num_gpu", "num_thread", "num_predict", "keep_alive", "mirostat", "repeat_penalty"})

#: Entries of call_args that say how a call travels, not what is asked: never in a body, never in a cache key.
TRANSPORT = frozenset(
    {
        "timeout",
        "extra_headers",
        "headers",
        "num_retries",
        "max_retries",
        "metadata",
        "stream",
        "stream_options",
        "drop_params",
    }
)
_MISPLACED = {"api_key": "api_key", "api_base": "api_base", "base_url": "api_base", "api_version": "api_version"}


@dataclass(frozen=True)
class Endpoint:
    """Where a model is reached.

    Args:
        entry: Name of the entry, such as completion_models.default_completion_model.
        base: Address without a slash at the end; None where LiteLLM knows it.
        key: Key, None where none is needed.
        identity: Host and path, or the provider's name: what tells endpoints apart in cache keys and messages.
        headers: Further headers of each request.
    """

    entry: str
    base: str | None
    key: str | None = field(repr=False)
    identity: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def address(self) -> str:
        """The address for people: without a query, which may hold a key; the provider's name where it is its own."""
        return f"{urlsplit(self.base).scheme}://{self.identity}" if self.base else self.identity

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown."""
        return tuple(value for value in (self.key, *self.headers.values()) if value and len(value) >= 8)


def speaks_openai(model: ModelSettings) -> bool:
    """Whether the entry is reached by plain HTTP rather than through LiteLLM."""
    if model.client != "auto":
        return model.client == "direct"
    if model.model_provider not in DIRECT or model.auth_method != "api_key":
        return False
    return not (model.model_provider.startswith("ollama") and _OLLAMA_OWN & model.call_args.keys())


def parameters(model: ModelSettings) -> dict[str, Any]:
    """The parameters of the entry that change answers."""
    return {name: value for name, value in model.call_args.items() if name not in TRANSPORT}


def answer_identity(model: ModelSettings) -> dict[str, Any]:
    """What of an entry changes its answers, beside the place where it is reached; never a key."""
    return {
        "provider": model.model_provider,
        "model": model.azure_deployment_name or model.model,
        "api_version": model.api_version,
        "parameters": parameters(model),
    }


def endpoint(entry: str, model: ModelSettings) -> Endpoint:
    """Address and key of an entry: its own, else those of the environment, else the provider's usual ones.

    Args:
        entry: Name of the entry, for messages.
        model: Settings of the entry.

    Raises:
        GatewayError: A key or an address is missing, or stands where it would leak.
    """
    for name, right in _MISPLACED.items():
        if name in model.call_args:
            raise GatewayError(f"{entry}: {name} does not belong into call_args; set {right} of the entry")
    provider = DIRECT.get(model.model_provider)
    base = (
        model.api_base or _environment(provider.base_env if provider else ()) or (provider.base if provider else None)
    )
    if base is not None:
        if not base.startswith(("http://", "https://")):
            raise GatewayError(f"{entry}: api_base must begin with http:// or https://")
        if "@" in urlsplit(base).netloc:
            raise GatewayError(f"{entry}: api_base must not hold a user name or password; use api_key or extra_headers")
        base = base.rstrip("/")
        if provider is not None and provider.path and speaks_openai(model) and not base.endswith(provider.path):
            base += provider.path
    key = model.api_key.get_secret_value().strip() if model.api_key is not None else ""
    key = key or _environment(provider.key_env if provider else ()) or ""
    if speaks_openai(model):
        if base is None:
            raise GatewayError(f"{entry}: no address; set api_base, such as http://localhost:8000/v1")
        if not key and provider is not None and provider.key_needed and base == provider.base:
            raise GatewayError(
                f"{entry}: no key for {model.model_provider}; set the environment variable {provider.key_env[0]}, "
                f"or api_key: ${{NAME}} and the variable NAME"
            )
    headers = {**model.call_args.get("headers", {}), **model.call_args.get("extra_headers", {})}
    return Endpoint(entry, base, key or None, _identity(base, model), {k: str(v) for k, v in headers.items()})


def connect(where: Endpoint, model: ModelSettings, telemetry: TelemetrySettings | None = None) -> Client:
    """A client for an entry; nothing is imported or opened before the first call, except what telemetry needs.

    Args:
        where: Where the model is reached.
        model: Settings of the entry.
        telemetry: Who else is told of the calls; None: nobody.

    Raises:
        TelemetryError: Telemetry needs packages that are not installed.
    """
    telemetry = telemetry or TelemetrySettings()
    client = _connect(where, model, telemetry)
    if not telemetry.traces and not telemetry.metrics:
        return client
    from graphrag_assets.llm.providers.observing import ObservedClient

    return ObservedClient(client, where, model, telemetry_of(telemetry))


def _connect(where: Endpoint, model: ModelSettings, telemetry: TelemetrySettings) -> Client:
    direct = speaks_openai(model)
    if direct and (model.client == "direct" or not telemetry.litellm_callbacks):
        from graphrag_assets.llm.providers.direct import DirectClient

        return DirectClient(where, model)
    from graphrag_assets.llm.providers.through_litellm import LiteLLMClient

    # The address of what speaks OpenAI's protocol is that of the protocol, whatever LiteLLM would make of the provider.
    return LiteLLMClient(where, model, telemetry, provider="openai" if direct else None)


def _environment(names: Sequence[str]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)


def _identity(base: str | None, model: ModelSettings) -> str:
    if base is None:
        return model.model_provider
    parts = urlsplit(base)
    host = parts.hostname or ""
    return f"{host}:{parts.port}{parts.path}" if parts.port else f"{host}{parts.path}"
