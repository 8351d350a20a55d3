"""What holds for the tests of all packages: the header, leftovers, marks, and exploring runs."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

import request_purgatory
from tests.support import leftovers
from tests.support.profiles import PROFILE, load_all_constants, reproducing


def register(config: pytest.Config) -> None:
    """Register these hooks, unless another conftest.py has done so."""
    if config.pluginmanager.has_plugin(__name__):
        return
    config.pluginmanager.register(sys.modules[__name__], __name__)
    # `-p no:leftovers` blocks the name.
    config.pluginmanager.register(leftovers.Leftovers(), leftovers.NAME)
    if PROFILE == "explore":
        load_all_constants()


def pytest_report_header() -> str:
    """Say which build of the core is tested, and which examples Hypothesis tries."""
    build = "compiled" if request_purgatory.__compiled__ else "interpreted"
    return f"core: {build}; Hypothesis profile: {PROFILE}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the command that reproduces each failure of an exploration."""
    failed = dict.fromkeys(
        report.nodeid
        for kind in ("failed", "error")
        for report in terminalreporter.stats.get(kind, [])
    )
    if PROFILE == "explore" and failed:
        terminalreporter.section("the same examples again")
        for command in reproducing(failed, config.getoption("hypothesis_seed")):
            terminalreporter.write_line(command)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that Hypothesis draws examples for, and those that use the Spark session.

    The latter stay in one process: a session of a gigabyte is enough.
    """
    for item in items:
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            item.add_marker("explore")
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_collection_finish() -> None:
    """Leave what was collected out of full collections of the cyclic collector.

    Many tests ask for one, which takes most of a second over thousands of tests and their modules.
    """
    gc.collect()
    gc.freeze()
