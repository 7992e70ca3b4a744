"""The long way: LiteLLM, for all providers that do not speak OpenAI's protocol.

LiteLLM is imported at the first call (it takes seconds), without its look at the network, its own retries, callbacks
and per-call logging. Its answers and errors are turned into ours at once.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib
import logging
import os
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

import numpy as np

from graphrag_assets.llm.errors import (
    CallError,
    GatewayError,
    PassingError,
    PermanentError,
    classify,
    no_connection,
    redact,
    retry_after,
)
from graphrag_assets.llm.providers.clients import (
    INPUT_TYPES,
    ChatAnswer,
    Endpoint,
    StreamEnd,
    TokenUsage,
    Vector,
    VectorAnswer,
    parameters,
)
from graphrag_assets.llm.providers.litellm_callbacks import finish_callbacks, set_callbacks
from graphrag_assets.llm.providers.observing import STAGE
from graphrag_assets.llm.providers.parameters import blamed
from graphrag_assets.llm.providers.wire import clean, response_format
from graphrag_assets.progress import tell_once
from graphrag_assets.settings import ModelSettings
from graphrag_assets.settings_telemetry import TelemetrySettings

logger = logging.getLogger(__name__)

#: Clients of this process that have made a call and are not closed.
_OPEN: set[int] = set()

#: Providers that take vectors as base64 through LiteLLM; 16 vectors of 1,536 numbers then cost 10 ms instead of 109 ms.
_BASE64 = frozenset({"openai", "azure", "hosted_vllm", "openai_like", "litellm_proxy"})


class LiteLLMClient:
    """A model through LiteLLM.

    Args:
        endpoint: Where.
        model: Settings of the entry.
        telemetry: Callbacks, and whether they may see text; None: there are none.
        provider: Provider as LiteLLM is to take it; None: as in the entry.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model: ModelSettings,
        telemetry: TelemetrySettings | None = None,
        provider: str | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._provider = provider or model.model_provider
        self._callbacks = tuple(telemetry.litellm_callbacks) if telemetry else ()
        self._base64 = self._provider in _BASE64
        self._structured = True
        self._opened = False
        self._parameters = parameters(model)
        self._left_out: set[str] = set()
        self._name = name = model.azure_deployment_name or model.model
        self._call: dict[str, Any] = {
            **parameters(model),
            "model": f"{self._provider}/{name}",
            "timeout": float(model.call_args.get("timeout", model.timeout)),
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": bool(model.call_args.get("drop_params", True)),
        }
        own = {"api_base": endpoint.base, "api_key": endpoint.key, "api_version": model.api_version}
        self._call.update({k: v for k, v in own.items() if v is not None})
        if provider is not None:
            self._call.setdefault("api_key", "none")  # LiteLLM wants one where the server does not
        if self._callbacks and telemetry is not None:
            self._call["turn_off_message_logging"] = not telemetry.capture_content
        if endpoint.headers:
            self._call["extra_headers"] = dict(endpoint.headers)
        self._managed_identity = model.auth_method == "azure_managed_identity"

    async def chat(
        self, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], schema: Mapping[str, Any] | None
    ) -> ChatAnswer:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        call = {**self._call, **parameters, "messages": _clean_messages(messages)}
        if schema is not None and self._structured:
            try:
                return _chat_answer(
                    await self._send("acompletion", {**call, "response_format": response_format(schema)})
                )
            except PermanentError as error:
                words = str(error).lower()
                if error.kind != "bad_request" or not any(
                    w in words for w in ("response_format", "schema", "structured")
                ):
                    raise
                words = "%s: the endpoint does not accept structured output; it is left out from now on"
                tell_once(logger, f"{self._endpoint.entry}: structured output", words, self._endpoint.entry)
                self._structured = False
        return _chat_answer(await self._send("acompletion", call))

    async def stream(
        self, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], end: StreamEnd
    ) -> AsyncGenerator[str]:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        call = {**self._call, **parameters, "messages": _clean_messages(messages)}
        chunks = await self._send("acompletion", {**call, "stream": True, "stream_options": {"include_usage": True}})
        try:
            async for chunk in chunks:
                end.usage = _usage(chunk) or end.usage
                end.model = end.model or str(getattr(chunk, "model", "") or "")
                end.id = end.id or str(getattr(chunk, "id", "") or "")
                if chunk.choices:
                    choice = chunk.choices[0]
                    end.finish = choice.finish_reason or end.finish
                    if choice.delta.content:
                        yield choice.delta.content
        except Exception as error:
            raise self._mapped(error) from None
        finally:
            with contextlib.suppress(Exception):
                await chunks.aclose()

    async def embed(self, texts: Sequence[str], kind: str) -> VectorAnswer:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        call = {**self._call, "input": [clean(text) for text in texts]}
        if self._provider in INPUT_TYPES:
            call["input_type"] = INPUT_TYPES[self._provider][kind]
        if self._base64:
            call["encoding_format"] = "base64"
        try:
            return _vector_answer(await self._send("aembedding", call))
        except PermanentError as error:
            if not self._base64 or error.kind != "bad_request" or "encoding_format" not in str(error):
                raise
            self._base64 = False
            del call["encoding_format"]
            return _vector_answer(await self._send("aembedding", call))

    def chat_body(
        self, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], schema: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        body = {"model": self._name, **self._parameters, **parameters, "messages": _clean_messages(messages)}
        if schema is not None and self._structured:
            body["response_format"] = response_format(schema)
        return {name: value for name, value in body.items() if name not in self._left_out}

    def embed_body(self, texts: Sequence[str], kind: str) -> dict[str, Any]:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        body = {"model": self._name, **self._parameters, "input": [clean(text) for text in texts]}
        if self._provider in INPUT_TYPES:
            body["input_type"] = INPUT_TYPES[self._provider][kind]
        if self._base64:
            body["encoding_format"] = "base64"
        return {name: value for name, value in body.items() if name not in self._left_out}

    async def close(self) -> None:
        """See :class:`graphrag_assets.llm.providers.clients.Client`; connections are shared, so the last client closes them."""
        if not self._opened:
            return
        self._opened = False
        if self._callbacks:
            await finish_callbacks()
        _OPEN.discard(id(self))
        if not _OPEN:
            with contextlib.suppress(Exception):  # another release may do without
                cleanup = importlib.import_module("litellm.llms.custom_httpx.async_client_cleanup")
                await cleanup.close_litellm_async_clients()

    async def _send(self, function: str, call: dict[str, Any]) -> Any:
        if not self._opened:
            self._opened = True
            _OPEN.add(id(self))
        loaded = load_litellm.cache_info().currsize > 0
        litellm, unlogged = load_litellm() if loaded else await asyncio.to_thread(load_litellm)
        call = dict(call)
        if self._managed_identity:
            call = {
                **call,
                "azure_ad_token_provider": await asyncio.to_thread(_azure_token_provider, self._endpoint.entry),
            }
        if self._callbacks and function in ("acompletion", "aembedding"):
            await asyncio.to_thread(set_callbacks, self._callbacks)
            stage = STAGE.get()
            call = {**call, "metadata": {"generation_name": stage, "tags": ["graphrag-assets", stage]}}
        while True:
            for name in self._left_out & call.keys():
                del call[name]
            try:
                with contextlib.nullcontext() if self._callbacks else unlogged():
                    return await getattr(litellm, function)(**call)
            except Exception as error:
                mapped = self._mapped(error)
                if not (isinstance(mapped, PermanentError) and self._adapt(mapped, call)):
                    raise mapped from None

    def _adapt(self, error: PermanentError, call: Mapping[str, Any]) -> bool:
        """Leave out the parameter that a refusal blames from now on; False where it blames none of the entry's."""
        if error.kind != "bad_request":
            return False
        name = blamed(error, self._parameters.keys() & call.keys())
        if name is None:
            return False
        if name not in self._left_out:
            words = "%s: the endpoint does not accept %s; it is left out from now on"
            tell_once(logger, f"{self._endpoint.entry}: {name}", words, self._endpoint.entry, name)
        self._left_out.add(name)
        return True

    async def manage(self, function: str, **arguments: Any) -> Any:
        """One of LiteLLM's functions for files and batches, with the address and the key of the entry.

        Args:
            function: Such as acreate_batch.
            arguments: Its arguments.

        Raises:
            CallError: As of a call.
        """
        names = ("api_base", "api_key", "api_version", "timeout", "extra_headers", "max_retries")
        own = {name: self._call[name] for name in names if name in self._call}
        return await self._send(function, {"custom_llm_provider": self._provider, **own, **arguments})

    def _mapped(self, error: Exception) -> CallError:
        """Our error for one of LiteLLM's; told apart by status and class name, which all providers share."""
        name = type(error).__name__
        status = getattr(error, "status_code", None)
        message = redact(str(getattr(error, "message", error)), self._endpoint.secrets)
        if isinstance(error, CallError):
            return error
        if (reason := no_connection(error)) is not None:
            return PassingError("unreachable", reason)
        if isinstance(error, TimeoutError) or "Timeout" in name:
            return PassingError("timeout", f"no answer within {self._call['timeout']:g} s")
        if "LLM Provider NOT provided" in message:  # how LiteLLM says that it does not know the one it was given
            return PermanentError("not_found", unknown_provider(self._provider) or message)
        if name == "ContextWindowExceededError":
            return PermanentError("context_length", message, 400)
        if name == "ContentPolicyViolationError":
            return PermanentError("content_filter", message, 400)
        if "APIConnectionError" in name or isinstance(error, ConnectionError):
            return PassingError("connection", message)
        if name in ("APIResponseValidationError", "JSONDecodeError"):
            return PassingError("bad_body", message)
        if not isinstance(status, int) or status < 300:
            return (
                PassingError("server", f"{name}: {message}")
                if status
                else PermanentError("bad_request", f"{name}: {message}")
            )
        headers = getattr(getattr(error, "response", None), "headers", None)
        return classify(
            status,
            message,
            code=str(getattr(error, "code", "") or ""),
            parameter=str(getattr(error, "param", "") or ""),
            retry_after=retry_after(headers) if headers is not None else None,
        )


def unknown_provider(provider: str) -> str | None:
    """What to tell of a provider that LiteLLM does not know; None where it does."""
    litellm, _ = load_litellm()
    known = {str(getattr(each, "value", each)) for each in litellm.provider_list}
    if provider in known:
        return None
    near = get_close_matches(provider, sorted(known), 1)
    return f"LiteLLM knows no model_provider {provider!r}" + (f", perhaps {near[0]} is meant" if near else "")


@cache
def load_litellm() -> tuple[Any, Callable[[], contextlib.AbstractContextManager[None]]]:
    """LiteLLM, told to stay off the network and out of the logs, and a context in which it does no logging work."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # otherwise it reads any .env it finds
    os.environ.setdefault("DO_NOT_TRACK", "1")
    import litellm

    litellm.suppress_debug_info = True
    litellm.turn_off_message_logging = True
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)
    # Vectors as base64 are not what its response class declares; they pass all the same.
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    try:
        from litellm._internal_context import internal_sub_call
    except ImportError:  # another release: logging work is then done, to no effect
        return litellm, contextlib.nullcontext
    return litellm, internal_sub_call


def _azure_token_provider(entry: str) -> Callable[[], str]:
    try:
        identity = importlib.import_module("azure.identity")
    except ImportError:
        raise GatewayError(
            f"{entry}: auth_method azure_managed_identity needs the package azure-identity; install it"
        ) from None
    provider: Callable[[], str] = identity.get_bearer_token_provider(
        identity.DefaultAzureCredential(), "https://cognitiveservices.azure.com/.default"
    )
    return provider


def _clean_messages(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    return [{"role": message["role"], "content": clean(message["content"])} for message in messages]


def _usage(response: Any) -> TokenUsage | None:
    usage = getattr(response, "usage", None)
    if usage is None:
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    return TokenUsage(
        int(usage.prompt_tokens or 0),
        int(getattr(usage, "completion_tokens", 0) or 0),
        int(getattr(details, "cached_tokens", 0) or 0),
    )


def _chat_answer(response: Any) -> ChatAnswer:
    try:
        choice = response.choices[0]
        own = getattr(choice.message, "provider_specific_fields", None) or {}
        return ChatAnswer(
            choice.message.content,
            choice.finish_reason or "stop",
            own.get("refusal"),
            _usage(response),
            str(getattr(response, "model", "") or ""),
            str(getattr(response, "id", "") or ""),
        )
    except (AttributeError, IndexError, TypeError):
        raise PassingError("bad_body", "the answer holds no message") from None


def _vector_answer(response: Any) -> VectorAnswer:
    try:
        items = sorted(response.data, key=lambda item: int(item["index"]))
        return VectorAnswer(
            [_vector(item["embedding"]) for item in items],
            _usage(response),
            str(getattr(response, "model", "") or ""),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise PassingError("bad_body", "the answer holds no vectors") from None


def _vector(value: str | list[float]) -> Vector:
    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value), dtype="<f4")
    return np.asarray(value, dtype=np.float32)
