"""Markdown: YAML front matter becomes metadata, the body is the text as it stands."""

from __future__ import annotations

import re
from typing import Any

import yaml

from graphrag_assets.input.readers.source import Source

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)(?:^|\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
#: Longer front matter is text that happens to begin with a rule.
_LONGEST = 65_536


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases, with which a few lines grow into gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not allowed in front matter")
        return super().compose_node(parent, index)


def read(source: Source) -> None:
    """Read a Markdown file."""
    text = source.decode()
    match = _FRONT_MATTER.match(text[: _LONGEST + 16])
    if match is None:
        source.add_whole(text)
        return
    try:
        metadata = yaml.load(match.group(1), Loader=_Loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        source.reject(
            "front_matter", f"front matter is no YAML that can be read ({problem}); it stays in the text", "line 1"
        )
        source.add_whole(text)
        return
    if not isinstance(metadata, dict):
        source.add_whole(text)  # a rule, and text up to the next rule
        return
    source.add_whole(text[match.end() :].lstrip("\n"), metadata)
