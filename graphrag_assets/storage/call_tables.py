"""Contracts of the tables that tell which calls of models a snapshot was made with.

They lie in the folder of a snapshot, are named in its manifest as records, and are part of neither its content hash nor
its published tables: when a call was made and how long it took differs from run to run, what a snapshot holds does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from graphrag_assets.storage.contract import Column, Table

_TIME = pa.timestamp("ms")

CALLS = Table(
    "calls",
    "One call of a model that rows of the snapshot were made with: asked by an index run, or taken from the cache.",
    (
        Column("call", pa.int64(), "Number of the call, from 0, in the order of time."),
        Column("stage", pa.string(), "Stage, such as extract_graph, summarize_descriptions, community_reports."),
        Column(
            "row",
            pa.string(),
            "Id of the row that it served: a text unit, an entity or relationship, a community for its report, a pair of "
            "titles 'A | B'; of several the first (call_rows has all).",
        ),
        Column("rows", pa.int64(), "How many rows it served: 1, or as many as a batch of texts or of pairs has."),
        Column("model", pa.string(), "Provider and model."),
        Column("prompt", pa.string(), "Version of the prompt: the hash of its text; empty for embeddings."),
        Column("turn", pa.int64(), "Place in a conversation, from 1; 2 and more are gleanings."),
        Column(
            "prompt_tokens", pa.int64(), "Tokens sent, over all attempts; null where the provider did not say.", True
        ),
        Column("completion_tokens", pa.int64(), "Tokens received.", True),
        Column("usd", pa.float64(), "Price of the answer when it was made; null where it is not known.", True),
        Column("seconds", pa.float64(), "Time spent waiting for the answer when it was made.", True),
        Column("attempts", pa.int64(), "Requests that it took; 0 where that is not known."),
        Column("cached", pa.bool_(), "Whether the run took it from the cache, and so did not pay for it again."),
        Column("batched", pa.bool_(), "Whether the answer came by a batch of the provider, at the price of batches."),
        Column("status", pa.string(), "ok, or failed, truncated, refused, interrupted."),
        Column("made", _TIME, "When the answer was made, UTC; null where that is not known.", True),
        Column("asked", _TIME, "When the run asked for it, UTC."),
        Column(
            "run", pa.string(), "Dagster run that asked for it; tune-prompts and the time for one that tuned prompts."
        ),
        Column("answer", pa.string(), "Key of the answer in the cache."),
    ),
    order=("asked", "stage", "row"),
    row_group_size=1_024,
    keys=("call",),
)

CALL_ROWS = Table(
    "call_rows",
    "One pair of a row and a call that served it.",
    (
        Column("row", pa.string(), "Id of the row; for resolve_entities a pair of titles 'A | B'."),
        Column("stage", pa.string(), "Stage of the call."),
        Column("call", pa.int64(), "Number of the call."),
    ),
    order=("row", "stage", "call"),
    row_group_size=2_048,
    keys=("row",),
    fetched=("call", "stage"),
)

#: Every call of the index that the ledger of this host knows, in the columns of calls; not part of a snapshot.
CALL_LOG = "call_log"

#: Records of a snapshot, in the order in which people read them.
RECORDS: tuple[Table, ...] = (CALLS, CALL_ROWS)


def tables_of(calls: Iterable[Mapping[str, Any]]) -> dict[str, pa.Table]:
    """The records, by name.

    Args:
        calls: Columns of calls without its number and rows, and ``served``: the ids of the rows.
    """
    ordered = sorted(calls, key=lambda call: (call["asked"], call["stage"], call["served"][:1], call["answer"]))
    rows = [
        {"batched": False, **call, "call": number, "row": (call["served"] or [""])[0], "rows": len(call["served"])}
        for number, call in enumerate(ordered)
    ]
    links = sorted((row, call["stage"], call["call"]) for call in rows for row in call["served"])
    columns: list[list[Any]] = [list(column) for column in zip(*links, strict=True)] if links else [[], [], []]
    return {
        CALLS.name: CALLS.from_rows(rows),
        CALL_ROWS.name: CALL_ROWS.from_columns(dict(zip(CALL_ROWS.column_names, columns, strict=True))),
    }
