"""What a person may ask of a reconcile beside bringing the index up to date."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wish:
    """Leave for what a reconcile does not do by itself.

    Args:
        allow_empty: An input that lost all its documents, or a folder of them, may empty the index.
        recluster: Make all communities afresh, instead of keeping those that there are.
        replace: Take the place of a published snapshot that was imported.
        wait: Wait for another process that works on the index, instead of giving up.
        retry_failed: Try what failed at once, instead of when it is time.
        settle_seconds: Leave files that were changed in the last seconds as they were seen last: they may not be whole.
        refresh: Stages that ask a model anew, whatever answers are kept.
    """

    allow_empty: bool = False
    recluster: bool = False
    replace: bool = False
    wait: bool = False
    retry_failed: bool = False
    settle_seconds: float = 0.0
    refresh: tuple[str, ...] = ()
