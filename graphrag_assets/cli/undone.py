"""What failed, as ``status`` tells it: how often it was tried, when last and when again, and where its answer lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from graphrag_assets.llm.asking.failed_answers import file_name, folder_of
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.undone import FOLDER, Undone, read_undone

Row = dict[str, Any]

#: Stages of models whose answers a stage of tables is made with, in the order in which their files are looked for.
_ASKED = {
    "extraction": ("extract_graph", "extract_claims"),
    "graph": ("summarize_descriptions",),
    "community_reports": ("community_reports",),
}


class Failures:
    """What a workspace keeps about rows that could not be made.

    Args:
        workspace: Where the raw answers lie.
        storage: The storage base.
    """

    def __init__(self, workspace: Workspace, storage: FileSystem) -> None:
        self._folder = folder_of(workspace)
        self._rows: dict[str, dict[str, Undone]] = {stage: {} for stage in _ASKED}
        for info in storage.list(FOLDER):
            stage, _, part = info.path.removeprefix(f"{FOLDER}/").removesuffix(".json").partition("/")
            if stage in self._rows:
                found = read_undone(storage, stage, None if part == "all" else part)
                self._rows[stage].update(
                    {each.made_from if stage != "extraction" else each.row: each for each in found}
                )

    def told(self, stage: str, rows: Sequence[Mapping[str, Any]]) -> list[Row]:
        """Failed rows of a published table, with their tries.

        Args:
            stage: Stage of the table.
            rows: Rows with an id.
        """
        return [{**row, **self._tries(stage, self._rows[stage].get(row["id"]))} for row in rows]

    def summaries(self) -> list[Row]:
        """Descriptions of entities and relationships that stand side by side, since no summary could be had."""
        return [
            {"id": each.row, "status": each.status, "reason": each.reason, **self._tries("graph", each)}
            for each in sorted(self._rows["graph"].values(), key=lambda each: each.row)
        ]

    def _tries(self, stage: str, undone: Undone | None) -> Row:
        if undone is None:
            return {"tries": None, "last_tried": None, "next_try": None, "raw_answer": None}
        return {
            "tries": undone.tries,
            "last_tried": _moment(undone.last),
            "next_try": _moment(undone.next),
            "raw_answer": self._answer(stage, undone.row),
        }

    def _answer(self, stage: str, row: str) -> str | None:
        paths: list[Path] = [self._folder / file_name(asked, row) for asked in _ASKED[stage]]
        return next((str(path) for path in paths if path.is_file()), None)


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def answer_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the raw answers lie, and how to try again, as lines of the text output; none where nothing failed."""
    if not rows:
        return []
    folder = next((str(Path(row["raw_answer"]).parent) for row in rows if row.get("raw_answer")), "")
    lines = [f"Their raw answers: {folder}"] if folder else []
    return [*lines, "They are tried again when it is time, or at once by graphrag-assets index --retry-failed."]


def ladder_lines(stages: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the last run of each stage did about answers that could not be used as they were; none where all could."""
    lines = []
    for stage, counts in stages.items():
        steps = [
            f"{step.replace('_', ' ')} {each['recovered']} of {each['tried']}"
            for step, each in counts["ladder"].items()
        ]
        if steps or counts["failed"]:
            lines.append(f"  {stage}: {', '.join([*steps, str(counts['failed']) + ' failed'])}")
    return ["", "Answers that could not be used as they came, in the last run of each stage:", *lines] if lines else []
