"""Reading settings.yaml: substitution, environment overrides and messages that help."""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from pydantic import ValidationError

from graphrag_assets.settings import Settings, Workspace

FILE_NAMES = ("settings.yaml", "settings.yml", "settings.json")


class SettingsError(ValueError):
    """The settings cannot be used; the message names each key at fault and how to mend it."""


def load_workspace(root: str | Path | None = None) -> Workspace:
    """Load the workspace at a root folder.

    Args:
        root: Folder with settings.yaml; None: the environment variable GRAPHRAG_ROOT, else the current folder. Without
            a settings file the embedded defaults run.

    Raises:
        SettingsError: The file cannot be read, or holds keys or values that are not understood.
    """
    folder = Path(root or os.environ.get("GRAPHRAG_ROOT") or ".").absolute()
    for name in FILE_NAMES:
        if (folder / name).is_file():
            raw = yaml.safe_load((folder / name).read_text(encoding="utf-8")) or {}
            try:
                return Workspace(root=folder, settings=Settings.model_validate(raw))
            except ValidationError as error:
                raise SettingsError(f"{folder / name}: {error}") from error
    return Workspace(root=folder, settings=Settings())
