"""Extraction of the graph from one text unit by an LLM (standard method).

One text unit is one conversation (:mod:`~graphrag_assets.indexing.gleaning`); its answers are read one by one
(:mod:`~graphrag_assets.indexing.graph_answers`) and merged here into the rows of the text unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from graphrag_assets.indexing.asking import Ask
from graphrag_assets.indexing.gleaning import Conversation, Status, converse, converse_in_parts
from graphrag_assets.indexing.graph_answers import (
    GRAPH_SCHEMA,
    GraphAnswer,
    example_titles,
    parse_json,
    parse_tuples,
    read_answer,
    salvage,
    without_echoes,
)
from graphrag_assets.text.templates import render

__all__ = ["GRAPH_SCHEMA", "Extraction", "extract_graph", "merge_answers", "parse_json", "parse_tuples", "read_answer"]

Row = dict[str, Any]


@dataclass
class Extraction:
    """What one text unit gave.

    Args:
        entities: Rows of the table extracted_entities, in its canonical order.
        relationships: Rows of the table extracted_relationships, in its canonical order.
        status: ok, empty (nothing found), or failed, truncated, refused.
        reason: What went wrong, in one line; empty when nothing did.
        attempts: Answers that were asked for; 0 when all came from the cache.
        passing: Whether something was not answered for a reason that may pass, so that another run may get more.
        dropped: What the answers held that could not be used, counted by reason.
        parts: In how many parts the text was read.
    """

    entities: list[Row] = field(default_factory=list)
    relationships: list[Row] = field(default_factory=list)
    status: Status = "ok"
    reason: str = ""
    attempts: int = 0
    passing: bool = False
    dropped: dict[str, int] = field(default_factory=dict)
    parts: int = 1


async def extract_graph(
    text: str,
    ask: Ask,
    *,
    prompt: str,
    continue_prompt: str,
    loop_prompt: str,
    entity_types: Sequence[str],
    max_gleanings: int = 1,
    format: Literal["tuple", "json"] = "tuple",
    row: str = "",
) -> Extraction:
    """Extract entities and relationships from a text unit.

    Args:
        text: The text unit.
        ask: The model.
        prompt: Template with {entity_types} and {input_text}.
        continue_prompt: Asks for what was missed.
        loop_prompt: Asks whether there is more.
        entity_types: Types to look for.
        max_gleanings: Further questions for what was missed.
        format: Answer format that the prompt asks for; an answer in the other one is read as well.
        row: Id of the text unit.
    """

    async def talk(part: str, smaller: bool) -> Conversation[GraphAnswer]:
        return await converse(
            ask,
            render(prompt, {"entity_types": ",".join(entity_types), "input_text": part}),
            parse=read_answer,
            salvage=salvage,
            max_gleanings=max_gleanings,
            continue_prompt=continue_prompt,
            loop_prompt=loop_prompt,
            schema=GRAPH_SCHEMA if format == "json" else None,
            row=row,
            smaller=smaller,
        )

    said = await converse_in_parts(text.strip(), talk)
    examples = example_titles(prompt)
    answers = (without_echoes(answer, part, examples) for part, each in said.conversations for answer in each.answers)
    merged = merge_answers(answers, row)
    merged.attempts, merged.reason, merged.passing = said.attempts, said.reason, said.passing
    merged.status, merged.parts = said.status, said.count
    if said.status == "ok" and not merged.entities:
        merged.status, merged.reason = "empty", said.reason or "the model found no entity"
    return merged


def merge_answers(answers: Iterable[GraphAnswer], text_unit_id: str) -> Extraction:
    """Merge the answers about one text unit into its rows.

    Equal entity records (title, type, description) become one row that counts its mentions; equal relationship records
    (source, target, description) become one whose weight is their sum. Both ends of a relationship are entities: those
    that no entity record names get a row without type and description. A relationship of an entity with itself is left
    out.

    Args:
        answers: Answers in the order in which they were given.
        text_unit_id: Id of the text unit.
    """
    mentions: Counter[tuple[str, str, str]] = Counter()
    names: dict[tuple[str, str, str], str] = {}
    stubs: Counter[tuple[str, str]] = Counter()
    weights: dict[tuple[str, str, str], float] = {}
    dropped: Counter[str] = Counter()
    for answer in answers:
        dropped += answer.dropped
        for entity in answer.entities:
            key = (entity.title, entity.type, entity.description)
            mentions[key] += 1
            names.setdefault(key, entity.name)
        for link in answer.relationships:
            for title, name in dict(zip((link.source, link.target), link.names, strict=True)).items():
                stubs[title, ""] += 1
                names.setdefault((title, "", ""), name)
            if link.source == link.target:
                dropped["relationship of an entity with itself"] += 1
                continue
            ends = (link.source, link.target, link.description)
            weights[ends] = weights.get(ends, 0.0) + link.weight
    named = {title for title, _, _ in mentions}
    mentions.update({(title, "", ""): count for (title, _), count in stubs.items() if title not in named})
    return Extraction(
        [
            {
                "text_unit_id": text_unit_id,
                "title": t,
                "name": names[t, k, d],
                "type": k,
                "description": d,
                "mentions": n,
            }
            for (t, k, d), n in sorted(mentions.items())
        ],
        [
            {"text_unit_id": text_unit_id, "source": s, "target": t, "description": d, "weight": weight}
            for (s, t, d), weight in sorted(weights.items())
        ],
        dropped=dict(sorted(dropped.items())),
    )
