"""Which passages of the documents tell a model what the collection is about.

Every choice is seeded: the same documents give the same passages, whatever the order of the files.
"""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphrag_assets.ids import digest
from graphrag_assets.indexing.chunking import chunk
from graphrag_assets.input.folder import list_inputs, read_input
from graphrag_assets.llm.tokens import Tokenizer
from graphrag_assets.settings import InputSettings
from graphrag_assets.storage.filesystem import FileInfo, FileSystem

#: A shorter passage, as a share of the size asked for, is taken only where a document has no longer one.
_SHORT = 4

#: Documents are read until there are so many passages for each one that is wanted, and as many documents as passages.
_CHOICE = 20


@dataclass(frozen=True)
class Passage:
    """A piece of a document.

    Args:
        path: Path of the document.
        position: Place in the document, from 0.
        text: The piece.
        tokens: Its tokens.
    """

    path: str
    position: int
    text: str
    tokens: int


def first_passages(
    source: FileSystem, settings: InputSettings, tokenizer: Tokenizer, size: int, number: int
) -> list[Passage]:
    """The first passages of the input, in the order of the paths.

    Args:
        source: Where the input lies.
        settings: How it is read.
        tokenizer: Counts tokens.
        size: Most tokens of a passage.
        number: How many.
    """
    found: list[Passage] = []
    for passages in _documents(source, list_inputs(source, settings), settings, tokenizer, size):
        found += passages[: number - len(found)]
        if len(found) >= number:
            break
    return found


def random_passages(
    source: FileSystem, settings: InputSettings, tokenizer: Tokenizer, size: int, number: int, seed: int
) -> list[Passage]:
    """Random passages of random documents: one of each document before a second one of any.

    No more documents are read than it takes, so that a large input costs no more than a small one.

    Args:
        source: Where the input lies.
        settings: How it is read.
        tokenizer: Counts tokens.
        size: Most tokens of a passage.
        number: How many; fewer where the input has fewer.
        seed: Another seed chooses others.
    """
    files = sorted(list_inputs(source, settings), key=lambda info: digest(str(seed), info.path))
    ranked: list[tuple[int, int, Passage]] = []
    for document, passages in enumerate(_documents(source, files, settings, tokenizer, size)):
        shuffled = heapq.nsmallest(number, passages, key=lambda p: digest(str(seed), p.path, str(p.position)))
        ranked += [(rank, document, passage) for rank, passage in enumerate(shuffled)]
        if document + 1 >= number and len(ranked) >= _CHOICE * number:
            break
    return [passage for _, _, passage in sorted(ranked, key=lambda row: row[:2])[:number]]


def _documents(
    source: FileSystem, files: Sequence[FileInfo], settings: InputSettings, tokenizer: Tokenizer, size: int
) -> Iterator[list[Passage]]:
    """The passages of each document that can be read and holds text."""
    for info in files:
        if info.problem is not None:
            continue
        for document in sorted(read_input(source, info, settings).documents, key=lambda d: d.path):
            pieces = chunk(document.text, tokenizer, type="sentence", size=size, overlap=0)
            passages = [Passage(document.path, i, p.text.strip(), p.n_tokens) for i, p in enumerate(pieces)]
            long = [passage for passage in passages if passage.tokens * _SHORT >= size]
            if long or passages:
                yield long or passages


def typical(passages: Sequence[Passage], vectors: NDArray[np.float32], number: int, seed: int) -> list[Passage]:
    """The passages nearest to the centres of as many clusters, those of the largest clusters first.

    Clusters are found by k-means (k-means++ start) on unit vectors.

    Args:
        passages: Candidates.
        vectors: One row for each, at unit length.
        number: How many are wanted.
        seed: Seed of the start.
    """
    from scipy.cluster.vq import kmeans2

    if len(passages) <= number:
        return list(passages)
    points = vectors.astype(np.float64)
    clusters = min(number, len(np.unique(points, axis=0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a cluster that comes out empty
        centres, labels = kmeans2(points, clusters, minit="++", seed=seed, iter=50)
    sizes = np.bincount(labels, minlength=clusters)
    chosen: list[int] = []
    for cluster in sorted(range(clusters), key=lambda c: (-sizes[c], c)):
        members = np.flatnonzero(labels == cluster)
        if len(members):
            distance = np.linalg.norm(points[members] - centres[cluster], axis=1)
            chosen.append(int(members[int(np.argmin(distance))]))
    # A cluster that came out empty leaves its place to a candidate that no centre is nearest to.
    chosen += [i for i in range(len(passages)) if i not in set(chosen)][: number - len(chosen)]
    return [passages[i] for i in chosen]
