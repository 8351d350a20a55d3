"""Child processes that a test forks, and whose failures are the test's."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import traceback
from collections.abc import Callable

import pytest


def in_child(work: Callable[[], object], time_limit: float = 20.0) -> None:
    """Fork, run `work` in the child, and fail if it fails.

    The child ends without the clean-up of Python, which belongs to the parent.

    Args:
        work: A function to call in the child.
        time_limit: Seconds after which the child is killed, and the test fails.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        # A child that hangs says where, and ends; one that can't even do that is killed below.
        faulthandler.dump_traceback_later(0.9 * time_limit, exit=True, file=writing)
        try:
            work()
            status = 0
        except BaseException:
            os.write(writing, traceback.format_exc().encode()[-4000:])
        finally:
            # Whatever else fails: a child that lived on would run all further tests.
            os._exit(status)
    os.close(writing)
    try:
        ended, _, _ = select.select([reading], [], [], time_limit)
        if not ended:
            os.kill(child, signal.SIGKILL)
        output = os.read(reading, 4096).decode()
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    if status:
        pytest.fail(f"in the child: {output or f'it did not end within {time_limit} s'}")
