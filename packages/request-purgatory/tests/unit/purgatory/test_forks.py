"""What a forked child finds of its parent's purgatories and timers."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    ManualClock,
    PurgatoryClosedError,
    SystemTimer,
)
from request_purgatory._native import forks, primitives
from request_purgatory._native.forks import Forkable, register_for_forks, reinit_in_child
from request_purgatory.legacy import LegacyPurgatory
from request_purgatory.purgatory import _nested_checks
from tests.support.children import in_child
from tests.support.interleaving import interpreted_only
from tests.support.invariants import check_invariants
from tests.support.requests import Request, fail
from tests.support.thread_group import ThreadGroup

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    # Python 3.12 and later warn of a fork with threads; that it works with ours is what is tested.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

TIME_LIMIT = 20.0


@pytest.fixture(params=[DelayedOperationPurgatory, LegacyPurgatory], ids=["wheel", "legacy"])
def purgatory(request: pytest.FixtureRequest) -> Iterator[DelayedOperationPurgatory]:
    """Make a purgatory of either design, with a reaper."""
    with request.param("test") as purgatory:
        yield purgatory


def check_at_rest(purgatory: DelayedOperationPurgatory) -> None:
    """Check invariants once the reaper has ended, which else drops empty buckets meanwhile."""
    assert purgatory._reaper is not None
    assert purgatory._reaper.stop()
    check_invariants(purgatory)


def expire(purgatory: DelayedOperationPurgatory) -> None:
    """Hold a request that nobody answers until its time is over."""
    future = purgatory.hold(["k"], until=lambda: False, timeout=0.001)
    assert isinstance(future.exception(TIME_LIMIT), TimeoutError)


def test_child_has_a_reaper_of_its_own(purgatory: DelayedOperationPurgatory) -> None:
    def child() -> None:
        assert threading.active_count() == 1
        expire(purgatory)
        check_at_rest(purgatory)
        assert purgatory.metrics().expirations == 1
        purgatory.close()
        assert threading.active_count() == 1

    expire(purgatory)
    in_child(child)
    expire(purgatory)


def test_threads_of_the_child_find_every_lock_free(purgatory: DelayedOperationPurgatory) -> None:
    purgatory.try_complete_else_watch(Request(60_000), ["a"])

    def use() -> None:
        request = Request(60_000)
        assert not purgatory.try_complete_else_watch(request, ["a", "b"])
        request.ready = True
        assert purgatory.check_and_complete("a") == 1
        assert purgatory.snapshot().pending == purgatory.metrics().num_delayed_operations == 0
        purgatory.purge()
        check_at_rest(purgatory)

    def child() -> None:
        threads = ThreadGroup(TIME_LIMIT / 4)
        threads.start(use)
        threads.join()

    in_child(child)


def test_what_is_pending_is_the_parent_s_to_answer(purgatory: DelayedOperationPurgatory) -> None:
    requests = [Request(60_000), Request(0)]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a", "b"])

    def child() -> None:
        assert [request.outcome for request in requests] == ["cancelled", "expired"]
        assert [request.calls for request in requests] == [[], ["complete", "expiration"]]
        assert (purgatory.num_delayed, purgatory.watched, purgatory.timer.size) == (0, 0, 0)
        assert purgatory.metrics().cancellations == 0
        requests[0].ready = True
        assert purgatory.check_and_complete("a") == 0
        assert not requests[0].force_complete()
        assert purgatory.close() == []

    in_child(child)
    requests[0].ready = True
    assert purgatory.check_and_complete("a") == 1
    assert requests[0].calls == ["complete"]


def test_future_that_a_child_inherits_is_cancelled(
    purgatory: DelayedOperationPurgatory, thread_group: ThreadGroup
) -> None:
    """Although a thread of the parent was waiting for it.

    Its callbacks are called in the parent alone.
    """
    ready: list[str] = []
    future = purgatory.hold(["k"], until=lambda: ready and ready[0], timeout=60)
    told: list[Future[Any]] = []
    future.add_done_callback(told.append)
    waiter = thread_group.start(future.result)

    def child() -> None:
        with pytest.raises(CancelledError):
            future.result(TIME_LIMIT)
        assert told == []

    in_child(child)
    assert waiter.is_alive()
    ready.append("answer")
    assert purgatory.check_and_complete("k") == 1
    thread_group.join()
    assert (future.result(), told) == ("answer", [future])


def test_closed_purgatory_is_closed_in_the_child(purgatory: DelayedOperationPurgatory) -> None:
    purgatory.close()

    def child() -> None:
        with pytest.raises(PurgatoryClosedError):
            purgatory.hold(["k"], until=lambda: False, timeout=1)
        assert threading.active_count() == 1

    in_child(child)


def test_fork_inside_of_a_try_and_a_callback(purgatory: DelayedOperationPurgatory) -> None:
    class Forking(Request):
        def try_complete(self) -> bool:
            in_child(self.see_it_cancelled)
            return super().try_complete()

        def see_it_cancelled(self) -> None:
            assert self.outcome == "cancelled"
            assert not self.force_complete()
            expire(purgatory)

        def on_complete(self) -> None:
            in_child(lambda: expire(purgatory))
            super().on_complete()

    request = Forking(60_000)
    assert not purgatory.try_complete_else_watch(request, ["a"])
    request.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert request.calls == ["complete"]


def test_child_returns_from_the_call_that_forked(purgatory: DelayedOperationPurgatory) -> None:
    children: list[int] = []

    class Forking(Request):
        def try_complete(self) -> bool:
            children.append(os.fork())
            return False

    request = Forking(60_000)
    completed = purgatory.try_complete_else_watch(request, ["a"])
    if children == [0]:
        code = 1
        try:
            expire(purgatory)
            check_at_rest(purgatory)
            code = 0 if (completed, request.outcome) == (False, "cancelled") else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(children[0], 0)
    assert status == 0
    assert request.outcome is None


def test_timer_that_is_advanced_keeps_its_tasks(thread_group: ThreadGroup) -> None:
    """The child decides by advancing.

    Purgatories take their operations out; threads that slept are gone.
    """
    clock = ManualClock()
    timer = SystemTimer("shared", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    ran: list[str] = []
    handle = timer.call_later_ms(10, ran.append, "task")
    request = Request(10)
    purgatory.try_complete_else_watch(request, ["a"])
    thread_group.start(timer.advance_clock, None)

    def child() -> None:
        assert timer.size == 1
        clock.advance(10)
        assert timer.advance_clock(None)
        assert (ran, request.calls) == (["task"], [])
        check_invariants(timer)
        check_invariants(purgatory)

    in_child(child)
    assert (timer.size, ran) == (2, [])
    handle.cancel()
    timer.shutdown()
    thread_group.join()


def test_timer_that_runs_by_itself_begins_empty() -> None:
    with SystemTimer("test") as timer:
        handle = timer.call_later_ms(60_000, fail)

        def child() -> None:
            assert (timer.size, threading.active_count()) == (0, 1)
            ran = threading.Event()
            timer.call_later_ms(1, ran.set)
            assert ran.wait(TIME_LIMIT)
            timer.call_later_ms(60_000, fail)
            assert len(timer.shutdown()) == 1
            assert threading.active_count() == 1

        in_child(child)
        assert timer.size == 1
        assert handle.cancel()


def test_operation_that_left_the_lists_is_not_expired_in_the_child() -> None:
    clock = ManualClock()
    purgatory = DelayedOperationPurgatory(
        "test", timer=SystemTimer("test", clock=clock), reaper=False
    )
    request = Request(10)
    purgatory.try_complete_else_watch(request, ["a"])
    shard = purgatory._table.shard_of("a")
    assert shard.drop(shard.get("a"), request)

    def child() -> None:
        clock.advance(10)
        purgatory.advance_clock(0)
        assert (request.outcome, request.calls) == ("cancelled", [])

    in_child(child)
    request.cancel()


class Recorded:
    """Registered for forks, it notes what is asked of it."""

    def __init__(self) -> None:
        self.lock = primitives.CoreLock()
        self.asked: list[str] = []

    def _fork_locks(self) -> list[primitives.CoreLock]:
        self.asked.append("locks")
        return [self.lock]

    def _reinit_locks(self) -> None:
        self.lock = primitives.CoreLock()
        self.asked.append("fresh locks")

    def _reset_in_child(self) -> None:
        self.asked.append("begin")


class Unlocked(Forkable):
    """Registered for forks, it names no locks."""

    def _reinit_locks(self) -> None: ...

    def _reset_in_child(self) -> None: ...


def test_what_names_no_locks_has_none() -> None:
    assert list(Unlocked()._fork_locks()) == []


def test_fork_holds_the_locks_of_what_may_be_half_done(thread_group: ThreadGroup) -> None:
    recorded = Recorded()
    register_for_forks(recorded)
    asked = ["locks"] if primitives.FORKS_HOLD_LOCKS else []

    def child() -> None:
        assert recorded.asked == [*asked, "fresh locks", "begin"]
        primitives.acquire_for_fork(recorded.lock)

    in_child(child)
    assert recorded.asked == asked
    primitives.acquire_for_fork(recorded.lock)
    if primitives.FORKS_HOLD_LOCKS:
        thread_group.start(in_child, lambda: None)
    primitives.release_after_fork(recorded.lock)
    thread_group.join()


def test_locks_that_objects_share_are_the_first_to_be_replaced_in_a_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forks, "_shared_locks", forks._shared_locks.copy())
    recorded = Recorded()
    register_for_forks(recorded)
    reinit_in_child(lambda: recorded.asked.append("shared"))

    def child() -> None:
        assert recorded.asked[-3:] == ["shared", "fresh locks", "begin"]

    in_child(child)


def test_reset_that_finds_no_memory_is_made_again() -> None:
    class Interrupted(Recorded):
        def _reset_in_child(self) -> None:
            super()._reset_in_child()
            if self.asked.count("begin") == 1:
                raise MemoryError

    recorded = Interrupted()
    register_for_forks(recorded)

    def child() -> None:
        assert recorded.asked[-4:] == ["fresh locks", "begin"] * 2

    in_child(child)


@interpreted_only
def test_fork_waits_for_locks_with_the_collector_off() -> None:
    collects: list[bool] = []

    class Lock:
        """In place of a lock of the core."""

        @property
        def _lock(self) -> Lock:
            return self

        def acquire(self) -> None:
            collects.append(gc.isenabled())

        def release(self) -> None:
            collects.append(gc.isenabled())

    recorded = Recorded()
    recorded.lock = Lock()  # type: ignore[assignment]
    register_for_forks(recorded)
    in_child(lambda: None)
    assert collects == [False, False]
    assert gc.isenabled()


def test_children_of_a_busy_process_work(thread_group: ThreadGroup) -> None:
    def child(purgatory: DelayedOperationPurgatory) -> None:
        expire(purgatory)
        check_at_rest(purgatory)

    stopped = threading.Event()
    with DelayedOperationPurgatory("test") as purgatory:
        # The parent reads the variable: on free threads a child may wait forever for the lock of a
        # variable that the threads read, which CPython does not free.
        work_in_child = partial(child, purgatory)

        def work(key: str) -> None:
            while not stopped.is_set():
                request = Request(1 if key == "0" else 60_000)
                purgatory.try_complete_else_watch(request, [key, "all"])
                request.ready = True
                purgatory.check_and_complete(key)

        for number in range(4):
            thread_group.start(work, str(number))
        for _ in range(8):
            in_child(work_in_child)
        stopped.set()
        thread_group.join()
        check_at_rest(purgatory)


def test_fork_leaves_a_collector_that_was_off_as_it_was() -> None:
    gc.disable()
    try:
        in_child(lambda: None if not gc.isenabled() else fail())
        assert not gc.isenabled()
    finally:
        gc.enable()
    in_child(lambda: None if gc.isenabled() else fail())
    assert gc.isenabled()


@pytest.mark.skipif(
    primitives.COMPILED, reason="the compiled core takes the locks of operations in C only"
)
def test_child_does_not_wait_for_a_lock_that_operations_share(
    purgatory: DelayedOperationPurgatory, thread_group: ThreadGroup
) -> None:
    future = purgatory.hold(["k"], until=lambda: False, timeout=60)
    operation = future.operation  # type: ignore[attr-defined]
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        primitives.lock_object(operation)
        held.set()
        go_on.wait(TIME_LIMIT)
        primitives.unlock_object(operation)

    thread_group.start(hold)
    assert held.wait(TIME_LIMIT)
    try:
        in_child(lambda: expire(purgatory))
    finally:
        go_on.set()


@pytest.mark.parametrize("depth", [1, primitives.MAX_CHECK_DEPTH])
def test_child_that_is_forked_inside_of_callbacks_makes_all_checks(
    purgatory: DelayedOperationPurgatory, depth: int
) -> None:
    length = 3 * primitives.MAX_CHECK_DEPTH

    def chain(meanwhile: Callable[[], None]) -> list[Future[object]]:
        done = [False] * (length + 1)

        def go_on(number: int) -> None:
            if number == depth:
                meanwhile()
            done[number + 1] = True
            purgatory.notify(number + 1)

        held = []
        for number in range(length):
            until = partial(done.__getitem__, number)
            held.append(purgatory.hold([number], until=until, timeout=TIME_LIMIT))
            held[-1].add_done_callback(lambda _, number=number: go_on(number))
        done[0] = True
        purgatory.notify(0)
        return held

    def child() -> None:
        assert all(future.done() for future in chain(lambda: None))
        check_at_rest(purgatory)

    assert all(future.done() for future in chain(lambda: in_child(child)))


def test_child_that_leaves_the_callback_in_which_it_was_forked_makes_all_checks(
    purgatory: DelayedOperationPurgatory,
) -> None:
    pids: list[int] = []
    ready: list[bool] = []
    held = purgatory.hold(["a"], until=lambda: ready)
    held.add_done_callback(lambda _: pids.append(os.fork()))
    ready.append(True)
    purgatory.notify("a")
    if pids == [0]:
        status = 1
        try:
            ready.clear()
            again = purgatory.hold(["a"], until=lambda: ready)
            ready.append(True)
            purgatory.notify("a")
            status = 0 if again.done() and purgatory.check_and_complete("a") == 0 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 0


@interpreted_only
def test_checks_that_are_forgotten_may_be_left() -> None:
    primitives.enter_check()
    primitives.set_postponed(True)
    primitives.forget_checks()
    assert (primitives.check_depth(), primitives.has_postponed()) == (0, False)
    primitives.leave_check()
    assert primitives.check_depth() == 0
    assert primitives.enter_check() == 1
    primitives.leave_check()
    assert primitives.check_depth() == 0


def test_child_has_none_of_its_parent_s_postponed_checks(
    purgatory: DelayedOperationPurgatory,
) -> None:
    _nested_checks.postpone(1, purgatory, "a")

    def child() -> None:
        assert _nested_checks.postponed == {}

    in_child(child)
    _nested_checks.postponed.clear()
