"""Plain text: the file is one document."""

from __future__ import annotations

from graphrag_assets.input.readers.source import Source


def read(source: Source) -> None:
    """Read a text file."""
    source.add_whole(source.decode())
