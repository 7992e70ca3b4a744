"""The short way: OpenAI's protocol over plain HTTP, for OpenAI and for servers that speak like it.

One keep-alive session, bodies through orjson, vectors as base64 read by numpy (JSON numbers where a server sends
those). What a server does not understand (structured output, base64 vectors, an old name of a parameter) is left out
from the second request on.
"""

from __future__ import annotations

import binascii
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import numpy as np
import orjson

from graphrag_assets.llm.errors import (
    CallError,
    PassingError,
    PermanentError,
    classify,
    no_connection,
    redact,
    retry_after,
)
from graphrag_assets.llm.prices import facts
from graphrag_assets.llm.providers.clients import (
    ChatAnswer,
    Endpoint,
    StreamEnd,
    TokenUsage,
    Vector,
    VectorAnswer,
    parameters,
)
from graphrag_assets.llm.providers.parameters import NEW_LIMIT, OLD_LIMIT, blamed, is_reasoning, unfit
from graphrag_assets.llm.providers.wire import clean, dumps, response_format
from graphrag_assets.progress import tell_once
from graphrag_assets.settings import ModelSettings

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger(__name__)

#: Seconds to wait for a connection, the look-up of the host name and the TLS handshake included.
CONNECT_TIMEOUT = 10.0

#: Words in the message of a 400 that blame a part of the body which can be left out.
_BLAMED: Mapping[str, tuple[str, ...]] = {
    "response_format": ("response_format", "json_schema", "structured output", "grammar", "schema"),
    "encoding_format": ("encoding_format", "base64"),
    "stream_options": ("stream_options", "include_usage"),
}


class DirectClient:
    """An OpenAI-compatible endpoint.

    Args:
        endpoint: Where.
        model: Settings of the entry.
    """

    def __init__(self, endpoint: Endpoint, model: ModelSettings) -> None:
        self._endpoint = endpoint
        self._model = model.model
        self._timeout = float(model.call_args.get("timeout", model.timeout))
        own = parameters(model)
        self._extra_body: dict[str, Any] = own.pop("extra_body", {})
        self._parameters = own
        known = facts(model)
        self._left_out: set[str] = set(unfit(model, known, own))
        if self._left_out:
            names = ", ".join(sorted(self._left_out))
            logger.info("%s: %s does not take %s; left out", endpoint.entry, model.model, names)
        self._renamed: dict[str, str] = {OLD_LIMIT: NEW_LIMIT} if is_reasoning(model, known) else {}
        self._session: aiohttp.ClientSession | None = None
        self._proxy: str | None = None

    async def chat(
        self, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], schema: Mapping[str, Any] | None
    ) -> ChatAnswer:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        return chat_answer(await self._json("/chat/completions", self.chat_body(messages, parameters, schema)))

    async def embed(self, texts: Sequence[str], kind: str) -> VectorAnswer:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        return vector_answer(await self._json("/embeddings", self.embed_body(texts, kind)))

    def chat_body(
        self, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], schema: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        body = self._body(parameters, messages=messages, stream=None)
        if schema is not None and "response_format" not in self._left_out:
            body["response_format"] = response_format(schema)
        return body

    def embed_body(self, texts: Sequence[str], kind: str) -> dict[str, Any]:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        return self._body({}, input=[clean(text) for text in texts], encoding_format="base64")

    async def stream(
        self, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any], end: StreamEnd
    ) -> AsyncGenerator[str]:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        body = self._body(parameters, messages=messages, stream=True, stream_options={"include_usage": True})
        while True:
            try:
                async with self._post("/chat/completions", body, streamed=True) as response:
                    if response.content_type == "application/json":  # a server that does not stream
                        answer = chat_answer(_parse(await response.read()))
                        end.finish, end.usage = answer.finish, answer.usage
                        end.model, end.id = answer.model, answer.id
                        end.refused = answer.refusal is not None
                        yield answer.text or ""
                        return
                    async for event in _events(response.content):
                        piece = _stream_piece(event, end, self._endpoint.secrets)
                        if piece:
                            yield piece
                    if not end.finish:
                        raise PassingError("connection", "the stream ended before the answer did")
                    return
            except PermanentError as error:
                if not self._adapt(body, error):
                    raise

    async def close(self) -> None:
        """See :class:`graphrag_assets.llm.providers.clients.Client`."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _body(self, parameters: Mapping[str, Any], **own: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, **self._parameters, **parameters, **own, **self._extra_body}
        for name in self._left_out & body.keys():
            del body[name]
        for name, new in self._renamed.items():
            if name in body:
                body[new] = body.pop(name)
        return {name: value for name, value in body.items() if value is not None}

    async def _json(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post a body and read the JSON that comes, again without what the server does not understand."""
        while True:
            for name in self._left_out & body.keys():
                del body[name]
            try:
                async with self._post(path, body, streamed=False) as response:
                    return _parse(await response.read())
            except PermanentError as error:
                if not self._adapt(body, error):
                    raise

    def _adapt(self, body: dict[str, Any], error: PermanentError) -> bool:
        """Leave out what the error blames; False where it blames nothing that can be left out."""
        if error.kind != "bad_request":
            return False
        message = str(error).lower()
        if OLD_LIMIT in body and NEW_LIMIT in message:
            self._renamed[OLD_LIMIT] = NEW_LIMIT
            body[NEW_LIMIT] = body.pop(OLD_LIMIT)
            return True
        name = next((n for n, words in _BLAMED.items() if n in body and any(word in message for word in words)), None)
        if name is None:
            name = blamed(error, self._parameters.keys() & body.keys())
        if name is None:
            return False
        if name not in self._left_out:
            words = "%s: the endpoint does not accept %s; it is left out from now on"
            tell_once(logger, f"{self._endpoint.entry}: {name}", words, self._endpoint.entry, name)
        self._left_out.add(name)
        del body[name]
        return True

    @asynccontextmanager
    async def _post(self, path: str, body: dict[str, Any], *, streamed: bool) -> AsyncIterator[aiohttp.ClientResponse]:
        """Post a body; the answer is a success, everything else is raised as a CallError."""
        import aiohttp

        session = self._open()
        timeout = (
            aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=self._timeout)
            if streamed
            else aiohttp.ClientTimeout(total=self._timeout, connect=min(CONNECT_TIMEOUT, self._timeout))
        )
        assert self._endpoint.base is not None
        with told_as_call_errors(self._endpoint, timeout.connect or 0.0, self._timeout):
            async with session.post(
                self._endpoint.base + path,
                data=dumps(body),
                timeout=timeout,
                proxy=self._proxy,
                allow_redirects=False,
            ) as response:
                if response.status != 200:
                    raise refused(response.status, response.headers, await response.read(), self._endpoint.secrets)
                yield response

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            headers = {"Content-Type": "application/json", **self._endpoint.headers}
            if self._endpoint.key is not None:
                headers.setdefault("Authorization", f"Bearer {self._endpoint.key}")
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30, ttl_dns_cache=300)
            self._session = aiohttp.ClientSession(
                connector=connector, headers=headers, cookie_jar=aiohttp.DummyCookieJar()
            )
            self._proxy = proxy_of(self._endpoint.base or "")
        return self._session


def refused(status: int, headers: Mapping[str, str], data: bytes, secrets: Sequence[str]) -> CallError:
    """The error that an answer without success means; its body may be JSON of several shapes, HTML or nothing."""
    message, code, parameter = "", "", ""
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        body = None
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, dict):
        detail = body.get("error", body)
        if isinstance(detail, dict):
            message = str(detail.get("message") or detail.get("detail") or "")
            code = str(detail.get("code") or detail.get("type") or "")
            parameter = str(detail.get("param") or "")
        else:
            message = str(detail)
    return classify(
        status, redact(message, secrets), code=redact(code), parameter=parameter, retry_after=retry_after(headers)
    )


def proxy_of(base: str) -> str | None:
    """The proxy of the environment for this address, looked up once instead of at each request."""
    parts = urlsplit(base)
    if proxy_bypass(parts.netloc):
        return None
    return getproxies().get(parts.scheme)


def _parse(data: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise PassingError("bad_body", "the answer is not JSON", 200) from None
    if not isinstance(body, dict):
        raise PassingError("bad_body", "the answer is not a JSON object", 200)
    if body.get("error"):  # some servers report errors with status 200
        raise PassingError("server", "the answer is an error with status 200", 200)
    return body


@contextmanager
def told_as_call_errors(endpoint: Endpoint, connect: float, seconds: float) -> Iterator[None]:
    """Raise what goes wrong with a request inside as a CallError.

    Args:
        endpoint: Where it goes.
        connect: Seconds that a connection may take.
        seconds: Seconds that an answer may take.
    """
    import aiohttp

    try:
        yield
    except aiohttp.ConnectionTimeoutError:
        raise PassingError("unreachable", f"no connection within {connect:g} s") from None
    except TimeoutError:
        raise PassingError("timeout", f"no answer within {seconds:g} s") from None
    except aiohttp.InvalidURL:
        raise PermanentError("not_found", f"{endpoint.identity} is not an address") from None
    except aiohttp.ClientError as error:
        # Neither chained nor shown as it is: some of aiohttp's errors carry the headers of the request.
        if (reason := no_connection(error)) is not None:
            raise PassingError("unreachable", reason) from None
        raise PassingError("connection", f"the connection broke ({type(error).__name__})") from None
    except ConnectionError as error:
        raise PassingError("connection", f"the connection broke ({type(error).__name__})") from None


def usage_of(body: Mapping[str, Any]) -> TokenUsage | None:
    """The tokens in a body; None where it does not say them."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details") or {}
    return TokenUsage(
        int(usage.get("prompt_tokens") or 0),
        int(usage.get("completion_tokens") or 0),
        int(details.get("cached_tokens") or 0),
    )


def chat_answer(body: Mapping[str, Any]) -> ChatAnswer:
    """The answer in a body of /chat/completions; PassingError where there is none."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        return ChatAnswer(
            message.get("content"),
            choice.get("finish_reason") or "stop",
            message.get("refusal"),
            usage_of(body),
            str(body.get("model") or ""),
            str(body.get("id") or ""),
        )
    except (KeyError, IndexError, TypeError, AttributeError):
        raise PassingError("bad_body", "the answer holds no message", 200) from None


def vector_answer(body: Mapping[str, Any]) -> VectorAnswer:
    """The vectors in a body of /embeddings; PassingError where there are none."""
    try:
        items = sorted(body["data"], key=lambda item: int(item["index"]))
        return VectorAnswer(
            [_vector(item["embedding"]) for item in items], usage_of(body), str(body.get("model") or "")
        )
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise PassingError("bad_body", "the answer holds no vectors", 200) from None


def _vector(value: str | list[float]) -> Vector:
    """A vector from base64 of little-endian float32, or from numbers."""
    if isinstance(value, str):
        return np.frombuffer(binascii.a2b_base64(value), dtype="<f4")
    return np.asarray(value, dtype=np.float32)


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The data of server-sent events, to the end of the stream."""
    rest = b""
    async for block in content.iter_any():
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()
    if rest.startswith(b"data:"):
        yield rest[5:].strip()


def _stream_piece(event: bytes, end: StreamEnd, secrets: Sequence[str]) -> str:
    """The text of one event; what it tells about the end is noted."""
    if event == b"[DONE]":
        end.finish = end.finish or "stop"
        return ""
    try:
        body = orjson.loads(event)
    except orjson.JSONDecodeError:
        raise PassingError("bad_body", "an event of the stream is not JSON") from None
    if error := body.get("error"):
        message = error.get("message", "") if isinstance(error, dict) else str(error)
        raise PassingError("server", redact(f"the stream ended with an error: {message}", secrets))
    end.usage = usage_of(body) or end.usage
    end.model, end.id = end.model or str(body.get("model") or ""), end.id or str(body.get("id") or "")
    choices = body.get("choices") or []
    if not choices:
        return ""
    end.finish = choices[0].get("finish_reason") or end.finish
    delta = choices[0].get("delta") or {}
    end.refused = end.refused or bool(delta.get("refusal"))
    return delta.get("content") or ""
