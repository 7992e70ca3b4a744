"""Prompt templates: ``{name}`` is replaced, ``{{`` and ``}}`` are literal braces, everything else stays as it is.

The notation is that of Microsoft GraphRAG's prompt files, so that prompts written for it can be used. Unlike
str.format, a value is never looked into and an unknown or malformed brace is left alone: document text full of braces,
percent signs and delimiters cannot break a prompt.
"""

from __future__ import annotations

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


def check(template: str, required: Collection[str], allowed: Collection[str] = ()) -> list[str]:
    """What is wrong with a template.

    Args:
        template: Text with ``{name}`` places.
        required: Names that must occur.
        allowed: Further names that may occur.

    Returns:
        One sentence a problem, sorted; empty when there is none.
    """
    found = placeholders(template)
    known = sorted({*required, *allowed})
    problems = [
        f"the variable {{{name}}} is missing; write it where the value belongs"
        for name in required
        if name not in found
    ]
    problems += [
        f"the variable {{{name}}} is unknown (known: {', '.join(known) or 'none'}); "
        f"write {{{{{name}}}}} where literal braces are meant"
        for name in found
        if name not in known
    ]
    if not template.strip():
        problems.append("the template is empty")
    return sorted(problems)
