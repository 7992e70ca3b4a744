"""What a model server on one's own machine or network says of itself: Ollama, vLLM, llama.cpp, LM Studio.

Only questions that cost nothing are asked: which models there are, and how large the window is. Prompt and answer share
the window of such a server, and what is longer is refused, or, by Ollama, cut without a word; so it must be known before.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from graphrag_assets.llm.errors import GatewayError
from graphrag_assets.llm.providers.clients import endpoint
from graphrag_assets.settings import ModelSettings

#: Providers whose servers run on one's own machine or network.
LOCAL_PROVIDERS = frozenset({"ollama", "ollama_chat", "hosted_vllm", "lm_studio", "llamafile"})

#: Providers that stand for any server of OpenAI's protocol: it may be one of one's own.
_OPENAI = frozenset({"openai", "openai_like"})

#: Window of an Ollama model that neither the call nor the model file sets, as long as the server is not told otherwise.
OLLAMA_WINDOW = 4096

#: Part of a window that is left to the answer where max_tokens does not say how long it may be, and the most of it.
_ANSWER_SHARE, _ANSWER_MOST = 0.25, 2048

#: Seconds to wait for a server, and for which what it said holds; what it did not say is asked for sooner.
_TIMEOUT, _KEEP, _KEEP_SILENCE = 2.0, 300.0, 15.0

#: Longest answer that is read, in bytes: chat templates stand in it.
_MOST = 4_000_000

#: A proxy of the environment is for the world outside.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Served:
    """A model on its server.

    Args:
        kind: Ollama, vLLM, llama.cpp, LM Studio, or a server of OpenAI's protocol.
        address: Address of the server.
        problem: Why it cannot be used; empty where it can.
        models: Names of its models.
        window: Tokens that prompt and answer share; None where it does not say.
        largest: Largest window that the model was made for.
        assumed: True where the window is what such a server does unless it is told otherwise.
    """

    kind: str
    address: str
    problem: str = ""
    models: tuple[str, ...] = ()
    window: int | None = None
    largest: int | None = None
    assumed: bool = False

    def prompt_room(self, model: ModelSettings) -> int | None:
        """Most tokens of a prompt, with room left for the answer."""
        if self.window is None:
            return None
        wanted = [model.call_args.get(name) for name in ("max_tokens", "max_completion_tokens", "num_predict")]
        answer = next((n for n in wanted if isinstance(n, int) and n > 0), None)
        room = min(int(self.window * _ANSWER_SHARE), _ANSWER_MOST) if answer is None else answer
        return max(1, self.window - room)


_KNOWN: dict[tuple[str, str, int | None], tuple[float, Served]] = {}


def is_local(address: str) -> bool:
    """Whether an address is on this machine or on a network of one's own."""
    host = urlsplit(address).hostname or ""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".lan", ".internal", ".localhost"))
    return found.is_loopback or found.is_private


def runs_locally(model: ModelSettings) -> bool:
    """Whether the model of an entry runs on a server of one's own."""
    if model.model_provider in LOCAL_PROVIDERS:
        return True
    return model.model_provider in _OPENAI and model.api_base is not None and is_local(model.api_base)


def served(model: ModelSettings) -> Served | None:
    """What the server of a model says; None where it is no server of one's own.

    The answer is kept for some minutes. The first call waits for the server, two seconds at most for each question.
    """
    if not runs_locally(model):
        return None
    try:
        where = endpoint("", model)
    except GatewayError as error:
        return Served("server", "", problem=str(error).removeprefix(": "))
    if where.base is None:
        return None
    key = (where.base, model.model, _set_window(model))
    kept = _KNOWN.get(key)
    if kept is None or kept[0] < time.monotonic():
        found = _ask(model, where.base.removesuffix("/v1"), where.key)
        kept = time.monotonic() + (_KEEP if found.window else _KEEP_SILENCE), found
        _KNOWN[key] = kept
    return kept[1]


def _ask(model: ModelSettings, root: str, key: str | None) -> Served:
    """Ask the server what it is, by what only one kind answers."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        listed = _get(f"{root}/v1/models", headers)
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            return Served("server", root, problem=f"it refuses the key, or wants one (HTTP {error.code})")
        listed = {}  # it answers, but has no list of models
    except OSError as error:
        return Served("server", root, problem=f"it does not answer ({getattr(error, 'reason', None) or error})")
    entries = [row for row in _list(listed.get("data")) if isinstance(row.get("id"), str)]
    names = tuple(str(row["id"]) for row in entries)
    own = next(
        (row for row in entries if row["id"] == model.model or model.model in _list_of_text(row.get("aliases"))), {}
    )
    if model.model_provider.startswith("ollama"):
        return _ollama(model, root, headers, names)
    owner = {str(row.get("owned_by")) for row in entries}
    if "llamacpp" in owner or model.model_provider == "llamafile":
        return _llama_cpp(root, headers, names, entries)
    if "vllm" in owner or any("max_model_len" in row for row in entries):
        return Served("vLLM", root, models=names, window=_number((own or _first(entries)).get("max_model_len")))
    if found := _lm_studio(model, root, headers):
        return found
    if "library" in owner and (ollama := _ollama(model, root, headers, names)).window:
        return ollama
    return Served("server of OpenAI's protocol", root, models=names)


def _ollama(model: ModelSettings, root: str, headers: Mapping[str, str], names: tuple[str, ...]) -> Served:
    """Ollama: the window of the call, of the loaded model, of its file, or the server's own."""
    shown = _get(f"{root}/api/show", headers, {"model": model.model}, quiet=True)
    about = shown.get("model_info")
    largest = next(
        (_number(v) for k, v in about.items() if k.endswith(".context_length"))
        if isinstance(about, dict)
        else iter(()),
        None,
    )
    if (window := _set_window(model)) is not None:
        return Served("Ollama", root, models=names, window=min(window, largest or window), largest=largest)
    loaded = _list(_get(f"{root}/api/ps", headers, quiet=True).get("models"))
    running = next((row for row in loaded if model.model in (row.get("model"), row.get("name"))), {})
    window = _number(running.get("context_length")) or _parameter(str(shown.get("parameters", "")), "num_ctx")
    if window is None and not shown.keys().isdisjoint({"model_info", "modelfile", "details"}):
        return Served("Ollama", root, "", names, min(OLLAMA_WINDOW, largest or OLLAMA_WINDOW), largest, assumed=True)
    return Served("Ollama", root, models=names, window=window, largest=largest)


def _llama_cpp(root: str, headers: Mapping[str, str], names: tuple[str, ...], entries: list[dict[str, Any]]) -> Served:
    """llama.cpp: the window of one slot; several share what the server was started with."""
    meta = _first(entries).get("meta")
    meta = meta if isinstance(meta, dict) else {}
    slot = _get(f"{root}/props", headers, quiet=True).get("default_generation_settings")
    window = _number(slot.get("n_ctx")) if isinstance(slot, dict) else None
    return Served(
        "llama.cpp",
        root,
        models=names,
        window=window or _number(meta.get("n_ctx")),
        largest=_number(meta.get("n_ctx_train")),
    )


def _lm_studio(model: ModelSettings, root: str, headers: Mapping[str, str]) -> Served | None:
    """LM Studio: the window with which the model is loaded, else nothing; it is chosen in the program."""
    rows = _list(_get(f"{root}/api/v0/models", headers, quiet=True).get("data"))
    if not rows:
        return None
    own = next((row for row in rows if row.get("id") == model.model), {})
    return Served(
        "LM Studio",
        root,
        models=tuple(str(row["id"]) for row in rows if "id" in row),
        window=_number(own.get("loaded_context_length")),
        largest=_number(own.get("max_context_length")),
    )


def _set_window(model: ModelSettings) -> int | None:
    """The window that a call sets itself, which Ollama's own protocol can."""
    return _number(model.call_args.get("num_ctx")) if model.model_provider.startswith("ollama") else None


def _get(
    url: str, headers: Mapping[str, str], body: Mapping[str, Any] | None = None, *, quiet: bool = False
) -> dict[str, Any]:
    """A JSON object; empty where the server answers with something else, or, if ``quiet``, not at all."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})  # noqa: S310 (http)
    try:
        with _OPENER.open(request, timeout=_TIMEOUT) as response:
            found = json.loads(response.read(_MOST))
    except ValueError:
        return {}
    except (OSError, http.client.HTTPException) as error:
        if quiet:
            return {}
        raise error if isinstance(error, OSError) else OSError(f"it speaks no HTTP: {error}") from None
    return found if isinstance(found, dict) else {}


def _list(value: Any) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _list_of_text(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _first(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return rows[0] if rows else {}


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _parameter(text: str, name: str) -> int | None:
    """A parameter of a model file, as ``num_ctx    8192`` stands in what Ollama shows."""
    lines: Iterator[list[str]] = (line.split() for line in text.splitlines())
    return next((int(words[1]) for words in lines if len(words) > 1 and words[0] == name and words[1].isdigit()), None)
