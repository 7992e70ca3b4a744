"""Where the meters of models are kept: in this process, in a file for all processes of a host, in Redis for many hosts.

A store changes one meter at a time, whole: what one process counts, the next one sees. What is spent in a day is kept in
the same places (:mod:`graphrag_assets.llm.limiting.day_budget`).
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import orjson

from graphrag_assets.llm.errors import GatewayError, redact
from graphrag_assets.llm.limiting.pace import Meter
from graphrag_assets.settings import Workspace

if TYPE_CHECKING:
    import redis

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds after which Redis forgets a meter that nobody uses.
REDIS_FORGETS = 86_400

#: Seconds that a process waits for another one that changes a meter in the same file; a change takes .1 ms.
BUSY = 10.0


class LimitStore(Protocol):
    """Keeps meters by name."""

    #: Whether a change waits for the network.
    remote: bool

    def change(self, name: str, period: float, changed: Callable[[Meter, float], T]) -> T:
        """Change one meter, while nobody else does.

        Args:
            name: The model.
            period: Length of its window in seconds.
            changed: Changes the meter, given the present time in seconds, and may be called again.

        Returns:
            What the function returned.
        """
        ...

    def update(self, name: str, changed: Callable[[Any, float], tuple[Any, T]]) -> T:
        """Change any other state, while nobody else does.

        Args:
            name: What it is called; no name of a model.
            changed: Given the state (None: there is none yet) and the present time in seconds; returns the new state, of
                values that JSON has, and a result. It may be called again, and must leave what it is given as it is.

        Returns:
            The result.
        """
        ...


class ProcessLimits:
    """Meters of this process: they outlive the gateways of single steps.

    Args:
        clock: Seconds.
    """

    remote = False

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._meters: dict[str, Meter] = {}
        self._states: dict[str, Any] = {}
        self._lock = threading.Lock()

    def change(self, name: str, period: float, changed: Callable[[Meter, float], T]) -> T:
        """See :class:`LimitStore`."""
        with self._lock:
            now = self._clock()
            meter = self._meters.get(name)
            if meter is None or meter.window.period != period or meter.pace.since > now + period:
                meter = self._meters[name] = Meter.of(None, period, now)
            return changed(meter, now)

    def update(self, name: str, changed: Callable[[Any, float], tuple[Any, T]]) -> T:
        """See :class:`LimitStore`."""
        with self._lock:
            self._states[name], found = changed(self._states.get(name), self._clock())
            return found


class FileLimits:
    """Meters that the processes of one host share: one small SQLite file. A power cut may lose the last moments of it.

    Args:
        path: The file; made where there is none.
    """

    remote = False

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
        self._lock = threading.Lock()
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("pragma synchronous = normal")
        self._connection.execute("create table if not exists meters (name text primary key, state blob) without rowid")

    def change(self, name: str, period: float, changed: Callable[[Meter, float], T]) -> T:
        """See :class:`LimitStore`."""
        return self.update(name, _of_meter(period, changed))

    def update(self, name: str, changed: Callable[[Any, float], tuple[Any, T]]) -> T:
        """See :class:`LimitStore`."""
        with self._lock:
            self._connection.execute("begin immediate")
            try:
                row = self._connection.execute("select state from meters where name = ?", (name,)).fetchone()
                state, found = changed(orjson.loads(row[0]) if row else None, time.time())
                self._connection.execute("insert or replace into meters values (?, ?)", (name, orjson.dumps(state)))
            except BaseException:
                self._connection.execute("rollback")
                raise
            self._connection.execute("commit")
            return found


class RedisLimits:
    """Meters that many hosts share. Times are those of the Redis server, so that clocks of hosts need not agree.

    Args:
        url: Address, such as redis://host:6379/0.
        prefix: Put before names.

    Raises:
        GatewayError: The package redis is not installed, or the server does not answer.
    """

    remote = True

    def __init__(self, url: str, prefix: str = "graphrag-assets:limits:") -> None:
        try:
            import redis
        except ImportError as error:
            raise GatewayError(
                "settings: limits.redis_url needs the package redis: pip install 'graphrag-assets[redis]'"
            ) from error
        self._errors: type[Exception] = redis.RedisError
        self._prefix = prefix
        try:
            self._client: redis.Redis = redis.Redis.from_url(url, socket_timeout=BUSY, socket_connect_timeout=BUSY)
            self._client.ping()
        except (redis.RedisError, ValueError) as error:  # it never answered: a mistake rather than an outage
            raise self._failed(error, passing=False) from None

    def change(self, name: str, period: float, changed: Callable[[Meter, float], T]) -> T:
        """See :class:`LimitStore`."""
        return self.update(name, _of_meter(period, changed))

    def update(self, name: str, changed: Callable[[Any, float], tuple[Any, T]]) -> T:
        """See :class:`LimitStore`."""
        key = self._prefix + name

        def transaction(pipe: Any) -> T:
            seconds, micro = pipe.time()
            held = pipe.get(key)
            state, found = changed(orjson.loads(held) if held else None, seconds + micro / 1e6)
            pipe.multi()
            pipe.set(key, orjson.dumps(state), ex=REDIS_FORGETS)
            return found

        try:
            return cast("T", self._client.transaction(cast("Any", transaction), key, value_from_callable=True))
        except self._errors as error:
            raise self._failed(error, passing=True) from None

    def _failed(self, error: Exception, *, passing: bool) -> GatewayError:
        return GatewayError(
            f"settings: limits.redis_url: Redis cannot be used ({redact(str(error))}); check the address and that the server "
            "is up, or remove the setting: then the processes of this host share limits by a file",
            passing=passing,
        )


def _of_meter(period: float, changed: Callable[[Meter, float], T]) -> Callable[[Any, float], tuple[Any, T]]:
    """The change of a meter as a change of its state."""

    def change(state: Any, now: float) -> tuple[Any, T]:
        meter = Meter.of(state, period, now)
        found = changed(meter, now)
        return meter.state(), found

    return change


#: Meters where nothing is shared.
_HERE = ProcessLimits()

_OPENED: dict[str, LimitStore] = {}
_OPENING = threading.Lock()


def open_limits(workspace: Workspace) -> LimitStore:
    """The store of a workspace; one a process, however many gateways there are.

    Where no answers are kept, no file is made either, unless its path is set: limits then hold for this process.

    Args:
        workspace: Settings ``limits.redis_url`` and ``limits.path``.

    Raises:
        GatewayError: Redis is set and cannot be used.
    """
    settings = workspace.settings
    limits = settings.limits
    if limits.redis_url:
        return _opened(limits.redis_url.get_secret_value(), RedisLimits)
    if not settings.cache.enabled and "path" not in limits.model_fields_set:
        return _HERE
    return _opened(str(workspace.path(limits.path)), _file)


def open_accounts(workspace: Workspace) -> LimitStore:
    """The store of a workspace for what must not be forgotten when a process ends, such as what was spent.

    Args:
        workspace: Settings ``limits.redis_url`` and ``limits.path``.

    Raises:
        GatewayError: It cannot be used.
    """
    limits = workspace.settings.limits
    if limits.redis_url:
        return open_limits(workspace)
    path = workspace.path(limits.path)
    try:
        return _opened(f"accounts {path}", lambda _: FileLimits(path))
    except (OSError, sqlite3.Error) as error:
        raise GatewayError(
            f"settings: limits.path: {path} cannot be written ({error}), so that what is spent in a day cannot be kept there; "
            "set limits.path to a file that can be written, or remove budget.usd_per_day and budget.tokens_per_day"
        ) from None


def _opened(place: str, make: Callable[[str], LimitStore]) -> LimitStore:
    with _OPENING:
        if place not in _OPENED:
            _OPENED[place] = make(place)
        return _OPENED[place]


def _file(path: str) -> LimitStore:
    try:
        return FileLimits(Path(path))
    except (OSError, sqlite3.Error) as error:
        logger.warning("limits.path: %s cannot be written (%s): limits hold for this process only", path, error)
        return _HERE
