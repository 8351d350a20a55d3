"""Calls of the loop that raise, as where a signal handler does, or where there is no memory.

Here one call of the loop raises, before or after its work. `test_signals.py` raises everywhere.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from request_purgatory import OperationCancelledError, PurgatoryClosedError
from request_purgatory.aio import Purgatory
from request_purgatory.aio.hold import MAX_ATTEMPTS, HoldFuture
from request_purgatory.aio.sweep import TRUSTED_MS
from tests.support.invariants import check_invariants
from tests.support.requests import Request
from tests.unit.aio.scenes import Condition, Scenario, now, opened, turns
from tests.unit.aio.virtual import VirtualLoop

TIME_LIMIT = 20.0

after = pytest.mark.parametrize("after", [False, True], ids=["before its work", "after its work"])
#: What a call raises, and whether the caller hears of it.
heard = pytest.mark.parametrize(
    ("error", "is_heard"), [(KeyboardInterrupt, True), (MemoryError, False)]
)


class Interrupted(BaseException):
    """What the signal handler raises."""


class Interruption:
    """Has a method of the running loop raise in some calls.

    Attributes:
        calls: The number of calls.
        made: What they returned, also those that raised after their work.
    """

    def __init__(
        self, method: str, errors: Sequence[type[BaseException] | None], *, after: bool = False
    ) -> None:
        """Interrupt the next calls of a method.

        Args:
            method: The method of the loop.
            errors: What each call raises; None, and no further one, stand for nothing.
            after: Whether a call that raises does its work before.
        """
        self.calls = 0
        self.made: list[Any] = []
        self._errors = list(errors)
        self._after = after
        loop = asyncio.get_running_loop()
        self._call: Callable[..., Any] = getattr(loop, method)
        setattr(loop, method, self._raise_or_call)

    def _raise_or_call(self, *args: Any, **options: Any) -> Any:
        self.calls += 1
        error = self._errors.pop(0) if self._errors else None
        if error is not None and not self._after:
            raise error
        self.made.append(self._call(*args, **options))
        if error is not None:
            raise error
        return self.made[-1]

    def stop(self) -> None:
        self._errors.clear()


# -- the alarm


@after
@pytest.mark.parametrize("times", [1, 2, MAX_ATTEMPTS])
@heard
def test_next_alarm_is_set_though_the_loop_raises_as_one_rings(
    play: Scenario, error: type[BaseException], is_heard: bool, times: int, after: bool
) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            held = [purgatory.hold(["a"], until=bool, timeout=each) for each in (0.01, 0.05)]
            began = now()
            asyncio.get_running_loop().pass_time(0.02)  # type: ignore[attr-defined]
            interruption = Interruption("call_at", [error] * times, after=after)
            if is_heard:
                with pytest.raises(error):
                    purgatory._alarm.ring()
            else:
                purgatory._alarm.ring()
            assert interruption.calls == times + 1
            check_invariants(purgatory)
            for future in held:
                with pytest.raises(TimeoutError):
                    await future
            assert now() - began == pytest.approx(0.05, abs=0.0011)

    play(scenario)


def test_loop_that_takes_no_alarm_is_asked_a_limited_number_of_times(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            held = [purgatory.hold(["a"], until=bool, timeout=each) for each in (0.01, 0.05)]
            began = now()
            asyncio.get_running_loop().pass_time(0.02)  # type: ignore[attr-defined]
            assert purgatory._alarm.handle is not None
            purgatory._alarm.handle.cancel()
            interruption = Interruption("call_at", [MemoryError] * 1_000)
            with pytest.raises(MemoryError):
                purgatory._alarm.ring()
            assert interruption.calls == 1 + MAX_ATTEMPTS
            interruption.stop()
            # The next request sets the alarm, though its own timeout is later.
            last = purgatory.hold(["a"], until=bool, timeout=1)
            for future in held:
                with pytest.raises(TimeoutError):
                    await future
            assert now() - began == pytest.approx(0.05, abs=0.0011)
            last.cancel()

    play(scenario)


def test_alarm_that_the_loop_has_set_and_nobody_knows_of_leaves_one_alarm(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            alarms = Interruption("call_at", [None, Interrupted], after=True)
            held = purgatory.hold(["a"], until=bool, timeout=0.5)
            with pytest.raises(Interrupted):
                purgatory.hold(["a"], until=bool, timeout=0.01)
            assert purgatory.num_delayed == 1
            await asyncio.sleep(0.02)
            pending = [each for each in alarms.made if each.when() > now() and not each.cancelled()]
            assert pending == [purgatory._alarm.handle]
            held.cancel()

    play(scenario)


def test_alarm_that_nobody_knows_of_finds_the_purgatory_closed(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            Interruption("call_at", [Interrupted], after=True)
            with pytest.raises(Interrupted):
                purgatory.hold(["a"], until=bool, timeout=0.01)
            purgatory.close()
            await asyncio.sleep(0.02)

    play(scenario)


@heard
def test_renewal_is_in_time_though_the_loop_raises(
    play: Scenario, error: type[BaseException], is_heard: bool
) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            request = Request(60_000)
            ended = purgatory.wait(request, ["a"])
            began = now()
            Interruption("call_at", [error])
            if is_heard:
                with pytest.raises(error):
                    purgatory.renew(request, 0.05)
            else:
                assert purgatory.renew(request, 0.05) is True
            assert await ended == "expired"
            assert now() - began == pytest.approx(0.05, abs=0.0011)

    play(scenario)


# -- events


@after
def test_event_that_a_handler_interrupts_is_posted_or_posted_by_the_next(
    play: Scenario, after: bool
) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            condition = Condition()
            held = purgatory.hold(["a"], until=condition, timeout=1)
            interruption = Interruption("call_soon_threadsafe", [Interrupted], after=after)
            with pytest.raises(Interrupted):
                purgatory.notify_threadsafe("a")
            if after:
                await turns()
                assert condition.looks == 2
            purgatory.notify_threadsafe("a")
            assert interruption.calls == 2
            await turns()
            assert condition.looks == 2 + after
            held.cancel()

    play(scenario)


@pytest.mark.parametrize(("passed_ms", "calls"), [(TRUSTED_MS, 1), (TRUSTED_MS + 1, 2)])
def test_loop_is_trusted_for_so_long_to_come_to_an_event(
    play: Scenario, passed_ms: int, calls: int
) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            held = purgatory.hold(["a"], until=bool, timeout=1)
            interruption = Interruption("call_soon_threadsafe", [])
            purgatory.notify_threadsafe("a")
            asyncio.get_running_loop().pass_time(passed_ms / 1000)  # type: ignore[attr-defined]
            purgatory.notify_threadsafe("a")
            assert interruption.calls == calls
            held.cancel()

    play(scenario)


class Key:
    """A watch key that can be referred to weakly."""


def test_closed_loop_keeps_no_key() -> None:
    async def enter() -> Purgatory:
        return await Purgatory("test").__aenter__()

    loop = VirtualLoop()
    purgatory = loop.run_until_complete(enter())
    loop.close()
    key = Key()
    ghost = weakref.ref(key)
    purgatory.notify_threadsafe(key)
    del key
    assert ghost() is None
    purgatory.close()


@after
@pytest.mark.parametrize("times", [1, 2, MAX_ATTEMPTS - 2])
@heard
def test_rest_of_a_batch_is_tried_though_the_loop_raises(
    play: Scenario, error: type[BaseException], is_heard: bool, times: int, after: bool
) -> None:
    async def scenario() -> None:
        async with opened(batch=2) as purgatory:
            condition = Condition()
            held = [purgatory.hold(["a"], until=condition, timeout=1) for _ in range(3)]
            condition.looks = 0
            interruption = Interruption("call_soon", [error] * times, after=after)
            if is_heard:
                with pytest.raises(error):
                    purgatory.notify("a")
            else:
                purgatory.notify("a")
            assert (interruption.calls, condition.looks) == (times + 1, 2)
            await turns(1)
            assert condition.looks == 3
            for future in held:
                future.cancel()

    play(scenario)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_loop_that_takes_no_round_is_asked_again_by_the_next_event(
    play: Scenario, error: type[BaseException]
) -> None:
    async def scenario() -> None:
        async with opened(batch=2) as purgatory:
            condition = Condition()
            held = [purgatory.hold(["a"], until=condition, timeout=1) for _ in range(3)]
            condition.looks = 0
            interruption = Interruption("call_soon", [error] * 1_000)
            with pytest.raises(error):
                purgatory.notify("a")
            assert interruption.calls == MAX_ATTEMPTS
            interruption.stop()
            purgatory.notify("a")
            assert interruption.calls == MAX_ATTEMPTS + 1
            await turns(4)
            assert condition.looks == 6
            for future in held:
                future.cancel()

    play(scenario)


# -- futures


class Audience:
    """Those who wait for a future: a task, and callbacks, one of which was added twice."""

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future
        self._told: list[tuple[str, bool]] = []
        self._task = asyncio.ensure_future(self._wait())

    async def _wait(self) -> object:
        return await self._future

    async def begin(self) -> None:
        """Wait for the future, and for another one, which has ended when this returns."""
        await turns(2)

        def first(future: object) -> None:
            self._told.append(("first", future is self._future))

        def second(future: object, *more: object) -> None:
            self._told.append(("by hand" if more else "second", future is self._future))

        for callback in (first, second, first):
            self._future.add_done_callback(callback)
        other: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        other.add_done_callback(first)
        other.add_done_callback(second)
        other.set_result(None)
        asyncio.get_running_loop().call_soon(second, self._future, "more")

    async def result(self) -> object:
        """Return what the task has got, once everybody was told as often as it asked to be."""
        await turns(4)
        assert self._task.done(), "a task that waits was not woken"
        assert sorted(self._told) == [
            ("by hand", True),
            *(("first", False), ("first", True), ("first", True)),
            *(("second", False), ("second", True)),
        ]
        return (await asyncio.gather(self._task, return_exceptions=True))[0]


#: A task and three callbacks.
AUDIENCE = 4


@after
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("before", range(AUDIENCE))
@pytest.mark.parametrize("end", ["value", "error", "cancelled"])
def test_everybody_is_told_once_of_an_end_though_the_loop_raises(
    play: Scenario, end: str, before: int, times: int, after: bool
) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            ready = Condition()
            held = purgatory.hold(["a"], until=ready, timeout=1)
            audience = Audience(held)
            await audience.begin()
            ready.value = "now"
            errors = [None] * before + [KeyboardInterrupt] * times
            interruption = Interruption("call_soon", errors, after=after)
            ends: dict[str, Callable[[], object]] = {
                "value": lambda: purgatory.notify("a"),
                "error": lambda: purgatory.cancel_for_key("a"),
                "cancelled": held.cancel,
            }
            with pytest.raises(KeyboardInterrupt):
                ends[end]()
            interruption.stop()
            result = await audience.result()
            if end == "value":
                assert result == "now"
            else:
                kind = asyncio.CancelledError if end == "cancelled" else OperationCancelledError
                assert isinstance(result, kind)

    play(scenario)


def test_loop_that_schedules_nothing_is_asked_a_limited_number_of_times(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            held = purgatory.hold(["a"], until=bool, timeout=1)
            for _ in range(2):
                held.add_done_callback(lambda _: None)
            interruption = Interruption("call_soon", [KeyboardInterrupt] * 1_000)
            with pytest.raises(KeyboardInterrupt):
                held.cancel()
            assert interruption.calls == 1 + 2 * MAX_ATTEMPTS
            assert held.cancelled()
            interruption.stop()

    play(scenario)


@after
@pytest.mark.parametrize("times", [1, MAX_ATTEMPTS - 1])
def test_waiter_is_told_of_another_thread_s_end_though_the_loop_raises(
    play: Scenario, times: int, after: bool
) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            request = Request()
            ended = purgatory.wait(request, ["a"])
            raised: list[BaseException] = []

            def end() -> None:
                try:
                    request.force_complete()
                except BaseException as error:
                    raised.append(error)

            interruption = Interruption("call_soon_threadsafe", [Interrupted] * times, after=after)
            thread = threading.Thread(target=end)
            thread.start()
            thread.join(TIME_LIMIT)
            assert interruption.calls == times + 1
            assert await ended == "completed"
            assert [type(error) for error in raised] == [Interrupted]
            assert purgatory._answers.futures == {}

    play(scenario)


def test_end_that_the_loop_has_no_memory_for_is_told_at_the_second_call(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            request = Request()
            ended = purgatory.wait(request, ["a"])
            raised: list[BaseException] = []

            def end() -> None:
                try:
                    request.force_complete()
                except BaseException as error:
                    raised.append(error)

            interruption = Interruption("call_soon_threadsafe", [MemoryError] * MAX_ATTEMPTS)
            thread = threading.Thread(target=end)
            thread.start()
            thread.join(TIME_LIMIT)
            assert interruption.calls == MAX_ATTEMPTS + 1
            assert await ended == "completed"
            assert raised == []
            assert purgatory._answers.futures == {}

    play(scenario)


class Raising:
    """Has the error of a closed purgatory raise another one as it is made.

    Attributes:
        calls: How often it was made.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *errors: type[BaseException]) -> None:
        self.calls = 0
        left = list(errors)
        initialize = PurgatoryClosedError.__init__

        def raise_first(error: PurgatoryClosedError, name: str) -> None:
            self.calls += 1
            if left:
                raise left.pop(0)
            initialize(error, name)

        monkeypatch.setattr(PurgatoryClosedError, "__init__", raise_first)


@heard
def test_waiter_is_told_of_the_close_though_its_error_is_interrupted(
    play: Scenario,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    is_heard: bool,
) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            ended = purgatory.wait(Request(), ["a"])
            raising = Raising(monkeypatch, error)
            if is_heard:
                with pytest.raises(error):
                    purgatory.close()
            else:
                purgatory.close()
            monkeypatch.undo()
            assert raising.calls == 2
            with pytest.raises(PurgatoryClosedError):
                await ended
            assert purgatory._answers.futures == {}

    play(scenario)


def test_waiter_is_told_of_the_close_though_its_error_is_interrupted_each_time(
    play: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            ended = purgatory.wait(Request(), ["a"])
            raising = Raising(monkeypatch, *[KeyboardInterrupt] * 1_000)
            with pytest.raises(KeyboardInterrupt):
                purgatory.close()
            monkeypatch.undo()
            assert raising.calls == MAX_ATTEMPTS
            assert await ended == "cancelled"

    play(scenario)


def test_error_of_the_close_for_which_there_is_no_memory_is_made_twice_at_most(
    play: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with Purgatory("test") as purgatory:
            purgatory.wait(Request(), ["a"])
            raising = Raising(monkeypatch, *[MemoryError] * 1_000)
            purgatory.close()
            monkeypatch.undo()
            assert raising.calls == 2
            assert purgatory.num_delayed == 0

    play(scenario)


class Odd(asyncio.CancelledError):
    """An error whose text can not be made some times.

    Attributes:
        times: How often it can not be made any more.
        shown: How often it was asked for.
    """

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.shown = 0

    def __repr__(self) -> str:
        self.shown += 1
        if self.shown <= self.times:
            raise KeyboardInterrupt
        return "Odd()"


@pytest.mark.parametrize("times", [1, MAX_ATTEMPTS - 1, 1_000])
def test_answer_whose_error_can_not_be_shown_is_made_a_limited_number_of_times(
    play: Scenario, times: int
) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            held = purgatory.hold(["a"], until=bool, timeout=1)
            assert isinstance(held, HoldFuture)
            error = Odd(times)
            with pytest.raises(KeyboardInterrupt):
                held.answer(None, error)
            assert error.shown == min(times + 1, MAX_ATTEMPTS)
            assert held.done() is (times < MAX_ATTEMPTS)
            if held.done():
                assert str(held.exception()) == "the condition raised Odd()"
            held.cancel()

    play(scenario)
