"""An exception out of a signal handler loses no timeout and leaves no lock held."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import pytest

import request_purgatory
from request_purgatory import (
    DelayedOperationPurgatory,
    InterruptedUseError,
    ManualClock,
    SystemTimer,
    TimerClosedError,
)
from request_purgatory._native import primitives
from request_purgatory.legacy import LegacyPurgatory
from tests.support.children import in_child
from tests.support.invariants import check_invariants
from tests.support.requests import Request
from tests.support.thread_group import ThreadGroup

TIME_LIMIT = 20.0

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="this system has no interval timers"
)

compiled_only = pytest.mark.skipif(
    not request_purgatory.__compiled__,
    reason="a handler may raise between any two bytecodes of the interpreted core "
    "(docs/explanation/design.md)",
)


class Interrupted(Exception):  # noqa: N818 - as KeyboardInterrupt, no error
    """What the signal handler raises."""


def ignore(report: object) -> None:
    """Do nothing about an exception that nobody can be told of."""


@contextmanager
def interrupting(times: int) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Yield a function that repeats a call until it was interrupted `times` times.

    The timer counts this process's own processor time, which passes only while the calls run. The
    package logs nothing meanwhile: an exception inside `Handler.acquire` leaves the handler locked,
    in any program, and the reaper would wait for it when it logs.
    """

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    def repeat(work: Callable[[], object]) -> None:
        left = times
        until = time.monotonic() + 5 * TIME_LIMIT
        while left > 0 and time.monotonic() < until:
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0.0005, 0.0005)
                while True:
                    work()
            except Interrupted:
                left -= 1
            finally:
                while True:
                    try:
                        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                        break
                    except Interrupted:
                        left -= 1

    before = signal.signal(signal.SIGVTALRM, interrupt)
    # What is raised inside of a finalizer is reported to a hook and goes no further; pytest's own
    # hook would be interrupted, too.
    hook, sys.unraisablehook = sys.unraisablehook, ignore
    logger = logging.getLogger("request_purgatory")
    disabled = [
        each
        for each in (logger.manager.loggerDict[name] for name in list(logger.manager.loggerDict))
        if isinstance(each, logging.Logger)
        and each.name.startswith(logger.name)
        and not each.disabled
    ]
    for each in disabled:
        each.disabled = True
    try:
        yield repeat
    finally:
        for each in disabled:
            each.disabled = False
        sys.unraisablehook = hook
        signal.signal(signal.SIGVTALRM, before)


@compiled_only
def test_timer_goes_on_after_interrupted_calls(thread_group: ThreadGroup) -> None:
    timer = SystemTimer("test")

    def advance() -> None:
        try:
            while True:
                timer.advance_clock(None)
        except TimerClosedError:
            pass

    thread = thread_group.start(advance)
    with interrupting(100) as repeat:
        # Each delay is shorter than the one before, so each addition wakes the sleeper.
        repeat(
            lambda: [timer.call_later_ms(delay_ms, int) for delay_ms in range(60_000, 59_000, -20)]
        )
    ran: list[int] = []
    crew_limit = time.monotonic() + TIME_LIMIT
    timer.call_later_ms(1, ran.append, 1)
    while not ran and time.monotonic() < crew_limit:
        thread.join(0.005)
    assert ran == [1]
    timer.shutdown()
    thread.join(TIME_LIMIT)
    assert not thread.is_alive()


@compiled_only
@pytest.mark.parametrize("design", [DelayedOperationPurgatory, LegacyPurgatory])
def test_purgatory_goes_on_after_interrupted_calls(
    design: Callable[..., DelayedOperationPurgatory],
) -> None:
    """What was interrupted has left it or ends by its timeout.

    Everything is counted, and the reaper lives.
    """
    purgatory = design("test", purge_interval=10)
    requests: list[Request] = []

    def work() -> None:
        requests.append(request := Request(50))
        purgatory.try_complete_else_watch(request, ["a", "b"])
        request.ready = True
        if len(requests) % 3:
            purgatory.check_and_complete("a")

    with interrupting(100) as repeat:
        repeat(work)
    last = Request(20)
    requests.append(last)
    purgatory.try_complete_else_watch(last, ["c"])
    until = time.monotonic() + TIME_LIMIT
    while purgatory.num_delayed and time.monotonic() < until:
        purgatory.hold(["d"], until=lambda: False, timeout=0.01).exception(TIME_LIMIT)
    assert purgatory.num_delayed == 0
    began = time.monotonic()
    assert purgatory.close() == []
    assert time.monotonic() - began < 10
    assert last.outcome == "expired"
    watched = [request for request in requests if request._purgatory is not None]
    assert all(request.is_completed for request in watched)


def test_handler_that_uses_the_purgatory_is_served_or_refused() -> None:
    """Compiled it never comes between.

    Interpreted it gets an error where it would wait for its own thread for ever.
    """
    served: list[int] = []
    refused: list[InterruptedUseError] = []
    with DelayedOperationPurgatory("test") as purgatory:

        def use(number: int, frame: object) -> None:
            try:
                purgatory.try_complete_else_watch(Request(60_000, ready=True), ["a"])
                purgatory.check_and_complete("a")
                served.append(number)
            except InterruptedUseError as error:
                refused.append(error)

        before = signal.signal(signal.SIGVTALRM, use)
        until = time.monotonic() + TIME_LIMIT
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0005, 0.0005)
            while len(served) < 100 and time.monotonic() < until:
                request = Request(60_000)
                purgatory.try_complete_else_watch(request, ["a"])
                request.ready = True
                purgatory.check_and_complete("a")
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)
        check_invariants(purgatory)
    assert len(served) >= 100
    assert not (refused and primitives.COMPILED)


@pytest.mark.skipif(
    primitives.COMPILED, reason="nothing interrupts the compiled core inside of a lock"
)
def test_interrupted_thread_is_told_what_it_may_not_do() -> None:
    purgatory = DelayedOperationPurgatory("test", reaper=False)
    request = Request()
    purgatory.try_complete_else_watch(request, ["a"])
    lock = purgatory._counters.lock
    lock.acquire()
    for use in (
        lambda: purgatory.check_and_complete("a"),
        lambda: purgatory.hold(["b"], until=lambda: True, timeout=1),
        lambda: purgatory.timer.shutdown(),
        lambda: primitives.acquire_for_fork(lock),
        request.force_complete,
        request.cancel,
    ):
        with pytest.raises(
            InterruptedUseError, match="a signal handler or finalizer interrupted this thread"
        ):
            use()
    lock.release()
    assert request.outcome is None
    assert request.force_complete()
    check_invariants(purgatory)


@pytest.mark.skipif(
    primitives.COMPILED, reason="nothing interrupts the compiled core inside of a lock"
)
@pytest.mark.parametrize("lock", ["counters", "shard", "timer", "operation", "fields"])
def test_thread_whose_handler_raised_inside_of_the_core_is_served_again(
    thread_group: ThreadGroup, lock: str
) -> None:
    purgatory = DelayedOperationPurgatory("test", reaper=False)
    operation = Request()

    def interrupted() -> None:
        if lock == "counters":
            purgatory._counters.lock.acquire()
        elif lock == "shard":
            purgatory._table.shards[0].lock.acquire()
        elif lock == "timer":
            purgatory.timer._lock.acquire()  # type: ignore[attr-defined]
        elif lock == "operation":
            primitives.lock_object(operation)
        else:
            operation._lock_fields()
        raise Interrupted

    with pytest.raises(Interrupted):
        interrupted()

    def use() -> None:
        request = Request(60_000)
        assert not purgatory.try_complete_else_watch(request, ["a"])
        request.ready = True
        assert purgatory.check_and_complete("a") == 1

    use()
    thread_group.start(use)
    thread_group.join()
    check_invariants(purgatory)
    assert purgatory.close() == []


@pytest.mark.skipif(
    primitives.COMPILED, reason="nothing interrupts the compiled core inside of a lock"
)
def test_fork_after_a_handler_raised_acquires_each_lock_once() -> None:
    locks = [primitives.CoreLock() for _ in range(2)]

    def interrupted() -> None:
        locks[0].acquire()
        raise Interrupted

    with pytest.raises(Interrupted):
        interrupted()
    for lock in locks:
        primitives.acquire_for_fork(lock)
    for lock in locks:
        primitives.release_after_fork(lock)


@pytest.mark.skipif(
    primitives.COMPILED, reason="nothing interrupts the compiled core inside of a lock"
)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_child_forgets_what_threads_of_the_parent_held(thread_group: ThreadGroup) -> None:
    kept: list[weakref.ref[Request]] = []

    def interrupted() -> None:
        request = Request()
        kept.append(weakref.ref(request))
        primitives.CoreLock().acquire()
        raise Interrupted

    def run() -> None:
        with pytest.raises(Interrupted):
            interrupted()

    thread_group.start(run)
    thread_group.join()
    gc.collect()
    assert kept[0]() is not None

    def child() -> None:
        gc.collect()
        assert kept[0]() is None

    in_child(child)


@pytest.mark.skipif(
    primitives.COMPILED, reason="nothing interrupts the compiled core inside of a lock"
)
def test_lock_of_a_thread_that_has_no_function_left_is_released() -> None:
    lock = threading.RLock()
    lock.acquire()
    primitives._Hold(lock, None).give_up()
    with pytest.raises(RuntimeError):
        lock.release()


@pytest.mark.skipif(
    primitives.COMPILED, reason="nothing interrupts the compiled core inside of a lock"
)
def test_handler_that_raises_in_a_wait_for_a_lock_leaves_it_to_its_owner(
    thread_group: ThreadGroup,
) -> None:
    lock = primitives.CoreLock()
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        lock.acquire()
        held.set()
        assert go_on.wait(TIME_LIMIT)
        lock.release()

    class Waiting:
        """The lock of the other thread, in whose wait the handler raises."""

        def acquire(self) -> None:
            raise Interrupted

        def release(self) -> None:
            owned.release()

    thread_group.start(hold)
    assert held.wait(TIME_LIMIT)
    owned, lock._lock = lock._lock, Waiting()  # type: ignore[assignment]

    def interrupted() -> None:
        lock.acquire()

    with pytest.raises(Interrupted):
        interrupted()
    lock._lock = owned
    other = primitives.CoreLock()
    other.acquire()
    other.release()
    assert not owned.acquire(blocking=False)
    go_on.set()
    thread_group.join()
    lock.acquire()
    lock.release()


@compiled_only
def test_expired_future_is_answered_though_a_handler_raises() -> None:
    clock = ManualClock()
    timer = SystemTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)

    def expire() -> None:
        purgatory.advance_clock(0)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code is expire.__code__:
            raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(30):
            held = [purgatory.hold(["k"], until=bool, timeout=0.013) for _ in range(300)]
            clock.advance(20)
            signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
            with suppress(Interrupted):
                expire()
            signal.setitimer(signal.ITIMER_REAL, 0)
            expire()
            assert all(future.done() for future in held)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
