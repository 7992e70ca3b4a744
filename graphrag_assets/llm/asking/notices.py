"""What people read while a model does not answer: the first failures at once, then fewer and fewer lines."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

#: Seconds between two lines about one model: at first, and at most. A quiet time of the most begins anew.
FIRST_GAP, LONGEST_GAP = 2.0, 60.0


class RetryNotices:
    """Tells failures of calls to one model that are asked again, without a line for each.

    Args:
        clock: Seconds, growing.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gap = FIRST_GAP
        self._due = float("-inf")
        self._untold = 0

    def failed(self, model: str, cause: str, wait: float, failures: int, tries: int) -> None:
        """One call failed and will be sent again.

        Args:
            model: How people call the model.
            cause: What happened.
            wait: Seconds until it is sent again.
            failures: How often this call failed.
            tries: How often it is sent at most.
        """
        line = f"{model}: {cause}; trying again in {wait:.3g} s ({failures} of {tries - 1})"
        now = self._clock()
        if now < self._due:
            self._untold += 1
            logger.info("%s", line)
            return
        if now > self._due + LONGEST_GAP:
            self._gap = FIRST_GAP
        others = f", as {self._untold} more calls before" if self._untold else ""
        logger.warning("%s%s", line, others)
        self._untold = 0
        self._due = now + self._gap
        self._gap = min(2 * self._gap, LONGEST_GAP)
