"""The 0.8 design: where it differs from the new one, and where it must not."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    NotInitializedError,
    TimerClosedError,
)
from request_purgatory.legacy import DelayQueueTimer, LegacyPurgatory
from request_purgatory.purgatory._metric_table import PurgatoryMetrics
from tests.conftest import MakePurgatory
from tests.support.interleaving import interpreted_only
from tests.support.invariants import check_invariants
from tests.support.pending import watch
from tests.support.requests import Request, fail
from tests.support.sleeping_threads import SleepRecordingClock
from tests.support.thread_group import ThreadGroup
from tests.unit.timer.steps import Note


@pytest.fixture
def legacy(make_legacy_purgatory: MakePurgatory) -> LegacyPurgatory:
    """Return a purgatory of the 0.8 design that purges after every fourth request."""
    purgatory = make_legacy_purgatory(purge_interval=4)
    assert isinstance(purgatory, LegacyPurgatory)
    return purgatory


# -- where it differs


def test_completed_request_stays_in_the_delay_queue_until_its_deadline(
    legacy: LegacyPurgatory, clock: ManualClock
) -> None:
    request = watch(legacy, "a", delay_ms=50)
    request.ready = True
    assert legacy.check_and_complete("a") == 1
    assert (legacy.num_delayed, legacy.delay_queue.size, legacy.watched) == (0, 1, 1)
    clock.advance(49)
    legacy.advance_clock(0)
    assert legacy.delay_queue.size == 1
    clock.advance(1)
    legacy.advance_clock(0)
    assert legacy.delay_queue.size == 0
    assert request.calls == ["complete"]


def test_completed_request_stays_in_its_other_lists_until_it_is_met(
    legacy: LegacyPurgatory,
) -> None:
    request = watch(legacy, "a", "b")
    request.ready = True
    legacy.check_and_complete("a")
    assert legacy.operations() == [request]
    legacy.check_and_complete("b")
    assert legacy.operations() == []


def test_purge_is_due_by_the_number_of_requests_added(legacy: LegacyPurgatory) -> None:
    requests = [watch(legacy, "a") for _ in range(3)]
    for request in requests:
        request.force_complete()
    legacy.advance_clock(0)
    assert (legacy.metrics().purges, legacy.watched) == (0, 6)
    pending = watch(legacy, "a")
    legacy.advance_clock(0)
    assert (legacy.metrics().purges, legacy.watched) == (1, 2)
    for _ in range(3):
        watch(legacy, "a")
    legacy.advance_clock(0)
    assert legacy.metrics().purges == 1
    watch(legacy, "a")
    legacy.advance_clock(0)
    assert (legacy.metrics().purges, legacy.num_delayed) == (2, 5)
    assert pending.outcome is None


def test_request_that_is_satisfied_at_once_does_not_bring_a_purge_nearer(
    legacy: LegacyPurgatory,
) -> None:
    for _ in range(10):
        legacy.try_complete_else_watch(Request(ready=True), ["a"])
    legacy.advance_clock(0)
    assert legacy.metrics().purges == 0


def test_purge_scans_the_delay_queue_and_the_lists(legacy: LegacyPurgatory) -> None:
    ended, pending = watch(legacy, "a", "b"), watch(legacy, "a")
    ended.cancel()
    assert legacy.watched == 5
    assert legacy.purge() == 3
    assert (legacy.watched, legacy.operations()) == (2, [pending])


def test_purge_interval_of_zero_purges_after_every_request(
    make_legacy_purgatory: MakePurgatory,
) -> None:
    purgatory = make_legacy_purgatory(purge_interval=0)
    purgatory.advance_clock(0)
    assert purgatory.metrics().purges == 0
    watch(purgatory, "a")
    purgatory.advance_clock(0)
    assert purgatory.metrics().purges == 1


# -- the same work on both


@dataclass
class Trace:
    """What one design did with the work."""

    outcomes: list[tuple[str | None, int | None]]
    metrics: PurgatoryMetrics
    most_entries: int


def replay(purgatory: DelayedOperationPurgatory, clock: ManualClock) -> Trace:
    """Run a thousand requests, most of which complete long before their timeout.

    (outcome, when) of each.
    """
    random_numbers = random.Random(8)
    start_ms = clock.now_ms
    requests: list[Request] = []
    ended_at_ms: dict[Request, int] = {}
    most_entries = 0
    for number in range(1_000):
        request = Request(200)
        request.during["complete"] = lambda request=request: ended_at_ms.setdefault(
            request, clock.now_ms - start_ms
        )  # type: ignore[misc]
        purgatory.try_complete_else_watch(request, [number, number % 7])
        requests.append(request)
        for _ in range(2):
            chosen = random_numbers.randrange(max(0, len(requests) - 30), len(requests))
            requests[chosen].ready = True
            purgatory.check_and_complete(random_numbers.choice([chosen, chosen % 7]))
        clock.advance(random_numbers.randrange(4))
        purgatory.advance_clock(0)
        most_entries = max(most_entries, purgatory.watched)
    outcomes = [(request.outcome, ended_at_ms.get(request)) for request in requests]
    return Trace(outcomes, purgatory.metrics(), most_entries)


def test_same_work_has_the_same_outcomes_and_other_counters(
    make_wheel_purgatory: MakePurgatory, make_legacy_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    """Every request ends the same way in the same millisecond.

    The 0.8 design holds and purges more.
    """
    new = replay(make_wheel_purgatory(purge_interval=100), clock)
    old = replay(make_legacy_purgatory(purge_interval=100), clock)
    assert new.outcomes == old.outcomes
    assert {outcome for outcome, _ in new.outcomes} == {"completed", "expired", None}
    for counter in (
        "completions",
        "expirations",
        "cancellations",
        "num_delayed_operations",
        "wait_histogram_ms",
    ):
        assert getattr(new.metrics, counter) == getattr(old.metrics, counter)
    assert old.most_entries > new.most_entries
    # 0.8 purges every hundred requests; the new design as often as a hundred have ended and were
    # not met since.
    assert old.metrics.purges == 10
    assert 0 < new.metrics.purges < 10


# -- its timer


def test_equal_deadlines_come_out_in_order_of_arrival(clock: ManualClock) -> None:
    timer = DelayQueueTimer("test", clock)
    order: list[int] = []
    requests = [
        Request(10, complete=lambda number=number: order.append(number)) for number in range(20)
    ]  # type: ignore[misc]
    for request in requests:
        timer.add(request)
        check_invariants(timer)
    assert timer.next_expiration_ms == 10
    clock.advance(10)
    assert timer.advance_clock(0) is True
    assert order == list(range(20))
    assert timer.next_expiration_ms is None


def test_looking_at_the_delay_queue_returns_at_once(clock: ManualClock) -> None:
    timer = DelayQueueTimer("test", clock)
    clock.advance_to_ns(1)
    assert timer.advance_clock(0) is False
    timer.add(Request(10))
    assert timer.advance_clock(0) is False


def test_deadline_in_the_delay_queue_is_not_cut_short_by_a_fraction_of_a_millisecond(
    clock: ManualClock,
) -> None:
    timer = DelayQueueTimer("test", clock)
    request = Request(10)
    clock.advance_to_ns(1)
    timer.add(request)
    clock.advance_to_ns(10_999_999)
    timer.advance_clock(0)
    assert request.outcome is None
    clock.advance_to_ns(11_000_000)
    timer.advance_clock(0)
    assert request.outcome == "expired"


def test_sleeper_on_the_delay_queue_is_woken_by_an_earlier_deadline(
    thread_group: ThreadGroup,
) -> None:
    clock = SleepRecordingClock()
    timer = DelayQueueTimer("test", clock)
    came_due: list[bool] = []
    timer.add(Request(50))
    thread_group.start(lambda: came_due.append(timer.advance_clock(None)))
    assert clock.wait_for_sleep(1) == 50
    timer.add(Request(20))
    assert clock.wait_for_sleep(2) == 20
    clock.advance(20)
    thread_group.join()
    thread_group.start(lambda: came_due.append(timer.advance_clock(10)))
    assert clock.wait_for_sleep(3) == 30
    clock.advance(10)
    thread_group.join()
    thread_group.start(lambda: came_due.append(timer.advance_clock(None)))
    assert clock.wait_for_sleep(4) == 50
    timer.wake()
    thread_group.join()
    assert came_due == [True, False, False]


def test_task_of_the_delay_queue_that_raises_is_counted(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    timer = DelayQueueTimer("test", clock)
    requests = [Request(1, complete=fail), Request(1)]
    for request in requests:
        timer.add(request)
    clock.advance(1)
    timer.advance_clock(0)
    assert [request.outcome for request in requests] == ["expired", "expired"]
    assert timer.callback_errors == 1
    assert "Fault" in caplog.text


def test_closed_delay_queue_takes_nothing(clock: ManualClock) -> None:
    timer = DelayQueueTimer("test", clock)
    pending, ended = Request(10), Request(10)
    for request in (pending, ended):
        timer.add(request)
    ended.cancel()
    assert timer.shutdown() == [pending]
    assert timer.size == 0
    with pytest.raises(TimerClosedError):
        timer.add(Request(10))
    with pytest.raises(TimerClosedError):
        timer.advance_clock(0)


def test_delay_queue_under_threads(thread_group: ThreadGroup, switching: None) -> None:
    queue = DelayQueueTimer("test", ManualClock())
    stopped = threading.Event()

    def advance() -> None:
        while not stopped.is_set():
            queue.advance_clock(0)

    thread_group.start(advance)
    for _ in range(2_000):
        requests = [Request(1_000) for _ in range(3)]
        for request in requests:
            queue.add(request)
        for request in requests:
            request.cancel()
        queue.purge()
    stopped.set()
    thread_group.join()
    assert queue.size == 0


def test_first_deadline_of_the_delay_queue_is_known(clock: ManualClock) -> None:
    timer = DelayQueueTimer("test", clock)
    clock.advance(7)
    timer.add(Request(30))
    timer.add(Request(10))
    assert timer.next_expiration_ms == 17


def test_task_that_is_due_when_time_begins_is_a_task_like_others(clock: ManualClock) -> None:
    timer = DelayQueueTimer("test", clock)
    request = Request(0)
    timer.add(request)
    assert request.outcome is None
    assert timer.advance_clock(0) is True
    assert request.outcome == "expired"


def test_delay_queue_takes_tasks_and_clocks_alone(clock: ManualClock) -> None:
    with pytest.raises((InvalidArgumentError, TypeError), match="task"):
        DelayQueueTimer("test", clock).add(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="clock must be a Clock, got 5"):
        LegacyPurgatory(clock=5)  # type: ignore[arg-type]


def test_purge_in_the_callback_of_an_end_leaves_no_entry(legacy: LegacyPurgatory) -> None:
    left: list[tuple[int, int]] = []
    request = watch(legacy, "a", "b")
    request.during["complete"] = lambda: left.append((legacy.purge(), legacy.watched))
    request.ready = True
    legacy.check_and_complete("a")
    assert left == [(3, 0)]


def test_purge_and_shutdown_of_the_delay_queue_keep_tasks_that_are_no_requests(
    clock: ManualClock,
) -> None:
    timer = DelayQueueTimer("test", clock)
    runs_ms: list[int] = []
    tasks = [Note(10, clock, runs_ms), Request(20)]
    for task in tasks:
        timer.add(task)
    assert timer.purge() == 0
    assert timer.shutdown() == tasks


def test_request_without_a_timeout_leaves_no_entry(legacy: LegacyPurgatory) -> None:
    request = Request(0)
    legacy.try_complete_else_watch(request, ["a"])
    assert (request.outcome, legacy.delay_queue.size) == ("expired", 0)


def test_renewed_request_expires_at_its_last_deadline(
    legacy: LegacyPurgatory, clock: ManualClock
) -> None:
    request = watch(legacy, "a", delay_ms=10)
    clock.advance(5)
    assert legacy.renew(request, 0.02)
    clock.advance(19)
    legacy.advance_clock(0)
    assert request.outcome is None
    clock.advance(1)
    legacy.advance_clock(0)
    assert request.outcome == "expired"


def test_timer_whose_init_did_not_run_says_so() -> None:
    timer = DelayQueueTimer.__new__(DelayQueueTimer)
    for call in (lambda: timer.size, lambda: timer.add(Request(10))):
        with pytest.raises(NotInitializedError, match="DelayQueueTimer"):
            call()


@interpreted_only
def test_forked_child_has_a_heap_with_a_lock_of_its_own() -> None:
    timer = DelayQueueTimer("test", ManualClock())
    timer._heap_lock.acquire()  # By a thread that the child does not have.
    timer._reinit_locks()
    timer._reset_in_child()
    timer.add(Request(10))
    assert timer.size == 1
