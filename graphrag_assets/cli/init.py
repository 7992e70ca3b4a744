"""graphrag-assets init: a new workspace."""

from __future__ import annotations

import importlib.resources
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from graphrag_assets.cli.local_recipes import ADDRESSES, SMALL_WINDOW, completion_lines, embedding_lines
from graphrag_assets.prompt_files import packaged_prompts
from graphrag_assets.settings import DEFAULT_COMPLETION_MODEL, DEFAULT_EMBEDDING_MODEL
from graphrag_assets.settings_models import KEYLESS_PROVIDERS
from graphrag_assets.settings_source import FILE_NAMES
from graphrag_assets.text.templates import render

logger = logging.getLogger(__name__)

KEY_VARIABLE = "GRAPHRAG_API_KEY"
EMBEDDING_KEY_VARIABLE = "GRAPHRAG_EMBEDDING_API_KEY"
OPENAI_EMBEDDING = "openai/text-embedding-3-small"

_NO_COMPLETION = """\
# Without a completion model the fast method runs: no key, no network. For a model, remove the # of these lines:
# completion_models:
#   default_completion_model:
#     model_provider: openai # as LiteLLM names it: openai, azure, anthropic, ollama, ...
#     model: gpt-4.1-mini
#     api_key: ${GRAPHRAG_API_KEY} # set it in .env
"""
_NO_EMBEDDING = """\
# Without an embedding model the embedded one runs. For another, remove the #:
# embedding_models:
#   default_embedding_model:
#     model_provider: openai
#     model: text-embedding-3-small
#     api_key: ${GRAPHRAG_API_KEY}
"""


class InitError(ValueError):
    """The workspace cannot be made; the message says why and how to mend it."""


@dataclass(frozen=True)
class _Model:
    provider: str
    name: str
    key_variable: str | None

    @classmethod
    def parse(cls, text: str, key_variable: str) -> _Model:
        """Read provider/name; a name alone is OpenAI's."""
        provider, separator, name = text.strip().partition("/")
        if not separator:
            provider, name = "openai", provider
        if not provider or not name or any(c.isspace() or c in "\"'#{}$" for c in provider + name):
            raise InitError(f"model {text!r}: expected provider/name, such as openai/gpt-4.1-mini or ollama/llama3.1")
        return cls(provider, name, None if provider in KEYLESS_PROVIDERS else key_variable)

    def entry(self, section: str, model_id: str) -> str:
        """The entry as YAML."""
        lines = [f"{section}:", f"  {model_id}:", f"    model_provider: {self.provider}", f'    model: "{self.name}"']
        if self.key_variable:
            lines.append(f"    api_key: ${{{self.key_variable}}} # set it in .env")
        if self.provider == "azure":
            lines.append("    api_base: https://YOUR-RESOURCE.openai.azure.com # your endpoint")
            lines.append("    # api_version: 2024-10-21")
            lines.append("    # azure_deployment_name: where it differs from the model")
        elif self.provider in ADDRESSES:
            lines.append(f"    api_base: {ADDRESSES[self.provider]}")
        else:
            lines.append("    # api_base: where it is not the provider's own")
        lines += (completion_lines if section == "completion_models" else embedding_lines)(self.provider)
        return "\n".join(lines) + "\n"


def init_workspace(
    directory: Path, model: str | None = None, embedding: str | None = None, force: bool = False
) -> list[Path]:
    """Make a workspace: settings.yaml, prompts/, input/, .env, .gitignore, and the files that Dagster's
    commands read (workspace.yaml, dagster.yaml, dg.toml, index_definitions.py).

    Files that exist are kept, unless ``force`` is set; a .env file and the input are always kept. With OpenAI's
    completion model comes its small embedding model; other providers get one only when it is asked for.

    Args:
        directory: Folder of the workspace; made where it does not exist.
        model: Completion model as provider/name; None: no model, so that the embedded defaults run.
        embedding: Embedding model as provider/name.
        force: Replace settings, prompts and Dagster files that exist.

    Returns:
        The files that were written, in a fixed order. Those of :func:`workspace_files` that are missing were kept.

    Raises:
        InitError: A settings file exists and ``force`` is not set, a model is not understood, or the folder cannot be
            written.
    """
    existing = [name for name in FILE_NAMES if (directory / name).exists()]
    if existing and not force:
        raise InitError(
            f"{directory / existing[0]} exists; use --force to replace settings and prompts, or another folder"
        )
    others = [name for name in existing if name != FILE_NAMES[0]]
    if others:
        raise InitError(f"{directory / others[0]} exists beside the new settings.yaml; remove it first")
    contents = _contents(model, embedding)
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "input").mkdir(exist_ok=True)
        for name, text in contents.items():
            path = directory / name
            if path.exists() and (not force or name == ".env"):
                logger.info("kept %s", path)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, text, private=name == ".env")
            written.append(path)
    except OSError as error:
        raise InitError(f"cannot write the workspace {directory}: {error}") from error
    return written


def workspace_files(directory: Path) -> list[Path]:
    """All files that a new workspace has, in the order in which they are written."""
    return [directory / name for name in _contents(None, None)]


def template(name: str) -> str:
    """Text of a template file of this package."""
    return (importlib.resources.files("graphrag_assets.cli") / "templates" / name).read_text(encoding="utf-8")


def _contents(model: str | None, embedding: str | None) -> dict[str, str]:
    """Text of every file by its path in the workspace."""
    completion = _Model.parse(model, KEY_VARIABLE) if model else None
    if not embedding and completion and completion.provider == "openai":
        embedding = OPENAI_EMBEDDING
    vectors = _Model.parse(embedding, KEY_VARIABLE) if embedding else None
    if (
        vectors
        and vectors.key_variable
        and completion
        and completion.provider != vectors.provider
        and completion.key_variable
    ):
        vectors = _Model(vectors.provider, vectors.name, EMBEDDING_KEY_VARIABLE)
    models = completion.entry("completion_models", DEFAULT_COMPLETION_MODEL) if completion else _NO_COMPLETION
    models += "\n" + (vectors.entry("embedding_models", DEFAULT_EMBEDDING_MODEL) if vectors else _NO_EMBEDDING)
    if completion and completion.provider in ADDRESSES:
        models += "\n" + SMALL_WINDOW
    variables = [KEY_VARIABLE]
    if vectors and vectors.key_variable == EMBEDDING_KEY_VARIABLE:
        variables.append(EMBEDDING_KEY_VARIABLE)
    return {
        "settings.yaml": render(template("settings.yaml"), {"models": models}),
        "workspace.yaml": template("workspace.yaml"),
        "dagster.yaml": template("dagster.yaml"),
        "dg.toml": template("dg.toml"),
        "index_definitions.py": template("index_definitions.txt"),
        ".env": "".join(f"{name}=\n" for name in variables),
        ".gitignore": template("gitignore"),
        **{f"prompts/{name}.txt": text for name, text in packaged_prompts().items()},
    }


def _write(path: Path, text: str, private: bool) -> None:
    """Write a text file; a private one is readable for its owner alone from the first moment."""
    if private:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    else:
        path.write_text(text, encoding="utf-8")
