"""The options of graphrag-assets tune-prompts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--sample",
        type=click.Choice(["random", "top", "auto"]),
        default="random",
        show_default=True,
        help="Passages: random ones, the first ones, or those nearest to the centres of clusters of their vectors (auto).",
    ),
    click.option("--size", type=click.IntRange(min=1), default=15, show_default=True, help="Passages of the sample."),
    click.option(
        "--candidates", type=click.IntRange(min=1), default=300, show_default=True, help="Passages embedded for auto."
    ),
    click.option(
        "--chunk-tokens", type=click.IntRange(min=20), default=300, show_default=True, help="Most tokens of a passage."
    ),
    click.option(
        "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another seed, another sample."
    ),
    click.option("--domain", help="What the documents are about (default: found in the sample)."),
    click.option("--language", help="Language of descriptions and reports (default: that of the sample)."),
    click.option(
        "--entity-types",
        multiple=True,
        metavar="TYPES",
        help="Entity types, with commas or repeated (default: found).",
    ),
    click.option(
        "--discover/--no-discover",
        default=True,
        show_default=True,
        help="Find entity types, or keep those of the settings.",
    ),
    click.option("--examples", type=click.IntRange(min=0), default=3, show_default=True, help="Examples to work out."),
    click.option(
        "--max-prompt-tokens",
        type=click.IntRange(min=1),
        default=3000,
        show_default=True,
        help="Most tokens of the extraction prompt, which is sent with every text unit; examples beyond are left out.",
    ),
    click.option(
        "--stages",
        multiple=True,
        type=click.Choice(["extract_graph", "summarize_descriptions", "community_reports"]),
        help="Prompts to tune (may be repeated; default: all).",
    ),
    click.option(
        "--model", metavar="ID", help="Entry of completion_models that is asked (default: that of extract_graph)."
    ),
    click.option(
        "--output",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write into this folder instead of over the prompts in use.",
    ),
    click.option("--dry-run", is_flag=True, help="Only tell what it would cost."),
    click.option("--yes", is_flag=True, help="Agree to the price and to the changes without being asked."),
)


def tuning_options(command: F) -> F:
    """All options of the command but those that others have too."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
