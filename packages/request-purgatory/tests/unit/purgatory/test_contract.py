"""Named cases of the contract, for both designs.

They are easier to read here than to find in a model's history.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    ManualClock,
    PurgatoryClosedError,
)
from tests.conftest import MakePurgatory
from tests.support.invariants import check_invariants
from tests.support.requests import Fault, Request, fail
from tests.support.thread_group import ThreadGroup

HOUR_MS = 3_600_000


@pytest.fixture
def make_purgatory(make_either_purgatory: MakePurgatory) -> MakePurgatory:
    return make_either_purgatory


def assert_nothing_is_left(purgatory: DelayedOperationPurgatory) -> None:
    """No pending operation, no watcher, no timer task."""
    assert (purgatory.num_delayed, purgatory.watched, purgatory.timer.size) == (0, 0, 0)
    check_invariants(purgatory)


# -- a callback that raises in try_complete_else_watch: the caller's own exception


def raise_in_try(number: int) -> Request:
    """Return a request whose n-th try raises."""
    request = Request()
    request.during["try"] = lambda: fail() if request.tries == number else None
    return request


def try_again(request: Request, purgatory: DelayedOperationPurgatory) -> Request:
    """Return a request whose first try causes an event, so that there is a second one."""
    then = request.during.get("try")

    def event() -> None:
        if request.tries == 1:
            purgatory.check_and_complete("a")
        if then is not None:
            then()

    request.during["try"] = event
    return request


def raise_in_second_completion() -> Request:
    """Return a request that the second try completes, and whose on_complete raises."""
    request = Request(complete=fail)
    request.during["try"] = lambda: setattr(request, "ready", True)
    return request


RAISING = {
    "first try": (lambda: raise_in_try(1), "cancelled", []),
    "second try": (lambda: raise_in_try(2), "cancelled", []),
    "on_complete at the first try": (
        lambda: Request(ready=True, complete=fail),
        "completed",
        ["complete"],
    ),
    "on_complete at the second try": (raise_in_second_completion, "completed", ["complete"]),
    "on_complete without a delay": (
        lambda: Request(0, complete=fail),
        "expired",
        ["complete", "expiration"],
    ),
    "on_expiration without a delay": (
        lambda: Request(0, expiration=fail),
        "expired",
        ["complete", "expiration"],
    ),
}


@pytest.mark.parametrize("case", RAISING)
def test_callers_own_exception_reaches_the_caller_and_nothing_leaks(
    purgatory: DelayedOperationPurgatory, clock: ManualClock, case: str
) -> None:
    make: Callable[[], Request]
    make, outcome, calls = RAISING[case]
    request = make()
    if "second" in case:
        try_again(request, purgatory)
    with pytest.raises(Fault):
        purgatory.try_complete_else_watch(request, ["a", "b", "a"])
    assert (request.outcome, request.calls) == (outcome, calls)
    assert_nothing_is_left(purgatory)
    metrics = purgatory.metrics()
    ends = {
        "completed": metrics.completions,
        "expired": metrics.expirations,
        "cancelled": metrics.cancellations,
    }
    assert ends == {"completed": 0, "expired": 0, "cancelled": 0, outcome: 1}
    assert metrics.callback_errors == 0
    clock.advance(HOUR_MS)
    purgatory.advance_clock(0)
    assert request.calls == calls
    assert purgatory.try_complete_else_watch(Request(ready=True), ["a"]) is True


def test_interrupt_in_a_try_leaves_nothing_behind(purgatory: DelayedOperationPurgatory) -> None:
    request = Request()

    def interrupt() -> None:
        raise KeyboardInterrupt

    request.during["try"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        purgatory.try_complete_else_watch(request, ["a", "b"])
    assert request.outcome == "cancelled"
    assert_nothing_is_left(purgatory)


# -- a callback that raises in a check: contained


def test_try_that_raises_in_a_check_harms_no_other_operation(
    purgatory: DelayedOperationPurgatory, caplog: pytest.LogCaptureFixture
) -> None:
    first, faulty, last = Request(), raise_in_try(2), Request()
    for request in (first, faulty, last):
        purgatory.try_complete_else_watch(request, ["a"])
    first.ready = last.ready = True
    assert purgatory.check_and_complete("a") == 2
    assert (faulty.outcome, purgatory.num_delayed) == (None, 1)
    assert purgatory.metrics().callback_errors == 1
    assert "purgatory 'test': <Request timeout_ms=1000 pending> raised" in caplog.text
    assert "Fault" in caplog.text
    faulty.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert_nothing_is_left_but_queue_entries(purgatory)


def test_callbacks_that_all_raise_leave_one_traceback(
    purgatory: DelayedOperationPurgatory, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(1000):
        purgatory.try_complete_else_watch(Request(10, complete=fail), ["a"])
    clock.advance(10)
    purgatory.advance_clock(0)
    assert purgatory.metrics().callback_errors == 1000
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False, False]
    assert "(number 1000 of its kind; the first one has a traceback)" in caplog.text


def assert_nothing_is_left_but_queue_entries(purgatory: DelayedOperationPurgatory) -> None:
    """0.8's delay queue keeps what has ended."""
    assert (purgatory.num_delayed, purgatory.operations()) == (0, [])
    check_invariants(purgatory)


def test_completion_that_raises_in_a_check_counts_as_a_completion(
    purgatory: DelayedOperationPurgatory, caplog: pytest.LogCaptureFixture
) -> None:
    requests = [Request(), Request(complete=fail), Request()]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a"])
        request.ready = True
    assert purgatory.check_and_complete("a") == 3
    assert [request.calls for request in requests] == [["complete"]] * 3
    assert purgatory.metrics().callback_errors == 1
    assert "<Request timeout_ms=1000 completed> raised" in caplog.text
    assert_nothing_is_left_but_queue_entries(purgatory)


@pytest.mark.parametrize(
    "callbacks", [["complete"], ["expiration"], ["complete", "expiration"]], ids="+".join
)
def test_callback_that_raises_on_the_clock_thread_harms_no_other_operation(
    purgatory: DelayedOperationPurgatory,
    clock: ManualClock,
    callbacks: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    requests = [
        Request(10),
        Request(10, **dict.fromkeys(callbacks, fail)),
        Request(10),
        Request(11),
    ]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a"])
    clock.advance(20)
    purgatory.advance_clock(0)
    assert [request.calls for request in requests] == [["complete", "expiration"]] * 4
    assert (purgatory.metrics().expirations, purgatory.metrics().callback_errors) == (4, 1)
    assert "<Request timeout_ms=10 expired> raised" in caplog.text


def test_cancellation_that_raises_harms_no_other_operation(
    purgatory: DelayedOperationPurgatory,
) -> None:
    by_key = [Request(), Request(cancellation=fail), Request()]
    by_shutdown = [Request(), Request(cancellation=fail), Request()]
    for request in by_key:
        purgatory.try_complete_else_watch(request, ["a"])
    for request in by_shutdown:
        purgatory.try_complete_else_watch(request, ["b"])
    assert purgatory.cancel_for_key("a") == by_key
    assert purgatory.close() == by_shutdown
    assert [request.calls for request in by_key + by_shutdown] == [["cancellation"]] * 6
    assert purgatory.metrics().callback_errors == 2


# -- a clock that jumps


def test_jump_of_an_hour_expires_all_that_is_due_and_nothing_else(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    due = [Request(delay_ms) for delay_ms in (1, 50, 5_000, HOUR_MS - 1, HOUR_MS)]
    later = [Request(delay_ms) for delay_ms in (HOUR_MS + 1, HOUR_MS + 50, 48 * HOUR_MS)]
    for request in due + later:
        purgatory.try_complete_else_watch(request, ["a"])
    clock.advance(HOUR_MS)
    assert purgatory.advance_clock(0) is True
    assert {request.outcome for request in due} == {"expired"}
    assert {request.outcome for request in later} == {None}
    assert (purgatory.num_delayed, purgatory.timer.size) == (3, 3)
    fresh = Request(10)
    purgatory.try_complete_else_watch(fresh, ["a"])
    clock.advance(9)
    purgatory.advance_clock(0)
    assert fresh.outcome is None
    clock.advance(1)
    purgatory.advance_clock(0)
    assert fresh.outcome == "expired"
    check_invariants(purgatory)


# -- many


def test_one_check_completes_100_000_operations_in_linear_time(
    purgatory: DelayedOperationPurgatory,
) -> None:
    class Counted(DelayedOperation):
        __slots__ = ()
        tries = 0
        completions = 0
        ready = False

        def try_complete(self) -> bool:
            Counted.tries += 1
            return Counted.ready and self.force_complete()

        def on_complete(self) -> None:
            Counted.completions += 1

    count = 100_000
    for _ in range(count):
        purgatory.try_complete_else_watch(Counted(1000), ["a"])
    assert purgatory.num_delayed == count
    Counted.ready = True
    assert purgatory.check_and_complete("a") == count
    assert (Counted.tries, Counted.completions) == (2 * count, count)
    assert_nothing_is_left_but_queue_entries(purgatory)


def test_one_operation_on_1_000_keys_is_one_operation(purgatory: DelayedOperationPurgatory) -> None:
    request = Request()
    purgatory.try_complete_else_watch(request, list(range(1_000)))
    entries = purgatory.watched
    assert (request.tries, purgatory.num_delayed, purgatory.metrics().estimated_operations) == (
        1,
        1,
        1,
    )
    assert entries - purgatory.timer.size in (999, 1_000)  # 0.8 counts its delay queue's entry too.
    request.ready = True
    assert purgatory.check_and_complete(500) == 1
    assert request.calls == ["complete"]
    purgatory.purge()
    assert_nothing_is_left(purgatory)


@pytest.mark.parametrize("count", [10_000])
def test_shutdown_cancels_and_reports_10_000_pending(
    purgatory: DelayedOperationPurgatory, count: int
) -> None:
    requests = [Request() for _ in range(count)]
    for number, request in enumerate(requests):
        purgatory.try_complete_else_watch(request, [number % 100, "all", ("own", number)])
    requests[0].force_complete()
    cancelled = purgatory.close()
    assert len(cancelled) == count - 1
    assert set(cancelled) == set(requests[1:])
    assert all(request.calls == ["cancellation"] for request in requests[1:])
    assert (requests[0].calls, purgatory.metrics().cancellations) == (["complete"], count - 1)
    assert_nothing_is_left(purgatory)


def test_closed_purgatory_refuses_with_a_clear_error(purgatory: DelayedOperationPurgatory) -> None:
    purgatory.close()
    request = Request(ready=True)
    calls: list[Callable[[], object]] = [
        lambda: purgatory.try_complete_else_watch(request, ["a"]),
        lambda: purgatory.advance_clock(0),
        lambda: purgatory.hold(["a"], until=lambda: True, timeout=1.0),
    ]
    for call in calls:
        with pytest.raises(PurgatoryClosedError, match="purgatory 'test' is closed"):
            call()
    assert (request.tries, request.outcome) == (0, None)
    assert purgatory.is_closed
    assert purgatory.close() == []


def test_events_after_the_shutdown_are_ignored(purgatory: DelayedOperationPurgatory) -> None:
    request = Request()
    purgatory.try_complete_else_watch(request, ["a"])
    assert purgatory.close() == [request]
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.cancel_for_key("a") == []
    assert request.calls == ["cancellation"]


def test_end_of_a_with_block_shuts_down(make_purgatory: MakePurgatory) -> None:
    request = Request()
    purgatory = make_purgatory()
    assert not purgatory.is_closed
    purgatory.try_complete_else_watch(request, ["a"])
    with pytest.raises(Fault), purgatory:
        fail()
    assert (purgatory.is_closed, request.calls) == (True, ["cancellation"])


# -- user code and locks


WAYS_OUT = {
    "expiration": lambda purgatory: None,
    "completion": lambda purgatory: [purgatory.check_and_complete(key) for key in range(5)],
    "a key that is gone": lambda purgatory: [purgatory.cancel_for_key(key) for key in range(5)],
    "a cancel": lambda purgatory: [operation.cancel() for operation in purgatory.operations()],
    "a shutdown": lambda purgatory: purgatory.close(),
}


@pytest.mark.parametrize("last_holder", ["the timer", "the lists"])
@pytest.mark.parametrize("way", WAYS_OUT)
@pytest.mark.parametrize("design", ["wheel", "legacy"])
def test_finalizer_of_an_operation_may_use_the_purgatory(
    request: pytest.FixtureRequest,
    clock: ManualClock,
    thread_group: ThreadGroup,
    design: str,
    way: str,
    last_holder: str,
) -> None:
    one_shard = {"shards": 1} if design == "wheel" else {}
    purgatory = request.getfixturevalue(f"make_{design}_purgatory")(**one_shard)
    finalized: list[int] = []

    class Finalized(Request):
        def __del__(self) -> None:
            try:
                purgatory.check_and_complete("another key")
                purgatory.try_complete_else_watch(Request(10), ["another key"])
            except PurgatoryClosedError:
                pass
            finalized.append(1)

    def use() -> None:
        for key in range(5):
            operation = Finalized(10)
            purgatory.try_complete_else_watch(operation, [key])
            operation.ready = True
        del operation
        WAYS_OUT[way](purgatory)
        if not purgatory.is_closed:
            steps = [lambda: clock.advance(10), lambda: purgatory.advance_clock(0), purgatory.purge]
            for step in steps if last_holder == "the timer" else steps[::-1] + steps:
                step()

    thread_group.start(use)
    thread_group.join()
    assert len(finalized) == 5
