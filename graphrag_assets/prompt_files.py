"""Prompt files: one file a prompt, the workspace's own before the packaged one."""

from __future__ import annotations

import importlib.resources
from pathlib import Path

from graphrag_assets.ids import digest
from graphrag_assets.settings import Workspace


class PromptError(ValueError):
    """A prompt file is missing or cannot be used; the message names it."""


def packaged_prompts() -> dict[str, str]:
    """All prompts that come with the project, by name without extension."""
    folder = importlib.resources.files("graphrag_assets.prompts")
    return {
        Path(file.name).stem: file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda f: f.name)
        if file.name.endswith(".txt")
    }


def load_prompt(workspace: Workspace, name: str, override: str | None = None) -> str:
    """Text of a prompt.

    Args:
        workspace: The workspace; a file prompts/NAME.txt in its root wins over the packaged prompt.
        name: Name without extension, such as extract_graph.
        override: Path from the settings, relative to the root; it must exist.

    Raises:
        PromptError: The overriding file does not exist, or there is no prompt of this name.
    """
    if override:
        path = workspace.path(override)
        if not path.is_file():
            raise PromptError(f"prompt file {path} (settings key for {name}) does not exist")
        return path.read_text(encoding="utf-8")
    path = workspace.path(f"prompts/{name}.txt")
    if path.is_file():
        return path.read_text(encoding="utf-8")
    resource = importlib.resources.files("graphrag_assets.prompts") / f"{name}.txt"
    if not resource.is_file():
        raise PromptError(f"there is no prompt {name!r}; there are {sorted(packaged_prompts())}")
    return resource.read_text(encoding="utf-8")


def prompt_version(text: str) -> str:
    """Version of a prompt: the hash of its text."""
    return digest("prompt", text)[:12]
