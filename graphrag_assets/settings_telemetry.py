"""The section ``telemetry`` of settings.yaml: who else is told what the calls to models and the runs do."""

from __future__ import annotations

from pydantic import Field, SecretStr, field_validator

from graphrag_assets.settings_sections import Section


class TelemetrySettings(Section):
    """Traces and metrics by OpenTelemetry, and callbacks of LiteLLM; all off by default."""

    traces: bool = Field(
        False,
        description="Send traces: a span for each run, step, question and call to a model (GenAI conventions). "
        "Needs the extra telemetry.",
    )
    metrics: bool = Field(
        False, description="Send metrics: tokens and duration of the calls to models. Needs the extra telemetry."
    )
    endpoint: str | None = Field(
        None,
        description="Address of a collector (OTLP over HTTP), such as http://localhost:4318; unset: as "
        "OTEL_EXPORTER_OTLP_ENDPOINT says, else that one.",
    )
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="Headers sent with the export, such as authorization: ${NAME}."
    )
    service_name: str | None = Field(
        None, description="Name of the service in traces; unset: as OTEL_SERVICE_NAME says, else graphrag-assets."
    )
    capture_content: bool = Field(
        False, description="Put questions, prompts and answers into traces and callbacks; without it none is in them."
    )
    litellm_callbacks: list[str] = Field(
        default_factory=list,
        description="Callbacks of LiteLLM (success and failure), such as langfuse, or package.module.object for one of your "
        "own. Calls then go through LiteLLM, except those of an entry with client: direct.",
    )

    @field_validator("endpoint")
    @classmethod
    def _is_an_address(cls, address: str | None) -> str | None:
        if address is not None and not address.startswith(("http://", "https://")):
            raise ValueError("expected an address that begins with http:// or https://")
        return address.rstrip("/") if address else address
