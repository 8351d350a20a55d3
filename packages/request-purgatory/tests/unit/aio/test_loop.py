"""Event loops with their timers on the wheel behave as the standard loop does."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from request_purgatory.aio import Purgatory, TimingWheelEventLoop, TimingWheelTimers
from tests.support.invariants import check_invariants
from tests.support.profiles import examples
from tests.unit.aio.virtual import VirtualLoop, VirtualWheelLoop

TIME_LIMIT = 20.0


def run(
    main: Callable[[], Any], factory: Callable[[], asyncio.AbstractEventLoop] = TimingWheelEventLoop
) -> Any:
    """Run a coroutine function on a real loop, with a time limit."""
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(asyncio.wait_for(main(), TIME_LIMIT))


# -- compared with the standard loop, in virtual time

seconds = st.sampled_from(
    [
        -1.0,
        0.0,
        1e-9,
        0.0004,
        0.0005,
        0.001,
        0.0015,
        0.0199,
        0.02,
        0.0201,
        0.4,
        7.3,
        161.7,
        90_000.0,
        1e6,
    ]
)
plans = st.lists(
    st.fixed_dictionaries(
        {
            "delay": seconds | st.floats(0, 200) | st.just(math.inf),
            "absolute": st.booleans(),
            "takes": st.sampled_from([0.0, 0.0, 0.0003, 0.001, 0.05, 30.0]),
            "cancels": st.none() | st.integers(0, 11),
            "then": st.none() | seconds,
            "soon": st.booleans(),
        }
    ),
    max_size=12,
)


def history(
    loop_type: type[VirtualLoop], plan: list[dict[str, Any]], until: float
) -> list[tuple[object, float]]:
    """Run a plan of timers on a loop and return what ran, and when."""
    loop = loop_type()
    began = loop.time()
    found: list[tuple[object, float]] = []
    handles: list[asyncio.TimerHandle] = []

    def ran(name: object) -> None:
        found.append((name, loop.time() - began))

    def step(number: int, step: dict[str, Any]) -> None:
        ran(number)
        loop.pass_time(step["takes"])
        if step["cancels"] is not None and step["cancels"] < len(handles):
            handles[step["cancels"]].cancel()
        if step["then"] is not None:
            loop.call_later(step["then"], ran, f"after {number}")
        if step["soon"]:
            loop.call_soon(ran, f"soon after {number}")

    for number, action in enumerate(plan):
        if action["absolute"]:
            handles.append(loop.call_at(began + action["delay"], step, number, action))
        else:
            handles.append(loop.call_later(action["delay"], step, number, action))
    assert [handle.when() - began for handle in handles] == [
        action["delay"] + began - began for action in plan
    ]
    loop.call_at(began + until, loop.stop)
    loop.run_forever()
    found.append(("cancelled", sum(handle.cancelled() for handle in handles)))
    loop.close()
    return found


@examples(400)
@given(plans, st.sampled_from([0.05, 200.0, 2e6]))
def test_timers_run_in_the_same_order_and_at_the_same_times(
    plan: list[dict[str, Any]], until: float
) -> None:
    for number, action in enumerate(plan):
        # Timers of the same instant run in any order.
        action["delay"] += number * 1e-8
        if action["then"] is not None:
            action["then"] += (number + 1) * 3e-7
    expected = history(VirtualLoop, plan, until)
    found = history(VirtualWheelLoop, plan, until)
    assert [name for name, _ in found] == [name for name, _ in expected]
    # To the microsecond: the two loops add floats in a different order.
    assert [time for _, time in found] == pytest.approx([time for _, time in expected], abs=1e-6)


def test_wheel_holds_pending_timers_and_the_heap_one_wakeup() -> None:
    loop = VirtualWheelLoop()
    handles = [loop.call_later(1 + number % 977, print) for number in range(10_000)]
    assert (loop._wheel.size, len(loop._scheduled)) == (10_000, 1)
    for handle in handles:
        handle.cancel()
    assert loop._wheel.size == 0
    check_invariants(loop._wheel)
    loop.call_later(2_000, loop.stop)
    loop.run_forever()
    assert loop._scheduled == []
    loop.close()


# -- documented behaviour of asyncio


async def last_timer(delay: float) -> None:
    """Wait for a timer after all timers of the test; timers run in order, so those have run."""
    loop = asyncio.get_running_loop()
    ran = loop.create_future()
    loop.call_later(delay, ran.set_result, None)
    await ran


def test_asyncio_functions_that_use_timers_work() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert await asyncio.sleep(0.001, "slept") == "slept"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.002):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.002)
        done, pending = await asyncio.wait(
            [asyncio.create_task(asyncio.sleep(delay)) for delay in (0.001, 3_600)], timeout=0.05
        )
        assert (len(done), len(pending)) == (1, 1)
        pending.pop().cancel()
        order: list[tuple[float, float]] = []
        times = [loop.time() + delay for delay in (0.004, 0.001, 0.0032, 0.0031, 0.0, 0.02, 0.0035)]
        for when in times:
            loop.call_at(when, lambda when=when: order.append((when, loop.time())))
        await last_timer(0.021)
        assert [when for when, _ in order] == sorted(times)
        assert all(ran >= when - 1e-6 for when, ran in order), "a timer was early"

    run(main)


def test_times_in_the_past_and_infinity() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        called: list[str] = []
        never = loop.call_at(math.inf, called.append, "never")
        for when in (loop.time() - 5, loop.time(), -math.inf):
            loop.call_at(when, called.append, "past")
        assert called == []
        await last_timer(0.002)
        assert called == ["past"] * 3
        assert never.when() == math.inf
        never.cancel()
        assert never.cancelled()

    run(main)


def test_callback_may_cancel_the_next_one() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        called: list[int] = []
        handles: list[asyncio.TimerHandle] = []
        when = loop.time() + 0.01

        def first() -> None:
            called.append(1)
            handles[1].cancel()

        handles.append(loop.call_at(when, first))
        handles.append(loop.call_at(when + 1e-6, called.append, 2))
        handles.append(loop.call_at(when + 2e-6, called.append, 3))
        await last_timer(0.012)
        assert called == [1, 3]
        assert [handle.cancelled() for handle in handles] == [False, True, False]
        handles[0].cancel()
        handles[1].cancel()

    run(main)


def test_handle_is_what_asyncio_promises() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        handle = loop.call_later(3_600, print, "x")
        assert isinstance(handle, asyncio.TimerHandle)
        assert handle.when() == pytest.approx(loop.time() + 3_600, abs=1.0)
        assert handle < loop.call_later(7_200, print)
        assert "TimerHandle" in repr(handle) or "WheelHandle" in repr(handle)
        assert not handle.cancelled()
        handle.cancel()
        assert handle.cancelled()
        with pytest.raises(TypeError):
            loop.call_at(None, print)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            loop.call_later(None, print)  # type: ignore[arg-type]

    run(main)


def test_exception_of_a_callback_goes_to_the_loops_handler() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        seen: list[object] = []
        loop.set_exception_handler(lambda _loop, context: seen.append(context["exception"]))
        loop.call_later(0.001, int, "odd")
        loop.call_later(0.002, seen.append, "next")
        await last_timer(0.004)
        assert len(seen) == 2
        assert isinstance(seen[0], ValueError)
        assert seen[1] == "next"

    run(main)


def test_closed_loop_takes_no_timers() -> None:
    loop = TimingWheelEventLoop()
    pending = loop.call_later(100, print)
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1, print)
    pending.cancel()
    loop.close()


def test_slow_callback_is_warned_about_in_debug_mode(caplog: pytest.LogCaptureFixture) -> None:
    def busy() -> None:
        """Take longer than the loop's limit for slow callbacks."""

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        loop.set_debug(True)
        loop.slow_callback_duration = 0.0
        loop.call_later(0.002, busy)
        await last_timer(0.004)
        loop.set_debug(False)

    with caplog.at_level(logging.WARNING, "asyncio"):
        run(main)
    assert any("busy" in message and "Executing" in message for message in caplog.messages)


def test_debug_mode_refuses_wrong_calls_and_knows_where_a_timer_was_made() -> None:
    loop = TimingWheelEventLoop()
    loop.set_debug(True)
    with pytest.raises(TypeError, match="callable"):
        loop.call_at(1, "callback")  # type: ignore[arg-type]
    for handle in (loop.call_later(1, int), loop.call_at(1, int)):
        assert f"created at {__file__}" in repr(handle)

    async def main() -> None:
        with pytest.raises(RuntimeError, match="Non-thread-safe"):
            await asyncio.to_thread(loop.call_later, 1, print)

    loop.run_until_complete(main())
    loop.close()


def test_time_may_use_fields_set_after_the_loops_init() -> None:
    class LateLoop(TimingWheelEventLoop):
        def __init__(self) -> None:
            super().__init__()
            self.ahead = 100.0

        def time(self) -> float:
            return super().time() + self.ahead

    async def main() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await asyncio.sleep(0.002, "slept") == "slept"
        assert loop.time() - began >= 0.002 - 1e-6

    run(main, LateLoop)
    LateLoop().close()


def test_loop_may_set_timers_while_it_is_made() -> None:
    class EagerLoop(VirtualLoop):
        def __init__(self) -> None:
            super().__init__()
            self.call_later(0.5, self.stop)

    class EagerWheelLoop(TimingWheelTimers, EagerLoop):
        """EagerLoop with its timers on the wheel."""

    loop = EagerWheelLoop()
    began = loop.time()
    loop.run_forever()
    loop.close()
    assert loop.time() - began == pytest.approx(0.5)


def test_timer_that_is_set_while_the_wheel_is_made_is_not_lost() -> None:
    order: list[str] = []

    class Interrupted(VirtualWheelLoop):
        reads = 0

        def time(self) -> float:
            self.reads += 1
            if self.reads == 1:
                self.call_at(1_000.5, order.append, "inner")
            return super().time()

    loop = Interrupted()
    loop.call_at(1_001.0, order.append, "outer")
    loop.call_at(1_002.0, loop.stop)
    loop.run_forever()
    loop.close()
    assert order == ["inner", "outer"]


def test_loop_that_is_dropped_is_freed() -> None:
    class Payload:
        """An object that a callback refers to."""

    for close in (True, False):
        loop = VirtualWheelLoop()
        payload = Payload()
        ghosts = [weakref.ref(loop), weakref.ref(payload)]
        kept = [loop.call_later(delay, print, payload, loop) for delay in (0.5, 100.0, 1e6)]
        if close:
            loop.close()
        else:
            loop._ssock.close()  # type: ignore[attr-defined]
            loop._csock.close()  # type: ignore[attr-defined]
            loop._virtual.close()
            loop._closed = True  # type: ignore[attr-defined]  # So that nothing warns of a loop that was left open on purpose.
        del loop, payload, kept
        gc.collect()
        assert [ghost() for ghost in ghosts] == [None, None]


@pytest.mark.parametrize("kind", ["standard", "wheel", "uvloop"])
def test_purgatory_works_on_every_loop(kind: str) -> None:
    factory: Callable[[], asyncio.AbstractEventLoop]
    if kind == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop
    else:
        factory = TimingWheelEventLoop if kind == "wheel" else asyncio.SelectorEventLoop

    async def main() -> None:
        loop = asyncio.get_running_loop()
        level = 0
        async with Purgatory("test") as purgatory:
            began = loop.time()
            held = [
                purgatory.hold([number % 5], until=lambda: level, timeout=0.01 + number / 10_000)
                for number in range(200)
            ]
            lasting = [
                purgatory.hold([number], until=lambda: level, timeout=60) for number in range(5)
            ]
            for number, future in enumerate(held):
                with pytest.raises(TimeoutError):
                    await future
                assert loop.time() - began >= 0.01 + number / 10_000 - 0.001
            level = 7
            for number in range(5):
                purgatory.notify(number)
            assert await asyncio.gather(*lasting) == [7] * 5
            check_invariants(purgatory)

    run(main, factory)
