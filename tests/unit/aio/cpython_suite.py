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
    """Makes loops with wheel timers."""

    _loop_factory = TimingWheelEventLoop


def with_wheel(module_name: str) -> unittest.TestSuite:
    """The module's tests, with every standard loop that they make replaced."""
    asyncio.SelectorEventLoop = TimingWheelEventLoop  # type: ignore[misc]
    asyncio.EventLoop = TimingWheelEventLoop  # type: ignore[attr-defined]  # Its name from 3.13 on.
    asyncio.set_event_loop_policy(Policy())
    module = importlib.import_module(f"test.test_asyncio.{module_name}")
    if hasattr(module, "tearDownModule"):
        # It resets the policy, which is what is under test here; the process ends afterwards
        # anyway.
        del module.tearDownModule
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def main(names: list[str]) -> int:
    """0 if all tests of all modules passed."""
    warnings.simplefilter("ignore", DeprecationWarning)
    # Where the tests run in the background it is ignored, and tests of runners wait for it for
    # ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    suite = unittest.TestSuite(with_wheel(name) for name in names)
    made_before = asyncio.new_event_loop()
    assert isinstance(made_before, TimingWheelEventLoop)
    made_before.close()
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
