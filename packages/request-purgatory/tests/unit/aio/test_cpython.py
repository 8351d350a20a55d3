"""CPython's own tests of asyncio pass on the loop with wheel timers."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

#: The modules that set timers. Not test_events, which tests the standard loops, nor
#: test_base_events, which reads the standard loop's heap. Two modules take eight seconds each.
MODULES = [
    "test_timeouts",
    "test_waitfor",
    pytest.param("test_events", marks=pytest.mark.slow),
    pytest.param("test_tasks", marks=pytest.mark.slow),
    "test_locks",
    "test_queues",
    "test_taskgroups",
    "test_runners",
]


@pytest.mark.parametrize("module", MODULES)
def test_cpythons_own_tests_pass(module: str) -> None:
    if (
        importlib.util.find_spec("test") is None
        or importlib.util.find_spec("test.test_asyncio") is None
    ):
        pytest.skip("this Python was installed without its tests")
    if importlib.util.find_spec(f"test.test_asyncio.{module}") is None:
        pytest.skip(f"this Python has no {module}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.aio.cpython_suite", module],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    assert "OK" in done.stderr.splitlines()[-1]
