"""The clock of an event loop, which follows a time that a test fakes."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Callable

import pytest

from request_purgatory import InvalidArgumentError
from request_purgatory._native.parker import Parker
from request_purgatory.aio import TimingWheelEventLoop
from request_purgatory.aio.loop_clock import LoopClock
from request_purgatory.clock import MAX_NOW_MS, MonotonicClock
from tests.unit.aio.scenes import opened, turns

#: Advances the time of a running loop by whole seconds.
Advance = Callable[[int], None]


def replace_monotonic(patch: pytest.MonkeyPatch, _loop: asyncio.AbstractEventLoop) -> Advance:
    return replace(patch, time, "monotonic", time.monotonic)


def replace_the_loops_own(patch: pytest.MonkeyPatch, loop: asyncio.AbstractEventLoop) -> Advance:
    return replace(patch, loop, "time", loop.time)


def replace_the_class_own(patch: pytest.MonkeyPatch, loop: asyncio.AbstractEventLoop) -> Advance:
    return replace(patch, type(loop), "time", loop.time)


def replace(
    patch: pytest.MonkeyPatch, owner: object, name: str, real: Callable[[], float]
) -> Advance:
    ahead_s = 0

    def advance(seconds: int) -> None:
        nonlocal ahead_s
        ahead_s += seconds

    patch.setattr(owner, name, lambda *_loop: real() + ahead_s)
    return advance


@pytest.mark.parametrize("make", [asyncio.new_event_loop, TimingWheelEventLoop])
@pytest.mark.parametrize(
    "fake",
    [replace_monotonic, replace_the_loops_own, replace_the_class_own],
    ids=lambda f: f.__name__,
)
def test_timeouts_follow_a_time_that_is_faked_while_they_wait(
    make: Callable[[], asyncio.AbstractEventLoop],
    fake: Callable[[pytest.MonkeyPatch, asyncio.AbstractEventLoop], Advance],
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with opened() as purgatory:
            early = purgatory.hold(["a"], until=lambda: False, timeout=600)
            timer = loop.create_future()
            loop.call_later(600, timer.set_result, "called")
            with pytest.MonkeyPatch.context() as patch:
                advance = fake(patch, loop)
                late = purgatory.hold(["a"], until=lambda: False, timeout=1_200)
                advance(599)
                await turns()
                assert not early.done()
                assert not timer.done()
                advance(2)
                await turns()
                assert isinstance(early.exception(), TimeoutError)
                assert timer.result() == "called"
                advance(600)
                await turns()
                assert isinstance(late.exception(), TimeoutError)

    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(main())


@pytest.mark.parametrize("make", [asyncio.new_event_loop, TimingWheelEventLoop])
def test_timeouts_come_after_a_faked_time_has_gone_back(
    make: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with opened() as purgatory:
            with pytest.MonkeyPatch.context() as patch:
                advance = replace_monotonic(patch, loop)
                before = purgatory.hold(["a"], until=lambda: False, timeout=600)
                advance(100_000)
                ahead = purgatory.hold(["a"], until=lambda: False, timeout=600)
                loop.call_later(600, pytest.fail, "it is never so late")
                await turns()
                assert isinstance(before.exception(), TimeoutError)
                advance(-100_000)
                after = purgatory.hold(["a"], until=lambda: False, timeout=600)
                timer = loop.create_future()
                loop.call_later(600, timer.set_result, "called")
                advance(599)
                await turns()
                assert not after.done()
                advance(2)
                await turns()
                assert isinstance(after.exception(), TimeoutError)
                assert timer.result() == "called"
                assert not ahead.done()
                ahead.cancel()

    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(main())


def test_clock_reads_the_loops_time_to_the_microsecond() -> None:
    loop = asyncio.new_event_loop()
    clock = LoopClock(loop)
    before_ns = time.monotonic_ns()
    assert before_ns - 1_000 <= clock.now_ns <= time.monotonic_ns() + 1_000
    loop.time = lambda: 1.0049999999  # type: ignore[method-assign]
    assert (clock.now_ms, clock.now_ns, clock.read_ns()) == (1_005, 1_005_000_000, 1_005_000_000)
    loop.time = lambda: MAX_NOW_MS / 1000  # type: ignore[method-assign]
    assert clock.now_ms == MAX_NOW_MS
    for seconds in (-1.0, MAX_NOW_MS / 1000 + 1, 1e10, math.nan):
        loop.time = lambda seconds=seconds: seconds  # type: ignore[method-assign, misc]
        with pytest.raises(InvalidArgumentError, match=rf"loop.time\(\) must be .*{seconds}"):
            clock.read_ns()
    with pytest.raises(RuntimeError, match="use the loop's timers"):
        clock.wait_until(Parker(), None)
    loop.close()


def test_clock_of_threads_does_not_follow_a_time_that_is_faked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = time.monotonic_ns
    for module in list(sys.modules.values()):  # As freezegun does.
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is real and module is not sys.modules[__name__]:
                monkeypatch.setattr(module, name, lambda: 0)
    assert time.monotonic_ns() == 0
    assert MonotonicClock().now_ns > 0
