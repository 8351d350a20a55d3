"""Waiters, timers and loops when something goes wrong.

Callbacks that raise, threads and loops that are the wrong ones.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

from request_purgatory import DelayedOperation, InvalidArgumentError, PurgatoryClosedError
from request_purgatory.aio import Purgatory, TimingWheelEventLoop, TimingWheelTimers
from tests.unit.aio.scenes import Condition, Scenario, now, opened, turns
from tests.unit.aio.virtual import VirtualLoop, VirtualWheelLoop, run

TIME_LIMIT = 20.0


class Call(DelayedOperation):
    """An operation whose callbacks are the test's."""

    def __init__(
        self,
        delay_ms: int,
        on_complete: Callable[[], object] = int,
        on_cancellation: Callable[[], object] = int,
    ) -> None:
        super().__init__(delay_ms)
        self.complete = on_complete
        self.cancellation = on_cancellation

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        self.complete()

    def on_cancellation(self) -> None:
        self.cancellation()


def cancelled() -> None:
    """Return what a cancelled task raises when its result is asked for."""
    raise asyncio.CancelledError


def leave() -> None:
    raise SystemExit(3)


# -- conditions and callbacks that raise what no Exception is


def test_callback_that_raises_cancelled_error_stops_no_clock(
    play: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            purgatory.wait(Call(20, on_complete=cancelled), ["a"])
            began = now()
            with pytest.raises(TimeoutError):
                await purgatory.hold(["b"], until=Condition(), timeout=0.05)
            assert now() - began == pytest.approx(0.05)
            assert purgatory.metrics().callback_errors == 1

    play(scenario)
    assert "CancelledError" in caplog.text


@pytest.mark.parametrize("ending", ["close", "cancel_for_key", "cancel"])
def test_cancellation_callback_that_raises_cancelled_error_harms_no_other(
    play: Scenario, ending: str
) -> None:
    async def scenario() -> None:
        async with Purgatory() as purgatory:
            first = purgatory.wait(Call(5000, on_cancellation=cancelled), ["a"])
            held = purgatory.hold(["a"], until=Condition(), timeout=5)
            if ending == "close":
                assert len(purgatory.close()) == 2
            elif ending == "cancel_for_key":
                assert len(purgatory.cancel_for_key("a")) == 2
            else:
                assert first.cancel()
                assert purgatory.watched == 1
                held.cancel()
        assert held.done()
        assert first.done()
        assert purgatory.num_delayed == 0
        if ending != "cancel":
            assert held.exception() is not None
            assert (
                first.cancelled() or first.exception() is not None or first.result() == "cancelled"
            )

    play(scenario)


def test_exit_in_a_cancellation_callback_comes_after_the_others_were_told() -> None:
    told: list[BaseException | None] = []

    async def scenario() -> None:
        async with Purgatory() as purgatory:
            first = purgatory.wait(Call(5000, on_cancellation=leave), ["a"])
            held = purgatory.hold(["a"], until=Condition(), timeout=5)
            with pytest.raises(SystemExit):
                purgatory.close()
            assert purgatory._alarm.handle is None
            told.extend([first.exception(), held.exception()])

    run(scenario)
    assert [type(error) for error in told] == [PurgatoryClosedError, PurgatoryClosedError]


def test_condition_that_raises_cancelled_error_tells_its_waiter_alone(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            ready = Condition()
            first = purgatory.hold(["a"], until=lambda: ready.value and cancelled(), timeout=None)
            second = purgatory.hold(["a"], until=ready, timeout=None)
            ready.value = "now"
            purgatory.notify("a")
            assert second.result() == "now"
            with pytest.raises(RuntimeError, match=r"the condition raised CancelledError\(\)"):
                await first

    play(scenario)


@pytest.mark.parametrize("batch", [1, 1000])
def test_exit_in_a_condition_reaches_the_caller_and_loses_no_event(batch: int) -> None:
    async def scenario() -> None:
        async with opened(batch=batch) as purgatory:
            errors: list[type[BaseException]] = []

            def once() -> bool:
                if ready.value and not errors:
                    errors.append(SystemExit)
                    raise SystemExit
                return False

            ready = Condition()
            first = purgatory.hold(["a"], until=once, timeout=None)
            second = purgatory.hold(["a"], until=ready, timeout=None)
            ready.value = "now"
            with pytest.raises(SystemExit):
                purgatory.notify("a")
            assert await second == "now"
            first.cancel()

    run(scenario)


def test_value_that_is_neither_true_nor_false_is_its_waiters_error(play: Scenario) -> None:
    class Array:
        def __bool__(self) -> bool:
            raise ValueError("the truth value is ambiguous")

    async def scenario() -> None:
        async with opened() as purgatory:
            condition = Condition()
            held = purgatory.hold(["a"], until=condition, timeout=1)
            condition.value = Array()
            purgatory.notify("a")
            with pytest.raises(ValueError, match="ambiguous"):
                await held
            with pytest.raises(ValueError, match="ambiguous"):
                await purgatory.hold(["a"], until=condition, timeout=1)

    play(scenario)


def test_coroutine_function_is_no_condition() -> None:
    async def until() -> bool:
        return False

    async def scenario() -> None:
        async with opened() as purgatory:
            with pytest.raises(InvalidArgumentError, match="until must be a plain function"):
                await purgatory.hold(["a"], until=until, timeout=1)

    run(scenario)


# -- events


def test_chain_of_conditions_that_notify_is_no_recursion() -> None:
    async def scenario() -> None:
        async with opened(batch=5000) as purgatory:
            reached = 0

            def until(number: int) -> Callable[[], bool]:
                def condition() -> bool:
                    nonlocal reached
                    if reached != number:
                        return False
                    reached += 1
                    purgatory.notify(number + 1)
                    return True

                return condition

            reached = -1
            held = [
                purgatory.hold([number], until=until(number), timeout=None)
                for number in range(3000)
            ]
            reached = 0
            purgatory.notify(0)
            assert all(future.done() for future in held)
            assert reached == 3000

    run(scenario)


def test_notifies_by_callbacks_share_the_batch() -> None:
    async def scenario() -> None:
        async with opened(batch=10) as purgatory:
            order: list[str] = []

            def noted(name: str, also: str | None = None) -> Callable[[], bool]:
                def condition() -> bool:
                    order.append(name)
                    if also is not None:
                        purgatory.notify(also)
                    return False

                return condition

            held = [
                purgatory.hold([name], until=noted(name, also), timeout=None)
                for _ in range(8)
                for name, also in (("a", "b"), ("b", None))
            ]
            order.clear()
            purgatory.notify("a")
            assert order == ["a"] * 8 + ["b"] * 2
            await turns(1)
            assert order == ["a"] * 8 + ["b"] * 8
            for future in held:
                future.cancel()

    run(scenario)


def test_threads_that_notify_the_same_key_cause_one_pass() -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            condition = Condition()
            held = purgatory.hold(["a"], until=condition, timeout=None)

            def notify() -> None:
                for _ in range(1000):
                    purgatory.notify_threadsafe("a")

            thread = threading.Thread(target=notify)
            thread.start()
            thread.join(TIME_LIMIT)
            assert condition.looks == 1
            await turns()
            assert condition.looks == 2
            condition.value = "now"
            purgatory.notify_threadsafe("a")
            assert await held == "now"

    run(scenario)


def test_key_given_twice_is_watched_once(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            condition = Condition()
            held = purgatory.hold(["a", "b", "a"], until=condition, timeout=None)
            assert purgatory.watched == 2
            purgatory.notify("a")
            assert condition.looks == 2
            held.cancel()

    play(scenario)


def test_timeouts_run_in_the_context_of_the_block() -> None:
    variable = contextvars.ContextVar("variable", default="none")
    seen: list[str] = []

    async def scenario() -> None:
        variable.set("block")
        async with opened() as purgatory:
            for name in ("A", "B"):
                context = contextvars.copy_context()
                context.run(variable.set, name)
                context.run(
                    purgatory.wait, Call(5, on_complete=lambda: seen.append(variable.get())), ["a"]
                )
            await asyncio.sleep(0.02)

    run(scenario)
    assert seen == ["block", "block"]


# -- threads and loops


def test_waiter_of_an_operation_that_a_thread_ends_resumes_after_its_callbacks() -> None:
    async def scenario() -> None:
        async with Purgatory() as purgatory:
            answered: list[str] = []
            begun, go_on = threading.Event(), threading.Event()

            def answer() -> None:
                begun.set()
                assert go_on.wait(TIME_LIMIT)
                answered.append("answered")

            operation = Call(60_000, on_complete=answer)
            waiting = purgatory.wait(operation, ["a"])
            thread = threading.Thread(target=operation.force_complete)
            thread.start()
            assert begun.wait(TIME_LIMIT)
            await turns()
            assert operation.is_completed
            assert not waiting.done()
            go_on.set()
            assert await waiting == "completed"
            assert answered == ["answered"]
            thread.join(TIME_LIMIT)

    asyncio.run(asyncio.wait_for(scenario(), TIME_LIMIT))


def test_operation_that_ends_after_its_loop_was_closed_is_answered() -> None:
    answered: list[str] = []
    operation = Call(5000, on_complete=lambda: answered.append("answered"))
    loop = asyncio.new_event_loop()

    async def scenario() -> Purgatory:
        purgatory = await Purgatory().__aenter__()
        purgatory.wait(operation, ["a"])
        return purgatory

    purgatory = loop.run_until_complete(scenario())
    loop.close()
    assert operation.force_complete()
    assert answered == ["answered"]
    with pytest.raises(RuntimeError, match="belongs to the loop on which"):
        purgatory.hold(["a"], until=Condition(), timeout=1)
    assert purgatory.num_delayed == 0


def test_other_loops_and_threads_are_refused_before_anything_is_held() -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            errors: list[BaseException] = []

            async def elsewhere() -> None:
                for call in (
                    lambda: purgatory.hold(["a"], until=Condition("now"), timeout=1),
                    lambda: purgatory.wait(Call(5), ["a"]),
                ):
                    with pytest.raises(
                        RuntimeError, match="belongs to the loop on which"
                    ) as raised:
                        call()
                    errors.append(raised.value)

            thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
            thread.start()
            thread.join(TIME_LIMIT)
            assert len(errors) == 2
            assert purgatory.num_delayed == 0

    run(scenario)


# -- loops' timers


@pytest.mark.parametrize("offset", [-1e6, 1e10])
def test_loop_whose_time_no_timer_can_count_is_refused(offset: float) -> None:
    class OddLoop(VirtualLoop):
        def time(self) -> float:
            return super().time() + offset

    class OddWheelLoop(TimingWheelTimers, OddLoop):
        pass

    loop = OddWheelLoop()
    with pytest.raises(InvalidArgumentError, match="clock must be one that reads from 0 to"):
        loop.call_later(1, int)
    loop.close()

    async def scenario() -> None:
        with pytest.raises(InvalidArgumentError, match="clock must be one that reads from 0 to"):
            async with Purgatory():
                pass

    run(scenario, OddLoop)


def test_timer_that_is_set_while_due_ones_are_moved_loses_none() -> None:
    class Interrupted(VirtualWheelLoop):
        moved = 0

        def _push_to_loop_heap(self, handle: Any) -> None:
            self.moved += 1
            if self.moved % 3 == 0:
                self.call_later(0, int)
            super()._push_to_loop_heap(handle)

    order: list[int] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        when = loop.time() + 0.05
        for number in range(100):
            loop.call_at(when, order.append, number)
        await asyncio.sleep(0.1)

    run(scenario, Interrupted)
    assert sorted(order) == list(range(100))


def test_exit_in_a_timers_callback_loses_no_other_timer() -> None:
    loop = TimingWheelEventLoop()
    order: list[str] = []
    at = loop.time() + 0.005
    loop.call_at(at, leave)
    loop.call_at(at, order.append, "same")
    loop.call_at(at + 0.01, order.append, "later")
    with pytest.raises(SystemExit):
        loop.run_forever()
    loop.call_at(at + 0.02, loop.stop)
    loop.run_forever()
    loop.close()
    assert order == ["same", "later"]


def test_closed_loop_keeps_no_pending_callback() -> None:
    import gc
    import weakref

    class Thing:
        pass

    loop = TimingWheelEventLoop()
    thing = Thing()
    gone = weakref.ref(thing)
    gc.disable()
    try:
        loop.call_later(60, int, thing)
        loop.close()
        del thing
        assert gone() is None
    finally:
        gc.enable()
