"""Raw answers that could not be used, as files beside the answer cache, for people to look at.

Bounded in size and number, the oldest go first. What lies here is never read by the program, and goes into no log: it may
quote the documents.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from datetime import UTC, datetime
from pathlib import Path

from graphrag_assets.indexing.asking import AnswerError
from graphrag_assets.settings import Workspace

logger = logging.getLogger(__name__)

#: Most characters of an answer that are kept.
MOST_CHARACTERS = 100_000

#: Most files.
MOST_FILES = 1_000

_PLAIN = re.compile(r"[\w.-]{1,128}")


def folder_of(workspace: Workspace) -> Path:
    """The folder of a workspace in which they lie."""
    return workspace.path(workspace.settings.cache.path).with_name("failed_answers")


def file_name(stage: str, row: str) -> str:
    """Name of the file of a row: its id, where that can be the name of a file."""
    name = row if _PLAIN.fullmatch(row) else hashlib.sha256(row.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{stage}-{name}.txt"


class FailedAnswers:
    """The files of a workspace. A help, never a reason to fail: what cannot be written is left out.

    Args:
        folder: Where they lie; made when the first one is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, stage: str, row: str, model: str, error: AnswerError) -> None:
        """Keep the last answer to a question.

        Args:
            stage: Stage of the question.
            row: Id of the row that it serves.
            model: Provider and model.
            error: Why it cannot be used, with the answer.
        """
        cut = len(error.answer) - MOST_CHARACTERS
        head = {
            "stage": stage,
            "row": row,
            "model": model,
            "status": error.status,
            "reason": error.reason,
            "attempts": error.attempts,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            **({"characters_left_out": cut} if cut > 0 else {}),
        }
        lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in head.items()]
        text = "\n".join(lines) + "\n\n" + error.answer[:MOST_CHARACTERS]
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / file_name(stage, row)).write_text(text, encoding="utf-8", errors="replace", newline="")
            self._prune()
        except OSError as problem:
            logger.debug("%s: an answer could not be kept: %s", self._folder, problem)

    def _prune(self) -> None:
        files = list(self._folder.glob("*.txt"))
        if len(files) > MOST_FILES:
            ages = sorted((path.stat().st_mtime, path) for path in files)
            for _, path in ages[: len(files) - MOST_FILES]:
                path.unlink(missing_ok=True)
