"""Calls that find no memory: their n-th allocation fails, for all n, or a limit of memory is met.

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
import time
import traceback
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import pytest

#: The texts of CPython's other errors that mean that there is no memory.
_OF_MEMORY = ("can't allocate lock", "can't start new thread")

#: No call makes as many allocations.
MOST = 4_000
#: Allocations of one case that may leave references behind: where a generator expression finds no
#: memory, CPython forgets some. `tuple(b for _, b in pairs)` keeps a pair alive.
MOST_LEAKS = 2
#: Seconds for all allocations of one case.
TIME_LIMIT = 60.0


class Scene(Protocol):
    """What one call is made in, and what is looked at afterwards."""

    def call(self) -> object:
        """Make the call that finds no memory; nothing else is done meanwhile."""

    def check(self, failed: bool) -> None:
        """Check what the call has left behind.

        Args:
            failed: Whether the call raised MemoryError.
        """

    def referents(self) -> list[weakref.ref[Any]]:
        """Return what nothing refers to once the scene is gone, but for CPython's own leaks."""


def fails_each(make: Callable[[], Scene]) -> None:
    """Let each allocation of a call fail, one after another."""
    in_children(make, _one_fails)


def fails_at_the_limit(make: Callable[[], Scene]) -> None:
    """Make a call once with all memory in use that the process may have."""
    in_children(make, _at_the_limit)


def in_children(make: Callable[[], Scene], work: Callable[..., None]) -> None:
    """Run a case in a child, and fail if it raises, crashes or does not end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        failure = b""
        faulthandler.enable(file=writing)
        faulthandler.dump_traceback_later(0.9 * TIME_LIMIT, exit=True, file=writing)
        logging.disable(logging.NOTSET)
        logging.getLogger().handlers = [logging.StreamHandler(open(os.devnull, "w"))]  # noqa: SIM115
        sys.unraisablehook = sys.__unraisablehook__  # pytest's keeps what it is given.
        gc.collect()
        gc.freeze()
        progress = [0]
        try:
            work(make, progress)
        except BaseException:
            failure = traceback.format_exc().encode()[-3_000:]
        if failure:
            os.write(writing, b"at allocation %d:\n%s" % (progress[0], failure))
        os._exit(1 if failure else 0)
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
    for number in range(1, MOST):
        progress[0] = number
        beyond, left = _fail(make, number)
        if left:
            leaks.append((number, left))
        assert len(leaks) <= MOST_LEAKS, f"kept alive: {leaks}"
        if beyond:
            return
    raise AssertionError(f"the call makes more than {MOST} allocations")


def _fail(make: Callable[[], Scene], number: int) -> tuple[bool, list[object]]:
    """Let one allocation of a call fail.

    Returns:
        Whether the call makes fewer, and what is still alive of the scene.
    """
    import _testcapi

    scene = make()
    call = scene.call
    failed = False
    _testcapi.set_nomemory(number, number + 1)
    try:
        call()
    except (MemoryError, RuntimeError) as error:
        if type(error) is RuntimeError and error.args[0] not in _OF_MEMORY:
            raise
        failed = True
    finally:
        beyond = _fails_still(number)
        _testcapi.remove_mem_hooks()
    del call
    scene.check(failed)
    referents = scene.referents()
    del scene
    gc.collect()
    left = [kept for referent in referents if (kept := referent()) is not None]
    return beyond, left


def _fails_still(number: int) -> bool:
    """Return True if the failure of that number is still to come."""
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
        failed = False
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
            except (MemoryError, RuntimeError) as error:
                if type(error) is RuntimeError and error.args[0] not in _OF_MEMORY:
                    raise
                failed = True
        finally:
            del eaten
            resource.setrlimit(resource.RLIMIT_AS, limits)
        del call
        scene.check(failed)
