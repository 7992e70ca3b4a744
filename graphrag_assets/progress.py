"""What people are told of long work: progress by one callback, for bars and lines; and what is said once in a run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

log = logging.getLogger(__name__)

#: Called with stage, items done and items in all.
Listener = Callable[[str, int, int], None]

_listeners: list[Listener] = []

#: What was told in this run.
_told: set[str] = set()

#: Whether the present work is only supposed, as in a plan.
_SUPPOSED: ContextVar[bool] = ContextVar("supposed", default=False)

#: Seconds between two lines of the log for one stage.
LOG_EVERY = 15.0


def listen(listener: Listener) -> Callable[[], None]:
    """Register a listener; returns a function that removes it."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def tell_once(logger: logging.Logger, what: str, message: str, *values: object) -> None:
    """Log a warning the first time in a run; every step of a run opens models and caches anew, and finds the same.

    Args:
        logger: Where it is logged.
        what: What it is about, whatever the words.
        message: Message with places for the values.
        values: The values.
    """
    level = logging.DEBUG if what in _told else logging.WARNING
    _told.add(what)
    logger.log(level, message, *values)


def begin_telling() -> None:
    """A run begins: whatever is wrong is told again."""
    _told.clear()


@contextmanager
def supposed() -> Iterator[None]:
    """Tell nothing of what stages do inside: a plan walks through them, and nobody should take that for the run."""
    token = _SUPPOSED.set(True)
    try:
        yield
    finally:
        _SUPPOSED.reset(token)


class Progress:
    """Counts the finished items of one stage.

    Args:
        stage: Name of the stage, as people read it.
        total: Items in all.
    """

    def __init__(self, stage: str, total: int) -> None:
        self.stage, self.total, self.done = stage, total, 0
        self._logged = time.monotonic()
        self._tell()

    def advance(self, count: int = 1) -> None:
        """Report that some more items are finished."""
        self.done += count
        self._tell()
        now = time.monotonic()
        if now - self._logged >= LOG_EVERY and not _SUPPOSED.get():
            self._logged = now
            log.info("%s: %d of %d", self.stage, self.done, self.total)

    def _tell(self) -> None:
        if _SUPPOSED.get():
            return
        for listener in _listeners:
            listener(self.stage, self.done, self.total)
