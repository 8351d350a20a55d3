"""How a loop with its timers on the wheel uses the loop's own heap."""

from __future__ import annotations

import asyncio
import math
import socket

import pytest

from request_purgatory.aio import TimingWheelEventLoop
from tests.unit.aio.virtual import VirtualWheelLoop

TIME_LIMIT = 20.0


@pytest.fixture
def loop() -> VirtualWheelLoop:
    return VirtualWheelLoop()


def test_missing_times_are_named(loop: VirtualWheelLoop) -> None:
    with pytest.raises(TypeError, match="delay must not be None"):
        loop.call_later(None, print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="when cannot be None"):
        loop.call_at(None, print)  # type: ignore[arg-type]
    loop.close()


def test_cancelled_handle_has_left_the_wheel(loop: VirtualWheelLoop) -> None:
    handle = loop.call_later(1, print)
    assert handle.wheel_task is not None
    handle.cancel()
    assert handle.wheel_task is None
    assert handle.cancelled()
    handle.cancel()
    loop.close()


def test_earlier_timers_leave_one_wakeup_in_the_heap(loop: VirtualWheelLoop) -> None:
    for delay in range(50, 0, -1):
        loop.call_later(delay, print)
    standing = [handle for handle in loop._scheduled if not handle.cancelled()]
    assert len(standing) == 1
    assert standing[0].when() - loop.time() == pytest.approx(1, abs=0.001)
    loop.close()


def test_cancelled_timers_beyond_the_wheel_do_not_stay_in_the_heap(loop: VirtualWheelLoop) -> None:
    loop.call_later(1000, print)
    for _ in range(500):
        loop.call_at(math.inf, print).cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert len(loop._scheduled) == 1
    loop.close()


def test_handle_that_is_due_takes_no_other_one_along(loop: VirtualWheelLoop) -> None:
    ran: list[str] = []
    loop.call_later(5, ran.append, "later")
    other = loop.call_later(7, ran.append, "other")
    assert other.wheel_task is not None
    other.wheel_task.run()
    loop.call_later(1, ran.append, "first")
    assert loop._due_handles == [other]
    loop.call_later(10, loop.stop)
    loop.run_forever()
    assert sorted(ran) == ["first", "later", "other"]
    loop.close()


class CoarseLoop(VirtualWheelLoop):
    """A loop whose clock, it says, is right to 5 ms."""

    _clock_resolution = 0.005


@pytest.mark.parametrize("delay", [0.0123, 0.2567, 1.0])
def test_wakeup_that_comes_early_by_the_clock_s_resolution_is_repeated(delay: float) -> None:
    loop = CoarseLoop()
    loop._clock_resolution = CoarseLoop._clock_resolution  # asyncio has set that of its clock.
    began = loop.time()
    ended: list[float] = []

    def approach() -> None:
        loop.pass_time(delay - 0.004)
        loop.call_soon(int)  # So the next round does not wait for the timer.

    loop.call_soon(approach)
    loop.call_later(delay, lambda: ended.append(loop.time() - began))
    loop.call_later(delay + 1, loop.stop)
    loop.run_forever()
    assert ended == [pytest.approx(delay, abs=0.0051)]
    loop.close()


def test_timer_runs_in_the_round_of_the_loop_that_finds_it_due(loop: VirtualWheelLoop) -> None:
    ran: list[str] = []

    def busy() -> None:
        loop.pass_time(1.0)
        loop.call_soon(first)

    def first() -> None:
        ran.append("this round")
        loop.call_soon(ran.append, "next round")

    loop.call_later(1.0, ran.append, "timer")
    loop.call_soon(busy)
    loop.call_later(2.0, loop.stop)
    loop.run_forever()
    assert ran == ["this round", "timer", "next round"]
    loop.close()


def test_timer_that_finds_no_memory_for_a_wakeup_is_not_set() -> None:
    class Exhausted(VirtualWheelLoop):
        exhausted = True

        def _schedule_wakeup(self, when: float) -> None:
            if self.exhausted:
                raise MemoryError
            super()._schedule_wakeup(when)

    loop = Exhausted()
    ran: list[str] = []
    with pytest.raises(MemoryError):
        loop.call_later(1, ran.append, "refused")
    loop.exhausted = False
    loop.call_later(2, loop.stop)
    loop.run_forever()
    assert ran == []
    loop.close()


def test_wheel_loop_reads_from_sockets() -> None:
    async def exchange() -> bytes:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            loop.call_later(0.002, theirs.send, b"data")
            return await loop.sock_recv(ours, 10)

    with asyncio.Runner(loop_factory=TimingWheelEventLoop) as runner:
        assert runner.run(asyncio.wait_for(exchange(), TIME_LIMIT)) == b"data"
