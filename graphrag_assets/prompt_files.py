"""Prompt files: one file a prompt, the workspace's own before the packaged one, checked when they are read.

Prompt files written for Microsoft GraphRAG work as they are: the variables have its names, ``{{`` and ``}}`` are literal
braces, the delimiters that its version 2 wrote as variables are filled in, and variables that a tuned prompt leaves out
are not missed.
"""

from __future__ import annotations

import importlib.resources
from functools import cache, lru_cache
from pathlib import Path

from graphrag_assets.ids import digest
from graphrag_assets.settings import Settings, Workspace
from graphrag_assets.text.templates import check, placeholders

#: Variables without which a prompt says nothing about the matter at hand; others only shape the answer.
_ESSENTIAL = frozenset(
    {"input_text", "context_data", "report_data", "description_list", "community_reports", "query", "pairs", "question"}
)

#: Variables of extraction prompts for Microsoft GraphRAG version 2, and what it fills in.
DELIMITERS = {"tuple_delimiter": "<|>", "record_delimiter": "##", "completion_delimiter": "<|COMPLETE|>"}

#: Most characters of a prompt file: no model reads more beside what the prompt is about.
MAX_CHARACTERS = 400_000


class PromptError(ValueError):
    """A prompt file is missing or cannot be used; the message names it."""


@cache
def packaged_prompts() -> dict[str, str]:
    """All prompts that come with the project, by name without extension."""
    folder = importlib.resources.files("graphrag_assets.prompts")
    return {
        Path(file.name).stem: file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda f: f.name)
        if file.name.endswith(".txt")
    }


def prompt_overrides(settings: Settings) -> dict[str, str | None]:
    """Prompt files that the settings name, by the name of the prompt that each stands for."""
    s = settings
    return {
        "extract_graph" if s.extract_graph.format == "tuple" else "extract_graph_json": s.extract_graph.prompt,
        "summarize_descriptions": s.summarize_descriptions.prompt,
        "extract_claims": s.extract_claims.prompt,
        "resolve_entities": s.entity_resolution.prompt,
        "community_report_graph": s.community_reports.graph_prompt,
        "local_search_system_prompt": s.local_search.prompt,
        "global_search_map_system_prompt": s.global_search.map_prompt,
        "global_search_reduce_system_prompt": s.global_search.reduce_prompt,
        "global_search_knowledge_system_prompt": s.global_search.knowledge_prompt,
        "global_search_rate_system_prompt": s.global_search.dynamic_search_prompt,
        "drift_search_system_prompt": s.drift_search.prompt,
        "drift_reduce_prompt": s.drift_search.reduce_prompt,
        "drift_primer_prompt": s.drift_search.primer_prompt,
        "basic_search_system_prompt": s.basic_search.prompt,
        "auto_search_system_prompt": s.auto_search.prompt,
        "question_gen_system_prompt": s.query.question_gen_prompt,
    }


def prompt_file(workspace: Workspace, name: str, override: str | None = None) -> Path | None:
    """The file that a prompt is read from; None where it is the packaged one.

    Raises:
        PromptError: The overriding file does not exist, or there is no prompt of this name.
    """
    if override:
        path = workspace.path(override)
        if not path.is_file():
            raise PromptError(f"prompt file {path} (settings key for {name}) does not exist")
        return path
    path = workspace.path(f"prompts/{name}.txt")
    if path.is_file():
        return path
    if name not in packaged_prompts():
        raise PromptError(f"there is no prompt {name!r}; there are {sorted(packaged_prompts())}")
    return None


def read_prompt(workspace: Workspace, name: str, override: str | None = None) -> str:
    """Text of a prompt as it stands in its file, not checked.

    Raises:
        PromptError: The file is missing, or no text.
    """
    path = prompt_file(workspace, name, override)
    if path is None:
        return packaged_prompts()[name]
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptError(f"prompt file {path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise PromptError(f"prompt file {path} cannot be read: {error.strerror or error}") from None


@lru_cache(maxsize=256)
def prompt_problems(name: str, text: str) -> tuple[str, ...]:
    """What makes a text unusable as a prompt: variables that are missing or unknown, nothing in it, too much of it.

    Args:
        name: Name of the prompt, whose packaged text tells the variables.
        text: The text.

    Returns:
        One sentence a problem; empty where there is none.
    """
    if len(text) > MAX_CHARACTERS:
        return (f"it has {len(text)} characters, expected at most {MAX_CHARACTERS}; is it the right file?",)
    expected = placeholders(packaged_prompts()[name])
    return tuple(check(text, expected & _ESSENTIAL, expected | _old_variables(name)))


def missing_variables(name: str, text: str) -> list[str]:
    """Variables of the packaged prompt that a usable prompt leaves out."""
    return sorted(placeholders(packaged_prompts()[name]) - placeholders(text))


def load_prompt(workspace: Workspace, name: str, override: str | None = None) -> str:
    """Text of a prompt, ready to be rendered.

    Args:
        workspace: The workspace; a file prompts/NAME.txt in its root wins over the packaged prompt.
        name: Name without extension, such as extract_graph.
        override: Path from the settings, relative to the root; it must exist.

    Raises:
        PromptError: The file is missing, or cannot be used; the message names file, line and what was expected.
    """
    text = read_prompt(workspace, name, override)
    problems = prompt_problems(name, text)
    if problems:
        where = prompt_file(workspace, name, override) or f"packaged prompt {name}"
        raise PromptError(f"prompt file {where}: {'; '.join(problems)}")
    return _with_delimiters(text) if placeholders(text) & _old_variables(name) else text


def require_prompts(workspace: Workspace, prefixes: tuple[str, ...] = ("",)) -> None:
    """Check prompts before anything is asked.

    Args:
        workspace: The workspace.
        prefixes: Beginnings of the names that matter.

    Raises:
        PromptError: One of them cannot be used.
    """
    overrides = prompt_overrides(workspace.settings)
    for name in packaged_prompts():
        if name.startswith(prefixes):
            load_prompt(workspace, name, overrides.get(name))


def prompt_version(text: str) -> str:
    """Version of a prompt: the hash of its text."""
    return digest("prompt", text)[:12]


def _old_variables(name: str) -> frozenset[str]:
    return frozenset(DELIMITERS) if name.startswith(("extract_graph", "extract_claims")) else frozenset()


def _with_delimiters(text: str) -> str:
    """The delimiters in their places; all else, doubled braces included, stays."""
    for name, delimiter in DELIMITERS.items():
        text = text.replace(f"{{{name}}}", delimiter)
    return text
