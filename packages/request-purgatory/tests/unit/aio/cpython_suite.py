"""CPython's own asyncio tests, on the loop with wheel timers.

`python -m tests.unit.aio.cpython_suite test_timeouts ...`.
"""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
import unittest
import warnings

from request_purgatory.aio import TimingWheelEventLoop


class Policy(asyncio.DefaultEventLoopPolicy):
    """A policy that creates loops with wheel timers."""

    _loop_factory = TimingWheelEventLoop


def with_wheel(module_name: str) -> unittest.TestSuite:
    """Return a module's tests, with every standard loop replaced by one with wheel timers."""
    asyncio.SelectorEventLoop = TimingWheelEventLoop  # type: ignore[misc]
    asyncio.EventLoop = TimingWheelEventLoop  # type: ignore[attr-defined]  # Its name from 3.13 on.
    asyncio.set_event_loop_policy(Policy())
    module = importlib.import_module(f"test.test_asyncio.{module_name}")
    if hasattr(module, "tearDownModule"):
        # Without the reset of the policy, which is under test here; the process ends afterwards.
        del module.tearDownModule
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def main(names: list[str]) -> int:
    """Run the tests of some modules; return 0 if all passed."""
    warnings.simplefilter("ignore", DeprecationWarning)
    # A background process ignores SIGINT, and tests of runners would wait for it without end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    suite = unittest.TestSuite(with_wheel(name) for name in names)
    made_before = asyncio.new_event_loop()
    assert isinstance(made_before, TimingWheelEventLoop)
    made_before.close()
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
