"""What each table is made from, as a hash: content decides what has to be computed, Dagster only when.

The fingerprint of a table is a hash of the fingerprints of the tables it is made from and of the settings, prompts and
models that its asset reads. All of them follow from the input inventory and the settings alone, so that a run can tell
what is missing without reading any table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa

from graphrag_assets.ids import digest, digest_json
from graphrag_assets.input.inventory import common_language
from graphrag_assets.llm.providers.clients import answer_identity
from graphrag_assets.prompt_files import load_prompt, prompt_version
from graphrag_assets.settings import ModelSettings, Workspace

#: Raised when the code of an asset changes what it computes from equal input.
ALGORITHM_VERSIONS: dict[str, str] = {
    "documents": "2",
    "text_units": "1",
    "extraction": "2",
    "text_unit_embeddings": "1",
    "graph": "1",
    "covariates": "1",
    "communities": "2",
    "community_reports": "2",
    "entity_embeddings": "1",
    "community_report_embeddings": "1",
}

#: Stages computed for each document batch, with the stage each is made from.
BATCH_STAGES: dict[str, tuple[str, ...]] = {
    "documents": (),
    "text_units": ("documents",),
    "extraction": ("text_units",),
    "text_unit_embeddings": ("text_units",),
}

#: Stages computed for the whole corpus, with the stages each is made from.
CORPUS_STAGES: dict[str, tuple[str, ...]] = {
    "graph": ("extraction",),
    "covariates": ("extraction", "graph"),
    "communities": ("graph",),
    "community_reports": ("communities", "covariates"),
    "entity_embeddings": ("graph",),
    "community_report_embeddings": ("community_reports",),
}

#: Asset that stands for a stage in the build area: the stage is done when this asset has its fingerprint.
STAGE_ASSETS: dict[str, tuple[str, ...]] = {
    "documents": ("documents",),
    "text_units": ("text_units",),
    "extraction": ("extracted_entities", "extracted_relationships", "extracted_claims", "extraction_status"),
    "text_unit_embeddings": ("text_unit_embeddings",),
    "graph": ("entity_aliases", "entities", "relationships"),
    "covariates": ("covariates",),
    "communities": ("communities",),
    "community_reports": ("community_reports",),
    "entity_embeddings": ("entity_embeddings",),
    "community_report_embeddings": ("community_report_embeddings",),
}

#: Stages that ask chat models; what they could not make is kept row by row.
ASKING_STAGES = frozenset({"extraction", "graph", "community_reports"})

#: Appended to a fingerprint when something is missing, so that a later run tries again.
INCOMPLETE = "+incomplete"

#: Runs that make a table of another stage again, of which something is missing; each appends the mark once more.
MOST_RUNS = 2


def complete(fingerprint: str) -> str:
    """A fingerprint as it is where nothing failed."""
    return fingerprint.partition(INCOMPLETE)[0]


def model_identity(model: ModelSettings | None) -> object:
    """What of a model entry changes its answers; never the key."""
    if model is None:
        return None
    return answer_identity(model) | {"api_base": model.api_base}


def _prompts(workspace: Workspace, *names: tuple[str, str | None]) -> dict[str, str]:
    return {name: prompt_version(load_prompt(workspace, name, override)) for name, override in names}


def _extraction(workspace: Workspace) -> object:
    s = workspace.settings
    if s.effective_method == "fast":
        return ["fast", s.extract_graph_nlp.model_dump(exclude={"processes"}), s.language]
    graph, claims = s.extract_graph, s.extract_claims
    main = "extract_graph" if graph.format == "tuple" else "extract_graph_json"
    names = [(main, graph.prompt), ("extract_graph_continue", None), ("extract_graph_loop", None)]
    config: list[object] = [
        "standard",
        graph.model_dump(exclude={"completion_model_id", "prompt"}),
        model_identity(s.completion_model(graph.completion_model_id)),
    ]
    if claims.enabled:
        names += [("extract_claims", claims.prompt), ("extract_claims_continue", None), ("extract_claims_loop", None)]
        config += [
            claims.model_dump(exclude={"completion_model_id", "prompt"}),
            model_identity(s.completion_model(claims.completion_model_id)),
        ]
    return [*config, _prompts(workspace, *names)]


def _graph(workspace: Workspace) -> object:
    s = workspace.settings
    resolution = s.entity_resolution
    overrides = workspace.path(resolution.overrides) if resolution.overrides else None
    config: list[object] = [
        s.effective_method,
        resolution.model_dump(exclude={"completion_model_id", "prompt", "overrides"}),
        overrides.read_text(encoding="utf-8") if overrides and overrides.is_file() else "",
    ]
    if s.effective_method == "fast":
        return [*config, s.prune_graph.model_dump(), s.extract_graph_nlp.normalize_edge_weights]
    summarize = s.summarize_descriptions
    config += [
        summarize.model_dump(exclude={"completion_model_id", "prompt"}),
        model_identity(s.completion_model(summarize.completion_model_id)),
        _prompts(workspace, ("summarize_descriptions", summarize.prompt)),
    ]
    if resolution.llm:
        config += [
            model_identity(s.completion_model(resolution.completion_model_id)),
            _prompts(workspace, ("resolve_entities", resolution.prompt)),
        ]
    return config


def _reports(workspace: Workspace) -> object:
    s = workspace.settings
    if s.effective_method == "fast":
        return ["fast", s.community_reports.max_length]
    reports = s.community_reports
    return [
        "standard",
        reports.model_dump(exclude={"completion_model_id", "graph_prompt"}),
        model_identity(s.completion_model(reports.completion_model_id)),
        _prompts(workspace, ("community_report_graph", reports.graph_prompt)),
    ]


def _embeddings(workspace: Workspace) -> object:
    s = workspace.settings
    model = s.embedding_model(s.embed_text.embedding_model_id)
    embedded = s.embedded_models.embedding if model is None else None
    prefix = model.document_prefix if model else ""
    return [model_identity(model), prefix, embedded, s.embed_text.batch_max_tokens]


_CONFIGURATIONS: dict[str, Callable[[Workspace], object]] = {
    "documents": lambda w: [w.settings.input.model_dump(), w.settings.language],
    "text_units": lambda w: w.settings.chunking.model_dump(),
    "extraction": _extraction,
    "text_unit_embeddings": _embeddings,
    "graph": _graph,
    "covariates": lambda w: w.settings.extract_claims.enabled,
    "communities": lambda w: w.settings.cluster_graph.model_dump(exclude={"max_drift"}),
    "community_reports": _reports,
    "entity_embeddings": _embeddings,
    "community_report_embeddings": _embeddings,
}


def code_version(workspace: Workspace, stage: str) -> str:
    """Version of a stage's code, settings, prompts and models: what Dagster shows as code version."""
    return digest_json([ALGORITHM_VERSIONS[stage], _CONFIGURATIONS[stage](workspace)])[:12]


class Fingerprints:
    """Fingerprints of all tables that the index ought to have.

    Args:
        workspace: Settings and prompts.
        inventory: The input inventory; its columns batch, document_id, content_hash and language are read.
    """

    def __init__(self, workspace: Workspace, inventory: pa.Table) -> None:
        self.workspace = workspace
        rows: dict[str, list[tuple[str, str]]] = {}
        common = common_language(inventory)
        columns = (inventory[name].to_pylist() for name in ("batch", "document_id", "content_hash", "language"))
        for batch, document, content, language in zip(*columns, strict=True):
            # A document that says too little of its language is read in that of the others.
            rows.setdefault(batch, []).append((document, content if language else f"{content} {common}"))
        self._documents: Mapping[str, list[tuple[str, str]]] = {key: sorted(rows[key]) for key in sorted(rows)}

    @property
    def batches(self) -> list[str]:
        """Batches that hold documents, in order."""
        return list(self._documents)

    @cached_property
    def _versions(self) -> dict[str, str]:
        return {stage: code_version(self.workspace, stage) for stage in (*BATCH_STAGES, *CORPUS_STAGES)}

    def batch(self, stage: str, key: str) -> str:
        """Fingerprint of one batch of a stage.

        Raises:
            KeyError: The inventory has no such batch.
        """
        sources = BATCH_STAGES[stage]
        if sources:
            made_from: Any = [self.batch(source, key) for source in sources]
        else:
            made_from = self._documents[key]
        return digest(stage, self._versions[stage], digest_json(made_from))

    def corpus(self, stage: str) -> str:
        """Fingerprint of a whole-corpus stage.

        A document enters with its own hash, not with its batch: how documents are grouped changes no table.
        """
        made_from = [self._corpus_source(source) for source in CORPUS_STAGES[stage]]
        return digest(stage, self._versions[stage], digest_json(made_from))

    def _corpus_source(self, stage: str) -> str:
        if stage in CORPUS_STAGES:
            return self.corpus(stage)
        documents = sorted(row for rows in self._documents.values() for row in rows)
        chain = [stage]
        while BATCH_STAGES[chain[-1]]:
            chain.append(BATCH_STAGES[chain[-1]][0])
        return digest_json([[self._versions[name] for name in chain], documents])

    def snapshot(self, rejected: pa.Table) -> str:
        """Fingerprint of a snapshot: of everything in it, what could not be used of the input among it.

        Args:
            rejected: Rows of rejected_inputs.
        """
        whole = self.whole_input()
        return digest(whole, digest_json(rejected.to_pylist())) if rejected.num_rows else whole

    def whole_input(self) -> str:
        """Fingerprint of everything that is made from documents: equal when no table of it can have changed."""
        return digest_json(
            [
                self.corpus("community_report_embeddings"),
                self.corpus("entity_embeddings"),
                self._corpus_source("text_unit_embeddings"),
            ]
        )
