"""From texts to vectors: cache per text, windows for long texts, packing into calls, checks of what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphrag_assets.llm.cache import AnswerCache, vector_keys
from graphrag_assets.llm.calls import ModelCalls
from graphrag_assets.llm.clients import Vector, VectorAnswer
from graphrag_assets.llm.errors import GatewayError, PassingError, PermanentError
from graphrag_assets.llm.usage import StageUsage

#: Share of the window that is used where the model counts tokens otherwise than we do.
FOREIGN_TOKENIZER = 0.8

#: Providers whose embedding models count as tiktoken does.
_TIKTOKEN = frozenset({"openai", "azure"})

#: Text that is embedded to learn how many numbers a vector of an unknown model has.
_PROBE = "dimension"


@dataclass(frozen=True)
class Packing:
    """How texts travel.

    Args:
        batch_size: Most texts in a call.
        batch_tokens: Most tokens in a call.
        window: Most tokens of one text; longer texts are cut into windows.
        count: Counts tokens.
    """

    batch_size: int
    batch_tokens: int
    window: int
    count: Callable[[str], int]


@dataclass
class _Text:
    """A text that has no vector yet, in one piece or in windows."""

    key: bytes
    pieces: list[tuple[str, int]]
    vectors: dict[int, Vector] = field(default_factory=dict)


_Batch = list[tuple[_Text, int]]  # pieces: the text and the number of its window


class Vectors:
    """Texts to embed with one model.

    Args:
        calls: The model.
        cache: Vectors of earlier runs.
        packing: How texts travel.
    """

    def __init__(self, calls: ModelCalls, cache: AnswerCache, packing: Packing) -> None:
        self._calls = calls
        self._cache = cache
        self._packing = packing
        self._declared = calls.settings.call_args.get("dimensions")
        self._dimension: int | None = self._declared
        self._certain = self._declared is not None
        self._dimension_lock = asyncio.Lock()
        self._flights: dict[bytes, asyncio.Future[dict[bytes, Vector]]] = {}

    @property
    def dimension(self) -> int | None:
        """Numbers in a vector; None while it is not known."""
        return self._dimension or self._calls.facts.vector_size

    async def embed(self, stage: str, account: StageUsage, texts: Sequence[str], kind: str) -> Vector:
        """See :meth:`graphrag_assets.llm.gateway.Gateway.embed`.

        Args:
            stage: Name of the stage, kept with cached vectors.
            account: Where the stage's usage is booked.
            texts: Texts; equal ones are sent once, blank ones not at all.
            kind: document or query.
        """
        settings = self._calls.settings
        prefix = settings.query_prefix if kind == "query" else settings.document_prefix
        unique = {text: prefix + text for text in dict.fromkeys(texts) if text.strip()}
        keys = dict(zip(unique, self._keys(list(unique.values()), kind), strict=True))
        found = self._stored(list(keys.values()))
        account.cached += len(found)
        missing = {keys[text]: sent for text, sent in unique.items() if keys[text] not in found}
        while missing:
            found |= await self._embed_missing(stage, account, missing, kind)
            missing = {key: text for key, text in missing.items() if key not in found}
        dimension = next((len(vector) for vector in found.values()), self.dimension or 0)
        result = np.zeros((len(texts), dimension), dtype=np.float32)
        for i, text in enumerate(texts):
            if text in keys:
                result[i] = found[keys[text]]
        return result

    def _keys(self, texts: Sequence[str], kind: str) -> list[bytes]:
        """Keys; the window is part of the key of texts that may be longer than it."""
        identity: dict[str, Any] = {**self._calls.identity, "kind": kind if self._tells_kinds() else None}
        window = self._packing.window
        short = vector_keys(identity, texts)
        long = [i for i, text in enumerate(texts) if len(text) * 4 > window and len(text.encode("utf-8", "replace")) > window]
        for i, key in zip(long, vector_keys({**identity, "window": window}, [texts[i] for i in long]), strict=True):
            short[i] = key
        return short

    def _tells_kinds(self) -> bool:
        return self._calls.settings.model_provider in ("cohere", "voyage", "nvidia_nim")

    def _stored(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        return {key: np.frombuffer(data, dtype=np.float32) for key, data in self._cache.vectors(keys).items()}
