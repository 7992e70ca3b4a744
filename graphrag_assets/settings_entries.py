"""The settings of one model: an entry of completion_models or embedding_models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr

from graphrag_assets.settings_sections import Section


class Prices(Section):
    """Prices of a model in USD; they win over the price table of LiteLLM."""

    input_per_million: float = Field(ge=0, description="USD per million prompt tokens.")
    output_per_million: float = Field(0.0, ge=0, description="USD per million completion tokens.")


class RetrySettings(Section):
    """How failed calls are repeated."""

    type: Literal["exponential_backoff", "immediate"] = Field("exponential_backoff", description="Waiting rule.")
    max_retries: int = Field(
        7, ge=0, description="Repeats of a call that failed for a passing reason (429, 5xx, timeout)."
    )
    base_delay: float = Field(2.0, gt=0, description="Factor by which the wait grows.")
    max_delay: float | None = Field(60.0, description="Longest wait in seconds; a Retry-After header may ask for more.")
    jitter: bool = Field(True, description="Spread the waits at random.")


class RateLimitSettings(Section):
    """Limits of the provider; without them the gateway only follows the provider's answers."""

    type: Literal["sliding_window"] = Field("sliding_window", description="Kind of limit.")
    period_in_seconds: int = Field(60, gt=0, description="Length of the window.")
    requests_per_period: int | None = Field(None, gt=0, description="Requests in a window.")
    tokens_per_period: int | None = Field(None, gt=0, description="Prompt and completion tokens in a window.")


class BatchApiSettings(Section):
    """Questions of an index run go to the provider as files, answered within a day for half the price."""

    min_requests: int = Field(
        50,
        gt=0,
        description="Fewer questions than this are asked by ordinary calls: a batch of them is not worth a wait.",
    )
    max_requests: int = Field(50_000, gt=0, description="Most questions in a file; OpenAI takes 50,000.")
    max_bytes: int = Field(100_000_000, gt=0, description="Largest file in bytes; OpenAI takes 200 MB.")
    price: float = Field(0.5, ge=0, le=1, description="Price of a question in a batch, as a share of that of a call.")
    completion_window: str = Field("24h", description="Within what time the provider is asked to answer.")
    max_hours: float = Field(
        26.0, gt=0, description="Hours after which a batch is cancelled; what it has answered by then is used."
    )
    poll_seconds: float = Field(
        60.0, gt=0, description="Seconds between two looks at a batch, where a command waits for it."
    )


def _switch_to_section(value: Any) -> Any:
    """A section that can be switched on without a further word."""
    return {} if value is True else None if value is False else value


class ModelSettings(Section):
    """One model that LiteLLM can reach."""

    type: Literal["litellm"] = Field("litellm", description="Always litellm.")
    model_provider: str = Field(
        "openai", description="Provider as LiteLLM names it, such as openai, azure, anthropic, ollama."
    )
    model: str = Field(description="Model name at the provider.")
    api_base: str | None = Field(None, description="Address of the endpoint, where it is not the provider's own.")
    api_version: str | None = Field(None, description="API version (Azure).")
    azure_deployment_name: str | None = Field(
        None, description="Deployment name (Azure), where it differs from the model."
    )
    auth_method: Literal["api_key", "azure_managed_identity"] = Field(
        "api_key", description="How calls are authorised."
    )
    api_key: SecretStr | None = Field(None, description="Key; write ${NAME} and keep the key in the environment.")
    call_args: dict[str, Any] = Field(
        default_factory=dict, description="Parameters sent with each call, such as temperature."
    )
    retry: RetrySettings = Field(default_factory=RetrySettings, description="How failed calls are repeated.")
    rate_limit: RateLimitSettings | None = Field(None, description="Limits of the provider.")
    prices: Prices | None = Field(None, description="Prices of the model.")
    timeout: float = Field(180.0, gt=0, description="Seconds until a call is given up.")
    structured_output: bool | None = Field(
        None, description="Ask for JSON by schema; unset: where the model is known to support it."
    )
    context_window: int | None = Field(
        None, gt=0, description="Largest prompt in tokens; unset: as LiteLLM's table says."
    )
    batch_size: int | None = Field(
        None, gt=0, description="Texts in one embedding call, where it differs from embed_text.batch_size."
    )
    batch_api: Annotated[BatchApiSettings | None, BeforeValidator(_switch_to_section)] = Field(
        None,
        description="Send the questions of index runs through the provider's batch API; true: with the usual figures.",
    )
    client: Literal["auto", "direct", "litellm"] = Field(
        "auto",
        description="direct: plain HTTP, OpenAI-compatible; litellm: through LiteLLM; auto: direct where the provider speaks it.",
    )
    answer_attempts: int = Field(
        4,
        gt=0,
        description="Answers asked for until one can be used (not an empty one, or one that cannot be parsed); the last time, "
        "the model is told what was wrong.",
    )
    fallback_model_id: str | None = Field(
        None, description="Entry of completion_models that is asked where this one gave no usable answer."
    )
    document_prefix: str = Field(
        "", description="Written before each text to embed, for embedding models that want it (such as 'passage: ')."
    )
    query_prefix: str = Field(
        "", description="Written before each question to embed, for embedding models that want it (such as 'query: ')."
    )
