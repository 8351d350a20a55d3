"""The timer's task and the handle of `call_later`."""

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
from request_purgatory.timer.task import MAX_DELAY_MS
from tests.support.interleaving import interleave_tasks, interpreted_only
from tests.support.whole_numbers import Index
from tests.unit.timer.steps import step


class Payload:
    """Something to keep alive, or not."""


@pytest.mark.parametrize("delay_ms", [1.5, 0.0, True, False, "5", None, 5j])
def test_delay_that_is_not_a_whole_number_is_refused(delay_ms: object) -> None:
    """Floats too: a fraction of a millisecond can't be kept, so it is not silently dropped."""
    with pytest.raises(InvalidArgumentError, match="delay_ms must be whole milliseconds") as caught:
        TimerTask(delay_ms)  # type: ignore[arg-type]
    assert caught.value.value is delay_ms


def test_delay_may_be_any_whole_number_type() -> None:
    """What has `__index__` becomes an int."""
    task = TimerTask(Index(7))  # type: ignore[arg-type]
    assert task.delay_ms == 7
    assert type(task.delay_ms) is int


def test_longest_delay_is_ten_thousand_years() -> None:
    """One millisecond more is refused."""
    assert TimerTask(MAX_DELAY_MS).delay_ms == MAX_DELAY_MS
    with pytest.raises(InvalidArgumentError, match="10,000 years"):
        TimerTask(MAX_DELAY_MS + 1)


def test_task_without_a_run_method_says_so() -> None:
    """The base class is to be subclassed."""
    with pytest.raises(NotImplementedError):
        TimerTask(1).run()


def test_cancelling_a_task_that_is_in_no_timer_is_harmless() -> None:
    """There is nothing to take it out of."""
    assert TimerTask(1).cancel() is False


def test_cancel_is_true_once(timer: SystemTimer) -> None:
    """Only the call that took it out is told so."""
    handle = timer.call_later(10, Payload)
    assert handle.cancel() is True
    assert handle.cancel() is False
    assert timer.size == 0


def test_cancel_after_the_run_is_false(clock: ManualClock, timer: SystemTimer) -> None:
    """It is no longer pending."""
    handle = timer.call_later(10, Payload)
    clock.advance(10)
    timer.advance_clock(0)
    assert handle.cancel() is False


def test_handle_passes_its_arguments(clock: ManualClock, timer: SystemTimer) -> None:
    """In order."""
    seen: list[tuple[int, ...]] = []
    timer.call_later(1, lambda *args: seen.append(args), 1, 2, 3)
    clock.advance(1)
    timer.advance_clock(0)
    assert seen == [(1, 2, 3)]


@pytest.mark.parametrize("end", ["run", "cancel"])
def test_handle_that_is_kept_does_not_keep_its_arguments(
    clock: ManualClock, timer: SystemTimer, end: str
) -> None:
    """Neither once it ran nor once it was cancelled."""
    payload = Payload()
    gone = weakref.ref(payload)
    handle = timer.call_later(1, id, payload)
    del payload
    assert gone() is not None
    if end == "run":
        clock.advance(1)
        timer.advance_clock(0)
    else:
        handle.cancel()
    assert gone() is None
    assert handle.delay_ms == 1


def test_handle_shows_its_delay_and_callback(timer: SystemTimer) -> None:
    """For logs."""
    assert "delay_ms=25" in repr(timer.call_later(25, print))
    assert "print" in repr(timer.call_later(25, print))


def test_handle_can_be_made_and_run_by_hand(clock: ManualClock, timer: SystemTimer) -> None:
    """Its callback is called once, by whichever run comes first."""
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
    """It has forgotten its callback, and its run does no harm."""
    seen: list[str] = []
    handle = timer.call_later(10, seen.append, "called")
    step(clock, timer)
    timer.add(handle)
    assert timer.size == 1
    step(clock, timer)
    assert (seen, timer.callback_errors) == (["called"], 0)


@interpreted_only
def test_cancel_follows_a_task_to_a_finer_wheel(clock: ManualClock, timer: SystemTimer) -> None:
    """The clock moves it between the look at its bucket and the lock."""
    seen: list[str] = []
    handle = timer.call_later(25, seen.append, "called")
    coarse = handle._bucket

    def advance() -> None:
        clock.advance(20)
        timer.advance_clock(0)
        assert handle._bucket not in (None, coarse)

    interleave_tasks(timer).before(1, advance)
    assert handle.cancel() is True
    timer.check()
    assert timer.size == 0
    clock.advance(5)
    timer.advance_clock(0)
    assert seen == []


@interpreted_only
def test_cancel_is_false_where_another_thread_was_quicker(timer: SystemTimer) -> None:
    """It took the task out between this one's look at the bucket and the lock."""
    handle = timer.call_later(25, Payload)
    cancelled: list[bool] = []
    interleave_tasks(timer).before(1, lambda: cancelled.append(handle.cancel()))
    assert handle.cancel() is False
    assert (cancelled, timer.size) == ([True], 0)
    timer.check()
