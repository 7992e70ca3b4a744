"""The embedding model of a workspace: the configured one through the gateway, else the embedded one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from graphrag_assets.llm.errors import GatewayError
from graphrag_assets.llm.providers.clients import Vector
from graphrag_assets.settings import Workspace

if TYPE_CHECKING:
    from graphrag_assets.llm.embedding.embedded import EmbeddedEmbedder
    from graphrag_assets.llm.gateway import Gateway

Kind = Literal["document", "query"]
Owners = NDArray[np.int64]

#: The embedded model for English; others must be asked for.
DEFAULT_EMBEDDED = "bge-small-en-v1.5"


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def model(self) -> str:
        """Identity of the model: vectors of different identities do not mix."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in a vector.

        Raises:
            GatewayError: Not known before the first text was embedded.
        """
        ...

    async def embed(self, texts: Sequence[str], kind: Kind, stage: str, rows: Sequence[str] = ()) -> Vector:
        """Vectors of texts.

        Args:
            texts: Any texts, of any length.
            kind: document or query.
            stage: Stage that calls are booked to.
            rows: Ids of the rows that the texts belong to, for the ledger of calls.

        Returns:
            float32 of shape (texts, dimension), rows at unit length (zeros for blank texts).
        """
        ...

    async def embed_windows(self, texts: Sequence[str], stage: str, rows: Sequence[str] = ()) -> tuple[Vector, Owners]:
        """Vectors of documents, one for each window that the model reads a long text in.

        Args:
            texts: Texts, of any length.
            stage: Stage that calls are booked to.
            rows: Ids of the rows that the texts belong to, for the ledger of calls.

        Returns:
            float32 of shape (windows, dimension), and for each row the position of its text: ascending, every text at
            least once.
        """
        ...


class ConfiguredEmbedder:
    """An entry of embedding_models, through the gateway.

    Args:
        gateway: The gateway of the run.
        model_id: Entry of embedding_models.
    """

    def __init__(self, gateway: Gateway, model_id: str) -> None:
        self._gateway = gateway
        self._model_id = model_id

    @property
    def model(self) -> str:
        """See :class:`Embedder`."""
        return self._gateway.identity(self._model_id)

    @property
    def dimension(self) -> int:
        """See :class:`Embedder`."""
        dimension = self._gateway.dimension(self._model_id)
        if dimension is None:
            raise GatewayError(
                f"embedding_models.{self._model_id}: the size of its vectors is not known yet; embed a text first, "
                "or set call_args.dimensions"
            )
        return dimension

    async def embed(self, texts: Sequence[str], kind: Kind, stage: str, rows: Sequence[str] = ()) -> Vector:
        """See :class:`Embedder`."""
        return await self._gateway.embed(stage, self._model_id, texts, kind, rows)

    async def embed_windows(self, texts: Sequence[str], stage: str, rows: Sequence[str] = ()) -> tuple[Vector, Owners]:
        """See :class:`Embedder`. A text unit fits the window of these models; a longer text has the mean of its windows."""
        return await self.embed(texts, "document", stage, rows), np.arange(len(texts))


class LocalEmbedder:
    """The embedded model: no key, no network, computed in a thread so that the event loop goes on.

    Args:
        name: Name of the embedded model.
        threads: Threads; None: one a core.
    """

    def __init__(self, name: str, threads: int | None) -> None:
        self._name = name
        self._threads = threads
        self._loaded: EmbeddedEmbedder | None = None
        self._lock = asyncio.Lock()

    @property
    def model(self) -> str:
        """See :class:`Embedder`."""
        return f"embedded/{self._encoder.model}"

    @property
    def dimension(self) -> int:
        """See :class:`Embedder`."""
        return self._encoder.dimension

    async def embed(self, texts: Sequence[str], kind: Kind, stage: str, rows: Sequence[str] = ()) -> Vector:
        """See :class:`Embedder`."""
        async with self._lock:
            vectors: Vector = await asyncio.to_thread(lambda: self._encoder.encode(list(texts), kind))
        return vectors

    async def embed_windows(self, texts: Sequence[str], stage: str, rows: Sequence[str] = ()) -> tuple[Vector, Owners]:
        """See :class:`Embedder`."""
        async with self._lock:
            return await asyncio.to_thread(lambda: self._encoder.encode_windows(list(texts), "document"))

    @property
    def _encoder(self) -> EmbeddedEmbedder:
        if self._loaded is None:
            from graphrag_assets.llm.embedding.embedded import EmbeddedEmbedder

            self._loaded = EmbeddedEmbedder(self._name, self._threads)
        return self._loaded


def embedder(workspace: Workspace, gateway: Gateway, model_id: str | None = None) -> Embedder:
    """The embedding model of a workspace.

    Args:
        workspace: Root folder and settings.
        gateway: The gateway of the run.
        model_id: Entry of embedding_models; None: the one that embed_text names.

    Returns:
        The configured model, else the embedded one.

    Raises:
        KeyError: embedding_models has entries, but not this one.
    """
    settings = workspace.settings
    model_id = model_id or settings.embed_text.embedding_model_id
    if settings.embedding_model(model_id) is not None:
        return ConfiguredEmbedder(gateway, model_id)
    return LocalEmbedder(settings.embedded_models.embedding or DEFAULT_EMBEDDED, settings.embedded_models.threads)
