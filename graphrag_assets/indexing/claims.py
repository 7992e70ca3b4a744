"""Claims of one text unit by an LLM: who is said to have done what, how surely, when, and in which words.

The conversation is that of the graph extraction; all of its answers are read, gleaned ones too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from graphrag_assets.indexing.asking import Ask
from graphrag_assets.indexing.claim_answers import (
    ClaimAnswer,
    Row,
    example_subjects,
    read_claims,
    salvage_claims,
    without_echoes,
)
from graphrag_assets.indexing.gleaning import Conversation, Status, converse, converse_in_parts
from graphrag_assets.text.templates import render


@dataclass
class ClaimExtraction:
    """What one text unit gave.

    Args:
        claims: Rows of the table extracted_claims, in its canonical order, each once.
        status: ok, empty (nothing found), or failed, truncated, refused.
        reason: What went wrong, in one line; empty when nothing did.
        attempts: Answers that were asked for; 0 when all came from the cache.
        passing: Whether something was not answered for a reason that may pass, so that another run may get more.
        dropped: What the answers held that could not be used, counted by reason.
        parts: In how many parts the text was read.
    """

    claims: list[Row] = field(default_factory=list)
    status: Status = "ok"
    reason: str = ""
    attempts: int = 0
    passing: bool = False
    dropped: dict[str, int] = field(default_factory=dict)
    parts: int = 1


async def extract_claims(
    text: str,
    ask: Ask,
    *,
    prompt: str,
    continue_prompt: str,
    loop_prompt: str,
    entity_specs: Sequence[str],
    claim_description: str,
    max_gleanings: int = 1,
    row: str = "",
) -> ClaimExtraction:
    """Extract claims from a text unit.

    Args:
        text: The text unit.
        ask: The model.
        prompt: Template with {entity_specs}, {claim_description} and {input_text}.
        continue_prompt: Asks for what was missed.
        loop_prompt: Asks whether there is more.
        entity_specs: Types or names of the entities whose claims are wanted.
        claim_description: What counts as a claim.
        max_gleanings: Further questions for what was missed.
        row: Id of the text unit.
    """
    variables = {"entity_specs": ", ".join(entity_specs), "claim_description": claim_description}

    async def talk(part: str, smaller: bool) -> Conversation[ClaimAnswer]:
        return await converse(
            ask,
            render(prompt, {**variables, "input_text": part}),
            parse=read_claims,
            salvage=salvage_claims,
            max_gleanings=max_gleanings,
            continue_prompt=continue_prompt,
            loop_prompt=loop_prompt,
            row=row,
            smaller=smaller,
        )

    said = await converse_in_parts(text.strip(), talk)
    examples = example_subjects(prompt)
    answers = (without_echoes(answer, part, examples) for part, each in said.conversations for answer in each.answers)
    merged = merge_claims(answers, row)
    merged.parts = said.count
    merged.attempts, merged.reason, merged.passing = said.attempts, said.reason, said.passing
    merged.status = "empty" if said.status == "ok" and not merged.claims else said.status
    return merged


def merge_claims(answers: Iterable[ClaimAnswer], text_unit_id: str) -> ClaimExtraction:
    """Merge the answers about one text unit into its rows: each claim once, in canonical order.

    Args:
        answers: Answers in the order in which they were given.
        text_unit_id: Id of the text unit.
    """
    unique: dict[tuple[str, ...], Row] = {}
    dropped: Counter[str] = Counter()
    for answer in answers:
        dropped += answer.dropped
        for claim in answer.claims:
            unique.setdefault(tuple(claim.values()), claim)
    return ClaimExtraction(
        [{"text_unit_id": text_unit_id, **unique[key]} for key in sorted(unique)], dropped=dict(sorted(dropped.items()))
    )
