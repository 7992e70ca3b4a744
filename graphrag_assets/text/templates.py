"""Prompt templates: ``{name}`` is replaced, ``{{`` and ``}}`` are literal braces, everything else stays as it is.

The notation is that of Microsoft GraphRAG's prompt files, so that prompts written for it can be used. Unlike
str.format, a value is never looked into and an unknown or malformed brace is left alone: document text full of braces,
percent signs and delimiters cannot break a prompt.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping

_TOKEN = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")


def render(template: str, variables: Mapping[str, str]) -> str:
    """Fill a template.

    Args:
        template: Text with ``{name}`` places.
        variables: Values by name. Values are inserted as they are and not searched for places.

    Returns:
        The text; places of unknown names are left standing.
    """

    def value(match: re.Match[str]) -> str:
        written = match.group()
        if written == "{{":
            return "{"
        if written == "}}":
            return "}"
        return variables.get(match.group(1), written)

    return _TOKEN.sub(value, template)


def placeholders(template: str) -> set[str]:
    """Names of all places in a template."""
    return {match.group(1) for match in _TOKEN.finditer(template) if match.group(1)}


def escape(text: str) -> str:
    """Text as it must stand in a template so that it comes out of :func:`render` as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def check(template: str, required: Collection[str], allowed: Collection[str] = ()) -> list[str]:
    """What is wrong with a template.

    Args:
        template: Text with ``{name}`` places.
        required: Names that must occur.
        allowed: Further names that may occur.

    Returns:
        One sentence a problem, with its line where it has one, in the order of the names; empty when there is none.
    """
    lines = {match.group(1): _line(template, match.start()) for match in _TOKEN.finditer(template) if match.group(1)}
    known = sorted({*required, *allowed})
    if not template.strip():
        return ["the template is empty"]
    problems = [
        f"the variable {{{name}}} is missing; {_instead(template, name)}"
        for name in sorted(required)
        if name not in lines
    ]
    for name in sorted(lines.keys() - set(known)):
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {{{close[0]}}}? " if close else ""
        problems.append(
            f"line {lines[name]}: the variable {{{name}}} is unknown (known: {', '.join(known) or 'none'}); {hint}"
            f"write {{{{{name}}}}} where literal braces are meant"
        )
    return problems


def _instead(template: str, name: str) -> str:
    """How to mend a variable that is missing: what stands in its place, where something looks like it."""
    doubled = template.find("{{" + name + "}}")
    if doubled >= 0:
        return f"line {_line(template, doubled)} has {{{{{name}}}}}, which is literal text: write {{{name}}}"
    meant = re.search(rf"\{{+\s*{re.escape(name)}\b[^{{}}\n]{{0,20}}\}}*", template)
    if meant:
        return f"line {_line(template, meant.start())} has {meant.group().strip()!r}: write {{{name}}}"
    return "write it where the value belongs"


def _line(template: str, position: int) -> int:
    return template.count("\n", 0, position) + 1
