"""Texts for measurements: documents of a folder, or copies of the demo corpus of any size.

The copies have other names, so that the graph grows with the text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

DEMO = Path(__file__).resolve().parent.parent / "examples" / "demo" / "input"

#: Share of the names that a copy replaces; the rest ties the copies together.
RENAMED = 0.7
_NAME = re.compile(r"\b[A-Z][a-z]{3,}\b")
_SYLLABLES = (
    "ka",
    "lo",
    "ri",
    "ven",
    "tha",
    "mor",
    "sel",
    "dun",
    "bri",
    "ost",
    "fen",
    "gar",
    "hal",
    "ith",
    "jor",
    "nel",
)


def _new_name(rng: random.Random) -> str:
    return "".join(rng.choice(_SYLLABLES) for _ in range(rng.randint(2, 4))).capitalize()


def make_text(size: int, seed: int = 1) -> str:
    """A text of about this many bytes.

    Args:
        size: Bytes.
        seed: Seed of names and order.
    """
    paragraphs = []
    for path in sorted(DEMO.rglob("*.txt")) + sorted(DEMO.rglob("*.md")):
        paragraphs += [p.strip() for p in path.read_text(encoding="utf-8").split("\n\n") if len(p) > 80]
    rng = random.Random(seed)
    pieces: list[str] = []
    length = 0
    while length < size:
        names: dict[str, str] = {}
        for paragraph in rng.sample(paragraphs, len(paragraphs)):

            def rename(match: re.Match[str], names: dict[str, str] = names) -> str:
                word = match.group()
                if word not in names:
                    names[word] = _new_name(rng) if rng.random() < RENAMED else word
                return names[word]

            piece = _NAME.sub(rename, paragraph)
            pieces.append(piece)
            length += len(piece.encode()) + 2
            if length >= size:
                break
    return "\n\n".join(pieces)


def documents(source: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each document of a folder: rows of Parquet files, in parts joined by episode, or text files."""
    import pyarrow.parquet as pq

    for file in sorted(source.rglob("*.parquet")):
        texts: dict[str, list[str]] = {}
        for row in pq.read_table(file).to_pylist():
            texts.setdefault(str(row.get("episode") or row["file"]), []).append(row["text"])
        yield from ((name, "\n\n".join(parts)) for name, parts in texts.items())
    for file in sorted(file for file in source.rglob("*") if file.suffix in (".txt", ".md")):
        yield file.relative_to(source).as_posix(), file.read_text(encoding="utf-8", errors="replace")
