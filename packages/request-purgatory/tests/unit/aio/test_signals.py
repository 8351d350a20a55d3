"""An exception out of a signal handler wakes everybody who waits, and loses no later event.

A handler runs between two bytecodes. So each test repeats a call, and raises before another one of
the bytecodes that the call runs, until it runs no further one.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import request_purgatory
from request_purgatory import DelayedOperation, PurgatoryClosedError
from request_purgatory.aio import Purgatory
from request_purgatory.aio.sweep import TRUSTED_MS
from tests.support.invariants import check_invariants
from tests.unit.aio.scenes import Condition, turns
from tests.unit.aio.virtual import VirtualLoop, VirtualWheelLoop, run

TIME_LIMIT = 20.0

compiled_only = pytest.mark.skipif(
    not request_purgatory.__compiled__,
    reason="a handler may raise between any two bytecodes of the interpreted core "
    "(docs/explanation/reliability.md)",
)

ASYNCIO = str(Path(asyncio.__file__).parent)
PACKAGE = str(Path(request_purgatory.__file__).parent)
# Interpreted, the package's own bytecodes are excepted.
INTERRUPTED = (ASYNCIO, PACKAGE) if request_purgatory.__compiled__ else (ASYNCIO,)
TESTING = str(Path(PACKAGE) / "testing.py")


class Interrupted(BaseException):
    """What the signal handler raises."""


class Handler:
    """Raises once, before the bytecode of a number, counted from where it is installed.

    Attributes:
        raised: Whether it has.
    """

    def __init__(self, number: int) -> None:
        self._left = number
        self.raised = False

    def __call__(self, frame: FrameType, event: str, arg: object) -> Handler | None:
        path = frame.f_code.co_filename
        if self.raised or path == TESTING or not path.startswith(INTERRUPTED):
            return None
        if frame.f_code.co_name == "__del__" or self._is_in_finalizer(frame):
            return None  # Nobody would be told.
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event in ("call", "opcode"):
            self._left -= 1
            if self._left < 0:
                self.raised = True
                raise Interrupted
        return self

    def _is_in_finalizer(self, frame: FrameType) -> bool:
        caller = frame.f_back
        return caller is not None and caller.f_code.co_name == "__del__"

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Raise in what this thread calls in the block, and go on after it."""
        before = sys.gettrace()
        gc.disable()  # Callbacks of a collection are Python code, whose exceptions go nowhere.
        try:
            with suppress(Interrupted):
                sys.settrace(self)
                yield
        finally:
            sys.settrace(before)
            gc.enable()


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Log nothing: an exception inside of a logging handler's `acquire` leaves it locked."""
    logger = logging.getLogger("request_purgatory.purgatory")
    logger.disabled = True
    yield
    logger.disabled = False


def interrupt_each(
    scenario: Callable[[Handler], Coroutine[Any, Any, None]],
    loop: type[VirtualLoop] = VirtualLoop,
) -> None:
    """Run a scenario with a handler that raises before the first bytecode, the second and so on."""
    for number in range(10_000):
        handler = Handler(number)
        run(lambda handler=handler: scenario(handler), loop)  # type: ignore[misc]
        if not handler.raised:
            assert number > 0, "nothing was interrupted"
            return
    raise AssertionError("the call does not end")


class Ended(DelayedOperation):
    """Ends when it is told to."""

    def __init__(self, timeout_ms: int = 60_000) -> None:
        super().__init__(timeout_ms)
        self.ready = False

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        pass


loops = pytest.mark.parametrize("loop", [VirtualLoop, VirtualWheelLoop], ids=["heap", "wheel"])


class Waiters:
    """Tasks that wait for futures, and callbacks of theirs."""

    def __init__(self, *futures: asyncio.Future[Any]) -> None:
        self._futures = futures
        self._tasks = [asyncio.ensure_future(self._wait(future)) for future in futures]
        self._told: list[asyncio.Future[Any]] = []

    async def _wait(self, future: asyncio.Future[Any]) -> object:
        return await future

    async def begin(self) -> None:
        await turns(2)
        for future in self._futures:
            future.add_done_callback(self._told.append)
            future.add_done_callback(self._told.append)

    async def results(self) -> list[object]:
        """Return what the tasks have got, once everybody was told as often as it asked to be."""
        await turns(4)
        assert all(task.done() for task in self._tasks), "a task that waits was not woken"
        assert sorted(map(id, self._told)) == sorted(2 * [*map(id, self._futures)])
        return await asyncio.gather(*self._tasks, return_exceptions=True)


@loops
def test_waiter_wakes_though_a_handler_raises_in_notify(loop: type[VirtualLoop]) -> None:
    async def scenario(handler: Handler) -> None:
        async with Purgatory() as purgatory:
            ready = Condition()
            waiters = Waiters(purgatory.hold(["a"], until=ready, timeout=60))
            await waiters.begin()
            ready.value = "now"
            with handler.installed():
                purgatory.notify("a")
            purgatory.notify("a")
            assert await waiters.results() == ["now"]
            check_invariants(purgatory)

    interrupt_each(scenario, loop)


@loops
def test_waiters_wake_though_a_handler_raises_as_their_timeouts_run(
    loop: type[VirtualLoop],
) -> None:
    async def scenario(handler: Handler) -> None:
        async with Purgatory(batch=2) as purgatory:
            operations = [Ended(10) for _ in range(2)]
            waiters = Waiters(
                *(purgatory.hold(["a"], until=bool, timeout=0.01) for _ in range(2)),
                *(purgatory.wait(operation, ["a"]) for operation in operations),
            )
            await waiters.begin()
            later = purgatory.hold(["a"], until=bool, timeout=1)
            asyncio.get_running_loop().pass_time(0.02)  # type: ignore[attr-defined]
            with handler.installed():
                purgatory._alarm.ring()
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
            results = await waiters.results()
            assert [type(result) for result in results[:2]] == [TimeoutError] * 2
            assert results[2:] == ["expired"] * 2
            check_invariants(purgatory)
            with pytest.raises(TimeoutError):
                await later

    interrupt_each(scenario, loop)


def test_alarm_is_not_doubled_for_good_by_a_handler_that_raises_as_it_is_set() -> None:
    async def scenario(handler: Handler) -> None:
        loop = asyncio.get_running_loop()
        async with Purgatory() as purgatory:
            operations = [Ended(500), Ended(10), *(Ended(10) for _ in range(10)), Ended()]
            purgatory.try_complete_else_watch(operations[0], ["a"])
            with handler.installed():
                purgatory.try_complete_else_watch(operations[1], ["a"])
            for operation in operations[2:]:
                purgatory.try_complete_else_watch(operation, ["a"])
                await asyncio.sleep(0.1)
            check_invariants(purgatory)
            live = [each for each in loop._scheduled if not each.cancelled()]  # type: ignore[attr-defined]
            assert len(live) == 1

    interrupt_each(scenario)


@loops
@pytest.mark.parametrize("end", ["cancel", "close", "force_complete", "cancel_for_key"])
def test_waiters_wake_though_a_handler_raises_in_an_end(loop: type[VirtualLoop], end: str) -> None:
    async def scenario(handler: Handler) -> None:
        async with Purgatory() as purgatory:
            operation = Ended()
            waiting = purgatory.wait(operation, ["a"])
            waiters = Waiters(waiting)
            await waiters.begin()
            with handler.installed():
                if end == "cancel":
                    waiting.cancel()
                elif end == "close":
                    purgatory.close()
                elif end == "cancel_for_key":
                    purgatory.cancel_for_key("a")
                else:
                    operation.force_complete()
            # Before the call has begun, nothing has happened.
            if not operation.is_completed:
                assert handler.raised
                operation.force_complete()
                end_here = "completed"
            else:
                end_here = "completed" if end == "force_complete" else "cancelled"
            (result,) = await waiters.results()
            if end == "cancel" and end_here == "cancelled":
                assert isinstance(result, asyncio.CancelledError)
            elif end == "close" and end_here == "cancelled":
                assert isinstance(result, PurgatoryClosedError)
            else:
                assert result == end_here
            assert purgatory._answers.futures == {}
            if not purgatory.is_closed:
                check_invariants(purgatory)

    interrupt_each(scenario, loop)


def test_waiter_wakes_though_a_handler_raises_on_the_thread_that_ends_it() -> None:
    async def scenario(handler: Handler) -> None:
        async with Purgatory() as purgatory:
            operation = Ended()
            held = purgatory.hold(["a"], until=bool, timeout=60)
            waiters = Waiters(purgatory.wait(operation, ["a"]), held)
            await waiters.begin()

            def end() -> None:
                with handler.installed():
                    operation.force_complete()
                    held.operation.force_complete()  # type: ignore[attr-defined]
                operation.force_complete()
                held.operation.force_complete()  # type: ignore[attr-defined]

            thread = threading.Thread(target=end)
            thread.start()
            thread.join(TIME_LIMIT)
            assert await waiters.results() == ["completed", None]

    interrupt_each(scenario)


def test_next_notify_is_heard_though_a_handler_raised_in_one_before() -> None:
    """The other requests of the key are tried by the loop at the latest when it is notified."""

    async def scenario(handler: Handler) -> None:
        async with Purgatory(batch=1) as purgatory:
            ready = Condition()
            waiters = Waiters(*(purgatory.hold(["a"], until=ready, timeout=60) for _ in range(3)))
            await waiters.begin()
            with handler.installed():
                purgatory.notify("a")
            ready.value = "now"
            purgatory.notify("a")
            assert await waiters.results() == ["now"] * 3
            assert purgatory._sweeper._sweeps == {}
            check_invariants(purgatory)

    interrupt_each(scenario)


@compiled_only
def test_next_notify_threadsafe_is_heard_though_a_handler_raised_in_one_before() -> None:
    async def scenario(handler: Handler) -> None:
        async with Purgatory() as purgatory:
            ready = Condition()
            waiters = Waiters(purgatory.hold(["a"], until=ready, timeout=60))
            await waiters.begin()
            with handler.installed():
                purgatory.notify_threadsafe("a")
            ready.value = "now"
            purgatory.notify_threadsafe("a")
            assert await waiters.results() == ["now"]

    interrupt_each(scenario)


@loops
@pytest.mark.parametrize("call", ["hold", "wait", "renew"])
def test_nothing_waits_without_an_alarm_after_a_handler_has_raised(
    loop: type[VirtualLoop], call: str
) -> None:
    async def scenario(handler: Handler) -> None:
        async with Purgatory() as purgatory:
            operation = Ended()
            if call == "renew":
                purgatory.wait(operation, ["a"])
            with handler.installed():
                if call == "hold":
                    purgatory.hold(["a"], until=bool, timeout=0.01)
                elif call == "wait":
                    purgatory.wait(operation, ["a"])
                else:
                    purgatory.renew(operation, 0.01)
            check_invariants(purgatory)
            if call == "renew" and operation.timeout_ms == 10:
                await asyncio.sleep(0.011)
                assert operation.outcome == "expired"

    interrupt_each(scenario, loop)


# -- what an exception takes along as it leaves the loop


def test_alarm_that_the_loop_has_lost_is_set_again_by_the_next_request() -> None:
    async def scenario() -> None:
        async with Purgatory() as purgatory:
            first = purgatory.hold(["a"], until=bool, timeout=0.05)
            lost = purgatory._alarm.handle
            assert lost is not None
            lost.cancel()
            await asyncio.sleep(0.2)
            assert not first.done()
            second = purgatory.hold(["a"], until=bool, timeout=0.05)
            for future in (first, second):
                with pytest.raises(TimeoutError):
                    await future
            check_invariants(purgatory)

    run(scenario)


def test_alarm_that_is_overdue_is_set_again_once_in_a_millisecond() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with Purgatory() as purgatory:
            held = [purgatory.hold(["a"], until=bool, timeout=0.05)]
            alarms = [purgatory._alarm.handle]
            loop.pass_time(0.06)  # type: ignore[attr-defined]
            for _ in range(5):
                held.append(purgatory.hold(["a"], until=bool, timeout=0.05))
                alarms.append(purgatory._alarm.handle)
            assert len(set(map(id, alarms))) == 2
            assert await asyncio.gather(*held, return_exceptions=True)
            assert all(isinstance(future.exception(), TimeoutError) for future in held)

    run(scenario)


def lose_next(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Have the running loop lose what is given to it next."""
    loop = asyncio.get_running_loop()
    call = getattr(loop, method)
    lost: list[object] = []

    def lose(*args: Any, **options: Any) -> object:
        if lost:
            return call(*args, **options)
        lost.append(args)
        return None

    monkeypatch.setattr(loop, method, lose)


def test_key_that_the_loop_has_lost_is_posted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with Purgatory() as purgatory:
            ready = Condition()
            held = purgatory.hold(["a"], until=ready, timeout=60)
            lose_next(monkeypatch, "call_soon_threadsafe")
            purgatory.notify_threadsafe("a")
            ready.value = "now"
            asyncio.get_running_loop().pass_time((TRUSTED_MS + 1) / 1000)  # type: ignore[attr-defined]
            purgatory.notify_threadsafe("a")
            await turns()
            assert held.done()

    run(scenario)


def test_key_that_is_posted_again_as_the_loop_was_busy_is_notified_once() -> None:
    async def scenario() -> None:
        async with Purgatory() as purgatory:
            condition = Condition()
            held = purgatory.hold(["a"], until=condition, timeout=60)
            for _ in range(5):
                purgatory.notify_threadsafe("a")
                asyncio.get_running_loop().pass_time((TRUSTED_MS + 1) / 1000)  # type: ignore[attr-defined]
            await turns()
            assert condition.looks == 2
            held.cancel()

    run(scenario)


@pytest.mark.parametrize("keys", ["aa", "ab"])
def test_round_that_the_loop_has_lost_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    async def scenario() -> None:
        async with Purgatory(batch=1) as purgatory:
            ready = Condition()
            held = [purgatory.hold(["a", "b"], until=ready, timeout=60) for _ in range(3)]
            lose_next(monkeypatch, "call_soon")
            purgatory.notify(keys[0])
            ready.value = "now"
            asyncio.get_running_loop().pass_time((TRUSTED_MS + 1) / 1000)  # type: ignore[attr-defined]
            purgatory.notify(keys[1])
            await turns(10)
            assert all(future.done() for future in held)
            assert purgatory._sweeper._sweeps == {}

    run(scenario)


class ClockedLoop(VirtualLoop):
    """A loop in whose `time` a signal handler raises once."""

    interrupts = False

    def time(self) -> float:
        if self.interrupts:
            self.interrupts = False
            raise Interrupted
        return super().time()


@pytest.mark.parametrize("posted", [False, True], ids=["first", "again"])
def test_handler_that_raises_in_the_clock_leaves_notify_threadsafe_once_the_key_is_posted(
    posted: bool,
) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ClockedLoop)
        async with Purgatory() as purgatory:
            ready = Condition()
            held = purgatory.hold(["a"], until=ready, timeout=60)
            if posted:
                purgatory.notify_threadsafe("a")
            loop.interrupts = True
            with pytest.raises(Interrupted):
                purgatory.notify_threadsafe("a")
            ready.value = "now"
            await turns()
            assert held.done()
            purgatory.notify_threadsafe("a")  # Nothing is left to be raised.

    run(scenario, ClockedLoop)


@pytest.mark.parametrize("keys", ["a", "ab", "aa"])
def test_handler_that_raises_in_the_clock_leaves_notify_once_the_loop_knows_of_the_rest(
    keys: str,
) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ClockedLoop)
        async with Purgatory(batch=1) as purgatory:
            ready = Condition()
            held = [purgatory.hold(["a", "b"], until=ready, timeout=60) for _ in range(3)]
            for key in keys[:-1]:
                purgatory.notify(key)
            loop.interrupts = True
            with pytest.raises(Interrupted):
                purgatory.notify(keys[-1])
            ready.value = "now"
            await turns(10)
            assert all(future.done() for future in held[1:])  # The first was tried before.
            purgatory.notify("a")  # Nothing is left to be raised.

    run(scenario, ClockedLoop)


# -- a real timer


@pytest.mark.slow
@compiled_only
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
def test_every_waiter_wakes_in_a_storm_of_signals() -> None:
    """Whatever a handler interrupts: a condition that holds, a timeout, or the next request."""
    active = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal active
        if active:
            active = False
            raise Interrupted

    def work(purgatory: Purgatory, until: float) -> None:
        # A function of its own: CPython 3.13 leaves the jump back of a `while` out of the `try`
        # around it, and that is where a handler runs.
        nonlocal active
        active = True
        while active and asyncio.get_running_loop().time() < until:
            purgatory.notify("a")
            purgatory.hold(["c"], until=bool, timeout=0.001).cancel()
        active = False

    async def storm() -> int:
        interruptions = 0
        loop = asyncio.get_running_loop()
        async with Purgatory() as purgatory:
            for turn in range(3000):
                ready = Condition()
                operation = Ended()
                tasks = [
                    asyncio.ensure_future(wait(purgatory.hold(["a"], until=ready, timeout=60))),
                    asyncio.ensure_future(wait(purgatory.wait(operation, ["a"]))),
                    asyncio.ensure_future(wait(purgatory.hold(["b"], until=bool, timeout=0.001))),
                ]
                await asyncio.sleep(0)
                ready.value = operation.ready = True
                until = loop.time() + 0.0001
                signal.setitimer(signal.ITIMER_REAL, 0.00001 + turn % 100 * 0.000001)
                try:
                    work(purgatory, until)
                except Interrupted:
                    interruptions += 1
                purgatory.notify("a")
                purgatory.notify_threadsafe("a")
                _, pending = await asyncio.wait(tasks, timeout=TIME_LIMIT)
                assert not pending
            await asyncio.sleep(0.01)
            assert purgatory.num_delayed == 0
        return interruptions

    async def wait(future: asyncio.Future[Any]) -> None:
        with suppress(TimeoutError):
            await future

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        assert asyncio.run(storm()) > 100
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
