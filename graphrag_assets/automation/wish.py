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
    """

    allow_empty: bool = False
    recluster: bool = False
    replace: bool = False
