"""The timer: when tasks run, and the effects of cancelling and moving them."""

from __future__ import annotations

import gc
import sys
import weakref
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any

import pytest

from request_purgatory import (
    InvalidArgumentError,
    ManualClock,
    SystemTimer,
    TaskInUseError,
    TimerClosedError,
    TimerHandle,
    TimerTask,
)
from request_purgatory._native import primitives
from request_purgatory.aio._loop_handle import schedule_handle, shutdown_and_release
from request_purgatory.timer._timer_core import TimerCore
from request_purgatory.timer.task import MAX_DELAY_MS
from request_purgatory.timer.wheel import WheelOccupancy
from tests.support.interleaving import InterleavedClock, interleave_tasks, interpreted_only
from tests.support.invariants import check_invariants
from tests.support.requests import fail
from tests.support.whole_numbers import Index
from tests.unit.timer.steps import Note, step

HOUR_MS = 3_600_000


# -- when tasks run


@pytest.mark.parametrize(
    "delay_ms", [1, 2, 19, 20, 21, 399, 400, 401, 8_000, 159_999, HOUR_MS, 1_000_000 * HOUR_MS]
)
def test_task_runs_exactly_when_its_delay_has_passed(delay_ms: int) -> None:
    clock = ManualClock(5)
    timer = SystemTimer("test", clock=clock)
    runs_ms: list[int] = []
    timer.add(Note(delay_ms, clock, runs_ms))
    step(clock, timer)
    assert runs_ms == [5 + delay_ms]


@pytest.mark.parametrize(
    ("delay_ms", "ran_at_ms"), [(1, 10), (7, 10), (8, 20), (17, 20), (18, 30), (250, 260)]
)
def test_coarse_tick_makes_late_by_less_than_a_tick_and_never_early(
    delay_ms: int, ran_at_ms: int
) -> None:
    clock = ManualClock(3)
    timer = SystemTimer("test", tick_ms=10, wheel_size=4, clock=clock)
    runs_ms: list[int] = []
    timer.add(Note(delay_ms, clock, runs_ms))
    step(clock, timer)
    assert runs_ms == [ran_at_ms]


def test_delay_is_not_cut_short_by_a_fraction_of_a_millisecond(
    clock: ManualClock, timer: SystemTimer
) -> None:
    runs_ms: list[int] = []
    clock.advance_to_ns(1)
    timer.add(Note(1, clock, runs_ms))
    clock.advance_to_ns(1_999_999)
    timer.advance_clock(0)
    assert runs_ms == []
    clock.advance_to_ns(2_000_000)
    timer.advance_clock(0)
    assert runs_ms == [2]


@pytest.mark.parametrize("delay_ms", [0, -1, -(10**12)])
def test_task_without_a_delay_runs_at_once(
    clock: ManualClock, timer: SystemTimer, delay_ms: int
) -> None:
    runs_ms: list[int] = []
    timer.add(Note(delay_ms, clock, runs_ms))
    assert runs_ms == [0]
    assert timer.size == 0


def test_jump_of_an_hour_runs_all_that_came_due_in_order(
    clock: ManualClock, timer: SystemTimer
) -> None:
    order: list[int] = []
    delays = [HOUR_MS, 1, 50_000, 400, 20, 399, HOUR_MS + 1, 7]
    for delay_ms in delays:
        timer.call_later_ms(delay_ms, order.append, delay_ms)
    clock.advance(HOUR_MS)
    assert timer.advance_clock(0) is True
    assert order == sorted(delays)[:-1]
    assert timer.size == 1
    check_invariants(timer)


def test_short_delay_after_an_idle_hour_enters_the_finest_wheel(
    clock: ManualClock, timer: SystemTimer
) -> None:
    clock.advance(HOUR_MS + 13)
    timer.call_later_ms(7, fail)
    assert timer.next_expiration_ms == HOUR_MS + 20
    (wheel,) = timer.occupancy()
    assert (wheel.tick_ms, sum(wheel.counts)) == (1, 1)
    check_invariants(timer)


def test_occupancy_counts_the_tasks_of_each_bucket(clock: ManualClock) -> None:
    timer = SystemTimer("test", tick_ms=10, wheel_size=4, clock=clock)
    (wheel,) = timer.occupancy()
    assert wheel == WheelOccupancy(tick_ms=10, position=0, counts=(0, 0, 0, 0))
    handles = [timer.call_later_ms(delay_ms, fail) for delay_ms in (15, 20, 20, 100, 1_000)]
    assert timer.occupancy() == [
        WheelOccupancy(10, 0, (0, 0, 3, 0)),
        WheelOccupancy(40, 0, (0, 0, 1, 0)),
        WheelOccupancy(160, 0, (0, 0, 0, 0)),
        WheelOccupancy(640, 0, (0, 1, 0, 0)),
    ]
    assert timer.occupancy(at_most=2)[0].counts == (0, 0, 2, 0)
    handles[1].cancel()
    assert timer.occupancy()[0].counts == (0, 0, 2, 0)
    for handle in handles:
        handle.cancel()
    clock.advance(70)
    assert [each.position for each in timer.occupancy()[:2]] == [3, 1]
    for invalid in (0, -1, 1.5, None):
        with pytest.raises(InvalidArgumentError, match="at_most must be"):
            timer.occupancy(invalid)  # type: ignore[arg-type]
    check_invariants(timer)


def test_idle_timer_with_something_far_away_catches_up_too(
    clock: ManualClock, timer: SystemTimer
) -> None:
    timer.call_later_ms(365 * 24 * HOUR_MS, fail)
    clock.advance(HOUR_MS)
    timer.call_later_ms(5, fail)
    assert timer.next_expiration_ms == HOUR_MS + 5
    check_invariants(timer)


def test_task_added_while_others_are_overdue_waits_its_own_delay(
    clock: ManualClock, timer: SystemTimer
) -> None:
    runs_ms: list[int] = []
    timer.add(Note(10, clock, runs_ms))
    clock.advance(1_000)
    timer.add(Note(10, clock, runs_ms))
    timer.advance_clock(0)
    assert runs_ms == [1_000]
    step(clock, timer)
    assert runs_ms == [1_000, 1_010]


def test_tasks_added_by_callbacks_run_on_time(clock: ManualClock, timer: SystemTimer) -> None:
    runs_ms: list[int] = []

    def again() -> None:
        runs_ms.append(clock.now_ms)
        if len(runs_ms) < 100:
            timer.call_later_ms(3, again)

    timer.call_later_ms(3, again)
    step(clock, timer)
    assert runs_ms == list(range(3, 301, 3))


def test_next_expiration_is_none_once_all_is_cancelled(timer: SystemTimer) -> None:
    handles = [timer.call_later_ms(delay_ms, fail) for delay_ms in (5, 500, 50_000)]
    for handle in handles:
        handle.cancel()
    assert timer.size == 0
    assert timer.next_expiration_ms is None
    check_invariants(timer)


@pytest.mark.parametrize("tick_ms", [1, 10])
def test_timer_has_the_resolution_that_it_was_given(tick_ms: int) -> None:
    assert SystemTimer("test", tick_ms=tick_ms, clock=ManualClock()).tick_ms == tick_ms


def test_callback_may_be_due_after_any_whole_number(clock: ManualClock, timer: SystemTimer) -> None:
    runs_ms: list[int] = []
    timer.call_later_ms(Index(7), lambda: runs_ms.append(clock.now_ms))  # type: ignore[arg-type]
    step(clock, timer)
    assert runs_ms == [7]


@pytest.mark.parametrize("delay_ms", [2.5, True, "5", MAX_DELAY_MS + 1, 10**30])
def test_invalid_delay_of_a_callback_is_refused(
    timer: SystemTimer,
    delay_ms: object,
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"delay_ms must be .* got {delay_ms!r}"):
        timer.call_later_ms(delay_ms, fail)  # type: ignore[arg-type]
    assert timer.size == 0


def test_callback_on_the_machines_clock_is_due_after_its_delay() -> None:
    timer = SystemTimer("test")
    before_ms = timer.clock.ceil_ms
    handle = timer.call_later_ms(HOUR_MS, fail)
    after_ms = timer.clock.ceil_ms
    assert before_ms + HOUR_MS <= handle._timer_expiration_ms <= after_ms + HOUR_MS
    assert timer.shutdown() == [handle]


@interpreted_only
def test_level_created_by_another_thread_is_used(clock: ManualClock) -> None:
    timer = SystemTimer("test", wheel_size=20, clock=clock)
    runs_ms: list[int] = []
    lock = interleave_tasks(timer)
    # `add` releases the lock while it creates the level, and acquires it again: the second time.
    lock.before(2, lambda: timer.add(Note(300, clock, runs_ms)))
    timer.add(Note(500, clock, runs_ms))
    check_invariants(timer)
    assert timer.size == 2
    assert [wheel.tick_ms for wheel in timer.occupancy()] == [1, 20, 400]
    step(clock, timer)
    assert runs_ms == [300, 500]


@interpreted_only
@pytest.mark.parametrize("delay_ms", [10, 0])
@pytest.mark.parametrize("acquisition", [1, 2])
def test_moved_task_is_not_lost_in_a_shutdown(
    clock: ManualClock, acquisition: int, delay_ms: int
) -> None:
    timer = SystemTimer("test", clock=clock)
    runs_ms: list[int] = []
    task = Note(50, clock, runs_ms)
    timer.add(task)
    task.delay_ms = delay_ms
    returned: list[TimerTask] = []
    interleave_tasks(timer).before(acquisition, lambda: returned.extend(timer.shutdown()))
    with suppress(TimerClosedError):
        timer.add(task)
    returned += timer.shutdown()
    assert len(returned) + len(runs_ms) == 1


def test_timer_shows_its_name_its_size_and_whether_it_is_closed(timer: SystemTimer) -> None:
    timer.call_later_ms(5, fail)
    assert repr(timer) == "<SystemTimer 'test' size=1>"
    timer.shutdown()
    assert repr(timer) == "<SystemTimer 'test' size=0 closed>"


# -- cancelling and moving


def test_cancelled_task_does_not_run(clock: ManualClock, timer: SystemTimer) -> None:
    seen: list[str] = []
    timer.call_later_ms(5, seen.append, "kept")
    timer.call_later_ms(5, seen.append, "cancelled").cancel()
    assert timer.size == 1
    clock.advance(5)
    timer.advance_clock(0)
    assert seen == ["kept"]


def test_due_task_that_an_earlier_one_cancels_does_not_run(
    clock: ManualClock, timer: SystemTimer
) -> None:
    seen: list[object] = []
    later = timer.call_later_ms(6, seen.append, "cancelled")
    timer.call_later_ms(5, lambda: seen.append((timer.size, later.cancel(), timer.size)))
    clock.advance(HOUR_MS)
    timer.advance_clock(0)
    assert seen == [(1, True, 0)]
    check_invariants(timer)


def test_due_task_can_be_moved_by_an_earlier_one(clock: ManualClock, timer: SystemTimer) -> None:
    runs_ms: list[int] = []
    moved = Note(6, clock, runs_ms)
    timer.add(moved)
    timer.call_later_ms(5, timer.add, moved)
    clock.advance(100)
    timer.advance_clock(0)
    assert runs_ms == []
    step(clock, timer)
    assert runs_ms == [106]


def test_adding_a_pending_task_moves_it(clock: ManualClock, timer: SystemTimer) -> None:
    runs_ms: list[int] = []
    task = Note(1_000, clock, runs_ms)
    for delay_ms in (1_000, 5, 40):
        task.delay_ms = delay_ms
        timer.add(task)
        assert timer.size == 1
        check_invariants(timer)
    step(clock, timer)
    assert runs_ms == [40]


def test_task_that_another_thread_adds_meanwhile_is_moved() -> None:
    clock = InterleavedClock()
    timer = SystemTimer("test", clock=clock)
    runs_ms: list[int] = []
    task = Note(10, clock, runs_ms)

    def add_earlier() -> None:
        timer.add(task)
        clock.advance(5)

    clock.interrupt = add_earlier
    timer.add(task)
    check_invariants(timer)
    assert timer.size == 1
    step(clock, timer)
    assert runs_ms == [10]


def test_task_that_the_clock_passes_while_it_is_added_is_due_at_once() -> None:
    clock = InterleavedClock()
    timer = SystemTimer("test", clock=clock)
    runs_ms: list[int] = []

    def pass_by() -> None:
        clock.advance(50)
        timer.advance_clock(0)

    clock.interrupt = pass_by
    timer.add(Note(10, clock, runs_ms))
    check_invariants(timer)
    assert (runs_ms, timer.size, timer.next_expiration_ms) == ([], 1, 50)
    assert timer.advance_clock(0) is True
    assert (runs_ms, timer.size) == ([50], 0)


def test_moving_a_pending_task_to_now_runs_it_once(clock: ManualClock, timer: SystemTimer) -> None:
    runs_ms: list[int] = []
    task = Note(1_000, clock, runs_ms)
    timer.add(task)
    task.delay_ms = 0
    timer.add(task)
    assert (runs_ms, timer.size) == ([0], 0)
    clock.advance(2_000)
    timer.advance_clock(0)
    assert runs_ms == [0]


def test_task_may_be_added_again_after_its_run(clock: ManualClock, timer: SystemTimer) -> None:
    runs_ms: list[int] = []
    task = Note(10, clock, runs_ms)
    for _ in range(3):
        timer.add(task)
        step(clock, timer)
    timer.add(task)
    task.cancel()
    timer.add(task)
    step(clock, timer)
    assert runs_ms == [10, 20, 30, 40]


def test_task_of_another_timer_is_refused(clock: ManualClock, timer: SystemTimer) -> None:
    other = SystemTimer("other", clock=clock)
    task = Note(10, clock, [])
    other.add(task)
    for delay_ms in (10, 0):
        task.delay_ms = delay_ms
        with pytest.raises(TaskInUseError, match="another timer than 'test'"):
            timer.add(task)
        assert (timer.size, other.size) == (0, 1)
    task.delay_ms = 10
    task.cancel()
    timer.add(task)
    assert (timer.size, other.size) == (1, 0)


@pytest.mark.parametrize("delay_ms", [2.5, True, MAX_DELAY_MS + 1])
def test_assigning_an_invalid_delay_is_refused(
    clock: ManualClock, timer: SystemTimer, delay_ms: object
) -> None:
    task = Note(10, clock, [])
    timer.add(task)
    with pytest.raises(InvalidArgumentError, match="delay_ms"):
        task.delay_ms = delay_ms  # type: ignore[assignment]
    assert (task.delay_ms, timer.size, timer.next_expiration_ms) == (10, 1, 10)
    check_invariants(timer)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tick_ms": 0}, "tick_ms must be at least 1, got 0"),
        ({"wheel_size": 1}, "wheel_size must be at least 2, got 1"),
        ({"tick_ms": 0.5}, "tick_ms must be .* got 0.5"),
    ],
)
def test_tick_or_wheel_size_below_its_minimum_is_refused(
    arguments: dict[str, int], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        SystemTimer("test", **arguments)  # type: ignore[arg-type]


# -- event loops


def test_due_tasks_can_be_run_some_at_a_time(clock: ManualClock, timer: SystemTimer) -> None:
    ran: list[int] = []
    handles = [timer.call_later_ms(10, ran.append, number) for number in range(10)]
    timer.call_later_ms(500, ran.append, 99)
    assert timer.run_due(3) is False
    clock.advance(10)
    assert timer.run_due(3) is True
    assert (len(ran), timer.size, timer.next_expiration_ms) == (3, 8, clock.now_ms)
    assert timer.run_due(0) is True
    left = next(handle for number, handle in enumerate(handles) if number not in ran)
    assert left.cancel() is True
    assert timer.run_due(100) is False
    assert (len(set(ran)), timer.size) == (9, 1)
    check_invariants(timer)
    timer.shutdown()
    with pytest.raises(TimerClosedError):
        timer.run_due(1)


def test_handle_task_appends_its_handle_when_it_is_due(
    clock: ManualClock, timer: SystemTimer
) -> None:
    due: list[object] = []
    soon = schedule_handle(timer, 0.0059, due, "soon")
    cancelled = schedule_handle(timer, 0.005, due, "cancelled")
    assert cancelled.cancel() is True
    schedule_handle(timer, 0, due, "now")
    assert due == ["now"]
    clock.advance(5)
    timer.advance_clock(0)
    assert due == ["now", "soon"]
    assert (soon.handle, soon.due, cancelled.handle, soon.cancel()) == (None, None, None, False)


def test_dropped_handle_tasks_keep_nothing(timer: SystemTimer) -> None:
    due: list[object] = []
    tasks = [schedule_handle(timer, seconds, due, "handle") for seconds in (0.005, 50, 500_000)]
    shutdown_and_release(timer)
    assert [(task.handle, task.due) for task in tasks] == [(None, None)] * 3
    assert (due, timer.size) == ([], 0)
    with pytest.raises(TimerClosedError):
        schedule_handle(timer, 0.005, due, "handle")


class DeferringExecutor(Executor):
    """An executor that keeps its calls until the test makes them."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls.append(lambda: call(*args, **kwargs))
        return Future()


def test_handle_task_that_is_cancelled_on_its_way_to_a_thread_appends_nothing(
    clock: ManualClock,
) -> None:
    executor = DeferringExecutor()
    timer = SystemTimer("test", clock=clock, executor=executor)
    due: list[object] = []
    cancelled = schedule_handle(timer, 0.005, due, "cancelled")
    schedule_handle(timer, 0.005, due, "kept")
    clock.advance(5)
    timer.advance_clock(0)
    assert cancelled.cancel() is False
    for call in executor.calls:
        call()
    assert due == ["kept"]
    assert timer.callback_errors == 0


def test_timer_whose_init_raised_is_freed_without_a_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reports: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_value))
    with pytest.raises(InvalidArgumentError):
        SystemTimer("test", tick_ms=0)
    with pytest.raises(InvalidArgumentError):
        SystemTimer(5)  # type: ignore[arg-type]
    gc.collect()
    assert reports == []


@interpreted_only
@pytest.mark.parametrize(
    "name",
    ["_next_due_ms", "_collect_due", "_pop_due", "_drain", "_pending_tasks", "add", "size"],
)
def test_what_a_timer_has_to_have_is_named(clock: ManualClock, name: str) -> None:
    core = TimerCore("core", clock)
    with pytest.raises(NotImplementedError):
        getattr(core, name)(*[None] if name == "add" else [])


@interpreted_only
def test_timer_and_its_buckets_have_one_lock(timer: SystemTimer) -> None:
    assert timer._lock is timer._pending.lock
    timer._reinit_locks()
    assert timer._lock is timer._pending.lock


class Session:
    """An object that keeps the handle of its own timeout."""

    def __init__(self, timer: SystemTimer) -> None:
        self.handle = timer.call_later_ms(30_000, self.close)

    def close(self) -> None:
        """End."""


@pytest.mark.parametrize("shut_down", [True, False])
def test_object_that_keeps_its_pending_handle_is_freed_with_the_timer(
    clock: ManualClock, shut_down: bool
) -> None:
    timer = SystemTimer("test", clock=clock)
    alive = weakref.ref(Session(timer))
    gc.collect()
    assert alive() is not None
    if shut_down:
        assert [type(task) for task in timer.shutdown()] == [TimerHandle]
    del timer
    gc.collect()
    assert alive() is None


def test_many_tasks_that_fall_due_at_once_run_in_the_order_of_their_instants() -> None:
    """The lock is given up between them, once thousands of tasks were moved."""
    clock = ManualClock()
    timer = SystemTimer("test", clock=clock)
    ran: list[int] = []
    for number in range(18_000):
        timer.call_later_ms(300 + number // 9_000, ran.append, number // 9_000)
    clock.advance(310)
    assert timer.advance_clock(0)
    assert ran == [0] * 9_000 + [1] * 9_000
    check_invariants(timer)


@interpreted_only
def test_others_find_a_bucket_due_that_is_being_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    timer = SystemTimer("test", clock=clock)
    ran: list[int] = []
    handles = [timer.call_later_ms(300, ran.append, number) for number in range(9_000)]
    clock.advance(300)
    turns: list[int | None] = []

    def others() -> None:
        check_invariants(timer)
        turns.append(timer.next_expiration_ms)
        handles[-len(turns)].cancel()
        # A round of the second wheel later, whose slot is being emptied.
        timer.call_later_ms(256 * 256, ran.append, -len(turns))
        if len(turns) == 2:
            timer.run_due(1_000)

    monkeypatch.setattr(primitives, "let_others_run", others)
    while timer.run_due(1_000):
        pass
    # The second turn collects the rest of the coarse bucket, and then all of the fine one.
    assert turns == [256, 256, 300, 300]
    assert ran == list(range(9_000 - 4))
    check_invariants(timer)
    clock.advance(256 * 256)
    timer.advance_clock(0)
    assert sorted(ran[9_000 - 4 :]) == [-4, -3, -2, -1]
