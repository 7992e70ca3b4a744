"""Whether an index run waits for batches of a provider, and which ones it ended for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from graphrag_assets.llm.errors import GatewayError


class BatchPending(GatewayError):  # noqa: N818 (an end, not a fault)
    """A step ended, since a provider has questions of it as a batch; the message says what it waits for."""


_WAITS: ContextVar[bool] = ContextVar("waits_for_batches", default=False)


@contextmanager
def waiting_for_batches(wait: bool = True) -> Iterator[None]:
    """Let index runs inside wait until batches of providers are done, instead of ending.

    Args:
        wait: Whether they do.
    """
    token = _WAITS.set(wait)
    try:
        yield
    finally:
        _WAITS.reset(token)


def waits() -> bool:
    """Whether runs wait here."""
    return _WAITS.get()
