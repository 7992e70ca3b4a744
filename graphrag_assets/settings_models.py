"""Which stage uses which model, and whether the entries of models make sense."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphrag_assets.settings import DEFAULT_COMPLETION_MODEL, DEFAULT_EMBEDDING_MODEL, ModelSettings, Notice, Settings
from graphrag_assets.settings_source import KeyPath

SEARCHES = ("local_search", "global_search", "drift_search", "basic_search")
_COMPLETION_SECTIONS = (
    "extract_graph",
    "summarize_descriptions",
    "extract_claims",
    "entity_resolution",
    "community_reports",
    *SEARCHES,
)
_EMBEDDING_SECTIONS = ("embed_text", "local_search", "drift_search", "basic_search")

#: Id of the chat model in settings of Microsoft GraphRAG version 2.
_VERSION_2_COMPLETION_MODEL = "default_chat_model"

#: Providers that run on one's own machine or take credentials of a cloud instead of a key.
KEYLESS_PROVIDERS = frozenset(
    {
        "bedrock", "hosted_vllm", "llamafile", "lm_studio", "ollama", "ollama_chat", "oobabooga", "petals", "sagemaker",
        "sagemaker_chat", "triton", "vertex_ai", "vllm", "watsonx", "xinference",
    }
)  # fmt: skip


#: Providers whose batch API is reached: those that speak OpenAI's protocol, and those that LiteLLM translates for.
BATCH_PROVIDERS = frozenset(
    {"azure", "bedrock", "hosted_vllm", "litellm_proxy", "mistral", "openai", "openai_like", "vertex_ai", "xai"}
)


@dataclass(frozen=True)
class ModelUse:
    """One stage and the model it uses.

    Args:
        stage: Section of the stage.
        key: Key of that section that names the entry.
        section: completion_models or embedding_models.
        model_id: Id of the entry.
    """

    stage: str
    key: str
    section: str
    model_id: str


def model_uses(settings: Settings) -> list[ModelUse]:
    """The models that the effective method and the searches use; embedded models are not among them."""
    stages: list[str] = []
    if settings.effective_method == "standard":
        stages = ["extract_graph", "summarize_descriptions"]
        stages += ["extract_claims"] if settings.extract_claims.enabled else []
        stages += ["entity_resolution"] if settings.entity_resolution.llm else []
        stages += ["community_reports"]
    if settings.completion_models:
        stages += [*SEARCHES, *(["auto_search"] if settings.auto_search.completion_model_id else [])]
    uses = [
        ModelUse(stage, "completion_model_id", "completion_models", getattr(settings, stage).completion_model_id)
        for stage in stages
    ]
    if settings.embedding_models:
        uses += [
            ModelUse(stage, "embedding_model_id", "embedding_models", getattr(settings, stage).embedding_model_id)
            for stage in _EMBEDDING_SECTIONS
        ]
    return uses


def fill_model_ids(tree: dict[str, Any]) -> None:
    """Let stages that name no model use the default entry or, where there is only one entry, that one.

    Args:
        tree: Settings tree; changed in place.
    """
    for models, key, sections, defaults in (
        (
            "completion_models",
            "completion_model_id",
            _COMPLETION_SECTIONS,
            (DEFAULT_COMPLETION_MODEL, _VERSION_2_COMPLETION_MODEL),
        ),
        ("embedding_models", "embedding_model_id", _EMBEDDING_SECTIONS, (DEFAULT_EMBEDDING_MODEL,)),
    ):
        entries = tree.get(models)
        if not isinstance(entries, dict) or not entries:
            continue
        chosen = next(
            (name for name in defaults if name in entries), next(iter(entries)) if len(entries) == 1 else None
        )
        if chosen is None or chosen == defaults[0]:
            continue
        for section in sections:
            if isinstance(tree.setdefault(section, {}), dict):
                tree[section].setdefault(key, chosen)


def check_models(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    """What is wrong with the models of the effective method: ids without entry, entries that contradict themselves."""
    if settings.method == "standard" and not settings.completion_models:
        yield ("method",), "standard needs an entry in completion_models; add one, or set method: fast"
        return
    for use in model_uses(settings):
        entries = getattr(settings, use.section)
        if use.model_id not in entries:
            close = difflib.get_close_matches(use.model_id, entries, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            yield (
                (use.stage, use.key),
                f"{use.section} has no entry {use.model_id!r}, it has {', '.join(sorted(entries))}{hint}",
            )
    for model_id, entry in settings.completion_models.items():
        if (other := entry.fallback_model_id) is not None and (
            other == model_id or other not in settings.completion_models
        ):
            others = sorted(settings.completion_models.keys() - {model_id})
            wrong = "names its own entry" if other == model_id else f"completion_models has no entry {other!r}"
            yield (
                ("completion_models", model_id, "fallback_model_id"),
                f"{wrong}; others are {', '.join(others) or 'none'}",
            )
    for section in ("completion_models", "embedding_models"):
        for model_id, entry in getattr(settings, section).items():
            if entry.batch_api is not None and not settings.cache.enabled:
                yield (
                    (section, model_id, "batch_api"),
                    "needs cache.enabled: true, since the cache is where answers wait for the run that goes on",
                )
            for key, message in _check_entry(entry):
                yield (section, model_id, *key), message


def _check_entry(entry: ModelSettings) -> Iterator[tuple[KeyPath, str]]:
    azure = entry.model_provider == "azure"
    if not entry.model.strip():
        yield ("model",), "is empty; write the name of the model at the provider"
    if azure and not entry.api_base:
        yield ("api_base",), "the provider azure needs it, such as https://NAME.openai.azure.com"
    if entry.azure_deployment_name and not azure:
        yield ("azure_deployment_name",), f"is only for the provider azure, not {entry.model_provider}"
    if entry.auth_method == "azure_managed_identity" and entry.api_key is not None:
        yield ("api_key",), "must not be set with auth_method: azure_managed_identity; remove one of them"
    if entry.auth_method == "azure_managed_identity" and not azure:
        yield ("auth_method",), f"azure_managed_identity is only for the provider azure, not {entry.model_provider}"
    if entry.batch_api is not None and entry.model_provider not in BATCH_PROVIDERS and entry.client != "direct":
        yield ("batch_api",), f"LiteLLM knows no batch API of {entry.model_provider}; remove it"
    limit = entry.rate_limit
    if limit and limit.requests_per_period is None and limit.tokens_per_period is None:
        yield ("rate_limit",), "needs requests_per_period or tokens_per_period; remove it where there is no limit"
    if entry.retry.type == "exponential_backoff" and entry.retry.base_delay <= 1:
        yield ("retry", "base_delay"), f"must be above 1, else waits do not grow, found {entry.retry.base_delay:g}"
    if entry.retry.max_delay is not None and entry.retry.max_delay <= 0:
        yield ("retry", "max_delay"), f"must be above 0 seconds, found {entry.retry.max_delay:g}"


def has_key(entry: ModelSettings) -> bool:
    """Whether calls can be authorised: by a key, the provider's own variable, or because none may be needed."""
    return bool(
        (entry.api_key and entry.api_key.get_secret_value().strip())
        or entry.auth_method != "api_key"
        or entry.model_provider in KEYLESS_PROVIDERS
        or (entry.api_base and entry.model_provider != "azure")
        or os.environ.get(key_variable(entry.model_provider))
        or (
            entry.model_provider == "openai"
            and (os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE"))
        )
    )


def key_variable(provider: str) -> str:
    """The environment variable in which LiteLLM looks for the key of a provider."""
    return {"together_ai": "TOGETHERAI_API_KEY"}.get(provider, f"{provider.upper()}_API_KEY")


def missing_keys(settings: Settings) -> list[Notice]:
    """One notice for each used model whose key is missing or empty."""
    uses = {(use.section, use.model_id) for use in model_uses(settings)}
    following = {
        entry.fallback_model_id
        for section, model_id in uses
        if section == "completion_models" and (entry := settings.completion_models.get(model_id)) is not None
    }
    used = sorted(uses | {("completion_models", model_id) for model_id in following if model_id is not None})
    notices = []
    for section, model_id in used:
        entry = getattr(settings, section).get(model_id)
        if entry is not None and not has_key(entry):
            why = f"put the key into .env and write api_key: ${{NAME}}, or set {key_variable(entry.model_provider)}"
            notices.append(Notice(f"{section}.{model_id}.api_key", "missing or empty", why))
    return notices
