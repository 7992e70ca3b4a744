"""Input, documents and text units."""

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pyarrow as pa
from pydantic import Field

from graphrag_assets import ids
from graphrag_assets.assets.checks import check_rows, check_specs
from graphrag_assets.assets.fingerprints import Fingerprints
from graphrag_assets.assets.partitions import by_batch, document_batches, one_run, single_or_all
from graphrag_assets.assets.resources import Index
from graphrag_assets.assets.specs import INPUT, described
from graphrag_assets.indexing.chunking import chunk, prepend
from graphrag_assets.input.folder import InputError, read_input
from graphrag_assets.input.inventory import SMALL, common_language, documents_of
from graphrag_assets.llm.tokens import tokenizer
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import Built
from graphrag_assets.storage.failures import fails_at_once, may_pass, retries
from graphrag_assets.storage.filesystem import FileSystem, StorageError
from graphrag_assets.storage.ranges import reading_ahead
from graphrag_assets.storage.tables import BATCH_DOCUMENTS, BATCH_TEXT_UNITS


def read_documents(source: FileSystem, workspace: Workspace, inventory: pa.Table, batch: str) -> tuple[pa.Table, int]:
    """Read the documents of a batch.

    Args:
        source: The input.
        workspace: Settings.
        inventory: The whole inventory.
        batch: Batch key.

    Returns:
        The batch's documents in the order of their paths, and how many of them are no longer as the inventory saw them
        (they are read as they are now, or left out where they are gone; the next inventory puts that right).
    """
    settings = workspace.settings
    common = common_language(inventory)
    wanted: dict[str, dict[str, str]] = {}
    languages: dict[str, str] = {}
    sizes: Counter[str] = Counter()
    columns = ["file", "path", "content_hash", "language", "bytes"]
    for row in documents_of(inventory, batch).select(columns).to_pylist():
        wanted.setdefault(row["file"], {})[row["path"]] = row["content_hash"]
        languages[row["path"]] = row["language"] or common
        sizes[row["file"]] += row["bytes"]
    rows: list[dict[str, object]] = []
    changed = 0
    with reading_ahead(source, [file for file in sorted(wanted) if sizes[file] <= SMALL]) as readable:
        for file, versions in sorted(wanted.items()):
            found = {d.path: d for d in read_input(readable, file, settings.input).documents if d.path in versions}
            changed += sum(
                1 for path, version in versions.items() if path not in found or found[path].content_hash != version
            )
            for path, document in found.items():
                rows.append(
                    {
                        "id": document.document_id,
                        "title": document.title,
                        "text": document.text,
                        "creation_date": document.creation_date,
                        "raw_data": document.raw_data,
                        "path": path,
                        "content_hash": document.content_hash,
                        "language": languages[path],
                    }
                )
    return BATCH_DOCUMENTS.from_rows(sorted(rows, key=lambda row: str(row["path"]))), changed


def cut_documents(documents: pa.Table, workspace: Workspace) -> pa.Table:
    """Cut documents into text units.

    Args:
        documents: Rows of batch_documents.
        workspace: Chunking settings.

    Returns:
        Rows of batch_text_units, in the order of documents and positions.
    """
    settings = workspace.settings.chunking
    counter = tokenizer(settings.encoding_model)
    rows: list[dict[str, object]] = []
    for document in documents.to_pylist():
        metadata = {"id": document["id"], "title": document["title"], "creation_date": document["creation_date"]}
        metadata |= json.loads(document["raw_data"] or "{}")
        fields = settings.prepend_metadata
        head = prepend(metadata, fields, counter, settings.size // 2) if fields else ""
        seen: Counter[str] = Counter()
        pieces = chunk(
            document["text"],
            counter,
            type=settings.type,
            size=settings.size,
            overlap=settings.overlap,
            min_size=settings.min_size,
            reserved=counter.count(head) if head else 0,
        )
        for position, piece in enumerate(pieces):
            text = head + piece.text
            rows.append(
                {
                    "id": ids.text_unit_id(document["id"], text, seen[text]),
                    "text": text,
                    "n_tokens": counter.count(text) if head else piece.n_tokens,
                    "document_id": document["id"],
                    "position": position,
                    "start": piece.start,
                    "end": piece.end,
                }
            )
            seen[text] += 1
    return BATCH_TEXT_UNITS.from_rows(rows)


class InventoryConfig(dg.Config):
    """What a person may allow a look at the input."""

    allow_empty: bool = Field(
        False, description="Delete all documents where the input holds none any more, or a folder cannot be read."
    )
    replace_imported: bool = Field(
        False, description="The index takes the place of an imported snapshot: an input without documents is refused."
    )
    settle_seconds: float = Field(
        0.0, description="Leave files that were changed in the last seconds as they were seen last: they may be half."
    )


def document_assets(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Declare input_inventory, input_files, rejected_inputs, documents and text_units."""

    @dg.multi_asset(
        name="inventory",
        outs={
            name: dg.AssetOut(**described(name, INPUT, kinds={"parquet"}))
            for name in ("input_files", "input_inventory", "rejected_inputs")
        },
        internal_asset_deps={
            "input_files": set(),
            "input_inventory": {dg.AssetKey("input_files")},
            "rejected_inputs": {dg.AssetKey("input_files")},
        },
        retry_policy=retries(workspace),
    )
    @fails_at_once
    def inventory(context: dg.AssetExecutionContext, config: InventoryConfig, index: Index) -> Iterator[dg.Output[Any]]:
        from graphrag_assets.automation.plan import inventory_fingerprint
        from graphrag_assets.automation.reconcile import look_at_input

        try:
            found = look_at_input(
                index,
                context.instance,
                allow_empty=config.allow_empty,
                replace=config.replace_imported,
                settle_seconds=config.settle_seconds,
            )
        except (InputError, StorageError) as error:
            raise dg.Failure(str(error), allow_retries=may_pass(error)) from error
        changes = found.changes
        yield dg.Output(Built(found.files), "input_files", metadata={"input": index.input.base})
        figures = {
            "documents_added": changes.added,
            "documents_edited": changes.edited,
            "documents_deleted": changes.deleted,
            "documents_unchanged": changes.unchanged,
            "batches": len(set(found.documents["batch"].to_pylist())),
            "characters": sum(found.documents["characters"].to_pylist()),
        }
        # What a batch is made from is told by fingerprints; what concerns all batches is how the input is read.
        version = inventory_fingerprint(index.workspace)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            read = dg.Output(
                Built(found.documents, version),
                "input_inventory",
                metadata=figures,
                data_version=dg.DataVersion(version),
            )
        yield read
        reasons = dg.MetadataValue.md(rejected_table(found.rejected))
        yield dg.Output(Built(found.rejected), "rejected_inputs", metadata={"reasons": reasons})

    @dg.asset(
        partitions_def=document_batches,
        backfill_policy=one_run,
        retry_policy=retries(workspace),
        **described("documents", INPUT, kinds={"parquet"}, workspace=workspace),
    )
    @fails_at_once
    def documents(context: dg.AssetExecutionContext, index: Index, input_inventory: pa.Table) -> Any:
        prints = Fingerprints(index.workspace, input_inventory)
        built = {}
        for key in context.partition_keys:
            table, changed = read_documents(index.input, index.workspace, input_inventory, key)
            if changed:
                context.log.warning(
                    f"{key}: {changed} documents changed since the inventory; the next run reads them again"
                )
            fingerprint = index.stamp(prints, "documents", key, failed=bool(changed))
            built[key] = Built(table, fingerprint, metadata=_document_figures(table))
        return single_or_all(built)

    @dg.asset(
        partitions_def=document_batches,
        backfill_policy=one_run,
        retry_policy=retries(workspace),
        check_specs=check_specs("text_units"),
        **described("text_units", INPUT, kinds={"parquet"}, workspace=workspace),
    )
    @fails_at_once
    def text_units(
        context: dg.AssetExecutionContext, index: Index, documents: Any
    ) -> Iterator[dg.AssetCheckResult | dg.Output[Any]]:
        prints = index.fingerprints()
        tables = by_batch(context, documents)
        units = {key: cut_documents(table, index.workspace) for key, table in tables.items()}
        rows = {"documents": pa.concat_tables(tables.values()), "text_units": pa.concat_tables(units.values())}
        yield from check_rows(["text_units"], rows, index.workspace.settings.checks)
        built = {}
        for key, table in units.items():
            figures = {"documents": tables[key].num_rows, "tokens": sum(table["n_tokens"].to_pylist())}
            built[key] = Built(table, index.stamp(prints, "text_units", key), metadata=figures)
        yield dg.Output(single_or_all(built))

    return [inventory, documents, text_units]


def _document_figures(documents: pa.Table) -> dict[str, Any]:
    """What the page of a batch says about its documents."""
    languages = Counter(language or "unknown" for language in documents["language"].to_pylist())
    return {
        "characters": sum(len(text) for text in documents["text"].to_pylist()),
        "languages": ", ".join(f"{language}: {count}" for language, count in sorted(languages.items())),
    }


#: Rows of a table that its metadata shows; the whole table is in the index.
PREVIEW_ROWS = 20


def rejected_table(rejected: pa.Table) -> str:
    """The first rejected inputs as a Markdown table, and how many there are in all."""
    if not rejected.num_rows:
        return "Everything in the input could be read."
    lines = ["| file | place | reason | detail |", "| --- | --- | --- | --- |"]
    for row in rejected.slice(0, PREVIEW_ROWS).to_pylist():
        cells = [
            str(row[name]).replace("|", "\\|").replace("\n", " ") for name in ("file", "location", "reason", "detail")
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if rejected.num_rows > PREVIEW_ROWS:
        lines.append(f"\n{rejected.num_rows} in all; the table rejected_inputs has every one.")
    return "\n".join(lines)
