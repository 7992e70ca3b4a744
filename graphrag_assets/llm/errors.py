"""What can go wrong in a call, as one small hierarchy, whatever the provider and the client library.

A :class:`PassingError` is worth asking again, a :class:`PermanentError` is not. A :class:`GatewayError` is for people:
a model that cannot be used at all, with the settings entry at fault and how to mend it.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Literal

PassingKind = Literal["rate_limit", "server", "timeout", "connection", "unreachable", "bad_body"]
PermanentKind = Literal["authentication", "not_found", "quota", "context_length", "content_filter", "bad_request"]

#: Failures that all calls to the model would share: the first one ends the run.
FATAL: frozenset[PermanentKind] = frozenset({"authentication", "not_found", "quota"})

#: Longest message of a provider that is passed on, in characters.
MAX_MESSAGE = 300

_CONTEXT_LENGTH = re.compile(
    r"context.{0,3}(length|window|size)|maximum (context|input|prompt)|max_model_len|too many (input )?tokens"
    r"|prompt is too long|input (is )?too (long|large)|exceeds? the (available )?context",
    re.IGNORECASE,
)
_CONTENT_FILTER = re.compile(
    r"content.{0,3}(filter|management|policy)|responsible.?ai|safety (system|filter|reason)|moderation|flagged",
    re.IGNORECASE,
)
# Not "exceeded your current quota" alone: Gemini says so for a limit by the minute.
_QUOTA = re.compile(r"(insufficient|not enough).?(quota|balance|funds|credit)|billing_(hard|not)", re.IGNORECASE)
_TRY_AGAIN = re.compile(r"(?:try again|retry) in (\d+(?:\.\d+)?) ?(ms|s)\b", re.IGNORECASE)


#: What looks like a key. Behind the word "key" alone it has digits or stars, or is long: "API key provided" names none.
_KEY = re.compile(
    r"\b(sk|pk|bearer)([-_ :=]+)[\w*.\-]{6,}"
    r"|\b(key|api[_-]?key)([-_ ]*[:=][-_ :=]*)[\w*.\-]{6,}"
    r"|\b(key|api[_-]?key)([-_ ]+)(?:(?=[a-z_.\-]*[\d*])[\w*.\-]{6,}|[\w*.\-]{20,})",
    re.IGNORECASE,
)


def _masked(found: re.Match[str]) -> str:
    word, between = (part for part in found.groups() if part is not None)
    return f"{word}{between}***"


class GatewayError(Exception):
    """A model cannot be used: the message names its entry in the settings, what happened and how to mend it.

    Args:
        message: What people read.
        passing: Whether the same step may succeed later with the same settings: the endpoint did answer before.
    """

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class CallError(Exception):
    """One call failed.

    Args:
        message: What happened, in one line, without keys.
        status: HTTP status, None where there was none.
    """

    kind: str
    passing = False

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class PassingError(CallError):
    """A failure that may be gone when the call is repeated.

    Args:
        kind: rate_limit, server, timeout, connection (it broke), unreachable (there was none) or bad_body (an answer
            that is not what the protocol says).
        message: What happened.
        status: HTTP status.
        retry_after: Seconds that the provider asks to wait, None where it does not say.
    """

    passing = True

    def __init__(
        self, kind: PassingKind, message: str, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, status)
        self.kind: PassingKind = kind
        self.retry_after = retry_after


class PermanentError(CallError):
    """A failure that repeating the same call does not mend.

    Args:
        kind: authentication, not_found, quota, context_length, content_filter or bad_request.
        message: What happened.
        status: HTTP status.
        parameter: The parameter that the provider names, empty where it names none.
        code: The provider's code, empty where there is none.
    """

    def __init__(
        self, kind: PermanentKind, message: str, status: int | None = None, parameter: str = "", code: str = ""
    ) -> None:
        super().__init__(message, status)
        self.kind: PermanentKind = kind
        self.parameter = parameter
        self.code = code


def redact(message: str, secrets: Iterable[str] = ()) -> str:
    """A message of a provider, made fit to be shown: one line, short, without keys.

    Args:
        message: Any text.
        secrets: Keys that must not appear; what looks like a key is masked as well.
    """
    for secret in secrets:
        if secret:
            message = message.replace(secret, "***")
    message = _KEY.sub(_masked, message)
    message = " ".join(message.split())
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"


#: Names of the errors by which HTTP libraries say that they came to no connection, or their causes do.
_NO_CONNECTION = frozenset(
    {
        "ClientConnectorError",
        "ClientConnectorDNSError",
        "ConnectError",
        "ConnectTimeout",
        "ConnectionRefusedError",
        "ConnectionTimeoutError",
        "gaierror",
    }
)


def no_connection(error: BaseException) -> str | None:
    """Why there was no connection, in a few words; None where there was one, or nobody can tell.

    Args:
        error: An error of any HTTP library; what caused it is looked at too, since libraries wrap each other.
    """
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in chain:
        chain.append(following)
        following = following.__cause__ or following.__context__ or getattr(following, "os_error", None)
    if not any(base.__name__ in _NO_CONNECTION for each in chain for base in type(each).__mro__):
        return None
    for each in reversed(chain):
        if isinstance(each, socket.gaierror):
            return f"the host name cannot be resolved ({each.strerror or each})"
        if isinstance(each, ssl.SSLError):
            return f"TLS failed: {each.reason or each}"
        if isinstance(each, OSError) and (number := each.errno or _errno(str(each))):
            return os.strerror(number).lower()
    if any("imeout" in type(each).__name__ for each in chain):
        return "no connection in time"
    return redact(str(chain[-1])) or type(chain[-1]).__name__


def _errno(message: str) -> int:
    """The error number in the message of an OSError that stands for several, such as one for each address of a host."""
    found = re.search(r"\[Errno (\d+)\]", message)
    return int(found[1]) if found else 0


def classify(
    status: int, message: str, *, code: str = "", parameter: str = "", retry_after: float | None = None
) -> CallError:
    """The error that an HTTP answer of a provider means.

    Args:
        status: HTTP status of 300 or above.
        message: The provider's message, already fit to be shown (see :func:`redact`).
        code: Its code, such as context_length_exceeded.
        parameter: The parameter that it names.
        retry_after: Seconds that it asks to wait.
    """
    told = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    words = f"{code} {message}"
    if status == 402 or (status in (403, 429) and _QUOTA.search(words)):
        return PermanentError("quota", told, status, parameter, code)
    if status == 403 and _CONTENT_FILTER.search(words):
        return PermanentError("content_filter", told, status, parameter, code)
    if status in (401, 403, 407):
        return PermanentError("authentication", told, status, parameter, code)
    if status in (404, 405, 410) or 300 <= status < 400:
        return PermanentError("not_found", told, status, parameter, code)
    if status == 413 or (status in (400, 422, 500) and _CONTEXT_LENGTH.search(words)):
        return PermanentError("context_length", told, status, parameter, code)
    if status == 429:
        if retry_after is None and (told_wait := _TRY_AGAIN.search(message)):
            retry_after = float(told_wait[1]) * (0.001 if told_wait[2].lower() == "ms" else 1.0)
        return PassingError("rate_limit", told, status, retry_after)
    if status == 408:
        return PassingError("timeout", told, status, retry_after)
    if status in (409, 425) or (status >= 500 and status not in (501, 505)):
        return PassingError("server", told, status, retry_after)
    if _CONTENT_FILTER.search(words):
        return PermanentError("content_filter", told, status, parameter, code)
    return PermanentError("bad_request", told, status, parameter, code)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a provider asks to wait: ``retry-after-ms``, or ``Retry-After`` as seconds or as a date.

    Args:
        headers: Headers of the answer; look-ups must not care about case.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            return max(0.0, float(value) * scale)
        except ValueError:
            pass
        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
        except ValueError:
            continue
    return None
