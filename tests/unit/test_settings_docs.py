"""The generated reference pages are current, and complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphrag_assets.settings_checks import known_keys
from graphrag_assets.settings_docs import settings_markdown, tables_markdown, write_docs
from graphrag_assets.storage.tables import PUBLISHED

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(("name", "make"), [("settings.md", settings_markdown), ("tables.md", tables_markdown)])
def test_pages_are_current(name: str, make: object) -> None:
    assert callable(make)
    assert (DOCS / name).read_text(encoding="utf-8") == make(), "run: python -m graphrag_assets.settings_docs docs"


def test_every_key_is_there_with_a_meaning() -> None:
    sections: dict[str, list[list[str]]] = {}
    heading = ""
    for line in settings_markdown().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ").strip("`")
        if line.startswith("| `"):
            sections.setdefault(heading, []).append([cell.strip() for cell in line.strip("| ").split(" | ")])
    for path in known_keys():
        heading = ".".join(path[:-1]).replace("*", "ID").replace("embedding_models", "completion_models") or "Top level"
        (row,) = [row for row in sections[heading] if row[0] == f"`{path[-1]}`"]
        assert len(row) == 4, row
        assert row[3].endswith("."), row


def test_every_published_column_is_there() -> None:
    page = tables_markdown()
    for table in PUBLISHED:
        section = page.split(f"### {table.name}\n")[1].split("\n### ")[0]
        for column in table.columns:
            assert f"| `{column.name}` |" in section


def test_write_docs(tmp_path: Path) -> None:
    assert [path.name for path in write_docs(tmp_path)] == ["settings.md", "tables.md"]
    assert (tmp_path / "settings.md").read_text(encoding="utf-8") == settings_markdown()
