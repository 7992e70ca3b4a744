"""Parameters by model: what is known to be refused is left out, what a provider refuses is learnt from it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.llm.errors import PermanentError
from graphrag_assets.llm.gateway import Gateway
from graphrag_assets.llm.prices import ModelFacts, facts
from graphrag_assets.llm.providers.context_window import Window
from graphrag_assets.llm.providers.parameters import blamed, unfit
from graphrag_assets.settings import ModelSettings, Settings, Workspace


class Provider:
    """An endpoint that refuses some parameters, and reads no more than its window."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.refuses: dict[str, str] = {}
        self.reads: int | None = None
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                provider.bodies.append(body)
                refused = next((name for name in provider.refuses if name in body), None)
                if refused:
                    error = {"message": provider.refuses[refused], "type": "invalid_request_error"}
                    self._send(400, {"error": error})
                    return
                characters = sum(len(message["content"]) for message in body["messages"])
                tokens = min(characters // 4, provider.reads or 1_000_000)
                message = {"role": "assistant", "content": "fine"}
                usage = {"prompt_tokens": tokens, "completion_tokens": 1}
                self._send(200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

            def _send(self, status: int, body: object) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.server.shutdown()
    made.server.server_close()


def ask(root: Path, provider: Provider, texts: list[str], **entry: Any) -> list[Any]:
    model = {"model_provider": "openai", "api_base": provider.base, "api_key": "sk-test-0123456789", "model": "m"}
    space = Workspace(root=root, settings=Settings(completion_models={"chat": {**model, **entry}}))

    async def main() -> list[Any]:
        async with Gateway(space) as gateway:
            asked = gateway.ask("stage", "chat")
            answers: list[Any] = []
            for text in texts:
                try:
                    answers.append((await asked([{"role": "user", "content": text}], str)).text)
                except Exception as error:
                    answers.append(error)
            return answers

    return asyncio.run(main())


def test_reasoning_models_get_no_sampling_parameters(tmp_path: Path, provider: Provider) -> None:
    args = {"temperature": 0, "top_p": 0.5, "max_tokens": 500, "reasoning_effort": "low", "seed": 1}
    assert ask(tmp_path, provider, ["a"], model="o3-mini", call_args=args) == ["fine"]
    (body,) = provider.bodies
    assert body.keys() >= {"max_completion_tokens", "reasoning_effort", "seed"}
    assert not body.keys() & {"temperature", "top_p", "max_tokens"}
    provider.bodies.clear()
    assert ask(tmp_path, provider, ["b"], model="gpt-4o-mini", call_args=args) == ["fine"]
    assert provider.bodies[0].keys() >= {"temperature", "top_p", "max_tokens"}, "dropped per model, not globally"


@pytest.mark.parametrize(
    "message",
    [
        "Unsupported parameter: 'top_p' is not supported with this model.",
        "Unsupported value: 'top_p' does not support 0.5 with this model. Only the default (1) value is supported.",
        "Unrecognized request argument supplied: top_p",
        '1 validation error: {"loc": ["body", "top_p"], "msg": "Extra inputs are not permitted"}',
        "property `top_p` is unsupported",
    ],
)
def test_a_refused_parameter_is_learnt_once(
    message: str, tmp_path: Path, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.refuses = {"top_p": message}
    answers = ask(tmp_path, provider, ["a", "b", "c"], call_args={"top_p": 0.5, "temperature": 0})
    assert answers == ["fine"] * 3
    assert len(provider.bodies) == 4
    assert all(body["temperature"] == 0 for body in provider.bodies)
    assert sum("does not accept top_p" in record.message for record in caplog.records) == 1


def test_the_new_name_of_the_limit_is_learnt(tmp_path: Path, provider: Provider) -> None:
    provider.refuses = {"max_tokens": "Unsupported parameter: use 'max_completion_tokens' instead."}
    assert ask(tmp_path, provider, ["a", "b"], call_args={"max_tokens": 9}) == ["fine"] * 2
    assert [body.get("max_completion_tokens") for body in provider.bodies] == [None, 9, 9]


def test_other_refusals_blame_nothing() -> None:
    error = PermanentError("bad_request", "HTTP 400: Invalid value for 'messages': too short")
    assert blamed(error, {"messages", "temperature"}) is None
    assert blamed(PermanentError("bad_request", "HTTP 400: temperature 3 is above 2"), {"temperature"}) is None


def test_chat_variants_of_reasoning_models_take_them() -> None:
    model = ModelSettings(model="gpt-5-chat-latest", call_args={"temperature": 0})
    assert unfit(model, facts(model), model.call_args) == []
    kept = ModelSettings(model="gpt-5", call_args={"temperature": 0, "drop_params": False})
    assert unfit(kept, facts(kept), kept.call_args) == []
    assert unfit(kept, facts(kept), {"temperature": 1}) == []


def test_a_prompt_beyond_the_window_is_not_sent(tmp_path: Path, provider: Provider) -> None:
    long = "The quick brown fox jumps over the lazy dog. " * 500
    answers = ask(tmp_path, provider, [long, "short"], context_window=1000)
    assert len(provider.bodies) == 1
    assert answers[1] == "fine"
    assert answers[0].too_long
    for part in ("5005 tokens", "reads 1000", "completion_models.chat", "chunking.size", "context_window"):
        assert part in answers[0].reason


def test_the_window_is_learnt_from_a_refusal(tmp_path: Path, provider: Provider) -> None:
    long = "The quick brown fox jumps over the lazy dog. " * 500
    provider.refuses = {"seed": "This model's maximum context length is 2048 tokens, you requested 5000."}
    answers = ask(tmp_path, provider, [long, long + "!"], call_args={"seed": 1})
    assert [answer.too_long for answer in answers] == [True, True]
    assert len(provider.bodies) == 1, "the second prompt is known to be too long"


def test_a_length_that_could_be_a_window_is_one_when_it_is_met_again() -> None:
    model = ModelSettings(model_provider="openai", model="house-model", api_base="http://127.0.0.1:9/v1")
    window = Window("entry", model, ModelFacts(), lambda text: len(text.split()))
    long = ["word " * 3000]
    assert not window.silently_cut(long, 2048), "one prompt in 256 has such a length"
    assert not window.silently_cut(long, 1990), "another tokenizer"
    assert window.tokens is None
    assert "read only 2048 tokens" in window.silently_cut(["word " * 4000], 2048)
    assert window.tokens == 2048


def test_a_server_that_cuts_silently_is_found_out(tmp_path: Path, provider: Provider) -> None:
    provider.reads = 2048
    long = "The quick brown fox jumps over the lazy dog. " * 500
    answers = ask(tmp_path, provider, ["short", long, long + "!"], model_provider="ollama", model="llama3-house")
    assert answers[0] == "fine"
    assert "read only 2048 tokens" in answers[1].reason
    assert "num_ctx" in answers[1].reason
    assert answers[2].too_long
    assert len([body for body in provider.bodies if "messages" in body]) == 2
