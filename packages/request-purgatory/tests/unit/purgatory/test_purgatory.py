"""The purgatory: watching, checking, expiring, cancelling.

The same for both designs but where a test says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    SystemTimer,
    TimerClosedError,
)
from request_purgatory.clock import MonotonicClock
from request_purgatory.legacy import LegacyPurgatory
from tests.support.interleaving import InterleavedClock
from tests.support.invariants import check_invariants
from tests.support.pending import watch
from tests.support.requests import Request, fail

HOUR_MS = 3_600_000


# -- the way of a request


def test_satisfied_request_is_not_kept(purgatory: DelayedOperationPurgatory) -> None:
    request = Request(ready=True)
    assert purgatory.try_complete_else_watch(request, ["a", "b"]) is True
    assert (request.tries, request.calls) == (1, ["complete"])
    assert (purgatory.num_delayed, purgatory.watched, purgatory.timer.size) == (0, 0, 0)
    assert purgatory.metrics().completions == 1
    assert purgatory.metrics().estimated_operations == 0


def test_request_is_tried_once_when_it_is_watched(purgatory: DelayedOperationPurgatory) -> None:
    """After the watch.

    It sees what happened before, and what happens from then on finds the watcher.
    """
    watched: list[int] = []
    request = Request()
    request.during["try"] = lambda: watched.append(purgatory.watched)
    purgatory.try_complete_else_watch(request, ["a", "b"])
    assert (request.tries, watched) == (1, [2])
    assert (purgatory.num_delayed, request.outcome) == (1, None)


def test_event_between_two_watches_completes_the_request(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = Request()
    completed: list[int] = []

    class EventKey:
        """A key whose hash brings an event."""

        def __hash__(self) -> int:
            if not completed:
                request.ready = True
                completed.append(0)
                completed.append(purgatory.check_and_complete("a"))
            return 1

    assert purgatory.try_complete_else_watch(request, ["a", EventKey(), "b"]) is False
    assert (completed, request.tries, request.calls) == ([0, 1], 1, ["complete"])
    assert (purgatory.num_delayed, purgatory.watched, purgatory.metrics().completions) == (0, 0, 1)
    assert purgatory.num_keys == 0
    check_invariants(purgatory)


def test_event_that_fails_between_two_watches_is_the_checks(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = Request()
    request.during["try"] = lambda: fail() if request.tries == 1 else None
    checked: list[int] = []

    class EventKey:
        """A key whose hash brings an event."""

        def __hash__(self) -> int:
            if not checked:
                checked.append(0)
                checked.append(purgatory.check_and_complete("a"))
            return 1

    assert purgatory.try_complete_else_watch(request, ["a", EventKey()]) is False
    assert (checked, request.tries, request.outcome) == ([0, 0], 2, None)
    assert (purgatory.num_delayed, purgatory.metrics().callback_errors) == (1, 1)
    check_invariants(purgatory)


def test_event_during_the_try_is_not_missed(purgatory: DelayedOperationPurgatory) -> None:
    request = Request()

    def event() -> None:
        request.ready = True
        assert purgatory.check_and_complete("a") == 0

    request.during["try"] = event
    assert purgatory.try_complete_else_watch(request, ["a"]) is True
    assert (request.tries, request.calls) == (2, ["complete"])
    assert purgatory.num_delayed == 0
    check_invariants(purgatory)


def test_check_completes_what_is_satisfied_and_leaves_the_rest(
    purgatory: DelayedOperationPurgatory,
) -> None:
    order: list[int] = []
    requests = [watch(purgatory, "a") for _ in range(6)]
    for number, request in enumerate(requests):
        request.ready = number % 2 == 0
        request.during["complete"] = lambda number=number: order.append(number)  # type: ignore[misc]
    assert purgatory.check_and_complete("a") == 3
    assert order == [0, 2, 4]
    assert (purgatory.num_delayed, [request.outcome for request in requests[1::2]]) == (
        3,
        [None] * 3,
    )
    check_invariants(purgatory)


def test_check_of_another_key_tries_nothing(purgatory: DelayedOperationPurgatory) -> None:
    request = watch(purgatory, "a")
    request.ready = True
    assert purgatory.check_and_complete("b") == 0
    assert request.tries == 1


def test_any_watched_key_can_complete_a_request(purgatory: DelayedOperationPurgatory) -> None:
    request = watch(purgatory, "a", "b", "c")
    request.ready = True
    assert purgatory.check_and_complete("b") == 1
    assert purgatory.operations() == [request]
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.check_and_complete("c") == 0
    assert (request.calls, purgatory.operations()) == (["complete"], [])


def test_key_given_twice_is_watched_twice_and_ends_once(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = watch(purgatory, "a", "a")
    assert purgatory.num_delayed == 1
    assert purgatory.check_and_complete("a") == 0
    assert request.tries == 3
    request.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert (request.calls, purgatory.operations()) == (["complete"], [])


@pytest.mark.parametrize("key", [1, ("topic", 3), b"bytes", None, frozenset({1})], ids=repr)
def test_anything_hashable_is_a_key(purgatory: DelayedOperationPurgatory, key: object) -> None:
    request = watch(purgatory, key)
    request.ready = True
    assert purgatory.check_and_complete(key) == 1  # type: ignore[arg-type]


def test_keys_may_come_from_any_iterable(purgatory: DelayedOperationPurgatory) -> None:
    request = Request()
    purgatory.try_complete_else_watch(request, (letter for letter in "ab"))
    request.ready = True
    assert purgatory.check_and_complete("b") == 1


def test_watching_stops_once_something_ended_the_request(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = Request()
    watched: list[int] = []

    class EndingKey:
        """A key whose hash ends the request: an event on another thread, at the worst moment."""

        def __hash__(self) -> int:
            if (
                not watched
            ):  # Later on it is asked for under a lock, where nobody may use the purgatory.
                request.cancel()
                watched.append(purgatory.watched)
            return 1

    assert purgatory.try_complete_else_watch(request, ["a", EndingKey(), "b", "c"]) is False
    assert (watched, purgatory.watched) == ([1], 0)
    assert (request.calls, purgatory.num_delayed, request.tries) == (["cancellation"], 0, 0)
    assert purgatory.metrics().cancellations == 1
    assert purgatory.timer.size == 0


@pytest.mark.parametrize("end", [Request.force_complete, Request.cancel])
def test_request_that_ended_before_it_came_is_counted_and_not_kept(
    purgatory: DelayedOperationPurgatory, end: Callable[[Request], bool]
) -> None:
    request = Request()
    end(request)
    assert purgatory.try_complete_else_watch(request, ["a"]) is False
    assert (request.tries, purgatory.num_delayed, purgatory.operations()) == (0, 0, [])
    metrics = purgatory.metrics()
    assert metrics.completions + metrics.cancellations == 1
    check_invariants(purgatory)


def test_request_that_ends_while_it_goes_to_the_timer_comes_out_again(clock: ManualClock) -> None:
    class SlowTimer(SystemTimer):
        def add(self, task: object) -> None:
            assert isinstance(task, Request)
            task.force_complete()
            super().add(task)

    purgatory = DelayedOperationPurgatory(
        "test", timer=SlowTimer("test", clock=clock), reaper=False
    )
    request = Request(10)
    purgatory.try_complete_else_watch(request, ["a"])
    assert (request.outcome, purgatory.timer.size, purgatory.num_delayed) == ("completed", 0, 0)
    check_invariants(purgatory)


@pytest.mark.parametrize("design", ["wheel", "legacy"])
@pytest.mark.parametrize("end", [Request.force_complete, Request.cancel])
def test_request_that_ends_before_its_wait_begins_is_counted_and_not_kept(
    design: str,
    end: Callable[[Request], bool],
) -> None:
    clock = InterleavedClock()
    purgatory = (
        LegacyPurgatory("test", clock=clock, reaper=False)
        if design == "legacy"
        else DelayedOperationPurgatory("test", timer=SystemTimer("test", clock=clock), reaper=False)
    )
    request = Request()
    clock.interrupt = lambda: end(request)
    assert purgatory.try_complete_else_watch(request, ["a", "b"]) is False
    assert (request.tries, len(request.calls)) == (1, 1)
    assert (purgatory.num_delayed, purgatory.timer.size, purgatory.operations()) == (0, 0, [])
    metrics = purgatory.metrics()
    assert metrics.completions + metrics.cancellations == 1
    check_invariants(purgatory)


# -- time


@pytest.mark.parametrize("delay_ms", [0, -5])
def test_request_without_a_delay_expires_after_its_tries(
    purgatory: DelayedOperationPurgatory, delay_ms: int
) -> None:
    request = Request(delay_ms)
    assert purgatory.try_complete_else_watch(request, ["a"]) is False
    assert (request.outcome, request.calls) == ("expired", ["complete", "expiration"])
    assert (purgatory.num_delayed, purgatory.timer.size) == (0, 0)
    assert purgatory.metrics().expirations == 1


def test_request_expires_when_its_time_is_over_and_not_before(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    request = watch(purgatory, "a", delay_ms=50)
    for _ in range(49):
        clock.advance(1)
        purgatory.advance_clock(0)
    assert request.outcome is None
    clock.advance(1)
    assert purgatory.advance_clock(0) is True
    assert (request.outcome, request.calls) == ("expired", ["complete", "expiration"])
    assert request.tries == 1


def test_expired_operation_leaves_every_watcher_list(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    watch(purgatory, "a", "b", "c", delay_ms=50)
    clock.advance(50)
    purgatory.advance_clock(0)
    assert purgatory.num_delayed == 0
    purgatory.check_and_complete("a")
    assert len(purgatory.operations()) == 1
    assert purgatory.purge() == 2
    assert (purgatory.operations(), purgatory.watched) == ([], 0)


def test_completed_request_does_not_expire(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    request = watch(purgatory, "a", delay_ms=50)
    request.ready = True
    purgatory.check_and_complete("a")
    clock.advance(HOUR_MS)
    purgatory.advance_clock(0)
    assert request.calls == ["complete"]


def test_event_at_the_deadline_completes_a_request_that_the_clock_has_not_reached(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    request = watch(purgatory, "a", delay_ms=50)
    clock.advance(50)
    request.ready = True
    assert purgatory.check_and_complete("a") == 1
    purgatory.advance_clock(0)
    assert request.calls == ["complete"]


# -- cancelling


def test_cancel_for_key_cancels_its_watchers_and_returns_them(
    purgatory: DelayedOperationPurgatory,
) -> None:
    gone = [watch(purgatory, "a"), watch(purgatory, "a", "b")]
    watch(purgatory, "a").force_complete()
    kept = watch(purgatory, "b")
    assert purgatory.cancel_for_key("a") == gone
    assert [request.calls for request in gone] == [["cancellation"]] * 2
    assert (kept.outcome, purgatory.num_delayed) == (None, 1)
    assert purgatory.cancel_for_key("a") == []
    check_invariants(purgatory)


def test_request_can_be_cancelled_by_itself(purgatory: DelayedOperationPurgatory) -> None:
    request = watch(purgatory, "a")
    assert request.cancel() is True
    assert (purgatory.num_delayed, purgatory.metrics().cancellations) == (0, 1)
    assert purgatory.check_and_complete("a") == 0
    assert (request.tries, purgatory.operations()) == (1, [])


def test_request_that_is_discarded_leaves_every_list(purgatory: DelayedOperationPurgatory) -> None:
    """At once, where `cancel` leaves its entries to be met or purged.

    What its callback raises is contained.
    """
    request = Request(1_000, cancellation=fail)
    kept = watch(purgatory, "a", "b")
    purgatory.try_complete_else_watch(request, ["a", "b"])
    assert purgatory._discard(request) is True
    assert purgatory._discard(request) is False
    assert (request.calls, purgatory.operations(), purgatory.num_delayed) == (
        ["cancellation"],
        [kept],
        1,
    )
    assert purgatory.metrics().callback_errors == 1
    check_invariants(purgatory)
    with pytest.raises(InvalidArgumentError, match="one of purgatory 'test'"):
        purgatory._discard(Request())


def test_check_passes_over_what_an_earlier_try_took_out(
    purgatory: DelayedOperationPurgatory,
) -> None:
    first, second, third = Request(), Request(), Request()
    for request in (first, second, third):
        purgatory.try_complete_else_watch(request, ["a"])
    first.during["try"] = lambda: purgatory._discard(second)
    third.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert (first.tries, second.tries, third.tries) == (2, 1, 2)
    assert (second.outcome, third.outcome) == ("cancelled", "completed")
    check_invariants(purgatory)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exit_raised_by_an_answer_reaches_the_thread_that_checks(
    purgatory: DelayedOperationPurgatory, error: type[BaseException]
) -> None:
    def leave() -> None:
        raise error

    request = Request(complete=leave)
    purgatory.try_complete_else_watch(request, ["a", "b"])
    request.ready = True
    with pytest.raises(error):
        purgatory.check_and_complete("a")
    assert (request.outcome, request.calls, purgatory.num_delayed) == ("completed", ["complete"], 0)
    purgatory.purge()
    assert (purgatory.watched, purgatory.metrics().callback_errors) == (0, 0)
    check_invariants(purgatory)


def test_how_many_watch_a_key_can_be_asked(purgatory: DelayedOperationPurgatory) -> None:
    request = watch(purgatory, "a")
    watch(purgatory, "a")
    assert (purgatory.num_watchers("a"), purgatory.num_watchers("b")) == (2, 0)
    purgatory._discard(request)
    assert purgatory.num_watchers("a") == 1


def test_listener_is_told_of_every_end(
    clock: ManualClock,
) -> None:
    told: list[tuple[object, str | None, list[str]]] = []

    def note(operation: DelayedOperation) -> None:
        assert isinstance(operation, Request)
        told.append((operation, operation.outcome, list(operation.calls)))

    timer = SystemTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory(timer=timer, reaper=False, on_end=note)
    completed, expired, cancelled = (
        watch(purgatory, "a"),
        watch(purgatory, "b", delay_ms=5),
        watch(purgatory, "b"),
    )
    at_once = Request(ready=True)
    purgatory.try_complete_else_watch(at_once, ["a"])
    completed.ready = True
    purgatory.check_and_complete("a")
    clock.advance(5)
    purgatory.advance_clock(0)
    cancelled.cancel()
    assert told == [
        (at_once, "completed", ["complete"]),
        (completed, "completed", ["complete"]),
        (expired, "expired", ["complete", "expiration"]),
        (cancelled, "cancelled", ["cancellation"]),
    ]


# -- timers and names


def test_purgatory_makes_a_timer_of_its_own() -> None:
    purgatory = DelayedOperationPurgatory("test", reaper=False)
    assert isinstance(purgatory.timer.clock, MonotonicClock)
    purgatory.try_complete_else_watch(Request(HOUR_MS), ["a"])
    check_invariants(purgatory)
    assert len(purgatory.close()) == 1
    with pytest.raises(TimerClosedError):
        purgatory.timer.add(Request())


def test_two_purgatories_can_share_a_timer(clock: ManualClock, timer: SystemTimer) -> None:
    first = DelayedOperationPurgatory("first", timer=timer, reaper=False)
    second = DelayedOperationPurgatory("second", timer=timer, reaper=False)
    cancelled, expired = watch(first, "a", delay_ms=10), watch(second, "a", delay_ms=10)
    assert (first.num_delayed, second.num_delayed, timer.size) == (1, 1, 2)
    assert first.close() == [cancelled]
    clock.advance(10)
    second.advance_clock(0)
    assert (cancelled.outcome, expired.outcome) == ("cancelled", "expired")


def test_0_8_design_has_the_machines_clock_too() -> None:
    with LegacyPurgatory("test", reaper=False) as purgatory:
        assert isinstance(purgatory.timer.clock, MonotonicClock)
