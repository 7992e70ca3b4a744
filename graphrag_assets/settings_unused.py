"""Keys of Microsoft GraphRAG (versions 2 and 3) that have no counterpart here, and why."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any


@dataclass(frozen=True)
class Unused:
    """A family of keys without a counterpart.

    Args:
        pattern: Dotted path; ``*`` stands for any keys. ``section.*`` is also the section itself.
        why: Why there is none, and what to use instead.
        same: Values that ask for what happens anyway (null, false and empty always do).
        always: No value of the key makes a difference to the result.
        whole: The key holds a mapping that is told as one thing.
    """

    pattern: str
    why: str
    same: tuple[Any, ...] = ()
    always: bool = False
    whole: bool = False

    def matches(self, path: str) -> bool:
        """Whether a dotted path belongs to the family."""
        return fnmatchcase(path, self.pattern) or path == self.pattern.removesuffix(".*")

    def harmless(self, value: Any) -> bool:
        """Whether the value asks for nothing that does not happen anyway; lists count as equal in any order."""
        if self.always or value is None or value is False or value in ("", [], {}) or value in self.same:
            return True
        return isinstance(value, list) and any(
            isinstance(s, list) and set(map(str, value)) == set(s) for s in self.same
        )


_FOLDERS = "a folder or an S3 prefix is used (s3://bucket/prefix, with endpoint_url for other servers than AWS)"
_CALL_ARGS = "parameters of calls belong in call_args of the model's entry"
_LANCE = "vectors are always in LanceDB tables inside storage.base"
_NO_LAYOUT = "node embeddings and layouts are not computed; no search uses them"
_SPACY = "noun phrases come from the spaCy pipeline that text_analyzer.model_name names"
_AZURE_KEYS = (
    "connection_string",
    "container_name",
    "account_url",
    "storage_account_blob_url",
    "cosmosdb_account_url",
    "cosmosdb_account_blob_url",
    "database_name",
)
_EMBEDDING_NAMES = ["entity_description", "community_full_content", "text_unit_text"]
_GRAMMARS = {"PROPN,PROPN": "PROPN", "NOUN,NOUN": "NOUNS", "NOUNS,NOUN": "NOUNS", "ADJ,ADJ": "ADJ", "ADJ,NOUN": "NOUNS"}

#: In the order in which they are tried.
UNUSED: tuple[Unused, ...] = (
    # general
    Unused("root_dir", "the root is the folder of the settings file", always=True),
    Unused("async_mode", "calls are always made with asyncio", always=True),
    Unused(
        "workflows",
        "the tables of an index are the assets of the DAG; materialize a selection of them in Dagster",
        whole=True,
    ),
    Unused("parallelization.stagger", "calls are spread by rate_limit of the model's entry", always=True),
    Unused("*.model_instance_name", "the cache is addressed by content and needs no names", always=True),
    Unused("*.strategy", "the keys of the section itself say all", whole=True),
    # models
    Unused("completion_models.*.metrics*", "calls, tokens, price and time are always recorded by stage", always=True),
    Unused("embedding_models.*.metrics*", "calls, tokens, price and time are always recorded by stage", always=True),
    Unused("*_models.*.mock_responses", "there is no mock model; let api_base name a test server"),
    # input and storage
    Unused("input_storage.encoding", "the encoding of documents is input.encoding", same=("utf-8",)),
    Unused("output*.encoding", "tables are binary files", always=True),
    *(Unused(f"input_storage.{key}", _FOLDERS) for key in _AZURE_KEYS),
    *(Unused(f"input.storage.{key}", _FOLDERS) for key in _AZURE_KEYS),
    *(Unused(f"input.{key}", _FOLDERS) for key in _AZURE_KEYS),
    Unused("input.file_filter", "choose files with input.file_pattern", whole=True),
    *(
        Unused(f"{section}.{key}", _FOLDERS)
        for section in ("output", "output_storage", "storage")
        for key in _AZURE_KEYS
    ),
    Unused("outputs.*", "a workspace has one index; use a workspace for each"),
    Unused(
        "update_index_output.*",
        "every run is incremental and publishes a snapshot of its own in storage.base",
        always=True,
    ),
    Unused(
        "update_output_storage.*",
        "every run is incremental and publishes a snapshot of its own in storage.base",
        always=True,
    ),
    Unused(
        "cache.storage.type",
        "answers are kept in a file, see cache.path, and with cache.shared in a bucket too",
        same=("file",),
    ),
    Unused("cache.storage.*", "answers are kept in a file, see cache.path, and with cache.shared in a bucket too"),
    *(
        Unused(f"cache.{key}", "answers are kept in a file, see cache.path, and with cache.shared in a bucket too")
        for key in _AZURE_KEYS
    ),
    Unused(
        "reporting.type",
        "logs go to stderr and to Dagster, rejected inputs and failed text units to tables",
        same=("file",),
    ),
    Unused(
        "reporting.base_dir",
        "logs go to stderr and to Dagster, rejected inputs and failed text units to tables",
        same=("logs",),
    ),
    Unused("reporting.*", "logs go to stderr and to Dagster, rejected inputs and failed text units to tables"),
    Unused("table_provider.type", "tables are Parquet files", same=("parquet",)),
    Unused("table_provider.batch_size", "tables are Parquet files", always=True),
    Unused("table_provider.*", "tables are Parquet files"),
    # vectors
    Unused("vector_store*.type", _LANCE, same=("lancedb",)),
    Unused("vector_store*.db_uri", _LANCE, same=("output/lancedb", "./output/lancedb")),
    Unused("vector_store*.vector_size", "vectors are as long as the model makes them", always=True),
    Unused("vector_store*.id_field", _LANCE, same=("id",)),
    Unused("vector_store*.vector_field", _LANCE, same=("vector",)),
    Unused("vector_store*.overwrite", "vector tables are versioned and belong to snapshots", always=True),
    Unused("vector_store*.container_name", _LANCE, same=("default",)),
    Unused("vector_store.*", _LANCE + ", named after what is embedded, with the columns id and vector"),
    # stages
    Unused("chunks.group_by_columns", "a text unit never spans documents", same=(["id"],)),
    Unused("chunks.chunk_size_includes_metadata", "chunking.size counts the document's own text"),
    Unused("embed_text.names", "the three embeddings that the searches need are always made", same=(_EMBEDDING_NAMES,)),
    Unused("embed_text.target", "the three embeddings that the searches need are always made", same=("required",)),
    Unused("embed_text.vector_store_id", _LANCE, always=True),
    Unused("extract_graph.encoding_model", "tokens are counted as chunking.encoding_model says"),
    Unused("extract_claims.encoding_model", "tokens are counted as chunking.encoding_model says"),
    Unused(
        "extract_graph_nlp.concurrent_requests", "extract_graph_nlp.processes sets the number of processes", always=True
    ),
    Unused("extract_graph_nlp.async_mode", "extract_graph_nlp.processes sets the number of processes", always=True),
    Unused("extract_graph_nlp.text_analyzer.extractor_type", _SPACY, same=("regex_english",)),
    Unused("extract_graph_nlp.text_analyzer.word_delimiter", _SPACY, same=(" ",)),
    Unused("extract_graph_nlp.text_analyzer.exclude_pos_tags", _SPACY, same=(["DET", "PRON", "INTJ", "X"],)),
    Unused("extract_graph_nlp.text_analyzer.noun_phrase_tags", _SPACY, same=(["PROPN", "NOUNS"],)),
    Unused("extract_graph_nlp.text_analyzer.noun_phrase_grammars", _SPACY, same=(_GRAMMARS,), whole=True),
    Unused(
        "community_reports.text_prompt",
        "no reports are written from texts alone: the standard method uses graph_prompt, the fast method no model",
        same=("prompts/community_report_text.txt",),
    ),
    Unused("embed_graph.enabled", _NO_LAYOUT),
    Unused("embed_graph.*", _NO_LAYOUT, always=True),
    Unused("umap.*", _NO_LAYOUT),
    Unused("snapshots.embeddings", "vectors are always kept, with every snapshot", always=True),
    Unused("snapshots.raw_graph", "what was extracted from every batch is always kept", always=True),
    Unused("snapshots.graphml", "a run writes tables; the graph is in entities and relationships"),
    Unused("snapshots.*", "every run publishes a complete snapshot of all tables"),
    # searches
    *(
        Unused(f"{section}.{key}", _CALL_ARGS, same=(1,) if key == "n" else ())
        for section in ("local_search", "global_search", "drift_search", "basic_search")
        for key in ("temperature", "top_p", "n", "llm_max_tokens")
    ),
    Unused("basic_search.max_tokens", _CALL_ARGS),
    Unused("basic_search.text_unit_prop", "the whole context of a basic search is text units"),
    Unused(
        "basic_search.conversation_history_max_turns",
        "local_search.conversation_history_max_turns holds for all searches",
    ),
    Unused("global_search.map_max_tokens", "the length of a map answer is global_search.map_max_length, in words"),
    Unused("global_search.reduce_max_tokens", "the length of the answer is global_search.reduce_max_length, in words"),
    Unused("global_search.dynamic_search_llm", "the model of global_search.completion_model_id rates reports"),
    Unused("*_search.concurrency", "concurrent_requests limits the calls of all searches", always=True),
    Unused(
        "*_search.dynamic_search_concurrent_coroutines",
        "concurrent_requests limits the calls of all searches",
        always=True,
    ),
    Unused("drift_search.max_tokens", _CALL_ARGS),
    Unused("drift_search.reduce_max_tokens", _CALL_ARGS),
    Unused("drift_search.reduce_max_completion_tokens", _CALL_ARGS),
    Unused("drift_search.reduce_temperature", _CALL_ARGS, same=(0,)),
    Unused("drift_search.local_search_temperature", _CALL_ARGS, same=(0,)),
    Unused("drift_search.local_search_top_p", _CALL_ARGS, same=(1,)),
    Unused("drift_search.local_search_n", _CALL_ARGS, same=(1,)),
    Unused("drift_search.local_search_llm_max_gen_tokens", _CALL_ARGS),
    Unused("drift_search.local_search_llm_max_gen_completion_tokens", _CALL_ARGS),
)

#: Top-level sections that hold nothing but such keys; an empty one is no error.
SECTIONS_WITHOUT_COUNTERPART = frozenset(
    {
        "output", "output_storage", "outputs", "update_index_output", "update_output_storage", "reporting",
        "table_provider", "vector_store", "embed_graph", "umap", "snapshots", "chunks", "parallelization", "models",
        "workflows",
    }
)  # fmt: skip


def unused_rule(path: str) -> Unused | None:
    """The first family that a dotted path belongs to."""
    return next((rule for rule in UNUSED if rule.matches(path)), None)
