"""The partitions of the per-batch assets, and how an asset handles one batch or several in one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import dagster as dg

from graphrag_assets.storage.build import TableRef

T = TypeVar("T")

#: Document batches: bounded groups of documents. The inventory adds and removes keys.
BATCHES_NAME = "document_batches"
document_batches = dg.DynamicPartitionsDefinition(name=BATCHES_NAME)

#: A run over several batches is one run: a run costs seconds, a batch inside it a fraction of one.
one_run = dg.BackfillPolicy.single_run()

#: Whole-corpus assets read every batch.
every_batch = dg.AllPartitionMapping()


def by_batch(context: dg.AssetExecutionContext, value: Any) -> dict[str, Any]:
    """An input by batch: a run over one batch hands over the table itself, over several a dictionary of tables."""
    keys = list(context.partition_keys)
    return {keys[0]: value} if len(keys) == 1 and not isinstance(value, Mapping) else {key: value[key] for key in keys}


def all_there(table: TableRef, batches: Sequence[str]) -> TableRef:
    """A table of every batch, which whole-corpus assets need.

    Args:
        table: The table, with the batches that exist.
        batches: Batches that hold documents.

    Raises:
        dagster.Failure: Some batches are not there.
    """
    if missing := sorted(set(batches) - set(table.partitions)):
        raise dg.Failure(
            f"{table.name} lacks {len(missing)} of {len(batches)} batches, such as {missing[0]}: materialize them first "
            "(job index_batches), or run graphrag-assets index",
            allow_retries=False,
        )
    return TableRef(table.area, table.name, tuple(sorted(batches)))


def single_or_all(built: dict[str, T]) -> T | dict[str, T]:
    """What an output of a run over these batches is: the value itself for one, the dictionary for several."""
    return next(iter(built.values())) if len(built) == 1 else built
