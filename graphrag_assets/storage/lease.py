"""The lease of an index: of all processes and hosts that would write to a storage base, one does.

The state of the lease is the newest entry of ``lease/``. Entry n+1 can be created only once (a hard link locally,
``If-None-Match`` on S3), so of two takers at the same time one fails, as with the log of snapshots. The holder renews by
writing the next entry every quarter of the term, and releases with a last one. Whoever dies without releasing loses the
lease when its term is over, or at once where another process of the same host sees that it is dead.

A holder that slept through its term (a suspended machine, a network that was gone) learns so when it renews: somebody
wrote the next entry. It must not publish then: :func:`confirm` renews once more right before.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from graphrag_assets.storage.filesystem import FileSystem

log = logging.getLogger(__name__)

FOLDER = "lease"

#: Seconds between two looks of a process that waits.
LOOK_AGAIN = 1.0

#: Renewals in one term: so many have to fail before the lease is lost.
RENEWALS = 4


class LeaseLostError(Exception):
    """This process no longer holds the lease of the index; what it was making must not be published."""


@dataclass(frozen=True)
class Entry:
    """One state of the lease.

    Args:
        holder: Random name of the holder.
        what: What it does, in words.
        host: Name of its host.
        place: Its host, boot and process namespace: only there its process number means something.
        pid: Its process number.
        started: Time at which its process started, as the operating system counts it.
        since: Time at which it took the lease, ISO 8601 UTC.
        expires: Time until which it holds the lease, in seconds since 1970-01-01 UTC.
        released: Whether it gave the lease back.
    """

    holder: str
    what: str
    host: str
    place: str
    pid: int
    started: str
    since: str
    expires: float
    released: bool = False

    def told(self) -> str:
        """The holder in words."""
        until = datetime.fromtimestamp(self.expires, UTC).isoformat(timespec="seconds")
        return f"{self.what} (process {self.pid} on {self.host}, since {self.since}, claimed until {until})"


class BusyError(Exception):
    """Another process works on the index.

    Args:
        base: Where the index lies.
        holder: Who is at it.
    """

    def __init__(self, base: str, holder: Entry) -> None:
        super().__init__(
            f"the index at {base} is being worked on by {holder.told()}; run again when it is done, or wait for it with "
            "--wait"
        )
        self.holder = holder


def _place() -> str:
    """Where a process number of this process means the same."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str:
    """When a process started; empty where there is none, or it is only a remainder that nobody has collected."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        if Path("/proc/self/stat").exists():
            return ""
        try:  # a system without /proc tells only whether there is such a process
            os.kill(pid, 0)
        except ProcessLookupError:
            return ""
        except PermissionError:
            pass
        return "unknown"
    return "" if state in "ZX" else rest[18]


#: Leases that this process gave back, also where the storage, such as a full disk, could not be told.
_let_go: set[str] = set()


def _free(entry: Entry | None, now: float) -> bool:
    """Whether the lease may be taken."""
    if entry is None or entry.released or entry.expires <= now or entry.holder in _let_go:
        return True
    return entry.place == _place() and _started(entry.pid) != entry.started


def _numbers(filesystem: FileSystem) -> list[int]:
    names = (info.path.rpartition("/")[2] for info in filesystem.list(FOLDER))
    return sorted(int(name.removesuffix(".json")) for name in names if name.endswith(".json"))


def _path(number: int) -> str:
    return f"{FOLDER}/{number:012d}.json"


def _newest(filesystem: FileSystem) -> tuple[int, Entry | None]:
    """Number and content of the newest entry; 0 and None where there is none."""
    while True:
        numbers = _numbers(filesystem)
        if not numbers:
            return 0, None
        try:
            return numbers[-1], Entry(**json.loads(filesystem.read(_path(numbers[-1]))))
        except FileNotFoundError:  # a newer one took its place since
            continue


def _append(filesystem: FileSystem, number: int, entry: Entry) -> bool:
    """Make an entry the newest; False where another process was faster."""
    data = json.dumps(asdict(entry), indent=2).encode()
    try:
        filesystem.create(_path(number), data)
    except FileExistsError:
        if not _is(filesystem, number, data):
            return False
    numbers = _numbers(filesystem)
    for older in numbers:
        if older < numbers[-1]:
            filesystem.delete(_path(older))
    # Others may have gone far ahead and removed the entry of this number: then ours is not the newest, and is no claim.
    return numbers[-1] == number


def _is(filesystem: FileSystem, number: int, data: bytes) -> bool:
    """Whether the entry is ours: a request whose answer was lost is repeated, and then finds its own work."""
    try:
        return filesystem.read(_path(number)) == data
    except FileNotFoundError:
        return False


def holder(filesystem: FileSystem) -> Entry | None:
    """Who holds the lease of an index now; None where nobody does."""
    _, entry = _newest(filesystem)
    return None if entry is None or _free(entry, time.time()) else entry


class Lease:
    """The lease as its holder has it; a thread renews it.

    Args:
        filesystem: The storage base.
        what: What the holder does, in words.
        seconds: Term.
    """

    def __init__(self, filesystem: FileSystem, what: str, seconds: float) -> None:
        self.filesystem = filesystem
        self.seconds = seconds
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._entry = Entry(
            uuid.uuid4().hex, what, socket.gethostname(), _place(), os.getpid(), _started(os.getpid()), now, 0.0
        )
        self._number = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._lost = ""

    def acquire(self) -> None:
        """Take the lease.

        Raises:
            BusyError: Another process holds it.
        """
        while True:
            number, entry = _newest(self.filesystem)
            now = time.time()
            if entry is not None and not _free(entry, now):
                raise BusyError(self.filesystem.base, entry)
            if entry is not None and not entry.released:
                log.info("took over the index from %s, which is gone", entry.told())
            mine = replace(self._entry, expires=now + self.seconds)
            if _append(self.filesystem, number + 1, mine):
                self._number, self._entry = number + 1, mine
                break
        threading.Thread(target=self._keep, name="lease", daemon=True).start()

    def _keep(self) -> None:
        wait = self.seconds / RENEWALS
        while not self._ended.wait(wait):
            try:
                self.renew()
                wait = self.seconds / RENEWALS
            except LeaseLostError as error:
                log.warning("%s", error)
                return
            except Exception as error:  # the storage does not answer: until the term is over there is time to try
                log.warning("could not renew the lease of the index, trying again: %s", error)
                wait = self.seconds / RENEWALS / 4

    def check(self) -> None:
        """Raise where the lease is known to be lost.

        Raises:
            LeaseLostError: It is.
        """
        if self._lost:
            raise LeaseLostError(self._lost)

    def renew(self) -> None:
        """Hold the lease for another term.

        Raises:
            LeaseLostError: Another process took it over.
        """
        with self._lock:
            if self._ended.is_set():
                return
            self.check()
            mine = replace(self._entry, expires=time.time() + self.seconds)
            if not _append(self.filesystem, self._number + 1, mine):
                _, other = _newest(self.filesystem)
                by = other.told() if other else "another process"
                self._lost = (
                    f"the index at {self.filesystem.base} was taken over by {by}, since this process could not renew its "
                    f"claim for {self.seconds:g} s: nothing is published. What is finished is kept; run again when the "
                    "other is done"
                )
                raise LeaseLostError(self._lost)
            self._number, self._entry = self._number + 1, mine

    def release(self) -> None:
        """Give the lease back; where that fails, it ends with its term."""
        with self._lock:
            self._ended.set()
            _let_go.add(self._entry.holder)
            if self._lost:
                return
            try:
                _append(self.filesystem, self._number + 1, replace(self._entry, released=True))
            except Exception as error:
                log.warning("could not release the lease of the index, it ends by itself: %s", error)


#: Leases of this process by storage base. What a process does inside is one work: its parts need no lease of their own.
_held: dict[str, Lease] = {}


@contextmanager
def exclusive(
    filesystem: FileSystem,
    what: str,
    seconds: float,
    *,
    wait: bool = False,
    waiting: Callable[[BusyError], None] | None = None,
) -> Iterator[None]:
    """Hold the lease of an index; nothing to do where this process holds it already.

    Args:
        filesystem: The storage base.
        what: What is done, in words, for others who have to wait.
        seconds: Term: how long another host waits for a holder that died.
        wait: Wait until the lease is free.
        waiting: Called once with the reason where it has to be waited for.

    Raises:
        BusyError: Another process holds it, and ``wait`` is not set.
    """
    if filesystem.base in _held:
        yield
        return
    lease = Lease(filesystem, what, seconds)
    told = False
    while True:
        try:
            lease.acquire()
            break
        except BusyError as busy:
            if not wait:
                raise
            if not told and waiting:
                waiting(busy)
            told = True
            time.sleep(LOOK_AGAIN)
    _held[filesystem.base] = lease
    try:
        yield
    finally:
        del _held[filesystem.base]
        lease.release()


def check(filesystem: FileSystem) -> None:
    """Raise where this process is known to have lost the lease of an index: its steps must not go on writing.

    Raises:
        LeaseLostError: It has.
    """
    if lease := _held.get(filesystem.base):
        lease.check()


def confirm(filesystem: FileSystem) -> None:
    """Make sure, by renewing it, that this process holds the lease of an index: right before it publishes.

    Raises:
        LeaseLostError: It does not.
    """
    lease = _held.get(filesystem.base)
    if lease is None:
        raise LeaseLostError(f"this process does not hold the lease of the index at {filesystem.base}")
    lease.renew()


def _forget() -> None:
    """A process that was forked holds nothing: its parent does, and renews."""
    _held.clear()


os.register_at_fork(after_in_child=_forget)
