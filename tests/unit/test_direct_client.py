"""The plain HTTP client against servers that keep to OpenAI's protocol more or less."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from graphrag_assets.indexing.asking import AnswerError
from graphrag_assets.llm.gateway import Gateway, GatewayError
from graphrag_assets.settings import Settings, Workspace

Handler = Callable[[dict[str, Any], web.Request], web.StreamResponse | Awaitable[web.StreamResponse]]


def answer(text: str, **message: Any) -> web.Response:
    choice = {"message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
    return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})


def refuse(message: str, status: int = 400, **detail: Any) -> web.Response:
    return web.json_response({"error": {"message": message, **detail}}, status=status)


def with_server(
    root: Path, handler: Handler, use: Callable[[Gateway], Awaitable[Any]], **entry: Any
) -> tuple[Any, list[dict[str, Any]]]:
    """Run a server with this handler, and use a gateway whose models are there.

    Returns:
        What ``use`` returned, and the bodies that the server got.
    """
    bodies: list[dict[str, Any]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        response = handler(bodies[-1], request)
        return response if isinstance(response, web.StreamResponse) else await response

    async def main() -> Any:
        app = web.Application()
        app.router.add_post("/v1/{tail:.*}", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        model = {
            "model_provider": "openai_like",
            "model": "m",
            "api_base": f"http://127.0.0.1:{port}/v1",
            "retry": {"base_delay": 0.01, "max_retries": 2},
            **entry,
        }
        settings = Settings.model_validate({"completion_models": {"c": model}, "embedding_models": {"e": model}})
        try:
            async with Gateway(Workspace(root=root, settings=settings)) as gateway:
                return await use(gateway)
        finally:
            await runner.cleanup()

    return asyncio.run(main()), bodies


async def ask(gateway: Gateway, text: str = "a question", **options: Any) -> str:
    return (await gateway.ask("stage", "c")([{"role": "user", "content": text}], str, **options)).value


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize("words", ["'response_format.type' must be 'text'", "Failed to parse grammar"])
def test_a_server_without_structured_output_is_asked_without_from_then_on(words: str, tmp_path: Path) -> None:
    def handler(body: dict[str, Any], request: web.Request) -> web.Response:
        return refuse(words) if "response_format" in body else answer("yes")

    async def use(gateway: Gateway) -> list[str]:
        return [await ask(gateway, str(i), schema=SCHEMA) for i in range(3)]

    answers, bodies = with_server(tmp_path, handler, use, structured_output=True)
    assert answers == ["yes"] * 3
    assert ["response_format" in body for body in bodies] == [True, False, False, False]
    assert bodies[0]["response_format"]["json_schema"] == {"name": "answer", "schema": SCHEMA, "strict": True}


def test_parameters_that_a_model_does_not_take(tmp_path: Path) -> None:
    def handler(body: dict[str, Any], request: web.Request) -> web.Response:
        if "max_tokens" in body:
            message = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
            return refuse(message, code="unsupported_parameter", param="max_tokens")
        if "temperature" in body:
            return refuse("'temperature' does not support 0.3", code="unsupported_value", param="temperature")
        return answer("yes")

    async def use(gateway: Gateway) -> list[str]:
        return [await ask(gateway, str(i)) for i in range(3)]

    call_args = {"max_tokens": 50, "temperature": 0.3, "seed": 7}
    answers, bodies = with_server(tmp_path, handler, use, call_args=call_args)
    assert answers == ["yes"] * 3
    assert len(bodies) == 5
    assert {k: v for k, v in bodies[-1].items() if k != "messages"} == {
        "model": "m",
        "max_completion_tokens": 50,
        "seed": 7,
    }


def test_other_bad_requests_are_not_repeated(tmp_path: Path) -> None:
    async def use(gateway: Gateway) -> str:
        with pytest.raises(AnswerError) as error:
            await ask(gateway)
        return error.value.reason

    reason, bodies = with_server(tmp_path, lambda body, request: refuse("no such thing"), use)
    assert reason == "HTTP 400: no such thing"
    assert len(bodies) == 1


@pytest.mark.parametrize("base64", ["ignored", "refused"])
def test_vectors_as_numbers(base64: str, tmp_path: Path) -> None:
    def handler(body: dict[str, Any], request: web.Request) -> web.Response:
        if base64 == "refused" and "encoding_format" in body:
            return refuse("encoding_format: unknown field", status=422)
        data = [{"index": i, "embedding": [3.0, 4.0 * i]} for i, _ in enumerate(body["input"])]
        return web.json_response({"data": data[::-1]})

    async def use(gateway: Gateway) -> Any:
        first = await gateway.embed("stage", "e", ["a", "b"])
        await gateway.embed("stage", "e", ["c"])
        return first, gateway.usage()["stage"]

    (vectors, usage), bodies = with_server(tmp_path, handler, use)
    assert vectors.tolist() == [[1.0, 0.0], [pytest.approx(0.6), pytest.approx(0.8)]]
    assert sum("encoding_format" in body for body in bodies) == (1 if base64 == "refused" else len(bodies))
    assert usage.unpriced_calls == usage.calls, "no tokens, no price"


def test_key_headers_and_extra_body(tmp_path: Path) -> None:
    seen: list[Any] = []

    def handler(body: dict[str, Any], request: web.Request) -> web.Response:
        seen.append((request.headers.get("Authorization"), request.headers.get("x-team"), body.get("top_k")))
        return answer("yes")

    call_args = {"extra_headers": {"x-team": "north"}, "extra_body": {"top_k": 3}}
    with_server(tmp_path, handler, ask, api_key="the-key", call_args=call_args)
    assert seen == [("Bearer the-key", "north", 3)]


def test_a_server_that_does_not_stream(tmp_path: Path) -> None:
    async def use(gateway: Gateway) -> list[str]:
        return [piece async for piece in gateway.chat_stream("stage", "c", [{"role": "user", "content": "q"}])]

    assert with_server(tmp_path, lambda body, request: answer("whole"), use)[0] == ["whole"]


def test_a_stream_in_odd_pieces_with_reasoning(tmp_path: Path) -> None:
    events = [{"choices": [{"delta": {"content": piece}}]} for piece in ("<th", "ink>hm</think>", "\nSeñ", "or ", "ok")]
    events += [{"choices": [{"delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": {"prompt_tokens": 9}}]
    data = b": comment\n\n" + b"".join(
        b"data: " + json.dumps(e, ensure_ascii=False).encode() + b"\r\n\r\n" for e in events
    )

    async def handler(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for i in range(0, len(data), 7):
            await response.write(data[i : i + 7])
        await response.write(b"data: [DONE]\n\n")
        return response

    async def use(gateway: Gateway) -> Any:
        pieces = [piece async for piece in gateway.chat_stream("stage", "c", [{"role": "user", "content": "q"}])]
        return "".join(pieces), gateway.usage()["stage"].prompt_tokens

    assert with_server(tmp_path, handler, use)[0] == ("Señor ok", 9)


@pytest.mark.parametrize(
    "response",
    [
        lambda: web.json_response({"error": {"message": "overloaded"}}),
        lambda: web.json_response({"choices": []}),
        lambda: web.json_response([1]),
        lambda: web.Response(text="<html>busy</html>"),
        lambda: web.Response(status=502, text="<html>bad gateway</html>"),
    ],
)
def test_answers_that_are_none_are_asked_for_again(response: Callable[[], web.Response], tmp_path: Path) -> None:
    count = 0

    def handler(body: dict[str, Any], request: web.Request) -> web.Response:
        nonlocal count
        count += 1
        return response() if count < 3 else answer("yes")

    assert with_server(tmp_path, handler, ask)[0] == "yes"


def test_a_redirect_means_a_wrong_address(tmp_path: Path) -> None:
    async def use(gateway: Gateway) -> str:
        with pytest.raises(GatewayError) as error:
            await ask(gateway)
        return str(error.value)

    def handler(body: dict[str, Any], request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "https://elsewhere"})

    assert "check model and api_base" in with_server(tmp_path, handler, use)[0]


def test_a_key_that_the_provider_repeats_is_masked(tmp_path: Path) -> None:
    async def use(gateway: Gateway) -> str:
        with pytest.raises(GatewayError) as error:
            await ask(gateway)
        return str(error.value)

    handler = lambda body, request: refuse("Incorrect API key: very-secret-key", status=401)  # noqa: E731
    message, _ = with_server(tmp_path, handler, use, api_key="very-secret-key")
    assert "very-secret-key" not in message
    assert "***" in message
