"""Fixtures of all tests: virtual time, both designs of the purgatory, threads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import is_hypothesis_test

import request_purgatory
from request_purgatory import (
    DelayedOperationPurgatory,
    LegacyPurgatory,
    ManualClock,
    SystemTimer,
)
from tests.support import leftovers
from tests.support.profiles import PROFILE, load_all_constants, reproducing
from tests.support.thread_group import ThreadGroup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_configure(config: pytest.Config) -> None:
    """Check what each test left behind, and load what the examples of a seed depend on."""
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


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local session for all tests of this process."""
    # Only here: the core's tests run where there is no Spark.
    from tests.support.spark_session import small_session

    session = small_session()
    yield session
    session.stop()


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that stands at 0 until the test moves it."""
    return ManualClock()


@pytest.fixture
def timer(clock: ManualClock) -> SystemTimer:
    """Return a timer with ticks of 1 ms on the test's clock."""
    return SystemTimer("test", clock=clock)


MakePurgatory = Callable[..., DelayedOperationPurgatory]


@pytest.fixture
def make_wheel_purgatory(clock: ManualClock) -> Iterator[MakePurgatory]:
    """Make purgatories of the new design on the test's clock, without a reaper by default."""
    made: list[tuple[DelayedOperationPurgatory, SystemTimer]] = []

    def make(
        name: str = "test",
        *,
        tick_ms: int = 1,
        wheel_size: int = 20,
        reaper: bool = False,
        **arguments: Any,
    ) -> DelayedOperationPurgatory:
        timer = SystemTimer(name, tick_ms=tick_ms, wheel_size=wheel_size, clock=clock)
        made.append((
            DelayedOperationPurgatory(name, timer=timer, reaper=reaper, **arguments),
            timer,
        ))
        return made[-1][0]

    yield make
    for purgatory, timer in made:
        purgatory.close()
        timer.shutdown()


@pytest.fixture
def make_legacy_purgatory(clock: ManualClock) -> Iterator[MakePurgatory]:
    """Make purgatories of the 0.8 design on the test's clock, without a reaper by default."""
    made: list[LegacyPurgatory] = []

    def make(*, reaper: bool = False, **arguments: Any) -> LegacyPurgatory:
        made.append(LegacyPurgatory("test", clock=clock, reaper=reaper, **arguments))
        return made[-1]

    yield make
    for purgatory in made:
        purgatory.close()


@pytest.fixture(params=["wheel", "legacy"])
def make_purgatory(request: pytest.FixtureRequest) -> MakePurgatory:
    """Make purgatories of either design: the test runs once for each."""
    make: MakePurgatory = request.getfixturevalue(f"make_{request.param}_purgatory")
    return make


@pytest.fixture
def purgatory(make_purgatory: MakePurgatory) -> DelayedOperationPurgatory:
    """Return a purgatory of either design, without a reaper, on the test's clock."""
    return make_purgatory()


@pytest.fixture
def thread_group() -> Iterator[ThreadGroup]:
    """Threads that must have ended, without an error, when the test ends."""
    thread_group = ThreadGroup()
    yield thread_group
    thread_group.join()


@pytest.fixture(params=[None, 1e-6], ids=["usual switching", "constant switching"])
def switching(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test twice.

    As usual, and with the interpreter switching threads as often as it can.
    """
    usual = sys.getswitchinterval()
    if request.param is not None:
        sys.setswitchinterval(request.param)
    yield
    sys.setswitchinterval(usual)
