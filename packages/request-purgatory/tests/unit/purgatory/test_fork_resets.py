"""What a forked child forgets of its parent, and what it keeps."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from request_purgatory import DelayedOperationPurgatory, ManualClock, SystemTimer
from request_purgatory._native.parker import Parker
from request_purgatory.legacy import DelayQueueTimer
from tests.support.children import in_child
from tests.support.interleaving import interpreted_only
from tests.support.requests import Request, fail
from tests.support.sleeping_threads import SleepRecordingClock
from tests.support.thread_group import ThreadGroup
from tests.unit.timer.steps import Note

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

TIME_LIMIT = 20.0


def test_operation_alone_on_a_shared_timer_is_nobody_s(clock: ManualClock) -> None:
    timer = SystemTimer("test", clock=clock)
    with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:
        alone, held = Request(10), Request(10)
        timer.add(alone)
        purgatory.try_complete_else_watch(held, ["a"])

        def child() -> None:
            assert (alone.outcome, held.outcome, timer.size) == (None, "cancelled", 1)
            clock.advance(10)
            timer.advance_clock(0)
            assert alone.calls == ["complete", "expiration"]

        in_child(child)
        alone.cancel()


def test_task_that_is_no_operation_stays_on_a_shared_timer(clock: ManualClock) -> None:
    timer = SystemTimer("test", clock=clock)
    with DelayedOperationPurgatory("test", timer=timer, reaper=False):
        runs_ms: list[int] = []
        timer.add(Note(10, clock, runs_ms))

        def child() -> None:
            clock.advance(10)
            timer.advance_clock(0)
            assert runs_ms == [10]

        in_child(child)


def test_task_that_is_no_operation_is_no_obstacle_to_the_reset_of_a_purgatory(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = SystemTimer("test", clock=clock)
    reports: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_value))
    with DelayedOperationPurgatory("test", timer=timer, reaper=False):
        timer.add(Note(10, clock, []))

        def child() -> None:
            assert reports == []

        in_child(child)


def test_end_of_an_operation_in_the_child_is_told_to_no_hook(clock: ManualClock) -> None:
    ended: list[object] = []
    with DelayedOperationPurgatory(
        "test",
        timer=SystemTimer("test", clock=clock),
        reaper=False,
        on_watch=lambda *_: None,
        on_end=ended.append,
    ) as purgatory:
        request = Request()
        purgatory.try_complete_else_watch(request, ["a"])

        def child() -> None:
            assert (request.outcome, ended) == ("cancelled", [])

        in_child(child)


@interpreted_only
def test_chains_of_a_purgatory_share_a_new_lock_in_the_child(clock: ManualClock) -> None:
    timer = SystemTimer("test", clock=clock)
    with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:
        lock = purgatory._chain_lock
        purgatory._reinit_locks()
        assert purgatory._chain_lock is not lock
        assert purgatory._leaving.lock is purgatory._chain_lock
        assert purgatory._backlog.chain.lock is purgatory._chain_lock


def test_purge_that_the_parent_requested_is_no_matter_of_the_child() -> None:
    with DelayedOperationPurgatory("test", reaper=False, purge_interval=0) as purgatory:
        request = Request()
        purgatory.try_complete_else_watch(request, ["a"])
        request.cancel()
        assert purgatory._purge_requested

        def child() -> None:
            assert not purgatory._purge_requested
            assert purgatory.metrics().estimated_operations == 0

        in_child(child)


def test_child_logs_errors_in_full_again(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    timer = SystemTimer("test", clock=clock)
    with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:

        def raise_twice() -> list[bool]:
            caplog.clear()
            purgatory.try_complete_else_watch(Request(10, complete=fail), ["a"])
            timer.call_later_ms(10, fail)
            clock.advance(10)
            purgatory.advance_clock(0)
            return [record.exc_info is not None for record in caplog.records]

        assert raise_twice() == [True, True]
        assert raise_twice() == []
        in_child(lambda: pytest.fail("not in full") if raise_twice() != [True, True] else None)
        caplog.clear()


def test_child_starts_the_clock_thread_with_its_first_task() -> None:
    with SystemTimer("test") as timer:
        handle = timer.call_later_ms(60_000, fail)
        timer.wake()

        def child() -> None:
            assert threading.active_count() == 1
            assert (timer.size, handle.cancel()) == (0, False)
            fired = threading.Event()
            timer.call_later_ms(1, fired.set)
            assert fired.wait(TIME_LIMIT)
            assert threading.active_count() == 2
            again = threading.Event()
            timer.call_later_ms(1, again.set)
            assert again.wait(TIME_LIMIT)
            assert threading.active_count() == 2
            timer.shutdown()
            assert threading.active_count() == 1

        in_child(child)


def test_operation_on_a_timer_with_a_thread_ends_in_the_child_without_a_word() -> None:
    with SystemTimer("test") as timer:
        request = Request(60_000)
        timer.add(request)

        def child() -> None:
            assert (request.outcome, request.calls) == ("cancelled", [])

        in_child(child)
        assert request.outcome is None
        request.cancel()


@interpreted_only
def test_lock_that_another_thread_held_is_free_in_the_child(clock: ManualClock) -> None:
    timer = SystemTimer("test", clock=clock)
    lock = timer._lock
    timer._reinit_locks()
    assert timer._lock is not lock
    assert timer._lock is timer._pending.lock


@interpreted_only
def test_threads_that_slept_in_the_parent_are_forgotten(clock: ManualClock) -> None:
    timer = SystemTimer("test", clock=clock)
    sleepers = timer._sleepers
    timer.wake()
    timer._reset_in_child()
    assert timer._sleepers is not sleepers
    assert timer._wake_requested is False


def test_delay_queue_alone_begins_anew_in_the_child(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    timer = DelayQueueTimer("test", clock)

    def log_in_full() -> bool:
        caplog.clear()
        timer.add(Request(0, complete=fail))
        timer.advance_clock(0)
        return any(record.exc_info for record in caplog.records)

    assert log_in_full()
    assert not log_in_full()
    in_child(lambda: None if log_in_full() else fail())
    caplog.clear()


def test_fork_inside_of_the_delay_queue_reports_nothing_and_leaves_it_usable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class ForkingClock(ManualClock):
        forks = False

        def read_ns(self) -> int:
            if self.forks:
                in_child(lambda: None if timer.size == 0 else fail())
            return super().read_ns()

    reports: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_value))
    clock = ForkingClock()
    timer = DelayQueueTimer("test", clock)
    clock.forks = True
    timer.add(Request(10))
    assert (timer.size, reports) == (1, [])


def test_task_of_the_child_wakes_no_thread_of_the_parent(thread_group: ThreadGroup) -> None:
    clock = SleepRecordingClock()
    timer = DelayQueueTimer("test", clock)
    thread_group.start(timer.advance_clock, 50)
    clock.wait_for_sleep(1)

    def child() -> None:
        timer.add(Request(20))
        assert clock.asleep == 1

    in_child(child)
    timer.wake()
    thread_group.join()


def test_wake_of_a_thread_that_is_to_come_is_none_of_the_child_s() -> None:
    class JumpingClock(ManualClock):
        def wait_until(self, parker: Parker, until_ms: int | None) -> None:
            assert until_ms is not None
            self.advance(until_ms - self.now_ms)

    clock = JumpingClock()
    timer = DelayQueueTimer("test", clock)
    timer.wake()

    def child() -> None:
        assert timer.advance_clock(10) is False
        assert clock.now_ms == 10

    in_child(child)
