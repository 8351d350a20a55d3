"""Delayed futures: waiting for all of several futures and callables, or for a quorum."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from request_purgatory import DelayedFutures, DelayedOperationPurgatory, InvalidArgumentError, ManualClock, PurgatoryClosedError
from tests.conftest import MakePurgatory
from tests.crew import Crew
from tests.requests import Fault, Request


def futures(count: int) -> list[Future[Any]]:
    """Futures that are not done."""
    return [Future() for _ in range(count)]


class Answers:
    """What `on_done` was told: (outcome, how many were missing)."""

    def __init__(self) -> None:
        self.given: list[tuple[str | None, int]] = []

    def __call__(self, operation: DelayedFutures) -> None:
        self.given.append((operation.outcome, len(operation.missing)))


@pytest.fixture
def answers() -> Answers:
    """None yet."""
    return Answers()


def test_all_futures_are_needed_unless_told_otherwise(purgatory: DelayedOperationPurgatory, answers: Answers) -> None:
    """The last one completes; they bring their own events."""
    acks = futures(3)
    assert DelayedFutures(500, acks, answers).watch_in(purgatory) is False
    acks[0].set_result(0)
    acks[2].set_result(0)
    assert (answers.given, purgatory.num_delayed) == ([], 1)
    acks[1].set_result(0)
    assert (answers.given, purgatory.num_delayed) == ([("completed", 0)], 0)
    purgatory.check()


def test_quorum_is_enough(purgatory: DelayedOperationPurgatory, answers: Answers) -> None:
    """What comes later changes nothing."""
    acks = futures(3)
    DelayedFutures(500, acks, answers, needed=2).watch_in(purgatory)
    for ack in acks:
        ack.set_result(0)
    assert answers.given == [("completed", 1)]


def test_future_is_done_however_it_ended(purgatory: DelayedOperationPurgatory, answers: Answers) -> None:
    """With a result, with an exception, or cancelled."""
    acks = futures(3)
    DelayedFutures(500, acks, answers).watch_in(purgatory)
    acks[0].set_result(0)
    acks[1].set_exception(Fault())
    acks[2].cancel()
    assert answers.given == [("completed", 0)]


@pytest.mark.parametrize("done", [0, 1, 2])
def test_futures_that_are_done_already_count(purgatory: DelayedOperationPurgatory, answers: Answers, done: int) -> None:
    """True if that is enough."""
    acks = futures(2)
    for ack in acks[:done]:
        ack.set_result(0)
    assert DelayedFutures(500, acks, answers).watch_in(purgatory) is (done == 2)
    assert answers.given == ([("completed", 0)] if done == 2 else [])


def test_future_that_is_done_right_after_the_try_is_not_missed(purgatory: DelayedOperationPurgatory, answers: Answers) -> None:
    """Its callback is added after the watch, and then called at once."""
    ack: Future[Any] = Future()

    class Late:
        """Says for the try that it is not done; it is by the time that somebody asks to be told."""

        looks = 0

        def done(self) -> bool:
            self.looks += 1
            return self.looks > 1 and ack.done()

        def add_done_callback(self, callback: Any) -> None:
            ack.set_result(0)
            ack.add_done_callback(callback)

    DelayedFutures(500, [Late()], answers).watch_in(purgatory)
    assert answers.given == [("completed", 0)]


def test_time_runs_out_for_missing_futures(purgatory: DelayedOperationPurgatory, clock: ManualClock, answers: Answers) -> None:
    """on_done hears of that too, once; futures that come later are ignored."""
    acks = futures(3)
    DelayedFutures(500, acks, answers).watch_in(purgatory)
    acks[0].set_result(0)
    clock.advance(500)
    purgatory.advance_clock(0)
    acks[1].set_result(0)
    acks[2].set_result(0)
    assert answers.given == [("expired", 2)]


def test_nothing_to_wait_for_completes_at_once(purgatory: DelayedOperationPurgatory, answers: Answers) -> None:
    """Neither with no waits, nor with a quorum of none."""
    assert DelayedFutures(500, [], answers).watch_in(purgatory) is True
    assert DelayedFutures(500, futures(2), answers, needed=0).watch_in(purgatory) is True
    assert answers.given == [("completed", 0), ("completed", 2)]


def test_callables_are_tried_when_a_key_is_checked(purgatory: DelayedOperationPurgatory, answers: Answers) -> None:
    """In any mix with futures."""
    ack: Future[Any] = Future()
    offsets = {"high watermark": 0}
    operation = DelayedFutures(500, [ack, lambda: offsets["high watermark"] >= 10], answers)
    operation.watch_in(purgatory, ["partition"])
    ack.set_result(0)
    offsets["high watermark"] = 10
    assert answers.given == []
    assert purgatory.check_and_complete("partition") == 1
    assert answers.given == [("completed", 0)]


@pytest.mark.parametrize("needed", [-1, 3])
def test_quorum_that_cannot_be_is_refused(needed: int) -> None:
    """The message says how many there are."""
    with pytest.raises(InvalidArgumentError, match=f"needed must be from 0 to 2, the number of waits, got {needed}"):
        DelayedFutures(500, futures(2), print, needed=needed)


def test_callables_without_a_key_are_refused(purgatory: DelayedOperationPurgatory) -> None:
    """Nothing would ever try them."""
    with pytest.raises(InvalidArgumentError, match="keys must be given where callables are waited for"):
        DelayedFutures(500, [lambda: True], print).watch_in(purgatory)


def test_string_is_refused_as_keys(purgatory: DelayedOperationPurgatory) -> None:
    """It would be watched letter by letter, and its own check would never find the operation."""
    with pytest.raises(InvalidArgumentError, match="keys must be a list of keys, not one string, got 'partition'"):
        DelayedFutures(500, [lambda: False], print).watch_in(purgatory, "partition")
    assert purgatory.num_delayed == 0


def test_future_that_is_done_after_the_shutdown_harms_nobody(
    purgatory: DelayedOperationPurgatory, answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    """The operation was cancelled; nothing is told, nothing is logged."""
    acks = futures(2)
    operation = DelayedFutures(500, acks, answers)
    operation.watch_in(purgatory)
    assert purgatory.shutdown() == [operation]
    for ack in acks:
        ack.set_result(0)
    assert (answers.given, operation.outcome, caplog.text) == ([], "cancelled", "")
    with pytest.raises(PurgatoryClosedError):
        DelayedFutures(500, futures(1), answers).watch_in(purgatory)


def test_future_that_is_done_during_the_shutdown_harms_nobody(
    make_wheel_purgatory: MakePurgatory, answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    """The purgatory is closed, but has not cancelled the operation yet. Nothing is logged."""
    purgatory = make_wheel_purgatory(shards=1)
    ack: Future[Any] = Future()
    first = Request(cancellation=lambda: ack.set_result(0))
    purgatory.try_complete_else_watch(first, ["a"])
    second = DelayedFutures(500, [ack], answers)
    second.watch_in(purgatory)
    assert purgatory.shutdown() == [first, second]
    assert (ack.done(), answers.given, second.outcome, caplog.text) == (True, [], "cancelled", "")


def test_futures_of_many_threads_complete_every_operation_once(
    purgatory: DelayedOperationPurgatory, crew: Crew, switching: None
) -> None:
    """Each thread sets its replica's acknowledgement of every write, while the writes are being watched."""
    writes, replicas = 100, 3
    acks = [futures(replicas) for _ in range(writes)]
    answers = Answers()

    def acknowledge(replica: int) -> None:
        for write in acks:
            write[replica].set_result(replica)

    for replica in range(replicas):
        crew.start(acknowledge, replica)
    for write in acks:
        DelayedFutures(60_000, write, answers, needed=2).watch_in(purgatory)
    crew.join()
    assert [outcome for outcome, _ in answers.given] == ["completed"] * writes
    assert purgatory.num_delayed == 0
