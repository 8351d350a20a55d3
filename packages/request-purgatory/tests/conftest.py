"""Fixtures of the core's tests: virtual time, purgatories of both designs, threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import request_purgatory
from request_purgatory import (
    DelayedOperationPurgatory,
    ManualClock,
    SystemTimer,
)
from request_purgatory._native import primitives
from request_purgatory.legacy import LegacyPurgatory
from tests.support import test_session
from tests.support.garbage import collector_at_rest as collector_at_rest
from tests.support.thread_group import ThreadGroup

#: The folder of the core that is tested.
CORE = Path(request_purgatory.__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Register what holds for all tests, where this is the only conftest.py."""
    test_session.register(config)


@pytest.fixture(autouse=True)
def released_locks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test in which a function of the interpreted core has left its lock held.

    The same thread's next `acquire` releases such a lock, so a test of one thread would not notice.
    """
    if primitives.COMPILED:
        yield
        return
    left: list[str] = []
    give_up = primitives._Hold.give_up

    def note(hold: primitives._Hold) -> None:
        give_up(hold)
        look(hold)

    def look(hold: primitives._Hold | None) -> None:
        if hold is not None and hold.frame is not None:
            code = hold.frame.f_code
            if Path(code.co_filename).is_relative_to(CORE):
                left.append(code.co_qualname)

    monkeypatch.setattr(primitives._Hold, "give_up", note)
    yield
    look(primitives._holds.get(threading.get_ident()))
    assert not left, f"these have left a lock held: {left}"


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
        made.append(
            (
                DelayedOperationPurgatory(name, timer=timer, reaper=reaper, **arguments),
                timer,
            )
        )
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
def make_either_purgatory(request: pytest.FixtureRequest) -> MakePurgatory:
    """Make purgatories of either design: the test runs once for each."""
    make: MakePurgatory = request.getfixturevalue(f"make_{request.param}_purgatory")
    return make


@pytest.fixture
def make_purgatory(make_wheel_purgatory: MakePurgatory) -> MakePurgatory:
    """Make purgatories; the contract's tests replace it by `make_either_purgatory`."""
    return make_wheel_purgatory


@pytest.fixture
def purgatory(make_purgatory: MakePurgatory) -> DelayedOperationPurgatory:
    """Return a purgatory without a reaper, on the test's clock."""
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
