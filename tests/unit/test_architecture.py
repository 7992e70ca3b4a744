"""What keeps the project readable: who may import whom, how large a module may grow, what is shipped."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "graphrag_assets"
MODULES = sorted(PACKAGE.rglob("*.py"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

#: Modules that every part may use: they say how things are called and told, and import nothing but settings and ids.
COMMON = {
    "ids",
    "settings",
    "progress",
    "prompt_files",
    "machine",
    "interrupts",
    "object_store",
    "telemetry",
    "settings_telemetry",
}

#: For each part of the package, the parts that it may import beside itself; parts that are not listed are free.
ARROWS: dict[str, set[str]] = {
    "text": {"ids"},
    "indexing": {"text", "ids", "machine"},
    "llm": {"text", *COMMON},
    "storage": {"ids", "settings", "machine", "object_store", "telemetry"},
    "input": {"text", "storage", *COMMON},
    "query": {"storage", "llm", "text", *COMMON},
    "exchange": {"indexing", "storage", "llm", "text", "__version__", *COMMON},
    "ids": set(),
    "settings": {
        "ids",
        "settings_automation",
        "settings_sections",
        "settings_entries",
        "settings_searches",
        "settings_telemetry",
    },
    "settings_automation": {"settings_sections"},
    "settings_entries": {"settings_sections"},
    "settings_searches": {"settings_sections"},
    "settings_telemetry": {"settings_sections"},
    "telemetry": {"settings_telemetry", "__version__"},
    "settings_sections": set(),
    "progress": set(),
    "machine": set(),
    "interrupts": set(),
    "object_store": set(),
    "prompt_files": {"ids", "settings", "text"},
}

#: The types by which a model is asked: the one thing of indexing that the layers beside it share.
ASKING = "graphrag_assets.indexing.asking"

#: Longest module in lines.
LONGEST = 450

#: Tables of constants, which may be longer: they are looked up, not read.
LONG_LISTS = {"graphrag_assets/storage/tables.py"}


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(file: Path) -> Iterator[str]:
    """Full names of all modules that a file imports, at its top or inside functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are written in full"
            assert node.module is not None
            if node.module == "graphrag_assets":
                yield from (f"graphrag_assets.{alias.name}" for alias in node.names)
            else:
                yield node.module


def part(module: str) -> str:
    """Part of the package that a module belongs to."""
    return module.split(".")[1] if "." in module else ""


def test_arrows() -> None:
    wrong = []
    for file in MODULES:
        own = part(module_name(file))
        for imported in imports(file):
            if not imported.startswith("graphrag_assets."):
                continue
            other = part(imported)
            if imported == ASKING and own in ("llm", "query"):
                continue
            if own in ARROWS and other != own and other not in ARROWS[own]:
                wrong.append(f"{module_name(file)} imports {imported}")
            if other == "cli" and own != "cli":
                wrong.append(f"{module_name(file)} imports {imported}")
            if other in ("query", "exchange") and own in ("assets", "automation"):
                wrong.append(f"{module_name(file)} imports {imported}")
    assert wrong == []


def test_dagster_stays_where_it_belongs() -> None:
    """Algorithms, models, queries and the file layer work without Dagster; storage has two modules that serve it."""
    free = {"text", "indexing", "llm", "query", "input", "storage", "exchange", "ids", "settings"}
    found = {
        module_name(file)
        for file in MODULES
        if part(module_name(file)) in free and any(name.split(".")[0].startswith("dagster") for name in imports(file))
    }
    assert found == {"graphrag_assets.storage.failures", "graphrag_assets.storage.io_managers"}


def test_algorithms_do_no_input_or_output() -> None:
    """Nothing in indexing/ opens files or connections or starts programs."""
    forbidden = {"pathlib", "socket", "subprocess", "urllib", "aiohttp", "requests", "tempfile", "shutil"}
    found = []
    for file in MODULES:
        if part(module_name(file)) == "indexing":
            found += [
                f"{module_name(file)} imports {name}" for name in imports(file) if name.split(".")[0] in forbidden
            ]
            calls = (n.func for n in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(n, ast.Call))
            found += [f"{module_name(file)} opens a file" for f in calls if isinstance(f, ast.Name) and f.id == "open"]
    assert found == []


@pytest.mark.parametrize("file", MODULES, ids=module_name)
def test_module(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    name = file.relative_to(ROOT).as_posix()
    if name not in LONG_LISTS:
        assert len(text.splitlines()) <= LONGEST
    assert ast.get_docstring(ast.parse(text)), f"{name} does not say what it is for"
    assert "print(" not in re.sub(r"\w+_?print\(|\w+\.print\(", "", text) or part(module_name(file)) == "cli"


def test_every_package_is_shipped() -> None:
    packages = {".".join(file.parent.relative_to(ROOT).parts) for file in MODULES if file.name == "__init__.py"} | {
        "graphrag_assets.prompts"
    }
    assert set(PYPROJECT["tool"]["setuptools"]["packages"]) == packages
    folders = {".".join(file.parent.relative_to(ROOT).parts) for file in MODULES}
    assert folders < packages, "each folder of modules needs an __init__.py"


def test_what_is_not_python_is_shipped() -> None:
    data = PYPROJECT["tool"]["setuptools"]["package-data"]
    prompts = [file.name for file in (ROOT / "prompts").iterdir() if file.suffix not in (".py", ".pyc")]
    assert {Path(name).suffix for name in prompts if name != "__pycache__"} == {".txt"}
    assert "*.txt" in data["graphrag_assets.prompts"]
    others = {
        file.relative_to(PACKAGE).parent.as_posix()
        for file in PACKAGE.rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc")
    }
    assert others == {"cli/templates"}
    assert "templates/*" in data["graphrag_assets.cli"]


def test_the_readme_names_commands_that_exist() -> None:
    from graphrag_assets.cli.main import main

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"graphrag-assets ([a-z][a-z-]+)", readme))
    assert {"init", "index", "query", "status", "doctor"} <= named
    assert named <= main.commands.keys()
    options = set(re.findall(r"graphrag-assets [^\n`]*?(--[a-z-]+)", readme))
    known = {name for command in main.commands.values() for option in command.params for name in option.opts}
    assert options <= known
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", readme, re.MULTILINE)) <= {
        pair for target in targets for pair in ((target, ""), ("", target))
    }


def test_the_readme_names_files_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", readme)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_nothing_unfinished_or_local() -> None:
    """No note of unfinished work and no path of one person's machine in what is shipped."""
    marks = re.compile(r"\b(?:TODO|FIXME|HACK)\b|raise NotImplementedError|/home/\w|/Users/\w")
    files = [*MODULES, *(ROOT / "prompts").glob("*.txt"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    files += [ROOT / "Makefile", ROOT / "pyproject.toml", *(ROOT / "bench").rglob("*.py"), ROOT / ".ci" / "run"]
    files += [*(ROOT / "examples").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    found = {
        f"{file.relative_to(ROOT)}: {match.group()}"
        for file in files
        if "output" not in file.parts
        for match in marks.finditer(file.read_text(encoding="utf-8"))
    }
    assert found == set()
