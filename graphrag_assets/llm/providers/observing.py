"""A client whose requests are spans and figures, in the names of OpenTelemetry's conventions for generative AI.

One request is one span: a question that is asked again, or a call that is repeated, has several. Answers from the cache
are no requests, and have none.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from graphrag_assets.llm.errors import PassingError, PermanentError
from graphrag_assets.llm.providers.clients import (
    ChatAnswer,
    Client,
    Endpoint,
    StreamEnd,
    TokenUsage,
    VectorAnswer,
    parameters,
)
from graphrag_assets.settings import ModelSettings
from graphrag_assets.telemetry import Telemetry, mark_failed, present

#: Stage that the requests of the present task serve.
STAGE: ContextVar[str] = ContextVar("stage", default="")

#: Providers of LiteLLM that the conventions call otherwise.
_PROVIDERS: Mapping[str, str] = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "gemini": "gcp.gemini",
    "vertex_ai": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}

#: Parameters of a request that the conventions name.
_PARAMETERS: Mapping[str, str] = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
}

#: Bounds of the histograms, as the conventions advise.
_TOKENS = [4**n for n in range(14)]
_SECONDS = [0.01 * 2**n for n in range(14)]


@contextmanager
def serving(stage: str) -> Iterator[None]:
    """Book the requests inside to a stage."""
    token = STAGE.set(stage)
    try:
        yield
    finally:
        STAGE.reset(token)


@dataclass
class _Request:
    """What is known of a request when it has ended.

    Args:
        answer: What came; None where nothing did.
        first: Seconds until the first piece of a streamed answer.
        text: Text of a streamed answer, where it may be told.
    """

    answer: ChatAnswer | VectorAnswer | StreamEnd | None = None
    first: float | None = None
    text: str = ""


class ObservedClient:
    """See :class:`graphrag_assets.llm.providers.clients.Client`.

    Args:
        client: What sends the requests.
        endpoint: Where they go.
        model: Settings of the entry.
        telemetry: Where spans and figures go.
    """

    def __init__(self, client: Client, endpoint: Endpoint, model: ModelSettings, telemetry: Telemetry) -> None:
        self._client = client
        self._telemetry = telemetry
        self._model = model.azure_deployment_name or model.model
        self._own = parameters(model)
        address = urlsplit(endpoint.base or "")
        port = address.port or {"http": 80, "https": 443}.get(address.scheme)
        self._where = {
            "gen_ai.provider.name": _PROVIDERS.get(model.model_provider, model.model_provider),
            "gen_ai.request.model": self._model,
            "server.address": address.hostname,
            "server.port": port if address.hostname else None,
        }

    async def chat(
        self, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], schema: Mapping[str, Any] | None
    ) -> ChatAnswer:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        about = self._about(parameters) | {"gen_ai.output.type": "text" if schema is None else "json"}
        with self._observed("chat", about, messages) as request:
            request.answer = answer = await self._client.chat(messages, parameters, schema)
            request.text = answer.text or ""
            return answer

    async def stream(
        self, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], end: StreamEnd
    ) -> AsyncGenerator[str]:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        about = self._about(parameters) | {"gen_ai.output.type": "text", "gen_ai.request.stream": True}
        with self._observed("chat", about, messages) as request:
            request.answer, started = end, time.perf_counter()
            async with aclosing(self._client.stream(messages, parameters, end)) as pieces:
                async for piece in pieces:
                    if request.first is None:
                        request.first = time.perf_counter() - started
                    if self._telemetry.content:
                        request.text += piece
                    yield piece

    async def embed(self, texts: Sequence[str], kind: str) -> VectorAnswer:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        about = {"gen_ai.embeddings.dimension.count": self._own.get("dimensions"), "graphrag.texts": len(texts)}
        with self._observed("embeddings", about) as request:
            request.answer = answer = await self._client.embed(texts, kind)
            return answer

    def chat_body(
        self, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], schema: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        return self._client.chat_body(messages, parameters, schema)

    def embed_body(self, texts: Sequence[str], kind: str) -> dict[str, Any]:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        return self._client.embed_body(texts, kind)

    async def close(self) -> None:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        await self._client.close()

    def _about(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        asked = {**self._own, **parameters}
        return {told: asked[name] for name, told in _PARAMETERS.items() if isinstance(asked.get(name), int | float)}

    @contextmanager
    def _observed(
        self, operation: str, about: Mapping[str, Any], messages: Sequence[Mapping[str, str]] = ()
    ) -> Iterator[_Request]:
        """A span and figures of one request, whatever comes of it."""
        common = {**self._where, "gen_ai.operation.name": operation, "graphrag.stage": STAGE.get()}
        request, error, started = _Request(), "", time.perf_counter()
        # Never the current span: a streamed answer may be given up in another task than it began in.
        span = self._started(operation, {**common, **about}, messages)
        try:
            yield request
        except (PassingError, PermanentError) as failure:
            error = str(failure.status) if (failure.status or 0) >= 400 else failure.kind
            raise
        except GeneratorExit:
            raise
        except BaseException as failure:
            error = type(failure).__name__
            raise
        finally:
            answer = request.answer
            told = {
                "gen_ai.response.model": getattr(answer, "model", None),
                "gen_ai.response.id": getattr(answer, "id", None),
            }
            usage = answer.usage if answer is not None else None
            if span is not None:
                span.set_attributes(present(told | _came(request) | _used(usage)))
                if self._telemetry.content and request.text:
                    span.set_attribute(
                        "gen_ai.output.messages", _told([{"role": "assistant", "content": request.text}])
                    )
                if error:
                    mark_failed(span, error)
                span.end()
            if self._telemetry.meter is not None:
                labels = present({**common, "gen_ai.response.model": told["gen_ai.response.model"]})
                _record(self._telemetry.meter, labels, usage, time.perf_counter() - started, error)

    def _started(self, operation: str, about: Mapping[str, Any], messages: Sequence[Mapping[str, str]]) -> Any:
        """The span of a request; None where there are none."""
        if self._telemetry.tracer is None:
            return None
        from opentelemetry.trace import SpanKind

        attributes = present(about)
        if self._telemetry.content and messages:
            attributes["gen_ai.input.messages"] = _told(messages)
        name = f"{operation} {self._model}"
        return self._telemetry.tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)


def _came(request: _Request) -> dict[str, Any]:
    """What came, beside tokens."""
    finish = getattr(request.answer, "finish", "")
    vectors = getattr(request.answer, "vectors", None)
    return {
        "gen_ai.response.finish_reasons": [finish] if finish else None,
        "gen_ai.response.time_to_first_chunk": request.first,
        "gen_ai.embeddings.dimension.count": len(vectors[0]) if vectors else None,
    }


def _used(usage: TokenUsage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.prompt,
        "gen_ai.usage.output_tokens": usage.completion,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_prompt or None,
    }


def _told(messages: Sequence[Mapping[str, str]]) -> str:
    """Messages in the form of the conventions."""
    parts = [{"role": m["role"], "parts": [{"type": "text", "content": m["content"]}]} for m in messages]
    return json.dumps(parts, ensure_ascii=False)


def _record(meter: Any, labels: dict[str, Any], usage: TokenUsage | None, seconds: float, error: str) -> None:
    """Tokens and duration of one request."""
    tokens, duration = _instruments(meter)
    duration.record(seconds, {**labels, "error.type": error} if error else labels)
    if usage is not None:
        tokens.record(usage.prompt, {**labels, "gen_ai.token.type": "input"})
        if labels["gen_ai.operation.name"] != "embeddings":
            tokens.record(usage.completion, {**labels, "gen_ai.token.type": "output"})


@cache
def _instruments(meter: Any) -> tuple[Any, Any]:
    """The histograms of tokens and of durations."""
    return (
        meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens of requests to models.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        ),
        meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Duration of requests to models.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        ),
    )
