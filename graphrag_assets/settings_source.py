"""What a settings file says before it is understood: parsing, .env, ``${NAME}`` substitution, environment overrides.

Everything here works on plain dictionaries; what the keys mean is in :mod:`graphrag_assets.settings_reference` and
:mod:`graphrag_assets.settings`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

#: A key's place: the keys from the top down, list positions as text.
KeyPath = tuple[str, ...]

FILE_NAMES = ("settings.yaml", "settings.yml", "settings.json")
OVERRIDE_PREFIX = "GRAPHRAG__"

_MAX_NODES = 100_000
_MAX_DEPTH = 40
_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<plain>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|(?P<bad>\{))"
)
_NUMBER_OR_BOOLEAN = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?|true|false|null", re.IGNORECASE)

# Variables that a .env file set in this process, so that another workspace's .env can take their place.
_from_dotenv: dict[str, str] = {}


class SettingsError(ValueError):
    """The settings cannot be used; the message names each key at fault and how to mend it."""


class Unset(str):
    """Stands for a value that names an environment variable which is not set."""

    variable: str

    def __new__(cls, variable: str) -> Unset:
        """An empty text that remembers the variable."""
        instance = super().__new__(cls, "")
        instance.variable = variable
        return instance


@dataclass
class Source:
    """A settings file as dictionaries, with where each key stands.

    Args:
        tree: Sections and keys as written.
        lines: 1-based line of each key in the file.
        variables: Environment variable that gave a key its value, where one did.
    """

    tree: dict[str, Any] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    variables: dict[KeyPath, str] = field(default_factory=dict)

    def place(self, path: KeyPath) -> str:
        """Where a key was set, in words; empty when that is not known."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.variables:
                return self.variables[path[:length]]
            if path[:length] in self.lines:
                return f"line {self.lines[path[:length]]}"
        return ""


def dotted(path: KeyPath) -> str:
    """A path as people write it, such as chunking.size."""
    return ".".join(path)


# --- reading ---------------------------------------------------------------------------------------------------------


def find_settings_file(folder: Path) -> Path | None:
    """The settings file of a folder; None where there is none."""
    return next((folder / name for name in FILE_NAMES if (folder / name).is_file()), None)


def read_settings_file(file: Path) -> Source:
    """Parse a settings file.

    Raises:
        SettingsError: It cannot be read or is not a well-formed mapping; the message has the line.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from error
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {error.strerror or error}") from error
    return parse_json_text(text, file) if file.suffix == ".json" else parse_yaml_text(text, file)


def parse_json_text(text: str, file: Path) -> Source:
    """Parse JSON settings.

    Raises:
        SettingsError: Malformed JSON, a key that stands twice, or no object at the top.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SettingsError(f"{file}: the key {twice[0]!r} stands twice in one section; keep one of them")
        return dict(pairs)

    try:
        tree = json.loads(text or "{}", object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise SettingsError(
            f"{file}, line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}"
        ) from error
    if not isinstance(tree, dict):
        raise SettingsError(f"{file}: expected an object of sections, found {_kind(tree)}")
    return Source(tree)


class _Loader(yaml.SafeLoader):
    """YAML in which dates and the words yes, no, on, off stay text: ``api_version: 2024-05-01``, ``language: no``."""


_KEPT_AS_TEXT = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _KEPT_AS_TEXT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def parse_yaml_text(text: str, file: Path) -> Source:
    """Parse YAML settings.

    Raises:
        SettingsError: Malformed YAML, a key that stands twice, a key that is not text, or no mapping at the top.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        source = Source()
        tree = _Builder(loader, file, source.lines).build(node, ()) if node else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise SettingsError(f"{file}{where}: not valid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from error
    finally:
        loader.dispose()
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise SettingsError(f"{file}: expected sections with keys (name: value), found {_kind(tree)}")
    source.tree = tree
    return source


class _Builder:
    """Turns YAML nodes into dictionaries and notes the line of every key."""

    def __init__(self, loader: _Loader, file: Path, lines: dict[KeyPath, int]) -> None:
        self.loader = loader
        self.file = file
        self.lines = lines
        self.nodes = 0

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        self.nodes += 1
        if self.nodes > _MAX_NODES or len(path) > _MAX_DEPTH:
            raise SettingsError(f"{self.file}, line {_line(node)}: nested too deep, or aliases that grow without end")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*path, str(number))) for number, child in enumerate(node.value)]
        return self.loader.construct_object(node, deep=True)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        seen: dict[str, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise SettingsError(
                    f"{self.file}, line {_line(key_node)}: the key {key!r} is not text; put it in quotes"
                )
            if key in seen:
                raise SettingsError(
                    f"{self.file}, line {_line(key_node)}: the key {dotted((*path, key))} stands twice "
                    f"(first in line {seen[key]}); keep one of them"
                )
            seen[key] = _line(key_node)
        self.loader.flatten_mapping(node)
        built = {}
        for key_node, value_node in node.value:
            key = str(self.loader.construct_object(key_node, deep=True))
            self.lines[(*path, key)] = _line(key_node)
            built[key] = self.build(value_node, (*path, key))
        return built


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _kind(value: object) -> str:
    return {list: "a list", str: "text", int: "a number", float: "a number", bool: "a boolean"}.get(
        type(value), type(value).__name__
    )


# --- environment -----------------------------------------------------------------------------------------------------


def load_dotenv(folder: Path) -> None:
    """Put the variables of a folder's .env file into the environment; variables that exist already win.

    Variables that an earlier call took from another .env file, and that nobody changed since, make room first: two
    workspaces in one process never see each other's keys.

    Raises:
        SettingsError: The file cannot be read.
    """
    from dotenv import dotenv_values

    file = folder / ".env"
    try:
        found = dotenv_values(file, encoding="utf-8-sig") if file.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from error
    values = {name: text for name, text in found.items() if text is not None}
    for name, earlier in list(_from_dotenv.items()):
        if os.environ.get(name) != earlier:
            del _from_dotenv[name]  # set anew by someone else, who wins
        elif name not in values:
            del os.environ[name], _from_dotenv[name]
    for name, text in values.items():
        if name not in os.environ or name in _from_dotenv:
            os.environ[name] = _from_dotenv[name] = text


def substitute(
    tree: dict[str, Any], environment: Mapping[str, str], report: Callable[[KeyPath, str], None]
) -> dict[str, Any]:
    """Replace ``$NAME``, ``${NAME}`` and ``${NAME:-default}`` in all text values; ``$$`` is a literal dollar sign.

    Keys and comments are left alone, and what a variable holds is not searched again. A ``$`` before anything else
    (as in the pattern ``.*\\.txt$``) stays.

    Args:
        tree: Settings as written.
        environment: Variables by name.
        report: Called with the path and the message of each malformed place.

    Returns:
        A copy; a value whose variable is not set is an :class:`Unset`.
    """

    def value(item: Any, path: KeyPath) -> Any:
        if isinstance(item, dict):
            return {key: value(child, (*path, key)) for key, child in item.items()}
        if isinstance(item, list):
            return [value(child, (*path, str(number))) for number, child in enumerate(item)]
        return text(item, path) if isinstance(item, str) and "$" in item else item

    def text(item: str, path: KeyPath) -> Any:
        missing: list[str] = []

        def one(match: re.Match[str]) -> str:
            if match["dollar"]:
                return "$"
            if match["bad"]:
                report(
                    path,
                    "'${' begins a variable such as ${NAME} or ${NAME:-default}; write $${ for these characters",
                )
                return match.group()
            name = match["plain"] or match["braced"]
            found = environment.get(name)
            if match["default"] is not None:
                return found or match["default"]
            if found is None:
                missing.append(name)
            return found or ""

        replaced = _VARIABLE.sub(one, item)
        if missing:
            return Unset(missing[0])
        # Parameters of a call have no declared type: a number that came from a variable is a number.
        return _scalar(replaced) if "call_args" in path else replaced

    substituted: dict[str, Any] = value(tree, ())
    return substituted


def _scalar(text: str) -> Any:
    return yaml.load(text, _Loader) if _NUMBER_OR_BOOLEAN.fullmatch(text) else text  # noqa: S506 (a safe loader)


def apply_overrides(source: Source, environment: Mapping[str, str]) -> None:
    """Set keys from variables such as ``GRAPHRAG__CHUNKING__SIZE=600``.

    Args:
        source: Settings of the file; changed in place.
        environment: Variables by name. Keys are found whatever their case.

    Raises:
        SettingsError: A value is not valid YAML, or a name leads into something that is not a section.
    """
    for variable in sorted(name for name in environment if name.startswith(OVERRIDE_PREFIX)):
        parts = variable.removeprefix(OVERRIDE_PREFIX).split("__")
        if not all(parts):
            raise SettingsError(f"environment variable {variable}: expected {OVERRIDE_PREFIX}SECTION__KEY")
        section: dict[str, Any] = source.tree
        path: KeyPath = ()
        for part in parts[:-1]:
            path = (*path, _spelling(part, section))
            below = section.get(path[-1])
            if below is None:
                below = section[path[-1]] = {}
            if not isinstance(below, dict):
                raise SettingsError(f"environment variable {variable}: {dotted(path)} is a value, not a section")
            section = below
        path = (*path, _spelling(parts[-1], section))
        section[path[-1]] = _override_value(variable, environment[variable], path)
        source.variables[path] = variable


def _spelling(part: str, section: Mapping[str, Any]) -> str:
    """The key as the file spells it (ids of models may have capitals), else in lower case as all keys are."""
    return next((name for name in section if name.lower() == part.lower()), part.lower())


def _override_value(variable: str, text: str, path: KeyPath) -> Any:
    """The value as YAML. Numbers stay text, which the type of the key reads: a secret made of digits stays whole."""
    if "call_args" in path:
        return _scalar(text)
    try:
        value = yaml.load(text, _Loader)  # noqa: S506 (a safe loader)
    except yaml.YAMLError as error:
        if text.lstrip()[:1] not in ("[", "{"):
            return text
        problem = getattr(error, "problem", None) or "malformed"
        raise SettingsError(f"environment variable {variable}: not valid YAML: {problem}") from error
    if isinstance(value, dict) and text.lstrip()[:1] != "{":
        return text  # "a: b" is meant as text, not as a section
    return value if isinstance(value, dict | list) or (value is None and text.strip()) else text
