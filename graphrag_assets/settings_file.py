"""Reading settings.yaml: substitution, environment overrides and messages that help.

The steps: the file is parsed (:mod:`graphrag_assets.settings_source`), variables are substituted in its values,
variables ``GRAPHRAG__SECTION__KEY`` override them, a file of Microsoft GraphRAG is translated
(:mod:`graphrag_assets.settings_reference`), and the result is validated (:mod:`graphrag_assets.settings_checks`).
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any

from graphrag_assets.settings import Notice, Settings, Workspace
from graphrag_assets.settings_checks import check_settings
from graphrag_assets.settings_reference import Translation, translate
from graphrag_assets.settings_source import (
    FILE_NAMES,
    KeyPath,
    SettingsError,
    Source,
    apply_overrides,
    dotted,
    find_settings_file,
    load_dotenv,
    read_settings_file,
    substitute,
)

__all__ = ["FILE_NAMES", "SettingsError", "load_workspace", "redacted", "settings_notices"]

logger = logging.getLogger(__name__)

_MASK = "**********"
_SECRET_KEY = re.compile(
    r"(^|[_-])(key|secret|password|token)$|authorization|credential|connection_string", re.IGNORECASE
)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")

# What was logged in this process, so that loading the same file again does not repeat it.
_logged: set[tuple[Path, Notice]] = set()


def load_workspace(root: str | Path | None = None) -> Workspace:
    """Load the workspace at a root folder, and log what in its settings does not work as written.

    Args:
        root: Folder with settings.yaml; None: the environment variable GRAPHRAG_ROOT, else the current folder. Without
            a settings file the embedded defaults run.

    Raises:
        SettingsError: The file cannot be read, or holds keys or values that are not understood.
    """
    workspace = _load(root)
    for notice in workspace.notices:
        if (workspace.root, notice) not in _logged:
            _logged.add((workspace.root, notice))
            name = workspace.file.name if workspace.file else "settings"
            logger.log(logging.INFO if notice.harmless else logging.WARNING, "%s: %s", name, notice)
    return workspace


def settings_notices(root: str | Path | None = None) -> list[Notice]:
    """What became of the keys of a settings file that do not work as written; nothing is logged.

    Args:
        root: As for :func:`load_workspace`.

    Raises:
        SettingsError: As :func:`load_workspace`.
    """
    return list(_load(root).notices)


def redacted(settings: Settings) -> dict[str, Any]:
    """The settings as plain values for display: keys, tokens and passwords are masked, also inside addresses."""

    def masked(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: masked(child, name) for name, child in value.items()}
        if _SECRET_KEY.search(key) and value not in (None, ""):
            return _MASK
        if isinstance(value, list):
            return [masked(child, "") for child in value]
        return _USER_INFO.sub(_MASK, value) if isinstance(value, str) else value

    plain: dict[str, Any] = masked(settings.model_dump(mode="json"), "")
    return plain


def _load(root: str | Path | None) -> Workspace:
    folder = Path(root or os.environ.get("GRAPHRAG_ROOT") or ".").absolute()
    if not folder.is_dir():
        what = (
            "is a file; give its folder" if folder.is_file() else "does not exist; create it with graphrag-assets init"
        )
        raise SettingsError(f"workspace {folder} {what}")
    load_dotenv(folder)
    file = find_settings_file(folder)
    source = read_settings_file(file) if file else Source()
    problems: list[tuple[KeyPath, str]] = []
    source.tree = substitute(source.tree, os.environ, lambda path, message: problems.append((path, message)))
    apply_overrides(source, os.environ)
    translation = translate(source.tree, folder)
    checked = check_settings(translation.tree)
    problems += translation.problems
    problems += [(translation.written(path), message) for path, message in checked.problems]
    if problems or checked.settings is None:
        raise SettingsError(_report(file or folder, source, problems))
    notices = (*_other_files(folder, file), *translation.notices, *_as_written(checked.notices, translation))
    return Workspace(root=folder, settings=checked.settings, file=file, notices=notices)


def _report(where: Path, source: Source, problems: list[tuple[KeyPath, str]]) -> str:
    """All problems, one a line, in the order of the file."""
    order = {path: number for number, path in enumerate(source.lines)}

    def rank(problem: tuple[KeyPath, str]) -> tuple[int, KeyPath]:
        path = problem[0]
        known = next((order[path[:length]] for length in range(len(path), 0, -1) if path[:length] in order), -1)
        return known, path

    lines = []
    for path, message in sorted(dict.fromkeys(problems), key=rank):
        place = source.place(path)
        key = dotted(path)
        told = message if message.startswith(f"{key}.") else f"{key}: {message}" if key else message
        lines.append(f"{place}: {told}" if place else told)
    if len(lines) == 1:
        return f"{where}, {lines[0]}"
    return f"{where} has {len(lines)} problems:\n" + "\n".join(f"  {line}" for line in lines)


def _as_written(notices: list[Notice], translation: Translation) -> list[Notice]:
    """Notices about keys in our terms, told by the keys that the file has."""
    told = []
    for notice in notices:
        key = dotted(translation.written(tuple(notice.key.split("."))))
        told.append(Notice(key, notice.what, notice.why, notice.harmless))
    return told


def _other_files(folder: Path, file: Path | None) -> list[Notice]:
    others = [name for name in FILE_NAMES if file and name != file.name and (folder / name).is_file()]
    return [Notice(name, "not read", f"{file.name} is read; keep one of them") for name in others if file]
