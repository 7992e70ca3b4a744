"""How files of questions reach a provider: OpenAI's Files and Batches over plain HTTP, or LiteLLM for other providers.

A transport makes one request and says what came back; what is repeated, recorded and done with the answers is decided
in :mod:`graphrag_assets.llm.batching.desk`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from graphrag_assets.llm.errors import CallError, PassingError, PermanentError, redact
from graphrag_assets.llm.providers.clients import Client, Endpoint
from graphrag_assets.llm.providers.direct import CONNECT_TIMEOUT, proxy_of, refused, told_as_call_errors
from graphrag_assets.llm.providers.through_litellm import LiteLLMClient
from graphrag_assets.settings import ModelSettings

if TYPE_CHECKING:
    import aiohttp

#: States of a batch in which nothing more will come.
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})

#: Metadata of a batch by which it is found again.
NAMED = "graphrag_assets"

#: Batches and files in one page of a list, and most pages that are looked through for one of the last days.
_PAGE, _PAGES = 100, 20

#: Seconds for a file to travel, either way.
_FILE_SECONDS = 1800.0


@dataclass(frozen=True)
class ProviderBatch:
    """A batch as the provider tells of it.

    Args:
        id: Its id there.
        status: validating, in_progress, finalizing, cancelling, or one of :data:`ENDED`.
        token: What we called it; empty where the provider tells no metadata.
        input_file: Id of the file of questions.
        output_file: Id of the file of answers, None where there is none.
        error_file: Id of the file of questions that failed.
        done: Questions answered or failed so far.
        problem: Why it failed, in one line, with the provider's code.
    """

    id: str
    status: str
    token: str = ""
    input_file: str | None = None
    output_file: str | None = None
    error_file: str | None = None
    done: int = 0
    problem: str = ""


class Transport(Protocol):
    """Files and batches of one provider. All methods raise CallError."""

    async def upload(self, name: str, data: bytes) -> str:
        """Upload a file of questions; returns its id."""
        ...

    async def create(self, file: str, path: str, window: str, token: str) -> ProviderBatch:
        """Submit a file.

        Args:
            file: Id of the file.
            path: Endpoint of the questions, such as /v1/chat/completions.
            window: Within what time answers are wanted.
            token: What we call the batch.
        """
        ...

    async def retrieve(self, batch: str) -> ProviderBatch:
        """Look at a batch."""
        ...

    async def find(self, token: str) -> ProviderBatch | None:
        """The batch that we called so, None where there is none among the last ones."""
        ...

    async def read(self, file: str) -> bytes:
        """Content of a file."""
        ...

    async def delete(self, file: str) -> None:
        """Delete a file."""
        ...

    async def cancel(self, batch: str) -> None:
        """Ask for the end of a batch."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


def transport(endpoint: Endpoint, model: ModelSettings, client: Client) -> Transport:
    """The way by which batches of an entry travel: that of its calls.

    Args:
        endpoint: Where.
        model: The entry.
        client: The client of its calls.
    """
    if isinstance(client, LiteLLMClient):
        return LiteLLMTransport(client, endpoint)
    return DirectTransport(endpoint, model)


class DirectTransport:
    """OpenAI's protocol over plain HTTP.

    Args:
        endpoint: Where.
        model: The entry.
    """

    def __init__(self, endpoint: Endpoint, model: ModelSettings) -> None:
        self._endpoint = endpoint
        self._timeout = float(model.call_args.get("timeout", model.timeout))
        self._session: aiohttp.ClientSession | None = None
        self._proxy: str | None = None

    async def upload(self, name: str, data: bytes) -> str:
        """See :class:`Transport`."""
        import aiohttp

        form = aiohttp.FormData()
        form.add_field("purpose", "batch")
        form.add_field("file", data, filename=name, content_type="application/jsonl")
        async with self._request("POST", "/files", data=form, seconds=_FILE_SECONDS) as response:
            return str(_object(await response.read())["id"])

    async def create(self, file: str, path: str, window: str, token: str) -> ProviderBatch:
        """See :class:`Transport`."""
        body = {
            "input_file_id": file,
            "endpoint": path,
            "completion_window": window,
            "metadata": {NAMED: token},
        }
        async with self._request("POST", "/batches", json=body) as response:
            return self._told(_object(await response.read()))

    async def retrieve(self, batch: str) -> ProviderBatch:
        """See :class:`Transport`."""
        async with self._request("GET", f"/batches/{batch}") as response:
            return self._told(_object(await response.read()))

    async def find(self, token: str) -> ProviderBatch | None:
        """See :class:`Transport`."""
        after = ""
        for _ in range(_PAGES):
            query = f"?limit={_PAGE}" + (f"&after={after}" if after else "")
            async with self._request("GET", f"/batches{query}") as response:
                page = _object(await response.read(), "list")
            items = [item for item in page.get("data") or [] if isinstance(item, dict) and item.get("id")]
            for item in items:
                if (item.get("metadata") or {}).get(NAMED) == token:
                    return self._told(item)
            if not items or not page.get("has_more"):
                return None
            after = str(items[-1]["id"])
        return None

    async def read(self, file: str) -> bytes:
        """See :class:`Transport`."""
        async with self._request("GET", f"/files/{file}/content", seconds=_FILE_SECONDS) as response:
            return await response.read()

    async def delete(self, file: str) -> None:
        """See :class:`Transport`."""
        async with self._request("DELETE", f"/files/{file}"):
            pass

    async def cancel(self, batch: str) -> None:
        """See :class:`Transport`."""
        async with self._request("POST", f"/batches/{batch}/cancel"):
            pass

    async def close(self) -> None:
        """See :class:`Transport`."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, *, seconds: float | None = None, **content: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One request; the answer is a success, everything else is raised as a CallError."""
        import aiohttp

        if self._session is None:
            headers = dict(self._endpoint.headers)
            if self._endpoint.key is not None:
                headers.setdefault("Authorization", f"Bearer {self._endpoint.key}")
            self._session = aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar())
            self._proxy = proxy_of(self._endpoint.base or "")
        total = seconds or self._timeout
        timeout = aiohttp.ClientTimeout(total=total, connect=CONNECT_TIMEOUT)
        address = f"{self._endpoint.base}{path}"
        with told_as_call_errors(self._endpoint, CONNECT_TIMEOUT, total):
            async with self._session.request(
                method, address, timeout=timeout, proxy=self._proxy, **content
            ) as response:
                if response.status != 200:
                    raise refused(response.status, response.headers, await response.read(), self._endpoint.secrets)
                yield response

    def _told(self, body: Mapping[str, Any]) -> ProviderBatch:
        return told(body, self._endpoint)


class LiteLLMTransport:
    """Files and batches through LiteLLM: Azure, Vertex AI, Bedrock and others.

    Args:
        client: The client of the entry's calls, which knows how to reach it.
        endpoint: Where.
    """

    def __init__(self, client: LiteLLMClient, endpoint: Endpoint) -> None:
        self._client = client
        self._endpoint = endpoint

    async def upload(self, name: str, data: bytes) -> str:
        """See :class:`Transport`."""
        found = await self._client.manage(
            "acreate_file", file=(name, data, "application/jsonl"), purpose="batch", timeout=_FILE_SECONDS
        )
        return str(found.id)

    async def create(self, file: str, path: str, window: str, token: str) -> ProviderBatch:
        """See :class:`Transport`."""
        found = await self._client.manage(
            "acreate_batch",
            completion_window=window,
            endpoint=path,
            input_file_id=file,
            metadata={NAMED: token},
        )
        return told(_plain(found), self._endpoint)

    async def retrieve(self, batch: str) -> ProviderBatch:
        """See :class:`Transport`."""
        return told(_plain(await self._client.manage("aretrieve_batch", batch_id=batch)), self._endpoint)

    async def find(self, token: str) -> ProviderBatch | None:
        """See :class:`Transport`."""
        page = _plain(await self._client.manage("alist_batches", limit=_PAGE))
        for item in page.get("data") or []:
            if ((item := _plain(item)).get("metadata") or {}).get(NAMED) == token:
                return told(item, self._endpoint)
        return None

    async def read(self, file: str) -> bytes:
        """See :class:`Transport`."""
        return bytes((await self._client.manage("afile_content", file_id=file, timeout=_FILE_SECONDS)).content)

    async def delete(self, file: str) -> None:
        """See :class:`Transport`."""
        await self._client.manage("afile_delete", file_id=file)

    async def cancel(self, batch: str) -> None:
        """See :class:`Transport`."""
        await self._client.manage("acancel_batch", batch_id=batch)

    async def close(self) -> None:
        """See :class:`Transport`; the client of the calls closes what it opened."""


def told(body: Mapping[str, Any], endpoint: Endpoint) -> ProviderBatch:
    """A batch out of a provider's answer.

    Args:
        body: The answer.
        endpoint: Where it came from.

    Raises:
        PassingError: It is none.
    """
    if not body.get("id") or not body.get("status"):
        raise PassingError("bad_body", "the answer tells of no batch", 200)
    errors = (body.get("errors") or {}).get("data") or [] if isinstance(body.get("errors"), dict) else []
    first = errors[0] if errors and isinstance(errors[0], dict) else {}
    problem = f"{first.get('code') or ''}: {first.get('message') or ''}".strip(": ")
    counts = body.get("request_counts") or {}
    return ProviderBatch(
        str(body["id"]),
        str(body["status"]),
        str((body.get("metadata") or {}).get(NAMED) or ""),
        body.get("input_file_id"),
        body.get("output_file_id"),
        body.get("error_file_id"),
        int(counts.get("completed") or 0) + int(counts.get("failed") or 0),
        redact(problem, endpoint.secrets),
    )


def _plain(value: Any) -> dict[str, Any]:
    """What LiteLLM gives (a model of pydantic, or a dictionary) as a dictionary."""
    found: Any = value.model_dump() if hasattr(value, "model_dump") else value
    return found if isinstance(found, dict) else {}


def _object(data: bytes, kind: str = "") -> dict[str, Any]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise PassingError("bad_body", "the answer is not JSON", 200) from None
    if not isinstance(body, dict) or (not kind and "id" not in body):
        raise PassingError("bad_body", "the answer is not what was asked for", 200)
    return body


async def delete_quietly(way: Transport, *files: str | None) -> None:
    """Delete files at the provider where that can be done; they cost nothing, but hold texts of documents."""
    for file in files:
        if file:
            with contextlib.suppress(CallError):
                await way.delete(file)


def is_gone(error: CallError) -> bool:
    """Whether the provider does not know what it was asked about."""
    return isinstance(error, PermanentError) and error.kind == "not_found"
