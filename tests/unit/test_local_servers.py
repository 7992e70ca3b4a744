"""Model servers of one's own: what they say of themselves is asked, used, and told by doctor."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from graphrag_assets.cli.doctor_models import models
from graphrag_assets.cli.finding import Finding
from graphrag_assets.cli.init import init_workspace
from graphrag_assets.llm.gateway import Gateway
from graphrag_assets.llm.prices import facts
from graphrag_assets.llm.providers import local_servers
from graphrag_assets.llm.providers.local_servers import is_local, runs_locally, served
from graphrag_assets.settings import ModelSettings, Settings, Workspace
from graphrag_assets.settings_file import load_workspace
from tests.pipeline.workspaces import invoke, make_workspace

DOCS = Path(__file__).resolve().parents[2] / "docs" / "local-models.md"

OLLAMA: dict[str, Any] = {
    "/v1/models": {"object": "list", "data": [{"id": "qwen3:4b", "object": "model", "owned_by": "library"}]},
    "/api/show": {"parameters": 'stop  "<|im_end|>"\ntemperature 0.6', "model_info": {"qwen3.context_length": 40960}},
    "/api/ps": {"models": []},
}
LLAMA: dict[str, Any] = {
    "/v1/models": {
        "data": [{"id": "/m/qwen.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": 4096, "n_ctx_train": 32768}}]
    },
    "/props": {"default_generation_settings": {"n_ctx": 2048}, "total_slots": 2},
}
VLLM: dict[str, Any] = {"/v1/models": {"data": [{"id": "Qwen/Qwen3-4B", "owned_by": "vllm", "max_model_len": 16384}]}}
STUDIO: dict[str, Any] = {
    "/v1/models": {"data": [{"id": "qwen3-4b", "owned_by": "organization_owner"}]},
    "/api/v0/models": {
        "data": [{"id": "qwen3-4b", "state": "loaded", "max_context_length": 32768, "loaded_context_length": 8192}]
    },
}


class Server:
    """A server that answers some paths, and counts."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: list[str] = []
        self.keys: list[str | None] = []
        self.delay = 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                time.sleep(outer.delay)
                outer.asked.append(self.path)
                outer.keys.append(self.headers.get("Authorization"))
                page = outer.pages.get(self.path)
                data = b"not found" if page is None else page if isinstance(page, bytes) else json.dumps(page).encode()
                self.send_response(404 if page is None else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Server]:
    local_servers._KNOWN.clear()
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def entry(provider: str, model: str, base: str, **more: Any) -> ModelSettings:
    return ModelSettings.model_validate({"model_provider": provider, "model": model, "api_base": base, **more})


@pytest.mark.parametrize(
    ("pages", "provider", "model", "kind", "window"),
    [
        (OLLAMA, "ollama", "qwen3:4b", "Ollama", 4096),
        (OLLAMA, "ollama_chat", "qwen3:4b", "Ollama", 4096),
        (OLLAMA | {"/api/show": {"parameters": "num_ctx    16384\n"}}, "ollama", "qwen3:4b", "Ollama", 16384),
        (
            OLLAMA | {"/api/ps": {"models": [{"name": "qwen3:4b", "context_length": 32768}]}},
            "ollama", "qwen3:4b", "Ollama", 32768,
        ),
        (LLAMA, "llamafile", "qwen", "llama.cpp", 2048),
        (LLAMA, "openai", "qwen", "llama.cpp", 2048),
        ({"/v1/models": LLAMA["/v1/models"]}, "openai", "qwen", "llama.cpp", 4096),
        (VLLM, "hosted_vllm", "Qwen/Qwen3-4B", "vLLM", 16384),
        (STUDIO, "lm_studio", "qwen3-4b", "LM Studio", 8192),
        ({"/v1/models": {"data": [{"id": "m"}]}}, "openai", "m", "server of OpenAI's protocol", None),
    ],
)  # fmt: skip
def test_windows(
    server: Server, pages: dict[str, Any], provider: str, model: str, kind: str, window: int | None
) -> None:
    server.pages = pages
    settings = entry(provider, model, server.base if provider.startswith("ollama") else f"{server.base}/v1")
    found = served(settings)
    assert found is not None
    assert (found.kind, found.problem, found.window) == (kind, "", window)
    assert facts(settings).context_window == (None if window is None else window - min(window // 4, 2048))
    asked = len(server.asked)
    assert served(settings) is found, "asked once in a while"
    assert len(server.asked) == asked


def test_what_the_settings_say_wins(server: Server) -> None:
    server.pages = OLLAMA
    assert facts(entry("ollama", "qwen3:4b", server.base, context_window=1234)).context_window == 1234
    with_window = entry("ollama_chat", "qwen3:4b", server.base, call_args={"num_ctx": 8192, "max_tokens": 500})
    assert facts(with_window).context_window == 8192 - 500
    beyond = entry("ollama_chat", "qwen3:4b", server.base, call_args={"num_ctx": 100_000})
    found = served(beyond)
    assert found is not None
    assert found.window == 40960, "never more than the model was made for"


def test_the_key_goes_along_and_none_is_needed(server: Server) -> None:
    server.pages = VLLM
    served(entry("hosted_vllm", "Qwen/Qwen3-4B", f"{server.base}/v1"))
    served(entry("hosted_vllm", "Qwen/Qwen3-4B", f"{server.base}", api_key="secret-key-1"))
    assert server.keys == [None, "Bearer secret-key-1"]


@pytest.mark.parametrize("page", [b"<html>", [], {"data": "x"}, {"data": [{"id": 5}]}, {"data": [{"meta": 1}]}])
def test_strange_answers_are_no_failure(server: Server, page: Any) -> None:
    server.pages = dict.fromkeys(["/v1/models", "/props", "/api/show", "/api/ps", "/api/v0/models"], page)
    for provider in ("ollama", "llamafile", "hosted_vllm", "lm_studio", "openai"):
        found = served(entry(provider, "m", server.base))
        assert found is not None
        assert found.window is None


def test_a_server_without_a_list_of_models_is_no_failure(tmp_path: Path, server: Server) -> None:
    findings = told(tmp_path, entry("openai", "mine", f"{server.base}/v1", context_window=9000))
    assert {f.status for f in findings if "price" not in f.detail} == {"ok"}


async def _opened(settings: Settings, root: Path) -> float:
    """Longest time for which the event loop stood still while a gateway was opened and a model connected."""
    stood, last = 0.0, time.monotonic()

    async def tick() -> None:
        nonlocal stood, last
        while True:
            await asyncio.sleep(0.01)
            stood, last = max(stood, time.monotonic() - last), time.monotonic()

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    async with Gateway(Workspace(root=root, settings=settings)) as gateway:
        assert gateway.facts("chat").context_window == 2048 - 512
    await asyncio.sleep(0.02)
    ticking.cancel()
    return stood


def test_the_event_loop_does_not_wait_for_a_slow_server(tmp_path: Path, server: Server) -> None:
    server.pages, server.delay = LLAMA, 0.8
    settings = Settings(completion_models={"chat": entry("llamafile", "qwen", f"{server.base}/v1")})
    assert asyncio.run(_opened(settings, tmp_path)) < 0.7


def test_who_is_asked(server: Server) -> None:
    assert [
        is_local(f"http://{host}:1/v1") for host in ("localhost", "127.0.0.1", "[::1]", "192.168.1.9", "ollama")
    ] == [True] * 5
    assert [is_local(f"https://{host}/v1") for host in ("api.openai.com", "8.8.8.8", "models.example.org")] == [
        False
    ] * 3
    assert not runs_locally(ModelSettings(model="gpt-4o-mini"))
    assert facts(entry("openai", "gpt-4o-mini", f"{server.base}/v1")).context_window == 128_000
    assert server.asked == [], "a model that the table knows behind an address of this machine: a proxy"


# --- doctor ---


def told(root: Path, model: ModelSettings, **sections: Any) -> list[Finding]:
    local_servers._KNOWN.clear()
    settings = Settings.model_validate({"completion_models": {"default_completion_model": model}, **sections})
    return [f for f in models(Workspace(root=root, settings=settings)) if f.name == "model default_completion_model"]


def test_doctor_on_a_server_that_is_down(tmp_path: Path) -> None:
    found = told(tmp_path, entry("ollama", "qwen3:4b", "http://127.0.0.1:9"))
    (down,) = [f for f in found if f.status == "fail"]
    assert "does not answer" in down.detail
    assert "start the server" in down.mend


def test_doctor_on_a_model_that_is_not_there(tmp_path: Path, server: Server) -> None:
    server.pages = OLLAMA
    (missing,) = [f for f in told(tmp_path, entry("ollama", "llama3.1", server.base)) if f.status == "fail"]
    assert "no model 'llama3.1'; it has qwen3:4b" in missing.detail
    assert "ollama pull llama3.1" in missing.mend


def test_doctor_on_windows(tmp_path: Path, server: Server) -> None:
    server.pages = OLLAMA
    warned = [f for f in told(tmp_path, entry("ollama", "qwen3:4b", server.base)) if f.status == "warn"]
    assert any("Ollama cuts prompts" in f.detail and "num_ctx" in f.mend for f in warned)
    assert any("do not fit" in f.detail for f in warned)
    server.pages = VLLM
    small = {"community_reports": {"max_input_length": 4000}, "chunking": {"size": 600}}
    good = told(
        tmp_path, entry("hosted_vllm", "Qwen/Qwen3-4B", f"{server.base}/v1", prices={"input_per_million": 0}), **small
    )
    assert {f.status for f in good} == {"ok"}
    assert any("share a window of 16384 tokens" in f.detail for f in good)


def test_plan_needs_no_key(tmp_path: Path, server: Server) -> None:
    server.pages = LLAMA
    model = {"model_provider": "llamafile", "model": "qwen", "api_base": f"{server.base}/v1"}
    root = make_workspace(
        tmp_path, {"a.txt": "Ada Finch met Tom Finch."}, completion_models={"default_completion_model": model}
    )
    planned = invoke("plan", "--root", root, "--json").json
    assert planned["text_units"]["extracted"] == 1
    assert not {"/v1/chat/completions", "/v1/embeddings"} & set(server.asked)


# --- recipes ---

RECIPES = {
    "Ollama": "ollama_chat/qwen3:4b",
    "vLLM": "hosted_vllm/Qwen/Qwen3-4B",
    "llama.cpp": "llamafile/qwen2.5-1.5b",
    "LM Studio": "lm_studio/qwen3-4b",
}


@pytest.mark.parametrize("kind", sorted(RECIPES))
def test_the_recipes_of_the_docs_are_what_init_writes(tmp_path: Path, kind: str) -> None:
    section = DOCS.read_text(encoding="utf-8").split(f"\n## {kind}\n")[1].split("\n## ")[0]
    assert f"--model {RECIPES[kind]}" in section
    block = yaml.safe_load(section.split("```yaml\n")[1].split("```")[0])
    init_workspace(tmp_path, RECIPES[kind])
    written = yaml.safe_load((tmp_path / "settings.yaml").read_text(encoding="utf-8"))
    assert block == {name: written[name] for name in block}
    workspace = load_workspace(tmp_path)
    assert workspace.notices == (), "no key is missed"
    assert workspace.settings.concurrent_requests == 2
    assert workspace.settings.effective_method == "standard"
