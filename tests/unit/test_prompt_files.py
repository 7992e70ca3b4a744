"""Prompt files are checked when they are read: the message names the file, the line, and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphrag_assets.prompt_files import (
    MAX_CHARACTERS,
    PromptError,
    load_prompt,
    missing_variables,
    packaged_prompts,
    prompt_overrides,
    prompt_version,
    require_prompts,
)
from graphrag_assets.settings import Settings, Workspace
from graphrag_assets.text.templates import render


def workspace(root: Path, **prompts: str | bytes) -> Workspace:
    (root / "prompts").mkdir(exist_ok=True)
    for name, text in prompts.items():
        data = text.encode() if isinstance(text, str) else text
        (root / "prompts" / f"{name}.txt").write_bytes(data)
    return Workspace(root=root, settings=Settings())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Find {entity_types}\nin the text.", "the variable {input_text} is missing; write it where"),
        ("a\nb\n{{input_text}}", "line 3 has {{input_text}}, which is literal text: write {input_text}"),
        ("a\n{ input_text }", "line 2 has '{ input_text }': write {input_text}"),
        ("a\n\n{input_text:>10}", "line 3 has '{input_text:>10}': write {input_text}"),
        ("{input_text!r}", "line 1 has '{input_text!r}': write {input_text}"),
        ("{input_text and more", "line 1 has '{input_text and more': write {input_text}"),
        ("{input_text}\n{entity_typs}", "line 2: the variable {entity_typs} is unknown"),
        ("{input_text}\n{entity_typs}", "did you mean {entity_types}? write {{entity_typs}} where literal braces"),
        (" \n\t", "the template is empty"),
        ("{input_text}" + "x" * MAX_CHARACTERS, f"expected at most {MAX_CHARACTERS}"),
        (b"{input_text} \xff", "is not UTF-8 text (byte 13); save it as UTF-8"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str | bytes, told: str) -> None:
    with pytest.raises(PromptError) as error:
        load_prompt(workspace(tmp_path, extract_graph=text), "extract_graph")
    assert str(tmp_path / "prompts" / "extract_graph.txt") in str(error.value)
    assert told in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "{input_text}",  # names its types itself
        '{input_text} {"json": [1]} {0} {} } { %s',  # braces that are no places
        "\ufeff{input_text}\r\n{entity_types}\r\n",  # as Windows saves it
        "{{{input_text}}}",
    ],
)
def test_what_can_be_used_is_used(tmp_path: Path, text: str) -> None:
    found = load_prompt(workspace(tmp_path, extract_graph=text), "extract_graph")
    assert render(found, {"input_text": "TEXT"}).count("TEXT") == 1
    assert not found.startswith("\ufeff")


def test_delimiters_of_version_2(tmp_path: Path) -> None:
    old = '("entity"{tuple_delimiter}A){record_delimiter}{completion_delimiter} {entity_types} {input_text} {{x}}'
    own = workspace(tmp_path, extract_graph=old, local_search_system_prompt="{context_data} {tuple_delimiter}")
    found = load_prompt(own, "extract_graph")
    assert found == '("entity"<|>A)##<|COMPLETE|> {entity_types} {input_text} {{x}}'
    with pytest.raises(PromptError, match="tuple_delimiter"):
        load_prompt(own, "local_search_system_prompt")


def test_variables_that_a_prompt_leaves_out(tmp_path: Path) -> None:
    assert missing_variables("extract_graph", "{input_text}") == ["entity_types"]


def test_all_prompts_can_be_checked_before_anything_is_asked(tmp_path: Path) -> None:
    own = workspace(tmp_path, drift_reduce_prompt="Merge.")
    require_prompts(own, ("local_", "global_"))
    with pytest.raises(PromptError, match="drift_reduce_prompt"):
        require_prompts(own)


def test_every_prompt_that_settings_name_is_known(tmp_path: Path) -> None:
    assert prompt_overrides(Settings()).keys() < packaged_prompts().keys()
    require_prompts(Workspace(root=tmp_path, settings=Settings()))


def test_the_version_is_the_content(tmp_path: Path) -> None:
    texts = {prompt_version(text) for text in packaged_prompts().values()}
    assert len(texts) == len(packaged_prompts())
