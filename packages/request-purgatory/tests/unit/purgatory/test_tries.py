"""Tries that disagree with what happened, that cause events for themselves, and that interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    SystemTimer,
    TimerTask,
)
from request_purgatory.purgatory.operation import MAX_TRIES
from tests.support.interleaving import interpreted_only
from tests.support.invariants import check_invariants
from tests.support.requests import Request
from tests.unit.purgatory.test_lateness import SteppedClock

#: As `DelayedOperation.try_complete` promises.
MOST_IN_A_ROW = 1000


class Trying(DelayedOperation):
    """An operation with a condition of the test's."""

    def __init__(self, attempt: Callable[[Trying], object]) -> None:
        super().__init__(1000)
        self.attempt = attempt
        self.tries = 0

    def try_complete(self) -> bool:
        self.tries += 1
        return self.attempt(self)  # type: ignore[return-value]

    def on_complete(self) -> None:
        pass


@pytest.mark.parametrize("notifies", [False, True], ids=["alone", "with an event for itself"])
@pytest.mark.parametrize("end", [DelayedOperation.force_complete, DelayedOperation.cancel])
@pytest.mark.parametrize("answer", [False, True])
def test_answer_and_end_of_a_try_both_decide_what_a_check_counts(
    purgatory: DelayedOperationPurgatory,
    notifies: bool,
    end: Callable[[DelayedOperation], bool],
    answer: bool,
) -> None:
    def attempt(operation: Trying) -> bool:
        if operation.tries == 1:
            return False
        if notifies:
            purgatory.check_and_complete("a")
        end(operation)
        return answer

    operation = Trying(attempt)
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False
    completed = answer and end is DelayedOperation.force_complete
    assert purgatory.check_and_complete("a") == int(completed)
    assert operation.tries == 2
    check_invariants(purgatory)


@pytest.mark.parametrize("answer", [False, True])
def test_first_try_that_ends_an_operation_says_whether_it_completed(
    purgatory: DelayedOperationPurgatory, answer: bool
) -> None:
    def attempt(operation: Trying) -> bool:
        operation.force_complete()
        return answer

    assert purgatory.try_complete_else_watch(Trying(attempt), ["a"]) is answer


def test_operation_that_had_ended_before_is_not_completed_by_the_first_try(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = Request()
    request.cancel()
    assert purgatory.try_complete_else_watch(request, ["a"]) is False


def test_tries_for_its_own_events_are_limited(
    purgatory: DelayedOperationPurgatory, caplog: pytest.LogCaptureFixture
) -> None:
    notifying = False

    def attempt(operation: Trying) -> bool:
        if notifying:
            purgatory.check_and_complete("a")
        return False

    operation = Trying(attempt)
    purgatory.try_complete_else_watch(operation, ["a"])
    notifying, operation.tries = True, 0
    purgatory.check_and_complete("a")
    assert "caused an event for itself 1000 times" in caplog.text
    assert operation.tries == MOST_IN_A_ROW


def test_tries_for_events_of_other_threads_are_not_limited(
    purgatory: DelayedOperationPurgatory,
) -> None:
    notifying = False

    def attempt(operation: Trying) -> bool:
        if operation.tries > MOST_IN_A_ROW + 5:
            return operation.force_complete()
        if notifying:
            thread = threading.Thread(target=purgatory.check_and_complete, args=["a"])
            thread.start()
            thread.join(20)
        return False

    operation = Trying(attempt)
    purgatory.try_complete_else_watch(operation, ["a"])
    notifying = True
    assert purgatory.check_and_complete("a") == 1
    assert purgatory.metrics().callback_errors == 0


def test_repeated_tries_are_counted_in_a_snapshot(purgatory: DelayedOperationPurgatory) -> None:
    def attempt(operation: Trying) -> bool:
        if operation.tries in (2, 3):
            purgatory.check_and_complete("a")
        return False

    operation = Trying(attempt)
    purgatory.try_complete_else_watch(operation, ["a"])
    purgatory.check_and_complete("a")
    assert operation.tries == 4
    assert purgatory.snapshot().by_type[0].tries == 4


@interpreted_only
def test_tries_are_counted_up_to_what_two_bytes_hold(
    make_wheel_purgatory: Callable[[], DelayedOperationPurgatory],
) -> None:
    purgatory = make_wheel_purgatory()
    request = Request()
    purgatory.try_complete_else_watch(request, ["a"])
    object.__setattr__(request, "_tries", 65_533)
    seen = []
    for _ in range(4):
        purgatory.check_and_complete("a")
        seen.append(request._tries)
    assert seen == [MAX_TRIES - 1, MAX_TRIES, MAX_TRIES, MAX_TRIES]


# -- renewals at the wrong moment


def test_renewal_of_an_operation_that_has_ended_changes_nothing(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = Request(1000)
    purgatory.try_complete_else_watch(request, ["a"])
    request.force_complete()
    assert purgatory.renew(request, 5) is False
    assert request.timeout_ms == 1000


# -- expirations


def test_expiration_that_comes_after_the_end_is_not_measured() -> None:
    clock = SteppedClock()
    timer = SystemTimer("test", clock=clock)
    with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:
        request = Request(10)
        purgatory.try_complete_else_watch(request, ["a"])
        request.force_complete()
        clock.reads_ms = 500
        request.run()
        assert purgatory.metrics().max_late_ms == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("callback", ["complete", "expiration"])
def test_callback_of_an_expiration_may_end_the_program(
    purgatory: DelayedOperationPurgatory, error: type[BaseException], callback: str
) -> None:
    def leave() -> None:
        raise error

    request = Request(10, **{callback: leave})
    purgatory.try_complete_else_watch(request, ["a"])
    with pytest.raises(error):
        run_late(purgatory, request)
    assert request.outcome == "expired"
    assert request.calls == ["complete", "expiration"]


def run_late(purgatory: DelayedOperationPurgatory, request: Request) -> None:
    purgatory.timer.clock.advance(10)  # type: ignore[attr-defined]
    request.run()


def test_new_task_is_due_at_no_time() -> None:
    assert TimerTask(5)._timer_expiration_ms == -1


def test_operation_that_a_key_ends_is_watched_under_no_further_key(
    purgatory: DelayedOperationPurgatory,
) -> None:
    hashed: list[str] = []

    class Key:
        def __init__(self, name: str) -> None:
            self.name = name

        def __hash__(self) -> int:
            hashed.append(self.name)
            if self.name == "second" and not request.is_completed:
                request.cancel()
            return 1

    request = Request()
    keys = [Key("first"), Key("second"), Key("third"), Key("fourth")]
    assert purgatory.try_complete_else_watch(request, keys) is False
    assert set(hashed) == {"first", "second"}
    assert purgatory.watched == 0
