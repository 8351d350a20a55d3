"""What waits in all purgatories of the process: for a debugger, a page, or on a signal.

`purgatory.snapshot()` is one purgatory's, this module has all of them. docs/how_to/metrics.md shows
both.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
from types import FrameType

from request_purgatory._native.forks import living
from request_purgatory.errors import InvalidArgumentError, whole_number
from request_purgatory.purgatory._purgatory_snapshot import (
    PurgatorySnapshot,
    WaitingGroup,
    WaitingOperation,
)
from request_purgatory.purgatory.core import PurgatoryCore

__all__ = [
    "PurgatorySnapshot",
    "WaitingGroup",
    "WaitingOperation",
    "print_all",
    "print_on_signal",
    "take_all",
]


def take_all(top: int = 10) -> list[PurgatorySnapshot]:
    """Return a snapshot of each purgatory of this process that is not closed, by name.

    Those of threads, of event loops, and of a broker in this process. Any thread may call it.

    Args:
        top: The most types, keys and operations to name of each.

    Raises:
        InvalidArgumentError: `top` is below 1.
    """
    cores = [core for core in living(PurgatoryCore) if not core.is_closed]
    return [core.snapshot(top) for core in sorted(cores, key=lambda core: core.name)]


def print_all(top: int = 10) -> None:
    """Print what waits in all purgatories of this process on standard error.

    Args:
        top: The most types, keys and operations to name of each.

    Raises:
        InvalidArgumentError: `top` is below 1.
    """
    snapshots = take_all(top)
    title = f"process {os.getpid()}: {len(snapshots)} purgatories"
    if sys.stderr is not None:
        # One write, so that nothing gets between the lines.
        sys.stderr.write("\n".join([title, *map(str, snapshots)]) + "\n")
        sys.stderr.flush()


def print_on_signal(signum: int | None = None) -> None:
    """Print what waits on standard error whenever a signal comes: `kill -USR1 PID`.

    It replaces the signal's handler, and stays in force in forked children. The handler only starts
    a thread, which takes the snapshots and prints them. So it waits for no lock, whatever it has
    interrupted, and an event loop goes on meanwhile.

    Args:
        signum: The signal; SIGUSR1 by default.

    Raises:
        InvalidArgumentError: The system has no such signal, or does not let it be handled.
        ValueError: Called on another thread than the main one.
    """
    if signum is None:
        signum = getattr(signal, "SIGUSR1", None)  # None on Windows, which has no SIGUSR1.
    number = whole_number("signum", signum, "a signal to handle")
    if number not in signal.valid_signals():
        raise InvalidArgumentError("signum", "a signal to handle", signum)
    try:
        signal.signal(number, _on_signal)
    except OSError as error:
        raise InvalidArgumentError("signum", f"a signal to handle ({error})", signum) from error


def _on_signal(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's interface
    # Not a `threading.Thread`, whose start takes locks that the interrupted code may hold.
    try:
        _thread.start_new_thread(print_all, ())
    except RuntimeError as error:  # No further thread, or the interpreter is about to end.
        # To the file, not the stream, for the same reason. An exception would end the code that was
        # interrupted.
        os.write(2, f"purgatory: no thread to print what waits: {error}\n".encode())
