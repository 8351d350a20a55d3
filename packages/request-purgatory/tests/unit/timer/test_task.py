"""The timer's task and the handle of `call_later_ms`."""

from __future__ import annotations

import weakref

import pytest

from request_purgatory import (
    InvalidArgumentError,
    ManualClock,
    SystemTimer,
    TimerHandle,
    TimerTask,
)
from request_purgatory._native import primitives
from request_purgatory.timer.task import MAX_DELAY_MS
from tests.support.interleaving import interleave_tasks, interpreted_only
from tests.support.invariants import check_invariants
from tests.support.whole_numbers import Index
from tests.unit.timer.steps import Note, step


class Payload:
    """An object whose lifetime the tests watch."""


@pytest.mark.parametrize("delay_ms", [1.5, 0.0, True, False, "5", None, 5j])
def test_delay_that_is_not_a_whole_number_is_refused(delay_ms: object) -> None:
    with pytest.raises(InvalidArgumentError, match="delay_ms must be whole milliseconds") as caught:
        TimerTask(delay_ms)  # type: ignore[arg-type]
    assert caught.value.value is delay_ms


def test_delay_may_be_any_whole_number_type() -> None:
    task = TimerTask(Index(7))  # type: ignore[arg-type]
    assert task.delay_ms == 7
    assert type(task.delay_ms) is int


def test_longest_delay_is_ten_thousand_years() -> None:
    assert TimerTask(MAX_DELAY_MS).delay_ms == MAX_DELAY_MS
    with pytest.raises(InvalidArgumentError, match="10,000 years"):
        TimerTask(MAX_DELAY_MS + 1)


def test_task_without_a_run_method_says_so() -> None:
    with pytest.raises(NotImplementedError):
        TimerTask(1).run()


def test_attribute_that_a_task_does_not_have_is_named() -> None:
    with pytest.raises(AttributeError, match="TimerTask' object has no attribute 'delay'"):
        TimerTask(1).delay  # type: ignore[attr-defined]  # noqa: B018 - raises


def test_cancelling_a_task_that_is_in_no_timer_is_harmless() -> None:
    assert TimerTask(1).cancel() is False


def test_cancel_is_true_once(timer: SystemTimer) -> None:
    handle = timer.call_later_ms(10, Payload)
    assert handle.cancel() is True
    assert handle.cancel() is False
    assert timer.size == 0


def test_cancel_after_the_run_is_false(clock: ManualClock, timer: SystemTimer) -> None:
    handle = timer.call_later_ms(10, Payload)
    clock.advance(10)
    timer.advance_clock(0)
    assert handle.cancel() is False


def test_handle_passes_its_arguments(clock: ManualClock, timer: SystemTimer) -> None:
    seen: list[tuple[int, ...]] = []
    timer.call_later_ms(1, lambda *args: seen.append(args), 1, 2, 3)
    clock.advance(1)
    timer.advance_clock(0)
    assert seen == [(1, 2, 3)]


@pytest.mark.parametrize("end", ["run", "cancel"])
def test_handle_that_is_kept_does_not_keep_its_arguments(
    clock: ManualClock, timer: SystemTimer, end: str
) -> None:
    payload = Payload()
    gone = weakref.ref(payload)
    handle = timer.call_later_ms(1, id, payload)
    del payload
    assert gone() is not None
    if end == "run":
        clock.advance(1)
        timer.advance_clock(0)
    else:
        handle.cancel()
    assert gone() is None
    assert handle.delay_ms == 1


def test_handle_shows_its_delay_its_callback_and_whether_it_is_pending(timer: SystemTimer) -> None:
    handle = timer.call_later_ms(25, print)
    callback = "" if primitives.COMPILED and primitives.FORKS_HOLD_LOCKS else " callback="
    assert repr(handle).startswith(f"<TimerHandle delay_ms=25{callback}")
    assert repr(handle).endswith(" pending>")
    assert ("print" in repr(handle)) == bool(callback)
    handle.cancel()
    assert repr(handle).endswith(" not pending>")


def test_task_shows_its_class_its_delay_and_whether_it_is_pending(timer: SystemTimer) -> None:
    task = Note(25, ManualClock(), [])
    assert repr(task) == "<Note delay_ms=25 not pending>"
    timer.add(task)
    assert repr(task) == "<Note delay_ms=25 pending>"


def test_task_without_init_can_be_shown() -> None:
    assert repr(TimerTask.__new__(TimerTask)) in {
        "<TimerTask not initialized>",
        "<TimerTask delay_ms=0 not pending>",
    }


def test_handle_can_be_created_and_run_directly(clock: ManualClock, timer: SystemTimer) -> None:
    seen: list[str] = []
    handle = TimerHandle(10, seen.append, ("called",))
    timer.add(handle)
    handle.run()
    assert seen == ["called"]
    step(clock, timer)
    assert (seen, timer.size, timer.callback_errors) == (["called"], 0, 0)


def test_handle_that_fired_calls_nothing_when_it_is_added_again(
    clock: ManualClock,
    timer: SystemTimer,
) -> None:
    seen: list[str] = []
    handle = timer.call_later_ms(10, seen.append, "called")
    step(clock, timer)
    timer.add(handle)
    assert timer.size == 1
    step(clock, timer)
    assert (seen, timer.callback_errors) == (["called"], 0)


@interpreted_only
def test_cancel_follows_a_task_to_a_finer_wheel(clock: ManualClock) -> None:
    timer = SystemTimer("test", wheel_size=20, clock=clock)
    seen: list[str] = []
    handle = timer.call_later_ms(25, seen.append, "called")
    coarse = handle._timer_list

    def advance() -> None:
        clock.advance(20)
        timer.advance_clock(0)
        assert handle._timer_list not in (None, coarse)

    interleave_tasks(timer).before(1, advance)
    assert handle.cancel() is True
    check_invariants(timer)
    assert timer.size == 0
    clock.advance(5)
    timer.advance_clock(0)
    assert seen == []


@interpreted_only
def test_cancel_is_false_if_another_thread_cancelled_first(timer: SystemTimer) -> None:
    handle = timer.call_later_ms(25, Payload)
    cancelled: list[bool] = []
    interleave_tasks(timer).before(1, lambda: cancelled.append(handle.cancel()))
    assert handle.cancel() is False
    assert (cancelled, timer.size) == ([True], 0)
    check_invariants(timer)
