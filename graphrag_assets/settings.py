"""settings.yaml and the environment as one typed model.

The sections are in :mod:`graphrag_assets.settings_sections`, those on questions in
:mod:`graphrag_assets.settings_searches`; loading, substitution of ``${ENV}``, environment overrides and the translation of
the reference's files in :mod:`graphrag_assets.settings_file`.

Without any settings the embedded defaults run: no key, no network.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from graphrag_assets.settings_automation import AutomationSettings
from graphrag_assets.settings_entries import BatchApiSettings, ModelSettings, Prices, RateLimitSettings, RetrySettings
from graphrag_assets.settings_searches import (
    AutoSearchSettings,
    BasicSearchSettings,
    DriftSearchSettings,
    GlobalSearchSettings,
    LocalSearchSettings,
    QuerySettings,
)
from graphrag_assets.settings_sections import (
    DEFAULT_COMPLETION_MODEL,
    DEFAULT_EMBEDDING_MODEL,
    BatchSettings,
    BudgetSettings,
    CacheSettings,
    CheckSettings,
    ChunkingSettings,
    ClusterGraphSettings,
    CommunityReportsSettings,
    EmbeddedModelsSettings,
    EmbedTextSettings,
    EntityResolutionSettings,
    ExtractClaimsSettings,
    ExtractGraphNlpSettings,
    ExtractGraphSettings,
    FolderSettings,
    InputSettings,
    LimitsSettings,
    PruneGraphSettings,
    Section,
    StorageSettings,
    SummarizeSettings,
    TextAnalyzerSettings,
)
from graphrag_assets.settings_telemetry import TelemetrySettings

__all__ = [
    "DEFAULT_COMPLETION_MODEL",
    "DEFAULT_EMBEDDING_MODEL",
    "AutoSearchSettings",
    "AutomationSettings",
    "BasicSearchSettings",
    "BatchApiSettings",
    "BatchSettings",
    "CacheSettings",
    "CheckSettings",
    "ChunkingSettings",
    "ClusterGraphSettings",
    "CommunityReportsSettings",
    "DriftSearchSettings",
    "EmbedTextSettings",
    "EmbeddedModelsSettings",
    "EntityResolutionSettings",
    "ExtractClaimsSettings",
    "ExtractGraphNlpSettings",
    "ExtractGraphSettings",
    "FolderSettings",
    "GlobalSearchSettings",
    "InputSettings",
    "LimitsSettings",
    "LocalSearchSettings",
    "Method",
    "ModelSettings",
    "Notice",
    "Prices",
    "PruneGraphSettings",
    "QuerySettings",
    "RateLimitSettings",
    "RetrySettings",
    "Section",
    "Settings",
    "StorageSettings",
    "SummarizeSettings",
    "TelemetrySettings",
    "TextAnalyzerSettings",
    "Workspace",
]

Method = Literal["standard", "fast"]


def _blank_to_default(value: Any) -> Any:
    """An empty section in YAML is null: take it as the defaults."""
    return {} if value is None else value


class Settings(Section):
    """All settings of a workspace."""

    method: Method | None = Field(
        None, description="standard (LLM) or fast (no LLM); unset: standard where a completion model is configured."
    )
    completion_models: dict[str, ModelSettings] = Field(default_factory=dict, description="Chat models by id.")
    embedding_models: dict[str, ModelSettings] = Field(
        default_factory=dict, description="Embedding models by id; none: the embedded model."
    )
    concurrent_requests: int = Field(25, gt=0, description="Calls in flight at once.")
    input: Annotated[InputSettings, BeforeValidator(_blank_to_default)] = Field(
        default_factory=InputSettings, description="What is read."
    )
    input_storage: FolderSettings = Field(default_factory=FolderSettings, description="Where documents are.")
    storage: StorageSettings = Field(default_factory=StorageSettings, description="Where the index lives.")
    cache: CacheSettings = Field(default_factory=CacheSettings, description="Where answers of models are kept.")
    limits: LimitsSettings = Field(
        default_factory=LimitsSettings, description="Where calls are counted, so that limits are kept by all together."
    )
    batches: BatchSettings = Field(default_factory=BatchSettings, description="How documents are grouped.")
    automation: AutomationSettings = Field(
        default_factory=AutomationSettings, description="What the daemon does by itself."
    )
    chunking: ChunkingSettings = Field(
        default_factory=ChunkingSettings, description="How documents are cut into text units."
    )
    extract_graph: ExtractGraphSettings = Field(default_factory=ExtractGraphSettings, description="LLM extraction.")
    summarize_descriptions: SummarizeSettings = Field(
        default_factory=SummarizeSettings, description="Merging descriptions."
    )
    extract_claims: ExtractClaimsSettings = Field(
        default_factory=ExtractClaimsSettings, description="LLM extraction of claims."
    )
    extract_graph_nlp: ExtractGraphNlpSettings = Field(
        default_factory=ExtractGraphNlpSettings, description="Extraction without an LLM."
    )
    prune_graph: PruneGraphSettings = Field(
        default_factory=PruneGraphSettings, description="What the fast method drops."
    )
    entity_resolution: EntityResolutionSettings = Field(
        default_factory=EntityResolutionSettings, description="Which titles are one entity."
    )
    cluster_graph: ClusterGraphSettings = Field(
        default_factory=ClusterGraphSettings, description="Community detection."
    )
    community_reports: CommunityReportsSettings = Field(
        default_factory=CommunityReportsSettings, description="Reports on communities."
    )
    embed_text: EmbedTextSettings = Field(default_factory=EmbedTextSettings, description="Embeddings.")
    embedded_models: EmbeddedModelsSettings = Field(
        default_factory=EmbeddedModelsSettings, description="Models without a key."
    )
    local_search: LocalSearchSettings = Field(default_factory=LocalSearchSettings, description="Local search.")
    global_search: GlobalSearchSettings = Field(default_factory=GlobalSearchSettings, description="Global search.")
    drift_search: DriftSearchSettings = Field(default_factory=DriftSearchSettings, description="DRIFT search.")
    basic_search: BasicSearchSettings = Field(default_factory=BasicSearchSettings, description="Basic search.")
    budget: BudgetSettings = Field(default_factory=BudgetSettings, description="What an index run may spend.")
    auto_search: AutoSearchSettings = Field(
        default_factory=AutoSearchSettings, description="How method auto chooses a search."
    )
    query: QuerySettings = Field(default_factory=QuerySettings, description="Ceilings, suggestions.")
    checks: CheckSettings = Field(default_factory=CheckSettings, description="Limits of the data-quality checks.")
    telemetry: Annotated[TelemetrySettings, BeforeValidator(_blank_to_default)] = Field(
        default_factory=TelemetrySettings, description="Who else is told what runs and calls to models do."
    )
    language: str | None = Field(None, description="Language of the corpus (ISO 639-1); unset: detected per document.")

    @property
    def effective_method(self) -> Method:
        """The method that runs: as set, else standard where a completion model is configured, else fast."""
        return self.method or ("standard" if self.completion_models else "fast")

    def completion_model(self, model_id: str) -> ModelSettings:
        """The chat model with this id.

        Raises:
            KeyError: No such entry; the message names those that exist.
        """
        return _entry(self.completion_models, model_id, "completion_models")

    def embedding_model(self, model_id: str) -> ModelSettings | None:
        """The embedding model with this id; None where none is configured, so that the embedded model serves."""
        return _entry(self.embedding_models, model_id, "embedding_models") if self.embedding_models else None


def _entry(models: dict[str, ModelSettings], model_id: str, section: str) -> ModelSettings:
    if model_id not in models:
        raise KeyError(f"settings: {section} has no entry {model_id!r}; it has {sorted(models) or 'none'}")
    return models[model_id]


@dataclass(frozen=True)
class Notice:
    """What became of one key that is understood but does not work as written.

    Args:
        key: Full dotted path of the key, as it stands in the file.
        what: What became of it, such as "not used" or "read as chunking.size".
        why: The reason, and what to do instead.
        harmless: True where the result is what the key asks for, so that nobody need act.
    """

    key: str
    what: str
    why: str
    harmless: bool = False

    def __str__(self) -> str:
        return f"{self.key}: {self.what}" + (f": {self.why}" if self.why else "")


class Workspace(BaseModel):
    """A root folder with its settings: what every command and asset works on.

    Args:
        root: Absolute path of the folder that holds settings.yaml; relative paths in the settings start here.
        settings: The typed settings.
        file: The settings file that was read; None where there is none and the embedded defaults run.
        notices: Keys of the file that do not work as written, and why.
    """

    model_config = ConfigDict(frozen=True)

    root: Path
    settings: Settings
    file: Path | None = None
    notices: tuple[Notice, ...] = ()

    def path(self, relative: str) -> Path:
        """Absolute path of a path in the settings."""
        return (self.root / relative).absolute()

    def uri(self, location: str) -> str:
        """An s3:// address as it is, a folder made absolute."""
        return location if "://" in location else str(self.path(location))
