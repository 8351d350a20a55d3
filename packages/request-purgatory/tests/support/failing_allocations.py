"""Calls that find no memory: their n-th allocation fails, for all n, alone or with those after it.

Or a limit of memory is met.

Each case runs in a forked child. So a crash is a failure of its case, and says at which allocation;
a call that leaves a lock held hangs, and the child ends with the tracebacks of its threads.
"""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import select
import signal
import sys
import sysconfig
import time
import traceback
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from request_purgatory._native import forks

#: What a call raises that finds no memory. A constant: a tuple needs memory.
_FAILURES = (MemoryError, RuntimeError, SystemError)
#: The texts of CPython's other errors that mean that there is no memory.
_OF_MEMORY = (
    "can't allocate lock",
    "can't start new thread",
    # A SystemError: CPython 3.11 found no memory for the frame of a function in Python.
    "error return without exception set",
)

#: No call makes as many allocations.
MOST = 4_000
#: Allocations that fail in a row: those of a traceback too, and those of a second attempt. Not all
#: from one on: an exception in a handler, 256 instructions or more into a function of Python, needs
#: an int, for which CPython then tries for ever.
ROW = 40
#: Allocations of one case that may leave references behind: where a generator expression finds no
#: memory, CPython forgets some. `tuple(b for _, b in pairs)` keeps a pair alive. Up to 3 were seen;
#: what is ours to free would be left by dozens.
MOST_LEAKS = 4
#: Seconds for all allocations of one case.
TIME_LIMIT = 60.0

#: `PyList_New` of free-threaded CPython 3.13 frees a list whose array found no memory before it has
#: set the field that names the array. What was there is freed again, and any later call may crash.
with_whole_lists = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="a list that finds no memory damages those of a free-threaded CPython",
)


class Scene(Protocol):
    """What one call is made in, and what is looked at afterwards."""

    def call(self) -> object:
        """Make the call that finds no memory; nothing else is done meanwhile."""

    def check(self, failed: bool) -> None:
        """Check what the call has left behind.

        Args:
            failed: Whether the call raised MemoryError.
        """

    def check_row(self, failed: bool) -> None:
        """Check what is left by a call that found no memory for its second attempts either.

        Args:
            failed: As of `check`.
        """

    def referents(self) -> list[weakref.ref[Any]]:
        """Return what nothing refers to once the scene is gone, but for CPython's own leaks."""


def fails_each(make: Callable[[], Scene]) -> None:
    """Let each allocation of a call fail, one after another."""
    in_children(make, _one_fails)


def fails_in_a_row(make: Callable[[], Scene]) -> None:
    """Let each allocation of a call fail, and those after it, too."""
    in_children(make, _row_fails)


def fails_at_the_limit(make: Callable[[], Scene]) -> None:
    """Make a call once with all memory in use that the process may have."""
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("AddressSanitizer itself ends a process that has no memory left")
    in_children(make, _at_the_limit)


def in_children(make: Callable[[], Scene], work: Callable[..., None]) -> None:
    """Run a case in a child, and fail if it raises, crashes or does not end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        faulthandler.enable(file=writing)
        faulthandler.dump_traceback_later(0.9 * TIME_LIMIT, exit=True, file=writing)
        logging.disable(logging.NOTSET)
        logging.getLogger().handlers = [logging.StreamHandler(open(os.devnull, "w"))]  # noqa: SIM115
        sys.unraisablehook = sys.__unraisablehook__  # pytest's keeps what it is given.
        forks._forkables.clear()  # What other tests have left would be reset with the scene.
        gc.collect()
        gc.freeze()
        progress = [0]
        status = 1
        try:
            work(make, progress)
            status = 0
        except BaseException:
            failure = traceback.format_exc().encode()[-3_000:]
            os.write(writing, b"at allocation %d:\n%s" % (progress[0], failure))
        finally:
            # Whatever else fails: a child that lived on would run all further tests.
            os._exit(status)
    os.close(writing)
    output = b""
    deadline = time.monotonic() + TIME_LIMIT
    try:
        while True:
            if not select.select([reading], [], [], max(deadline - time.monotonic(), 0))[0]:
                os.kill(child, signal.SIGKILL)
                break
            part = os.read(reading, 65_536)
            if not part:
                break
            output += part
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    if status:
        pytest.fail(f"{work.__name__}: status {status}: {output.decode(errors='replace')}")


def _one_fails(make: Callable[[], Scene], progress: list[int]) -> None:
    leaks: list[tuple[int, list[object]]] = []
    for number in range(MOST):
        progress[0] = number
        beyond, left = _fail(make, number)
        if left:
            leaks.append((number, left))
        assert len(leaks) <= MOST_LEAKS, f"kept alive: {leaks}"
        if beyond:
            return
    raise AssertionError(f"the call makes more than {MOST} allocations")


def _row_fails(make: Callable[[], Scene], progress: list[int]) -> None:
    for number in range(MOST):
        progress[0] = number
        if _fail(make, number, ROW)[0]:
            return
    raise AssertionError(f"the call makes more than {MOST} allocations")


def _fail(make: Callable[[], Scene], number: int, row: int = 1) -> tuple[bool, list[object]]:
    """Let one allocation of a call fail, or several in a row.

    Returns:
        Whether the call makes fewer, and what is still alive of the scene.
    """
    import _testcapi

    scene = make()
    call = scene.call
    failure: BaseException | None = None
    # Its first call needs memory, where a tool has used `sys.monitoring`.
    _fails_still(0)
    _testcapi.set_nomemory(number, number + row)
    try:
        call()
    except _FAILURES as error:
        failure = error
    finally:
        beyond = _fails_still(number)
        _testcapi.remove_mem_hooks()
    del call
    failed = _has_failed(failure)
    failure = None
    if row == 1:
        scene.check(failed)
    else:
        scene.check_row(failed)
    referents = scene.referents()
    del scene
    gc.collect()
    left = [kept for referent in referents if (kept := referent()) is not None]
    return beyond, left


def _has_failed(failure: BaseException | None) -> bool:
    """Return True if a call raised for want of memory, and raise anything else."""
    if failure is None:
        return False
    if not isinstance(failure, MemoryError) and failure.args[0] not in _OF_MEMORY:
        raise failure
    return True


def _fails_still(number: int) -> bool:
    """Return True if the failure of that number is still to come."""
    try:
        bytes(700)
    except MemoryError:
        return False  # It has come, and others are to follow.
    try:
        for _ in range(number + 10):
            bytes(700)
    except MemoryError:
        return True
    return False


def _at_the_limit(make: Callable[[], Scene], progress: list[int]) -> None:
    import resource

    for headroom in (0, 1, 4, 16, 64, 256):
        progress[0] = headroom
        scene = make()
        call = scene.call
        eaten: list[object] = [None] * 1_000_000
        with open("/proc/self/statm") as statm:
            size = int(statm.read().split()[0]) * resource.getpagesize()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (size, limits[1]))
        failure: BaseException | None = None
        count = 0
        try:
            for step in (1 << 20, 1 << 16, 1 << 12, 400, 200, 100, 48, 16):
                try:
                    while count < 1_000_000:
                        eaten[count] = bytes(step)
                        count += 1
                except MemoryError:
                    pass
            for index in range(headroom):
                eaten[count - 1 - index] = None
            try:
                call()
            except _FAILURES as error:
                failure = error
        finally:
            del eaten
            resource.setrlimit(resource.RLIMIT_AS, limits)
        del call
        failed = _has_failed(failure)
        failure = None
        scene.check_row(failed)  # Second attempts may have found no memory either.
