"""How long a model is worth waiting for: when a call is made again, and when every further one fails at once."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping

from graphrag_assets.llm.asking.notices import RetryNotices
from graphrag_assets.llm.errors import FATAL, GatewayError, PassingError, PermanentError
from graphrag_assets.settings import ModelSettings, RetrySettings

logger = logging.getLogger(__name__)

#: An endpoint that never answered counts as unusable after so many failures, of which one call has used up its repeats.
FAILURES_BEFORE_FIRST_ANSWER = 8

#: An endpoint of which this process never had an answer counts as not there when one call could not connect so often …
UNREACHABLE_BEFORE_FIRST_ANSWER = 3

#: … or when that took so many seconds, as where every try has to wait in vain.
UNREACHABLE_SECONDS = 15.0

#: An endpoint that never answered counts as unusable when one call waited so often for an answer in vain.
TIMEOUTS_BEFORE_FIRST_ANSWER = 3

#: Seconds without the first answer of a model after which a line says so.
SILENCE = 30.0

#: An endpoint that did answer counts as gone after so many calls in a row that could not connect, to the last repeat.
UNREACHABLE_IN_A_ROW = 10

#: A call that is refused because there are too many has as many tries for each of those of a call that failed.
REFUSALS_PER_RETRY = 4

#: A provider that asks to wait longer than this is out of quota rather than busy, in seconds.
LONGEST_RETRY_AFTER = 900.0

_MENDS: Mapping[str, str] = {
    "authentication": "check api_key of this entry, or the environment variable it is read from",
    "not_found": "check model and api_base of this entry",
    "bad_request": "check model and call_args of this entry",
    "unreachable": "check api_base of this entry, that the server is up, and the network or proxy between",
    "quota": "the account has no credit or quota left; raise it at the provider, then run again (answers are kept)",
}

#: Addresses that answered this process: there an outage is ridden out, in whichever step it comes.
_ANSWERED: set[str] = set()


class Patience:
    """What the calls to one model met so far, and what follows from it for the next failure.

    Args:
        name: Entry, model and address, as messages name them.
        settings: The entry of the model.
        address: Where it answers.
    """

    def __init__(self, name: str, settings: ModelSettings, address: str) -> None:
        self.answered = False
        self._name = name
        self._settings = settings
        self._address = address
        self._broken: GatewayError | None = None
        self._failures = 0
        self._unreachable = 0
        self._refused = 0
        self._notices = RetryNotices()
        self._silence: asyncio.TimerHandle | None = None

    def check(self) -> None:
        """Raise GatewayError where no call to this model can succeed any more."""
        if self._broken is not None:
            raise GatewayError(str(self._broken), passing=self._broken.passing)

    def succeeded(self) -> None:
        """A call was answered."""
        self.answered = True
        _ANSWERED.add(self._address)
        self._end_silence()
        self._unreachable = 0

    def close(self) -> None:
        """Nobody waits any more."""
        self._end_silence()

    def wait(self, error: PassingError | PermanentError, failures: int, seconds: float) -> float:
        """Seconds until the call is repeated; raises where it is not.

        Args:
            error: What happened.
            failures: How often this call failed.
            seconds: How long it is under way.
        """
        self._end_silence()
        if error.status is not None:
            _ANSWERED.add(self._address)
        if isinstance(error, PermanentError):
            if error.kind in FATAL:
                raise self._break(str(error), _MENDS[error.kind]) from None
            self._refused += error.kind == "bad_request"
            if not self.answered and self._refused >= FAILURES_BEFORE_FIRST_ANSWER:
                raise self._break(f"all {self._refused} requests were refused, last: {error}", _MENDS["bad_request"])
            raise error
        self._failures += 1
        if error.kind != "unreachable":
            self._unreachable = 0
        if error.retry_after is not None and error.retry_after > LONGEST_RETRY_AFTER:
            raise self._break(
                f"the provider asks to wait {error.retry_after:.0f} s ({error})", _MENDS["quota"]
            ) from None
        patience = REFUSALS_PER_RETRY if error.kind == "rate_limit" else 1
        last = failures > self._settings.retry.max_retries * patience
        if self._never_was_there(error, failures, seconds):
            raise self._break(str(error), f"{_MENDS['unreachable']}, then run again") from None
        if last:
            self._unreachable += error.kind == "unreachable"
            never = not self.answered and self._failures >= FAILURES_BEFORE_FIRST_ANSWER
            if never or self._unreachable >= UNREACHABLE_IN_A_ROW:
                mend = f"{_MENDS['unreachable']}, then run again (answers so far are kept)"
                # Gone after it answered, it may come back; one that never did is rather a wrong address.
                raise self._break(f"no answer any more, last: {error}", mend, passing=self.answered) from None
            raise error
        # The pace of all calls follows from refusals: that of this call need not slow down too.
        wait = backoff(self._settings.retry, 1 if error.kind == "rate_limit" else failures, error.retry_after)
        self._notices.failed(self._name, str(error), wait, failures, self._settings.retry.max_retries + 1)
        return wait

    def _never_was_there(self, error: PassingError, failures: int, seconds: float) -> bool:
        """Whether waiting is in vain, since nothing ever answered at this address."""
        if self.answered or self._address in _ANSWERED:
            return False
        if error.kind == "unreachable":
            return failures >= UNREACHABLE_BEFORE_FIRST_ANSWER or (failures > 1 and seconds >= UNREACHABLE_SECONDS)
        return error.kind == "timeout" and failures >= TIMEOUTS_BEFORE_FIRST_ANSWER

    def begin(self) -> None:
        """A call is sent: people who wait for the first answer of a model are told what they wait for."""
        if self.answered or self._silence is not None:
            return
        timeout = self._settings.call_args.get("timeout", self._settings.timeout)
        words = "%s: no answer for %.0f s; a call is given up after %s s (timeout of the entry)"
        loop = asyncio.get_running_loop()
        self._silence = loop.call_later(SILENCE, logger.warning, words, self._name, SILENCE, timeout)

    def _end_silence(self) -> None:
        if self._silence is not None:
            self._silence.cancel()

    def _break(self, problem: str, mend: str, *, passing: bool = False) -> GatewayError:
        """From now on every call fails at once with this error."""
        if self._broken is None:
            self._broken = GatewayError(f"{self._name}: {problem}; {mend}", passing=passing)
            logger.info("no further call is made to %s", self._name)
        return GatewayError(str(self._broken), passing=self._broken.passing)


def backoff(settings: RetrySettings, failures: int, retry_after: float | None = None) -> float:
    """Seconds to wait before the next repeat.

    Args:
        settings: Waiting rule: base_delay to the power of the failures so far, at most max_delay.
        failures: Failures so far, at least 1.
        retry_after: What the provider asks for: never less than that is waited.
    """
    wait = 0.0
    if settings.type == "exponential_backoff":
        wait = settings.base_delay ** min(failures, 100)
        if settings.max_delay is not None:
            wait = min(wait, settings.max_delay)
    asked = retry_after or 0.0
    if settings.jitter:
        wait *= random.uniform(0.5, 1.0)
        asked *= random.uniform(1.0, 1.1)
    return max(wait, asked)
