"""Local search: what the entities of a question are linked to.

Microsoft GraphRAG's method: seed entities; then, each within its share of the budget, the reports of their communities,
their own rows with relationships and claims, and text units. Which text units, a walk over the graph tells
(:mod:`graphrag_assets.query.graph_ranking`), or, as in Microsoft GraphRAG, which of the entities they name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from graphrag_assets.query import lookups
from graphrag_assets.query.context import (
    CLAIMS,
    ENTITIES,
    RELATIONSHIPS,
    REPORTS,
    Context,
    Section,
    SectionBuilder,
    TokenCounter,
    join,
)
from graphrag_assets.query.entities import Seed, choose_seeds, degree_seeds, find_entities
from graphrag_assets.query.graph_ranking import GraphRanking, rank_near
from graphrag_assets.query.history import Turn, history_section
from graphrag_assets.query.index import Index
from graphrag_assets.query.rows import (
    CLAIM_COLUMNS,
    ENTITY_COLUMNS,
    RELATIONSHIP_COLUMNS,
    REPORT_COLUMNS,
    claim_row,
    entity_row,
    fill_sources,
    relationship_row,
    report_row,
)
from graphrag_assets.settings import Settings
from graphrag_assets.storage.tables import ENTITY_VECTORS, TEXT_UNIT_VECTORS

#: Share of what the entities leave of their block that claims may use, when there are any; relationships get the rest
#: and what claims do not need.
CLAIM_SHARE = 0.25


@dataclass(frozen=True)
class LocalParameters:
    """How a local context is built; see :class:`graphrag_assets.settings.LocalSearchSettings`."""

    text_unit_prop: float
    community_prop: float
    top_k_entities: int
    top_k_relationships: int
    max_context_tokens: int
    max_turns: int
    level: int
    embedding_model_id: str
    text_unit_ranking: Literal["graph", "reference"] = "graph"
    hops: Literal[1, 2] = 1

    @classmethod
    def of(cls, settings: Settings, level: int | None = None) -> LocalParameters:
        """Parameters of local search."""
        s = settings.local_search
        return cls(
            s.text_unit_prop,
            s.community_prop,
            s.top_k_entities,
            s.top_k_relationships,
            s.max_context_tokens,
            s.conversation_history_max_turns,
            settings.global_search.community_level if level is None else level,
            s.embedding_model_id,
            s.text_unit_ranking,
            s.hops,
        )

    @classmethod
    def of_drift(cls, settings: Settings, level: int | None = None) -> LocalParameters:
        """Parameters of the local steps of DRIFT search."""
        s = settings.drift_search
        return cls(
            s.local_search_text_unit_prop,
            s.local_search_community_prop,
            s.local_search_top_k_mapped_entities,
            s.local_search_top_k_relationships,
            s.local_search_max_data_tokens,
            settings.local_search.conversation_history_max_turns,
            settings.global_search.community_level if level is None else level,
            s.embedding_model_id,
            settings.local_search.text_unit_ranking,
            settings.local_search.hops,
        )


def build_local_context(
    index: Index,
    question: str,
    vector: Sequence[float] | None,
    parameters: LocalParameters,
    tokenizer: TokenCounter,
    history: Sequence[Turn] = (),
) -> Context:
    """The context of a local search.

    Args:
        index: The snapshot.
        question: The question.
        vector: Embedding of the question (with its history); None for an empty question.
        parameters: Budgets and numbers.
        tokenizer: Counts.
        history: Turns of the conversation, oldest first.

    Returns:
        Sections Conversation History, Reports, Entities, Relationships, Claims, Sources, those that have rows, in at
        most ``max_context_tokens`` tokens.
    """
    p = parameters
    spoken = history_section(history, p.max_turns, tokenizer, p.max_context_tokens)
    budget = p.max_context_tokens - (join([spoken], tokenizer).tokens + 1 if spoken else 0)
    seeds, ranking = _start(index, question, vector, p)
    numbers = [seed.entity.number for seed in seeds if seed.how != "graph"]

    communities = lookups.communities_of(index, numbers, p.level)
    reports = _fill_reports(index, communities, tokenizer, int(budget * p.community_prop))
    graph = _graph_sections(index, seeds, p, tokenizer, int(budget * (1 - p.community_prop - p.text_unit_prop)))
    candidates = _candidates(index, numbers, ranking, p)
    sources = fill_sources(index, candidates, tokenizer, int(budget * p.text_unit_prop)).section()
    score = dict(ranking.text_units) if ranking else {}
    notes: dict[str, object] = {
        "seeds": [_told(seed) for seed in seeds if seed.how != "graph"],
        **({"second_hop": [_told(seed) for seed in seeds if seed.how == "graph"]} if p.hops == 2 else {}),
        "candidate_reports": len(communities),
        "candidate_text_units": len(candidates),
        "text_units": [{"id": r.number, "score": round(score[r.number], 3)} for r in sources.rows if r.number in score],
    }
    return join([spoken, reports, *graph, sources], tokenizer, notes)


def _told(seed: Seed) -> dict[str, object]:
    """A seed for people."""
    return {"id": seed.entity.number, "title": seed.entity.title, "how": seed.how, "score": round(seed.score, 4)}


def _start(
    index: Index, question: str, vector: Sequence[float] | None, parameters: LocalParameters
) -> tuple[list[Seed], GraphRanking | None]:
    """Seeds, with those of the second hop behind the others, and the ranking over the graph where it is wanted."""
    p = parameters
    if vector is None or not question.strip():
        return degree_seeds(index, p.top_k_entities), None
    found = find_entities(index, question, vector, p.top_k_entities)
    seeds = choose_seeds(found, p.top_k_entities)
    if p.text_unit_ranking == "reference" and p.hops == 1:
        return seeds, None
    ranking = rank_near(index, question, _for_text_units(index, vector), found)
    if p.hops == 2:
        first = {seed.entity.number for seed in seeds}
        further = [number for number in ranking.entities if number not in first][: p.top_k_entities]
        seeds += [Seed(entity, "graph", 0.0) for entity in lookups.entities(index, further)]
    return seeds, ranking


def _for_text_units(index: Index, vector: Sequence[float]) -> Sequence[float] | None:
    """The vector, where text units have vectors of the model that those of entities are from."""
    of_entities, of_text_units = (index.manifest.vectors.get(name) for name in (ENTITY_VECTORS, TEXT_UNIT_VECTORS))
    same = of_entities and of_text_units and of_entities.model == of_text_units.model
    return vector if same else None


def _candidates(
    index: Index, seeds: Sequence[int], ranking: GraphRanking | None, parameters: LocalParameters
) -> list[int]:
    """Numbers of text units, best first."""
    if ranking is None or parameters.text_unit_ranking == "reference":
        return lookups.text_units_of(index, seeds)
    return [number for number, _ in ranking.text_units]


def _fill_reports(index: Index, communities: Sequence[int], tokenizer: TokenCounter, budget: int) -> Section:
    """Reports of the seeds' communities; texts are fetched a few at a time, until no further one can fit."""
    builder = SectionBuilder(REPORTS, REPORT_COLUMNS, tokenizer, budget)
    smallest = tokenizer.count("0|a|a\n")
    for first in range(0, len(communities), 16):
        if builder.room < smallest:
            builder.left_out += len(communities) - first
            break
        builder.fill(report_row(report) for report in lookups.reports(index, communities[first : first + 16]))
    return builder.section()


def _graph_sections(
    index: Index, seeds: Sequence[Seed], parameters: LocalParameters, tokenizer: TokenCounter, budget: int
) -> list[Section]:
    """Entities, and in what they leave, relationships and claims of those entities that fitted."""
    entities = SectionBuilder(ENTITIES, ENTITY_COLUMNS, tokenizer, budget)
    shown = [seed.entity for seed in seeds if entities.add(entity_row(seed.entity))]
    left = budget - entities.tokens
    claims = lookups.claims_of(index, shown)
    claim_section = SectionBuilder(CLAIMS, CLAIM_COLUMNS, tokenizer, int(left * CLAIM_SHARE))
    claim_section.fill(claim_row(claim) for claim in claims)
    related = lookups.related(index, [entity.number for entity in shown], parameters.top_k_relationships)
    relationships = SectionBuilder(RELATIONSHIPS, RELATIONSHIP_COLUMNS, tokenizer, left - claim_section.tokens)
    tried = 0
    for page in lookups.relationships(index, related, {entity.title for entity in shown}):
        room, tried = relationships.room, tried + len(page)
        relationships.fill(relationship_row(relationship) for relationship in page)
        if relationships.tokens and relationships.room == room:  # none of them fitted: the section is full
            relationships.left_out += len(related) - tried
            break
    return [entities.section(), relationships.section(), claim_section.section()]
