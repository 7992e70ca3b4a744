"""The sections of settings.yaml on questions: the four searches, how one is chosen, and ceilings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from graphrag_assets.settings_sections import DEFAULT_COMPLETION_MODEL, DEFAULT_EMBEDDING_MODEL, Section


class LocalSearchSettings(Section):
    """Local search."""

    completion_model_id: str = Field(DEFAULT_COMPLETION_MODEL, description="Entry of completion_models.")
    embedding_model_id: str = Field(DEFAULT_EMBEDDING_MODEL, description="Entry of embedding_models.")
    prompt: str | None = Field(None, description="Prompt file; unset: prompts/local_search_system_prompt.txt.")
    text_unit_prop: float = Field(0.5, ge=0, le=1, description="Share of the context for text units.")
    community_prop: float = Field(0.15, ge=0, le=1, description="Share of the context for reports.")
    conversation_history_max_turns: int = Field(
        5, ge=0, description="Turns of the conversation that are used, newest first."
    )
    top_k_entities: int = Field(10, gt=0, description="Entities that seed the context.")
    top_k_relationships: int = Field(10, gt=0, description="Relationships out of the seeds, per seed.")
    max_context_tokens: int = Field(12_000, gt=0, description="Tokens of the context.")
    text_unit_ranking: Literal["graph", "reference"] = Field(
        "graph", description="Order of text units: by a walk over the graph, or as Microsoft GraphRAG orders them."
    )
    hops: Literal[1, 2] = Field(
        1, description="2: entities that the walk over the graph reaches from the seeds are shown as well."
    )

    @model_validator(mode="after")
    def _shares(self) -> LocalSearchSettings:
        if self.text_unit_prop + self.community_prop > 1:
            raise ValueError("local_search.text_unit_prop + community_prop must not be above 1")
        return self


class GlobalSearchSettings(Section):
    """Global search."""

    completion_model_id: str = Field(DEFAULT_COMPLETION_MODEL, description="Entry of completion_models.")
    map_prompt: str | None = Field(None, description="Prompt file; unset: prompts/global_search_map_system_prompt.txt.")
    reduce_prompt: str | None = Field(
        None, description="Prompt file; unset: prompts/global_search_reduce_system_prompt.txt."
    )
    knowledge_prompt: str | None = Field(
        None, description="Prompt file; unset: prompts/global_search_knowledge_system_prompt.txt."
    )
    max_context_tokens: int = Field(12_000, gt=0, description="Tokens of reports in one map call.")
    data_max_tokens: int = Field(12_000, gt=0, description="Tokens of points in the reduce call.")
    map_max_length: int = Field(1000, gt=0, description="Length asked of a map answer, in words.")
    reduce_max_length: int = Field(2000, gt=0, description="Length asked of the final answer, in words.")
    allow_general_knowledge: bool = Field(False, description="Let the model add what it knows, marked as such.")
    community_level: int = Field(2, ge=0, description="Deepest level whose reports are read.")
    seed: int = Field(86, description="Seed of the shuffle of reports.")
    dynamic_search: bool = Field(
        False, description="Let the model choose the reports, from the widest ones down, before they are read."
    )
    dynamic_search_prompt: str | None = Field(
        None, description="Prompt file; unset: prompts/global_search_rate_system_prompt.txt."
    )
    dynamic_search_threshold: int = Field(
        1, ge=0, le=5, description="Rating (0 to 5) from which a report counts as relevant."
    )
    dynamic_search_keep_parent: bool = Field(
        False, description="Read a relevant report also where one of its children is relevant."
    )
    dynamic_search_num_repeats: int = Field(
        1, ge=1, description="Ratings of each report; the most frequent one counts, of equal ones the lowest."
    )
    dynamic_search_use_summary: bool = Field(
        False, description="Rate by the summaries of the reports instead of their whole text."
    )
    dynamic_search_max_level: int = Field(
        2, ge=0, description="Level down to which the next level is rated where nothing so far was relevant."
    )


class DriftSearchSettings(Section):
    """DRIFT search."""

    completion_model_id: str = Field(DEFAULT_COMPLETION_MODEL, description="Entry of completion_models.")
    embedding_model_id: str = Field(DEFAULT_EMBEDDING_MODEL, description="Entry of embedding_models.")
    prompt: str | None = Field(None, description="Prompt file; unset: prompts/drift_search_system_prompt.txt.")
    reduce_prompt: str | None = Field(None, description="Prompt file; unset: prompts/drift_reduce_prompt.txt.")
    primer_prompt: str | None = Field(None, description="Prompt file; unset: prompts/drift_primer_prompt.txt.")
    data_max_tokens: int = Field(12_000, gt=0, description="Tokens of the answers that are reduced.")
    drift_k_followups: int = Field(
        20, gt=0, description="Reports read by the primer, and most follow-up questions of a round."
    )
    primer_folds: int = Field(5, gt=0, description="Calls that the primer's reports are spread over.")
    primer_llm_max_tokens: int = Field(12_000, gt=0, description="Tokens of reports in one primer call.")
    n_depth: int = Field(3, ge=1, description="Rounds of follow-up questions.")
    local_search_text_unit_prop: float = Field(
        0.6, ge=0, le=1, description="Share of text units in a follow-up's context."
    )
    local_search_community_prop: float = Field(
        0.1, ge=0, le=1, description="Share of reports in a follow-up's context."
    )
    local_search_top_k_mapped_entities: int = Field(10, gt=0, description="Entities that seed a follow-up's context.")
    local_search_top_k_relationships: int = Field(10, gt=0, description="Relationships out of the seeds, per seed.")
    local_search_max_data_tokens: int = Field(12_000, gt=0, description="Tokens of a follow-up's context.")


class BasicSearchSettings(Section):
    """Basic search."""

    completion_model_id: str = Field(DEFAULT_COMPLETION_MODEL, description="Entry of completion_models.")
    embedding_model_id: str = Field(DEFAULT_EMBEDDING_MODEL, description="Entry of embedding_models.")
    prompt: str | None = Field(None, description="Prompt file; unset: prompts/basic_search_system_prompt.txt.")
    k: int = Field(10, gt=0, description="Text units that are read.")
    max_context_tokens: int = Field(12_000, gt=0, description="Tokens of the context.")
    rerank: bool = Field(
        False, description="Order the text units by the embedded cross-encoder: English, a second of CPU or more."
    )


class AutoSearchSettings(Section):
    """How method auto chooses a search."""

    ask_model: bool = Field(
        True, description="Ask the language model, in one short call, where the rules leave it open."
    )
    completion_model_id: str | None = Field(
        None, description="Entry of completion_models; unset: that of basic_search."
    )
    prompt: str | None = Field(None, description="Prompt file; unset: prompts/auto_search_system_prompt.txt.")


class QuerySettings(Section):
    """Ceilings of one question, kept before each call is sent; and what is suggested after it."""

    max_usd: float | None = Field(None, ge=0, description="Most USD that a question may cost; unset: no ceiling.")
    max_tokens: int | None = Field(
        None, ge=0, description="Most tokens of prompts and answers together; unset: no ceiling."
    )
    cache: bool = Field(
        True,
        description="Keep what models answer to questions and take it from there: the same question of the same snapshot "
        "with the same settings gets the same answer, at no price.",
    )
    question_gen_prompt: str | None = Field(
        None, description="Prompt file for suggestions; unset: prompts/question_gen_system_prompt.txt."
    )
