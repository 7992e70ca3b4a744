"""What a person should know about an index run beside its figures: no documents, rejections, languages read by rules."""

from __future__ import annotations

from collections import Counter
from typing import Any

from graphrag_assets.input.documents import WARNINGS
from graphrag_assets.input.folder import list_inputs
from graphrag_assets.input.readers import FORMATS
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.snapshots import Manifest

#: Rejections that the text output of an index run names; --json and the status have all of them.
SHOWN = 5


def notes(workspace: Workspace, source: FileSystem, storage: FileSystem, manifest: Manifest | None) -> list[str]:
    """What should be known of the published snapshot, in sentences."""
    if manifest is None:
        return []
    if not manifest.tables["documents"].rows:
        return [no_documents(workspace, source)]
    by_rules = read_by_rules(workspace, storage, manifest)
    return [by_rules] if by_rules else []


def no_documents(workspace: Workspace, source: FileSystem) -> str:
    """Why the index holds no documents: what was looked for, where, and what to do."""
    settings = workspace.settings.input
    listed = len(list_inputs(source, settings))
    passed_over = sum(1 for _ in source.entries()) - listed
    if listed:
        return (
            f"The index holds no documents: none of the {listed} files in {source.base} could be used; "
            "graphrag-assets status says why"
        )
    wanted = (
        f"files that match input.file_pattern {settings.file_pattern!r}"
        if settings.file_pattern
        else f"files of input.type {settings.type}"
        if settings.type != "auto"
        else f"files such as {', '.join(sorted(FORMATS))}"
    )
    others = f" ({passed_over} other or hidden files are there)" if passed_over else ""
    return (
        f"The index holds no documents: {source.base} holds no {wanted}{others}; put documents there, or set "
        f"{source.setting} in settings.yaml, and run graphrag-assets index again"
    )


def read_by_rules(workspace: Workspace, storage: FileSystem, manifest: Manifest) -> str:
    """Which documents the fast method read by rules, since the pipeline does not read their language; else empty."""
    from graphrag_assets.indexing.fast_extraction import is_read
    from graphrag_assets.indexing.noun_phrases import pipeline_language

    if manifest.info.get("method") != "fast":
        return ""
    model_name = workspace.settings.extract_graph_nlp.text_analyzer.model_name
    languages = Counter(read_table(storage, manifest.tables["documents"].path, ["language"])["language"].to_pylist())
    foreign = {language: count for language, count in languages.items() if not is_read(model_name, language)}
    if not foreign:
        return ""
    told = ", ".join(f"{count} {language}" for language, count in sorted(foreign.items()))
    return (
        f"Read by rules: {sum(foreign.values())} of {languages.total()} documents ({told}), since the spaCy pipeline "
        f"{model_name} reads {pipeline_language(model_name)}; names are found less well so. Name a pipeline for the "
        "language in extract_graph_nlp.text_analyzer.model_name, set language where the guess is wrong, or configure "
        "a completion model"
    )


def rejections(rows: list[dict[str, Any]]) -> list[str]:
    """Lines that name the first rejected files, and say how many more there are."""
    unusable = [row for row in rows if row["reason"] not in WARNINGS]
    first = (unusable or rows)[:SHOWN]
    lines = []
    for row in first:
        place = f"{row['file']}, {row['location']}" if row["location"] else row["file"]
        lines.append(f"  {place}: {row['reason']}: {row['detail']}")
    head = f"Rejected: {len(unusable)}" + (
        f", and {len(rows) - len(unusable)} warnings" if len(rows) > len(unusable) else ""
    )
    more = f"; the first {len(first)} of {len(rows)}, all: graphrag-assets status" if len(rows) > len(first) else ""
    return [f"{head}{more}", *lines] if rows else []
