"""Delayed futures: waiting for all of several futures and callables, or for a quorum."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from request_purgatory import (
    DelayedFutures,
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    PurgatoryClosedError,
    TaskInUseError,
)
from tests.conftest import MakePurgatory
from tests.support.requests import Fault, Request
from tests.support.thread_group import Crew


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


def test_all_futures_are_needed_unless_told_otherwise(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
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


def test_future_is_done_however_it_ended(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    """With a result, with an exception, or cancelled."""
    acks = futures(3)
    DelayedFutures(500, acks, answers).watch_in(purgatory)
    acks[0].set_result(0)
    acks[1].set_exception(Fault())
    acks[2].cancel()
    assert answers.given == [("completed", 0)]


@pytest.mark.parametrize("done", [0, 1, 2])
def test_futures_that_are_done_already_count(
    purgatory: DelayedOperationPurgatory, answers: Answers, done: int
) -> None:
    """True if that is enough."""
    acks = futures(2)
    for ack in acks[:done]:
        ack.set_result(0)
    assert DelayedFutures(500, acks, answers).watch_in(purgatory) is (done == 2)
    assert answers.given == ([("completed", 0)] if done == 2 else [])


def test_future_that_is_done_as_it_is_listened_to_is_not_missed(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    """Its callback finds nobody waiting yet; the try comes after that."""
    ack: Future[Any] = Future()

    class Late:
        """Is not done at the first look; it is by the time that somebody asks to be told."""

        looks = 0

        def done(self) -> bool:
            self.looks += 1
            return self.looks > 1 and ack.done()

        def cancelled(self) -> bool:
            return ack.cancelled()

        def exception(self) -> BaseException | None:
            return ack.exception()

        def add_done_callback(self, callback: Any) -> None:
            ack.set_result(0)
            ack.add_done_callback(callback)

    DelayedFutures(500, [Late()], answers).watch_in(purgatory)
    assert answers.given == [("completed", 0)]


def test_time_runs_out_for_missing_futures(
    purgatory: DelayedOperationPurgatory, clock: ManualClock, answers: Answers
) -> None:
    """on_done hears of that too, once; futures that come later are ignored."""
    acks = futures(3)
    DelayedFutures(500, acks, answers).watch_in(purgatory)
    acks[0].set_result(0)
    clock.advance(500)
    purgatory.advance_clock(0)
    acks[1].set_result(0)
    acks[2].set_result(0)
    assert answers.given == [("expired", 2)]


def test_nothing_to_wait_for_completes_at_once(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    """Neither with no waits, nor with a quorum of none."""
    assert DelayedFutures(500, [], answers).watch_in(purgatory) is True
    assert DelayedFutures(500, futures(2), answers, needed=0).watch_in(purgatory) is True
    assert answers.given == [("completed", 0), ("completed", 2)]


def test_callables_are_tried_when_a_key_is_checked(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
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
    with pytest.raises(
        InvalidArgumentError, match=f"needed must be from 0 to 2, the number of waits, got {needed}"
    ):
        DelayedFutures(500, futures(2), print, needed=needed)


def test_callables_without_a_key_are_refused(purgatory: DelayedOperationPurgatory) -> None:
    """Nothing would ever try them."""
    with pytest.raises(
        InvalidArgumentError, match="keys must be given where callables are waited for"
    ):
        DelayedFutures(500, [lambda: True], print).watch_in(purgatory)


def test_string_is_refused_as_keys(purgatory: DelayedOperationPurgatory) -> None:
    """It would be watched letter by letter, and its own check would never find the operation."""
    with pytest.raises(
        InvalidArgumentError, match="keys must be a list of keys, not one string, got 'partition'"
    ):
        DelayedFutures(500, [lambda: False], print).watch_in(purgatory, "partition")
    assert purgatory.num_delayed == 0


def test_future_that_is_done_after_the_shutdown_harms_nobody(
    purgatory: DelayedOperationPurgatory, answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    """The operation was cancelled, and on_done called then. Nothing more is called or logged."""
    acks = futures(2)
    operation = DelayedFutures(500, acks, answers)
    operation.watch_in(purgatory)
    assert purgatory.shutdown() == [operation]
    for ack in acks:
        ack.set_result(0)
    assert (answers.given, operation.outcome, caplog.text) == ([("cancelled", 2)], "cancelled", "")
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
    assert (ack.done(), answers.given, second.outcome, caplog.text) == (
        True,
        [("cancelled", 0)],
        "cancelled",
        "",
    )


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


# -- quorums of successes


def end(ack: Future[Any], how: str) -> None:
    """Let a future succeed ("+"), raise ("-") or be cancelled ("x")."""
    if how == "+":
        ack.set_result(0)
    elif how == "-":
        ack.set_exception(Fault())
    else:
        ack.cancel()


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        ("++", "completed"),
        ("+-+", "completed"),
        ("x++", "completed"),
        ("--", "failed"),
        ("xx", "failed"),
        ("+-x", "failed"),
    ],
)
def test_quorum_counts_successes(
    purgatory: DelayedOperationPurgatory, answers: Answers, ends: str, outcome: str
) -> None:
    """It ends with the second success, or with the second failure, after which two of three are out of reach."""
    acks = futures(3)
    operation = DelayedFutures(500, acks, answers, quorum=2)
    operation.watch_in(purgatory)
    for ack, how in zip(acks, ends, strict=False):
        assert (answers.given, purgatory.num_delayed, operation.outcome) == ([], 1, None)
        end(ack, how)
    assert answers.given == [(outcome, 3 - len(ends))]
    assert operation.succeeded == [ack for ack, how in zip(acks, ends, strict=False) if how == "+"]
    assert operation.failed == [ack for ack, how in zip(acks, ends, strict=False) if how != "+"]
    assert (operation.missing, purgatory.num_delayed) == (acks[len(ends) :], 0)
    assert ("failed" in repr(operation)) == (outcome == "failed")
    purgatory.check()


@pytest.mark.parametrize(("ends", "outcome"), [("++", "completed"), ("-x", "failed"), ("+-", None)])
def test_quorum_is_decided_at_once_by_futures_that_are_done(
    purgatory: DelayedOperationPurgatory, answers: Answers, ends: str, outcome: str | None
) -> None:
    """Either way the call says that the operation has ended."""
    acks = futures(3)
    for ack, how in zip(acks, ends, strict=False):
        end(ack, how)
    assert DelayedFutures(500, acks, answers, quorum=2).watch_in(purgatory) is (outcome is not None)
    assert answers.given == ([(outcome, 1)] if outcome else [])


def test_callables_belong_to_a_quorum(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    """They succeed and never fail.

    With one callable left, one failure does not put two of three out of reach.
    """
    acks: list[Future[Any]] = futures(2)
    stored: list[str] = []
    on_disk: Callable[[], object] = lambda: stored  # noqa: E731
    operation = DelayedFutures(500, [*acks, on_disk], answers, quorum=2)
    operation.watch_in(purgatory, ["disk"])
    acks[0].set_exception(Fault())
    acks[1].set_result(0)
    stored.append("record")
    assert (answers.given, operation.missing) == ([], [on_disk])  # No event of the disk's yet.
    purgatory.check_and_complete("disk")
    assert (answers.given, operation.succeeded) == ([("completed", 0)], [acks[1], on_disk])
    stored.clear()
    assert operation.succeeded == [acks[1], on_disk]


def test_all_may_be_needed_to_succeed(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    """The first failure ends that. A quorum of none is reached by nothing."""
    acks = futures(3)
    DelayedFutures(500, acks, answers, quorum=3).watch_in(purgatory)
    acks[1].set_exception(Fault())
    assert DelayedFutures(500, acks, answers, quorum=0).watch_in(purgatory) is True
    assert answers.given == [("failed", 2), ("completed", 2)]


def test_futures_do_not_change_sides_after_the_end(
    purgatory: DelayedOperationPurgatory, clock: ManualClock, answers: Answers
) -> None:
    """While the operation is pending its lists follow the futures.

    From its end on they stand still.
    """
    acks = futures(3)
    operation = DelayedFutures(500, acks, answers)
    operation.watch_in(purgatory)
    assert (operation.succeeded, operation.failed, operation.missing) == ([], [], acks)
    acks[0].set_result(0)
    acks[1].cancel()
    assert (operation.succeeded, operation.failed, operation.missing) == (
        [acks[0]],
        [acks[1]],
        [acks[2]],
    )
    clock.advance(500)
    purgatory.advance_clock(0)
    acks[2].set_result(0)
    assert (operation.succeeded, operation.failed, operation.missing) == (
        [acks[0]],
        [acks[1]],
        [acks[2]],
    )
    assert answers.given == [("expired", 1)]


def test_quorum_and_needed_together_are_refused() -> None:
    """They count different things."""
    with pytest.raises(
        InvalidArgumentError, match="quorum must be left out where needed is given, got 1"
    ):
        DelayedFutures(500, futures(2), print, needed=2, quorum=1)
    with pytest.raises(
        InvalidArgumentError, match="quorum must be from 0 to 2, the number of waits, got 3"
    ):
        DelayedFutures(500, futures(2), print, quorum=3)


# -- every end is told


@pytest.mark.parametrize("cancel", ["its own cancel", "discard", "shutdown"])
def test_on_done_hears_of_a_cancellation(
    purgatory: DelayedOperationPurgatory, answers: Answers, cancel: str
) -> None:
    """Once, whoever cancelled, so that nothing built on it hangs."""
    acks = futures(2)
    operation = DelayedFutures(500, acks, answers, quorum=1)
    operation.watch_in(purgatory)
    if cancel == "discard":
        assert purgatory.discard(operation)
    else:
        assert (
            operation.cancel()
            if cancel == "its own cancel"
            else purgatory.shutdown() == [operation]
        )
    assert operation.cancel() is operation.force_complete() is False
    acks[0].set_result(0)
    assert answers.given == [("cancelled", 2)]


def test_on_done_that_raises_harms_no_other_operation_of_its_future(
    purgatory: DelayedOperationPurgatory, answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    """Even KeyboardInterrupt reaches the thread of the future only after the others were tried."""

    def interrupt(_operation: DelayedFutures) -> None:
        raise KeyboardInterrupt

    def fail(_operation: DelayedFutures) -> None:
        raise Fault

    ack: Future[Any] = Future()
    for on_done in (fail, interrupt, answers):
        DelayedFutures(500, [ack], on_done).watch_in(purgatory)
    with pytest.raises(KeyboardInterrupt):
        ack.set_result(0)
    assert (answers.given, purgatory.num_delayed) == ([("completed", 0)], 0)
    assert caplog.text.count("raised") == 1


# -- nothing stays attached to a future


def callbacks_of(future: Future[Any]) -> int:
    """How many callbacks a future has."""
    callbacks: list[object] = future._done_callbacks  # type: ignore[attr-defined]
    return len(callbacks)


def complete(
    operation: DelayedFutures, _purgatory: DelayedOperationPurgatory, _clock: ManualClock
) -> None:
    """Let the short-lived future of an operation complete it."""
    operation.missing[1].set_result(0)  # type: ignore[union-attr]


def expire(
    _operation: DelayedFutures, purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    """Let time run out."""
    clock.advance(500)
    purgatory.advance_clock(0)


def cancel(
    operation: DelayedFutures, purgatory: DelayedOperationPurgatory, _clock: ManualClock
) -> None:
    """Cancel the operation."""
    purgatory.discard(operation)


def test_operations_that_ended_do_not_pile_up_on_a_long_lived_future(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    """20,000 of them leave one callback, and no operation."""
    purgatory = make_wheel_purgatory()
    closing: Future[Any] = Future()
    ended: set[str | None] = set()
    ghosts: list[weakref.ref[object]] = []
    gc.collect()
    blocks = sys.getallocatedblocks()
    for number in range(20_000):

        def on_done(operation: DelayedFutures) -> None:
            ended.add(operation.outcome)

        operation = DelayedFutures(500, [closing, Future()], on_done, needed=1)
        operation.watch_in(purgatory)
        if number % 1_000 == 0:
            ghosts.append(weakref.ref(on_done))
        (complete, expire, cancel)[number % 3](operation, purgatory, clock)
        assert operation.is_completed
    del operation, on_done
    purgatory.purge()
    gc.collect()
    assert (ended, callbacks_of(closing)) == ({"completed", "expired", "cancelled"}, 1)
    assert [ghost() for ghost in ghosts] == [None] * 20
    # The compiled core keeps 1,024 freed watches for use again. Each operation alone is a dozen
    # blocks.
    assert sys.getallocatedblocks() - blocks < 5_000
    assert purgatory.watched == 0


@pytest.mark.parametrize("refusal", ["closed", "ended"])
def test_operation_that_never_waited_is_not_attached(
    make_wheel_purgatory: MakePurgatory, answers: Answers, refusal: str
) -> None:
    """The purgatory was closed, or the operation was over before it came."""
    purgatory = make_wheel_purgatory()
    ack: Future[Any] = Future()
    operation = DelayedFutures(500, [ack], answers)
    if refusal == "closed":
        purgatory.shutdown()
        with pytest.raises(PurgatoryClosedError):
            operation.watch_in(purgatory)
    else:
        operation.cancel()
        operation.watch_in(purgatory)
    ghost = weakref.ref(answers)
    told = answers.given
    assert len(told) == (refusal == "ended")
    del operation, answers
    purgatory.purge()
    gc.collect()
    if ghost() is not None:  # The fixture's own reference.
        assert not [one for one in gc.get_referrers(ghost()) if isinstance(one, DelayedFutures)]
    ack.set_result(0)
    assert len(told) == (refusal == "ended")


def test_second_watch_harms_the_first_in_nothing(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    """It is refused, and the operation still hears of its future."""
    ack: Future[Any] = Future()
    operation = DelayedFutures(500, [ack], answers)
    operation.watch_in(purgatory)
    with pytest.raises(TaskInUseError):
        operation.watch_in(purgatory)
    ack.set_result(0)
    assert answers.given == [("completed", 0)]


def test_dropped_future_takes_its_listener_along(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    """A future that never ends is no leak, and needs no collector once nobody waits for it."""
    gc.collect()
    gc.disable()
    try:
        ack: Future[Any] = Future()
        operation = DelayedFutures(500, [ack], answers)
        operation.watch_in(purgatory)
        purgatory.discard(operation)
        purgatory.purge()
        ghosts = [weakref.ref(ack), weakref.ref(ack._done_callbacks[0])]  # type: ignore[attr-defined]
        del ack, operation
        assert [ghost() for ghost in ghosts] == [None, None]
    finally:
        gc.enable()


class Plain:
    """A future that allows no weak reference, around one that does."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: Future[Any] = Future()

    def done(self) -> bool:
        return self.future.done()

    def cancelled(self) -> bool:
        return self.future.cancelled()

    def exception(self) -> BaseException | None:
        return self.future.exception()

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        self.future.add_done_callback(callback)


def test_future_without_weak_references_has_a_callback_for_each_operation(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    """Which is a small one, once its operation has ended."""
    ack = Plain()
    for _ in range(2):
        DelayedFutures(500, [ack], answers).watch_in(purgatory)
    assert callbacks_of(ack.future) == 2
    ack.future.set_result(0)
    assert answers.given == [("completed", 0)] * 2


def test_future_that_ends_before_the_first_try_is_left_to_that_try(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    """The operation has entered the first future's listener, but no purgatory."""
    first: Future[Any] = Future()

    class Second(Plain):
        def add_done_callback(self, callback: Callable[[Any], object]) -> None:
            first.set_result(0)

    assert DelayedFutures(500, [first, Second()], answers, needed=1).watch_in(purgatory) is True
    assert answers.given == [("completed", 1)]


# -- futures of asyncio


def test_futures_of_asyncio_have_one_callback_too(purgatory: DelayedOperationPurgatory) -> None:
    """Which keeps nobody's context, and is called by the loop."""
    setting: contextvars.ContextVar[object] = contextvars.ContextVar("setting")

    class Setting:
        """What a caller has in its context."""

    async def serve() -> list[tuple[str | None, int]]:
        answers = Answers()
        loop = asyncio.get_running_loop()
        closing: asyncio.Future[Any] = loop.create_future()

        def wait(quorum: int) -> asyncio.Future[Any]:
            setting.set(Setting())
            ghosts.append(weakref.ref(setting.get()))
            ack = loop.create_future()
            DelayedFutures(500, [closing, ack], answers, quorum=quorum).watch_in(purgatory)
            return ack

        ghosts: list[weakref.ref[object]] = []
        acks = [contextvars.copy_context().run(wait, quorum) for quorum in (1, 1, 2, 2)]
        assert [ghost() for ghost in ghosts] == [None] * 4
        assert len(closing._callbacks) == 1
        acks[0].set_result(0)
        acks[1].set_exception(Fault())
        acks[2].cancel()
        await asyncio.sleep(0)
        assert answers.given == [("completed", 1), ("failed", 1)]
        acks[3].set_result(0)
        closing.set_result(0)
        await asyncio.sleep(0)
        return answers.given[2:]

    assert sorted(asyncio.run(serve()), key=str) == [("completed", 0)] * 2


# -- threads


def test_operations_share_a_future_among_threads(
    make_wheel_purgatory: MakePurgatory, crew: Crew, switching: None
) -> None:
    """Some wait, some end, and the shared future ends meanwhile.

    Each operation is answered once.
    """
    purgatory = make_wheel_purgatory()
    for _ in range(20):
        shared: Future[Any] = Future()
        answers = [Answers() for _ in range(90)]

        def wait(part: int, shared: Future[Any] = shared, answers: list[Answers] = answers) -> None:
            for number in range(part, len(answers), 3):
                operation = DelayedFutures(60_000, [shared, Future()], answers[number], quorum=1)
                operation.watch_in(purgatory)
                if number % 2:
                    operation.cancel()

        threads = [crew.start(wait, part) for part in range(3)]
        crew.start(shared.set_result, 0)
        for thread in threads:
            thread.join()
        crew.join()
        for number, answer in enumerate(answers):
            assert len(answer.given) == 1
            assert answer.given[0][0] in (
                ("completed", "cancelled") if number % 2 else ("completed",)
            )
        assert callbacks_of(shared) <= 3
    assert purgatory.num_delayed == 0
