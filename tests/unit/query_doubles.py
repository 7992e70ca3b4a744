"""A small published snapshot and model doubles for the tests of queries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphrag_assets.indexing.asking import AnswerError, Message, Reply
from graphrag_assets.llm.tokens import tokenizer
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.query.index import Index, open_index
from graphrag_assets.query.models import Models
from graphrag_assets.settings import Settings, Workspace
from tests.published import HashEmbedder, Rows, publish

TOKENS = tokenizer("o200k_base")

LETTER = (
    "Ada Finch bought the mill at Brook End in 1931. The mill had forty looms. "
    "Her brother Tom Finch kept the books.\n\n"
    "The river flooded the mill in 1934. Nobody was hurt."
)
MINUTES = (
    "The council met on 3 May 1935. Tom Finch asked for a loan of 900 crowns. The council refused.\n\n"
    'Ada Finch said: "Then we sell | or close."'
)
NEWS = "Brook End has a new school. The school opened in 1936 in the old mill."


def small_rows() -> dict[str, Rows]:
    """Three documents, five text units, five entities, two levels of communities."""
    texts = {"letter.txt": LETTER, "minutes.txt": MINUTES, "news.txt": NEWS}
    documents = [
        {"id": f"d{i}", "human_readable_id": i, "title": path, "path": path, "text": text, "content_hash": f"h{i}"}
        for i, (path, text) in enumerate(texts.items())
    ]
    units: Rows = []
    for document in documents:
        start = 0
        for part in document["text"].split("\n\n"):
            start = document["text"].index(part, start)
            units.append(
                {
                    "id": f"t{len(units)}",
                    "human_readable_id": len(units),
                    "text": part,
                    "n_tokens": TOKENS.count(part),
                    "document_id": document["id"],
                    "start": start,
                    "end": start + len(part),
                }
            )
    named = {
        "ADA FINCH": ["t0", "t3"],
        "BROOK END": ["t0", "t4"],
        "COUNCIL": ["t2"],
        "MILL": ["t0", "t1", "t4"],
        "TOM FINCH": ["t0", "t2"],
    }
    pairs = [
        ("ADA FINCH", "MILL", ["t0"], 9.0),
        ("ADA FINCH", "TOM FINCH", ["t0"], 5.0),
        ("MILL", "BROOK END", ["t0", "t4"], 4.0),
        ("TOM FINCH", "COUNCIL", ["t2"], 3.0),
    ]
    degree = {title: sum(title in pair[:2] for pair in pairs) for title in named}
    entities = [
        {
            "id": f"e{i}",
            "human_readable_id": i,
            "title": title,
            "type": "THING",
            "description": f"{title.title()} of the story",
            "text_unit_ids": ids,
            "frequency": len(ids),
            "degree": degree[title],
        }
        for i, (title, ids) in enumerate(named.items())
    ]
    relationships = [
        {
            "id": f"r{i}",
            "human_readable_id": i,
            "source": a,
            "target": b,
            "description": f"{a} and {b}",
            "weight": weight,
            "combined_degree": degree[a] + degree[b],
            "text_unit_ids": ids,
        }
        for i, (a, b, ids, weight) in enumerate(pairs)
    ]
    groups = [(0, 0, -1, [0, 1, 2, 3, 4], [1, 2]), (1, 1, 0, [0, 1, 3], []), (2, 1, 0, [2, 4], [])]
    communities = [
        {
            "id": f"c{c}",
            "human_readable_id": c,
            "community": c,
            "level": level,
            "parent": parent,
            "children": children,
            "title": f"Community {c}",
            "entity_ids": [f"e{e}" for e in members],
            "size": len(members),
        }
        for c, level, parent, members, children in groups
    ]
    reports = [
        {
            "id": f"p{c['community']}",
            "human_readable_id": c["community"],
            **{key: c[key] for key in ("community", "level", "parent", "children", "size")},
            "title": f"Report {c['community']}",
            "summary": "A mill and its owners.",
            "full_content": (
                f"# Report {c['community']}\n\nThe mill was bought by Ada Finch in 1931 [Data: Relationships (0)].\n\n"
                f"## Loan\n\nThe council refused a loan [Data: Entities (2); Relationships (3)]."
            ),
            "rank": 5.0 + c["community"],
        }
        for c in sorted(communities, key=lambda c: (-c["level"], c["community"]))
    ]
    claims = [
        {
            "id": "k0",
            "human_readable_id": 0,
            "covariate_type": "claim",
            "type": "REFUSAL",
            "description": "The council refused a loan.",
            "subject_id": "COUNCIL",
            "object_id": "TOM FINCH",
            "status": "TRUE",
            "start_date": "1935-05-03",
            "end_date": "NONE",
            "source_text": "The council refused.",
            "text_unit_id": "t2",
        }
    ]
    aliases = [{"alias": "MISS FINCH", "title": "ADA FINCH", "decision": "merged", "method": "honorific", "score": 1.0}]
    return {
        "documents": documents,
        "text_units": units,
        "entities": entities,
        "relationships": relationships,
        "covariates": claims,
        "communities": communities,
        "community_reports": reports,
        "entity_aliases": aliases,
    }


def small_index(base: Path, rows: Mapping[str, Rows] | None = None, **settings: Any) -> Index:
    """Publish the small rows (or others) and open them, with settings by section."""
    publish(base / "output", small_rows() if rows is None else rows)
    workspace = Workspace(root=base, settings=Settings.model_validate(settings))
    return open_index(str(base / "output"), workspace=workspace)


#: Answers a stage: takes stage and messages, returns text, or raises.
Handler = Callable[[str, Sequence[Message]], str]


class FakeChat:
    """A language model that answers by a function and keeps what it was asked."""

    def __init__(self, handler: Handler, delay: float = 0.0) -> None:
        self.handler = handler
        self.delay = delay
        self.asked: list[tuple[str, Sequence[Message]]] = []
        self._usage: dict[str, StageUsage] = {}

    def ask(self, stage: str, model_id: str) -> Any:
        async def ask(messages: Sequence[Message], parse: Callable[[str], Any], **_: Any) -> Reply[Any]:
            text = await self._answer(stage, messages)
            try:
                return Reply(parse(text), text)
            except ValueError as error:
                raise AnswerError("failed", str(error), 2, text) from error

        return ask

    async def chat_stream(self, stage: str, model_id: str, messages: Sequence[Message]) -> AsyncIterator[str]:
        text = await self._answer(stage, messages)
        for i in range(0, len(text), 3):
            yield text[i : i + 3]

    async def _answer(self, stage: str, messages: Sequence[Message]) -> str:
        self.asked.append((stage, messages))
        self._usage.setdefault(stage, StageUsage()).calls += 1
        await asyncio.sleep(self.delay)
        return self.handler(stage, messages)

    def usage(self) -> dict[str, StageUsage]:
        return self._usage

    def stages(self) -> list[str]:
        return [stage for stage, _ in self.asked]


def models(chat: FakeChat | None = None) -> Models:
    """Models with the hash embedder; without a chat model answers are extractive."""
    return Models(HashEmbedder(), TOKENS, chat, None, chat.usage if chat else None)


def good_answers(stage: str, messages: Sequence[Message]) -> str:
    """What a well-behaved model says at every stage."""
    if stage == "query_map":
        return json.dumps({"points": [{"description": "Ada Finch bought the mill [Data: Reports (1)]", "score": 80}]})
    if stage == "query_drift_primer":
        return json.dumps(
            {
                "intermediate_answer": "A mill changed hands [Data: Reports (1)].",
                "score": 40,
                "follow_up_queries": ["Who kept the books?", "who kept the books", "Who refused the loan?"],
            }
        )
    if stage == "query_drift_local":
        return json.dumps(
            {
                "response": "Tom Finch did [Data: Sources (0)].",
                "score": 70,
                "follow_up_queries": ["Who kept the BOOKS?"],
            }
        )
    return "Ada Finch bought the mill in 1931 [Data: Sources (0); Reports (1)]."
