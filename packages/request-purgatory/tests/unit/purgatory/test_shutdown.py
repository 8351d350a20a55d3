"""Shutdown at the worst moments.

Each operation is reported once, by its callback or by an exception, never by both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    ManualClock,
    PurgatoryClosedError,
    SystemTimer,
    TimerClosedError,
    TimerTask,
)
from request_purgatory._native import primitives
from tests.support.invariants import check_invariants
from tests.support.pending import watch
from tests.support.requests import Request

TIME_LIMIT = 20.0


class InterruptedTimer(SystemTimer):
    """Does something before it takes a task or advances: what another thread might do then."""

    interrupt: Callable[[], object] | None = None

    def interrupted(self) -> None:
        if self.interrupt is not None:
            self.interrupt()

    def add(self, task: TimerTask) -> None:
        self.interrupted()
        super().add(task)

    def advance_clock(self, timeout_ms: int | None) -> bool:
        self.interrupted()
        return super().advance_clock(timeout_ms)


class InterruptingKey:
    """A key that does something when it is first hashed, just before it is watched."""

    def __init__(self, interrupt: Callable[[], object]) -> None:
        self.interrupt: Callable[[], object] | None = interrupt

    def __hash__(self) -> int:
        if self.interrupt is not None:
            interrupt, self.interrupt = self.interrupt, None
            interrupt()
        return 1


def test_operation_without_a_timeout_expires_without_the_timer(
    purgatory: DelayedOperationPurgatory,
) -> None:
    purgatory.timer.shutdown()
    request = Request(0)
    assert not purgatory.try_complete_else_watch(request, ["a"])
    assert request.calls == ["complete", "expiration"]


@pytest.mark.skipif(primitives.COMPILED, reason="compiled, the watch table is a C field")
def test_operation_that_is_watched_again_and_ends_while_others_are_cancelled_is_not_left(
    purgatory: DelayedOperationPurgatory,
) -> None:
    def watch_and_end() -> None:  # As a thread that has come to the second key by then.
        purgatory._table.watch(second, ["b"])
        assert second.force_complete()

    first, second = Request(cancellation=watch_and_end), Request()
    purgatory.try_complete_else_watch(first, ["a"])
    purgatory.try_complete_else_watch(second, ["a"])
    assert purgatory.close() == [first]
    assert purgatory.watched == 0


def test_operation_that_is_swept_on_its_way_to_the_timer_is_reported_by_its_callback(
    clock: ManualClock,
) -> None:
    """The closed timer refuses it then.

    But it has been told already, so its watcher gets no error as well.
    """
    timer = InterruptedTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    swept: list[object] = []
    timer.interrupt = lambda: (swept.extend(purgatory.close()), timer.shutdown())
    request = Request()
    assert purgatory.try_complete_else_watch(request, ["a", "b"]) is False
    assert (swept, request.calls, request.outcome) == ([request], ["cancellation"], "cancelled")
    assert (purgatory.num_delayed, purgatory.watched, timer.size) == (0, 0, 0)


def test_operation_that_completes_while_the_timer_closes_is_no_error(clock: ManualClock) -> None:
    timer = InterruptedTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    request = Request()
    timer.interrupt = lambda: (request.force_complete(), purgatory.close(), timer.shutdown())
    assert purgatory.try_complete_else_watch(request, ["a"]) is False
    assert (request.calls, request.outcome) == (["complete"], "completed")
    assert (purgatory.num_delayed, purgatory.watched, timer.size) == (0, 0, 0)


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "timer closed"])
def test_renewal_that_comes_too_late_renews_nothing(clock: ManualClock, ended: bool) -> None:
    timer = InterruptedTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    lease = watch(purgatory, "a")
    timer.interrupt = lease.force_complete if ended else timer.shutdown
    assert purgatory.renew(lease, 1) is False
    assert (lease.outcome, timer.size) == ("completed" if ended else None, 0)
    assert purgatory.close() == ([] if ended else [lease])


@pytest.mark.parametrize("own_timer", [True, False])
def test_operation_that_is_watched_after_the_sweep_is_reported_by_an_error(
    clock: ManualClock, own_timer: bool
) -> None:
    timer = None if own_timer else SystemTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    swept: list[object] = []
    request = Request()
    with pytest.raises(PurgatoryClosedError):
        purgatory.try_complete_else_watch(
            request, [InterruptingKey(lambda: swept.extend(purgatory.close())), "b"]
        )
    assert (swept, request.calls, request.outcome) == ([], [], "cancelled")
    assert (purgatory.num_delayed, purgatory.watched, purgatory.timer.size) == (0, 0, 0)
    assert purgatory.metrics().cancellations == 1


def test_operation_that_shuts_the_purgatory_down_in_its_try_is_swept(
    purgatory: DelayedOperationPurgatory,
) -> None:
    swept: list[object] = []
    request = Request()
    request.during["try"] = lambda: swept.extend(purgatory.close())
    assert purgatory.try_complete_else_watch(request, ["a"]) is False
    assert (swept, request.outcome, request.calls) == ([request], "cancelled", ["cancellation"])
    assert purgatory.metrics().cancellations == 1
    assert (purgatory.num_delayed, purgatory.watched, purgatory.timer.size) == (0, 0, 0)


def test_cancellation_may_use_the_purgatory(purgatory: DelayedOperationPurgatory) -> None:
    """It finds it closed.

    What it wants to hold is refused, that error is contained, and the others are cancelled.
    """
    requests = [Request(cancellation=lambda: watch(purgatory, "a")) for _ in range(3)]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a"])
    assert purgatory.close() == requests
    assert purgatory.metrics().callback_errors == 3


def test_interrupted_shutdown_leaves_nobody_waiting() -> None:
    """Ctrl-C while the reaper is waited for, which is busy in a callback.

    The others are cancelled all the same.
    """
    inside, release = threading.Event(), threading.Event()

    def stay() -> None:
        inside.set()
        assert release.wait(TIME_LIMIT)

    clock = ManualClock()
    purgatory = DelayedOperationPurgatory("test", timer=SystemTimer("test", clock=clock))
    pending = Request(1_000)
    purgatory.try_complete_else_watch(Request(1, complete=stay), ["a"])
    purgatory.try_complete_else_watch(pending, ["a"])
    clock.advance(1)
    assert inside.wait(TIME_LIMIT)
    reaper = purgatory._reaper
    assert reaper is not None
    join = reaper._thread.join

    def interrupted(timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    reaper._thread.join = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        purgatory.close()
    assert (purgatory.is_closed, pending.calls, purgatory.watched) == (True, ["cancellation"], 0)
    reaper._thread.join = join  # type: ignore[method-assign]
    release.set()
    assert purgatory.close() == []
    join(TIME_LIMIT)
    assert not reaper._thread.is_alive()


def test_clock_that_is_advanced_while_the_timer_closes_says_that_the_purgatory_is_closed(
    clock: ManualClock,
) -> None:
    timer = InterruptedTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    timer.interrupt = lambda: (purgatory.close(), timer.shutdown())
    with pytest.raises(PurgatoryClosedError):
        purgatory.advance_clock(0)


def test_timer_that_its_owner_closed_is_reported_as_such(clock: ManualClock) -> None:
    timer = SystemTimer("owned elsewhere", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    timer.shutdown()
    request = Request()
    with pytest.raises(TimerClosedError, match="owned elsewhere"):
        purgatory.try_complete_else_watch(request, ["a", "b"])
    with pytest.raises(TimerClosedError, match="owned elsewhere"):
        purgatory.advance_clock(0)
    assert (request.outcome, purgatory.num_delayed, purgatory.watched) == ("cancelled", 0, 0)
    check_invariants(purgatory)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exit_raised_by_a_cancellation_waits_until_all_are_cancelled(
    purgatory: DelayedOperationPurgatory, error: type[BaseException]
) -> None:
    def leave() -> None:
        raise error

    requests = [Request(), Request(cancellation=leave), Request()]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a"])
    with pytest.raises(error):
        purgatory.close()
    assert [request.calls for request in requests] == [["cancellation"]] * 3
    assert (purgatory.is_closed, purgatory.num_delayed, purgatory.watched) == (True, 0, 0)
    assert purgatory.metrics().cancellations == 3


def test_cancellation_may_cancel_those_that_leave_with_it(
    purgatory: DelayedOperationPurgatory,
) -> None:
    cancelled: list[object] = []
    first = Request(cancellation=lambda: cancelled.extend(purgatory.cancel_for_key("b")))
    second = Request()
    purgatory.try_complete_else_watch(first, ["a"])
    purgatory.try_complete_else_watch(second, ["a", "b"])
    assert purgatory.cancel_for_key("a") == [first]
    assert cancelled == [second]
