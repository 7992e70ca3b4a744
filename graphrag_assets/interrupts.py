"""Ctrl-C and requests to terminate.

The first signal interrupts the work in an orderly way: what is finished is written, files are closed, the run is marked
as ended. A second one ends the process at once. Dagster and asyncio put handlers of their own in the place of ours
while they work, so that signals are noted beside them, through the file descriptor that Python writes them to.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)

#: A second signal within so many seconds is the same request: supervisors send it to a process and to its group.
SAME_REQUEST = 0.5

#: Seconds after which an interrupted command says that it is still at work.
PATIENCE = 3.0

_received: list[int] = []


def received() -> int | None:
    """The signal that asked this process to end, None as long as there was none."""
    return _received[0] if _received else None


def check() -> None:
    """Raise KeyboardInterrupt where the process was asked to end: for what another library swallowed."""
    if _received:
        raise KeyboardInterrupt


@contextmanager
def watched(still_at_work: Callable[[], None]) -> Iterator[None]:
    """Treat a request to terminate like Ctrl-C, note signals, and end the process at once at the second one.

    Does nothing outside the main thread, where signals do not arrive.

    Args:
        still_at_work: Called once where the work has not ended :data:`PATIENCE` seconds after the first signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _received.clear()
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    before_terminate = signal.signal(signal.SIGTERM, _like_ctrl_c)
    before = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(ours, still_at_work), name="signals", daemon=True).start()
    unraisable = sys.unraisablehook
    # An interrupt that hits a finalizer cannot be raised there; nobody needs to read so.
    sys.unraisablehook = lambda error: None if _received else unraisable(error)
    try:
        yield
    finally:
        if not _received:
            sys.unraisablehook = unraisable
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGTERM, before_terminate)
        pythons.close()  # ends the thread


@contextmanager
def cancelling() -> Iterator[None]:
    """Let ``asyncio.run`` inside turn a signal into the cancellation of its work, whatever handlers there are.

    An exception that a handler raises inside an event loop may end up in a callback, where it is lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _like_ctrl_c)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_by_signals() -> None:
    """From now on a signal ends the process, without a word: for the last moments of an interrupted command."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _like_ctrl_c(_number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:  # Ctrl-C is ignored, as for a command that a shell runs in the background
        raise KeyboardInterrupt


def _watch(ours: socket.socket, still_at_work: Callable[[], None]) -> None:
    first = 0.0
    told = False
    with ours:
        while True:
            if first and not told and not select.select([ours], [], [], PATIENCE)[0]:
                told = True
                still_at_work()
            data = ours.recv(64)
            if not data:
                return
            for number in data:
                if number not in SIGNALS:
                    continue
                if not first:
                    first = time.monotonic()
                    _received.append(number)
                elif time.monotonic() - first > SAME_REQUEST:
                    os._exit(128 + _received[0])


def _forget() -> None:
    """A process that was forked must not report its signals to its parent."""
    with contextlib.suppress(ValueError):  # forked from a thread
        signal.set_wakeup_fd(-1)


os.register_at_fork(after_in_child=_forget)
