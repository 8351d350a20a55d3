"""`gather`: waiting for a quorum of futures, by a future."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import sys
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

import request_purgatory
from request_purgatory import (
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    OperationCancelledError,
    PurgatoryClosedError,
    Quorum,
    QuorumFailedError,
    QuorumTimeoutError,
    TaskInUseError,
)
from request_purgatory.purgatory.hold_future import HoldFuture
from request_purgatory.purgatory.quorum import QuorumOperation, _Listener, _listeners
from tests.conftest import MakePurgatory
from tests.support.invariants import check_invariants
from tests.support.requests import Fault, Request
from tests.support.thread_group import ThreadGroup

interpreted_only = pytest.mark.skipif(
    request_purgatory.__compiled__, reason="compiled, an operation's fields are in C only"
)


def futures(count: int) -> list[Future[Any]]:
    """Return futures that are not done."""
    return [Future() for _ in range(count)]


class Answers:
    """What the futures of `gather` became: (how, number of missing futures)."""

    def __init__(self) -> None:
        self.given: list[tuple[str, int]] = []

    def __call__(self, future: Any) -> None:
        if future.cancelled():
            self.given.append(("cancelled", 0))
            return
        error = future.exception()
        if isinstance(error, (QuorumFailedError, QuorumTimeoutError)):
            how = "failed" if isinstance(error, QuorumFailedError) else "expired"
            self.given.append((how, len(error.quorum.missing)))
        elif error is not None:
            self.given.append((type(error).__name__, 0))
        else:
            self.given.append(("completed", len(future.result().missing)))


@pytest.fixture
def answers() -> Answers:
    """Answers, none yet."""
    return Answers()


def gather(
    purgatory: DelayedOperationPurgatory,
    acks: Sequence[Any],
    answers: Callable[[Any], object],
    quorum: int | None = None,
) -> Future[Quorum]:
    """Gather `acks` within 500 ms, and note what becomes of the future."""
    future = purgatory.gather(acks, quorum=quorum, timeout=0.5)
    future.add_done_callback(answers)
    return future


def test_all_futures_are_needed_unless_a_quorum_is_given(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    acks = futures(3)
    gathered = gather(purgatory, acks, answers)
    acks[0].set_result(0)
    acks[2].set_result(0)
    assert (answers.given, purgatory.num_delayed) == ([], 1)
    acks[1].set_result(0)
    assert (answers.given, purgatory.num_delayed) == ([("completed", 0)], 0)
    assert gathered.result(0) == Quorum(succeeded=tuple(acks), failed=(), missing=())
    check_invariants(purgatory)


def test_futures_after_the_quorum_change_nothing(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    acks = futures(3)
    gathered = gather(purgatory, acks, answers, quorum=2)
    for ack in acks:
        ack.set_result(0)
    assert answers.given == [("completed", 1)]
    assert gathered.result(0).missing == (acks[2],)


@pytest.mark.parametrize("done", [0, 1, 2])
def test_futures_that_are_done_already_count(
    purgatory: DelayedOperationPurgatory, answers: Answers, done: int
) -> None:
    acks = futures(2)
    for ack in acks[:done]:
        ack.set_result(0)
    assert gather(purgatory, acks, answers).done() is (done == 2)
    assert answers.given == ([("completed", 0)] if done == 2 else [])


def test_future_that_is_done_while_a_listener_is_added_is_not_missed(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    ack: Future[Any] = Future()

    class Late:
        """Is not done at the first look, and is done once a callback is added."""

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

    done: Future[Any] = Future()
    done.set_result(0)
    gather(purgatory, [done, Late()], answers)
    assert answers.given == [("completed", 0)]


def test_timeout_reports_the_missing_futures(
    purgatory: DelayedOperationPurgatory, clock: ManualClock, answers: Answers
) -> None:
    acks = futures(3)
    gathered = gather(purgatory, acks, answers)
    acks[0].set_result(0)
    clock.advance(500)
    purgatory.advance_clock(0)
    acks[1].set_result(0)
    acks[2].set_result(0)
    assert answers.given == [("expired", 2)]
    error = gathered.exception(0)
    assert isinstance(error, TimeoutError)
    assert isinstance(error, QuorumTimeoutError)
    assert str(error) == "1 of 3 needed futures succeeded within 500 ms"
    assert (error.needed, error.quorum.succeeded) == (3, (acks[0],))


def test_nothing_to_wait_for_completes_at_once(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    gather(purgatory, [], answers)
    gather(purgatory, futures(2), answers, quorum=0)
    assert answers.given == [("completed", 0), ("completed", 2)]


@pytest.mark.parametrize("quorum", [-1, 3])
def test_impossible_quorum_is_refused(purgatory: DelayedOperationPurgatory, quorum: int) -> None:
    with pytest.raises(
        InvalidArgumentError,
        match=f"quorum must be from 0 to 2, the number of futures, got {quorum}",
    ):
        purgatory.gather(futures(2), quorum=quorum)
    assert purgatory.num_delayed == 0


def test_what_is_no_future_is_refused(purgatory: DelayedOperationPurgatory) -> None:
    async def acknowledge() -> None: ...

    coroutine, (ack,) = acknowledge(), futures(1)
    with pytest.raises(
        InvalidArgumentError,
        match=r"futures must be futures or tasks, no coroutines, got <coroutine .*acknowledge",
    ):
        purgatory.gather([ack, coroutine], timeout=5)  # type: ignore[list-item]
    coroutine.close()
    assert purgatory.num_delayed == 0
    assert ack._done_callbacks == []


def test_future_that_is_done_after_the_close_changes_nothing(
    purgatory: DelayedOperationPurgatory, answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    acks = futures(2)
    gather(purgatory, acks, answers)
    assert len(purgatory.close()) == 1
    for ack in acks:
        ack.set_result(0)
    assert (answers.given, caplog.text) == ([("PurgatoryClosedError", 0)], "")
    with pytest.raises(PurgatoryClosedError):
        gather(purgatory, futures(1), answers)


def test_future_that_is_done_during_the_close_changes_nothing(
    make_wheel_purgatory: MakePurgatory, answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    purgatory = make_wheel_purgatory(shards=1)
    ack: Future[Any] = Future()
    first = Request(cancellation=lambda: ack.set_result(0))
    purgatory.try_complete_else_watch(first, ["a"])
    gather(purgatory, [ack], answers)
    assert len(purgatory.close()) == 2
    assert (ack.done(), answers.given, caplog.text) == (True, [("PurgatoryClosedError", 0)], "")


def test_futures_of_many_threads_complete_every_operation_once(
    purgatory: DelayedOperationPurgatory, thread_group: ThreadGroup, switching: None
) -> None:
    writes, replicas = 100, 3
    acks = [futures(replicas) for _ in range(writes)]
    answers = Answers()

    def acknowledge(replica: int) -> None:
        for write in acks:
            write[replica].set_result(replica)

    for replica in range(replicas):
        thread_group.start(acknowledge, replica)
    for write in acks:
        purgatory.gather(write, quorum=2, timeout=60).add_done_callback(answers)
    thread_group.join()
    assert [how for how, _ in answers.given] == ["completed"] * writes
    assert purgatory.num_delayed == 0


# -- successes and failures


def end(ack: Any, how: str) -> None:
    """Let a future succeed ("+"), raise ("-") or be cancelled ("x")."""
    if how == "+":
        ack.set_result(0)
    elif how == "-":
        ack.set_exception(Fault())
    else:
        ack.cancel()


@pytest.mark.parametrize(
    ("ends", "how"),
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
    purgatory: DelayedOperationPurgatory, answers: Answers, ends: str, how: str
) -> None:
    acks = futures(3)
    gathered = gather(purgatory, acks, answers, quorum=2)
    for ack, each in zip(acks, ends, strict=False):
        assert (answers.given, purgatory.num_delayed, gathered.done()) == ([], 1, False)
        end(ack, each)
    assert answers.given == [(how, 3 - len(ends))]
    error = gathered.exception(0)
    assert isinstance(error, QuorumFailedError) == (how == "failed")
    quorum = error.quorum if isinstance(error, QuorumFailedError) else gathered.result(0)
    assert quorum.succeeded == tuple(
        ack for ack, each in zip(acks, ends, strict=False) if each == "+"
    )
    assert quorum.failed == tuple(ack for ack, each in zip(acks, ends, strict=False) if each != "+")
    assert (quorum.missing, purgatory.num_delayed) == (tuple(acks[len(ends) :]), 0)
    check_invariants(purgatory)


def test_error_of_a_failed_quorum_has_the_counts(purgatory: DelayedOperationPurgatory) -> None:
    acks = futures(3)
    gathered = purgatory.gather(acks, quorum=2)
    for ack, how in zip(acks, "+-x", strict=True):
        end(ack, how)
    with pytest.raises(
        QuorumFailedError,
        match="2 futures failed and 1 succeeded, so a quorum of 2 is out of reach",
    ) as raised:
        gathered.result(0)
    assert raised.value.needed == 2


@pytest.mark.parametrize(("ends", "how"), [("++", "completed"), ("-x", "failed"), ("+-", None)])
def test_quorum_is_decided_at_once_by_futures_that_are_done(
    purgatory: DelayedOperationPurgatory, answers: Answers, ends: str, how: str | None
) -> None:
    acks = futures(3)
    for ack, each in zip(acks, ends, strict=False):
        end(ack, each)
    assert gather(purgatory, acks, answers, quorum=2).done() is (how is not None)
    assert answers.given == ([(how, 1)] if how else [])


@pytest.mark.parametrize("quorum", [0.5, "1"])
def test_quorum_is_a_whole_number(purgatory: DelayedOperationPurgatory, quorum: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="quorum must be a whole number"):
        purgatory.gather(futures(2), quorum=quorum)


def test_errors_of_a_quorum_can_be_copied() -> None:
    quorum = Quorum((), (), ())
    for error in (QuorumFailedError(2, quorum), QuorumTimeoutError(2, quorum, 5)):
        copied = copy.copy(error)
        assert (str(copied), copied.needed, copied.quorum) == (str(error), 2, quorum)


class Asked(Future[Any]):
    """Counts how often it is asked whether it is done."""

    times = 0

    def done(self) -> bool:
        self.times += 1
        return super().done()


def test_each_future_is_asked_a_few_times_however_many_end(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    acks = [Asked() for _ in range(100)]
    gather(purgatory, acks, answers)
    for ack in acks:
        end(ack, "+")
    assert answers.given == [("completed", 0)]
    assert max(ack.times for ack in acks) <= 5


def test_future_that_was_given_twice_counts_twice(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    acks = futures(2)
    gather(purgatory, [acks[0], acks[0], acks[1]], answers, quorum=2)
    end(acks[0], "+")
    assert answers.given == [("completed", 1)]


def test_future_beside_one_that_was_given_twice_counts_once(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    acks = futures(2)
    gather(purgatory, [acks[0], acks[0], acks[1]], answers, quorum=2)
    end(acks[1], "+")
    assert answers.given == []
    end(acks[0], "+")
    assert answers.given == [("completed", 0)]


def test_future_with_the_id_of_an_earlier_one_is_listened_to(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    earlier, later = futures(2)
    listener = _Listener.of(earlier)
    _listeners[id(later)] = weakref.ref(listener)
    gather(purgatory, [later], answers)
    end(later, "+")
    assert answers.given == [("completed", 0)]


class Strange:
    """A future that calls back with something else than itself."""

    def __init__(self) -> None:
        self.ended = False
        self.callbacks: list[Callable[[Any], object]] = []

    def done(self) -> bool:
        return self.ended

    def cancelled(self) -> bool:
        return False

    def exception(self) -> None:
        return None

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        self.callbacks.append(callback)


def test_future_that_calls_back_with_something_else_is_looked_at(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    strange = Strange()
    (ack,) = futures(1)
    gather(purgatory, [strange, ack], answers)
    strange.ended = True
    strange.callbacks[0](None)
    end(ack, "+")
    assert answers.given == [("completed", 0)]


# -- every end is reported


@pytest.mark.parametrize("cancel", ["the operation's cancel", "discard", "close", "its owner"])
def test_every_cancellation_ends_the_future(
    purgatory: DelayedOperationPurgatory, answers: Answers, cancel: str
) -> None:
    acks = futures(2)
    gathered = gather(purgatory, acks, answers, quorum=1)
    (operation,) = purgatory.operations()
    if cancel == "discard":
        assert purgatory._discard(operation)
    elif cancel == "close":
        assert purgatory.close() == [operation]
    elif cancel == "its owner":
        assert gathered.cancel()
    else:
        assert operation.cancel()
    assert operation.cancel() is operation.force_complete() is False
    acks[0].set_result(0)
    expected = {"close": "PurgatoryClosedError", "its owner": "cancelled"}
    assert answers.given == [(expected.get(cancel, OperationCancelledError.__name__), 0)]


def test_exit_out_of_a_callback_harms_no_other_operation_of_the_future(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    class Interrupting(QuorumOperation):
        def on_complete(self) -> None:
            raise KeyboardInterrupt

    ack: Future[Any] = Future()
    Interrupting((ack,), None, 500, HoldFuture()).watch_in(purgatory)
    gather(purgatory, [ack], answers)
    with pytest.raises(KeyboardInterrupt):
        ack.set_result(0)
    assert (answers.given, purgatory.num_delayed) == ([("completed", 0)], 0)


# -- nothing stays attached to a future


def callbacks_of(future: Future[Any]) -> int:
    """Return the number of callbacks of a future."""
    callbacks: list[object] = future._done_callbacks  # type: ignore[attr-defined]
    return len(callbacks)


def test_operations_that_ended_do_not_pile_up_on_a_long_lived_future(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    purgatory = make_wheel_purgatory()
    closing: Future[Any] = Future()
    answers = Answers()
    ghosts: list[weakref.ref[object]] = []
    gc.collect()
    blocks = sys.getallocatedblocks()
    for number in range(20_000):
        short: Future[Any] = Future()
        gathered = gather(purgatory, [closing, short], answers, quorum=1)
        if number % 1_000 == 0:
            ghosts.append(weakref.ref(gathered))
        if number % 3 == 0:
            short.set_result(0)
        elif number % 3 == 1:
            clock.advance(500)
            purgatory.advance_clock(0)
        else:
            gathered.cancel()
        assert gathered.done()
    assert {how for how, _ in answers.given} == {"completed", "expired", "cancelled"}
    answers.given.clear()
    del gathered, short
    purgatory.purge()
    gc.collect()
    assert callbacks_of(closing) == 1
    assert [ghost() for ghost in ghosts] == [None] * 20
    # The compiled core keeps 1,024 freed watches for use again. Each operation alone is a dozen
    # blocks.
    assert sys.getallocatedblocks() - blocks < 5_000
    assert purgatory.watched == 0


@pytest.mark.parametrize("refusal", ["closed", "ended"])
def test_operation_that_never_waited_is_not_attached(
    make_wheel_purgatory: MakePurgatory, refusal: str
) -> None:
    class Referable(QuorumOperation):
        """A class of Python, which allows weak references."""

    purgatory = make_wheel_purgatory()
    ack: Future[Any] = Future()
    answer: HoldFuture[Quorum] = HoldFuture()
    operation = Referable((ack,), None, 500, answer)
    if refusal == "closed":
        purgatory.close()
        with pytest.raises(PurgatoryClosedError):
            operation.watch_in(purgatory)
    else:
        operation.cancel()
        operation.watch_in(purgatory)
    assert answer.done() is (refusal == "ended")
    ghosts: list[weakref.ref[object]] = [weakref.ref(answer), weakref.ref(operation)]
    del operation, answer
    purgatory.purge()
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None, None]
    ack.set_result(0)


def test_second_watch_leaves_the_first_intact(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    ack: Future[Any] = Future()
    gather(purgatory, [ack], answers)
    (operation,) = purgatory.operations()
    assert isinstance(operation, QuorumOperation)
    with pytest.raises(TaskInUseError):
        operation.watch_in(purgatory)
    ack.set_result(0)
    assert answers.given == [("completed", 0)]


def test_dropped_future_takes_its_listener_along(purgatory: DelayedOperationPurgatory) -> None:
    gc.collect()
    gc.disable()
    try:
        ack: Future[Any] = Future()
        purgatory.gather([ack], timeout=0.5).cancel()
        purgatory.purge()
        ghosts = [weakref.ref(ack), weakref.ref(ack._done_callbacks[0])]  # type: ignore[attr-defined]
        del ack
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
    ack = Plain()
    for _ in range(2):
        gather(purgatory, [ack], answers)
    assert callbacks_of(ack.future) == 2
    ack.future.set_result(0)
    assert answers.given == [("completed", 0)] * 2


def test_future_that_ends_before_the_first_try_is_left_to_that_try(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    first: Future[Any] = Future()

    class Second(Plain):
        def add_done_callback(self, callback: Callable[[Any], object]) -> None:
            first.set_result(0)

    assert gather(purgatory, [first, Second()], answers, quorum=1).done()
    assert answers.given == [("completed", 1)]


# -- futures of asyncio


def test_futures_that_were_done_count_with_one_that_ends_before_the_first_try(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    done, first, last = futures(3)
    done.set_result(0)

    class Ending(Plain):
        """Ends another future while the operation enters its listener."""

        def add_done_callback(self, callback: Callable[[Any], object]) -> None:
            first.set_result(0)
            super().add_done_callback(callback)

    gather(purgatory, [done, first, Ending(), last], answers, quorum=2)
    assert answers.given == [("completed", 2)]


@interpreted_only
def test_end_that_finds_no_memory_to_be_noted_is_looked_for(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    class Exhausted(list[Any]):
        """Has no memory for one future."""

        def append(self, future: Any) -> None:
            if future is acks[0]:
                raise MemoryError
            super().append(future)

    class Busy(Strange):
        """While it is looked at, other futures end."""

        def done(self) -> bool:
            if ends:
                ends.clear()
                for ack in acks:
                    ack.set_result(0)
            return False

    ends: list[bool] = []
    acks = futures(2)
    gather(purgatory, [*acks, Busy()], answers, quorum=2)
    (operation,) = purgatory.operations()
    assert isinstance(operation, QuorumOperation)
    operation._new = Exhausted()
    ends.append(True)
    purgatory.check_and_complete(operation)
    assert answers.given == [("completed", 1)]


@interpreted_only
def test_future_that_raises_hides_no_other_one_from_the_next_look(
    purgatory: DelayedOperationPurgatory, answers: Answers
) -> None:
    class Raced(list[Any]):
        """After a look at its length another future ends, as on another thread."""

        def __len__(self) -> int:
            length = super().__len__()
            if late and operation._num_seen == 1:
                late.pop().set_result(0)
            return length

    class Raising(Strange):
        """Raises at one look, during which another future ends."""

        def done(self) -> bool:
            if early:
                early.pop().set_result(0)
                raise Fault
            return False

    early: list[Future[Any]] = []
    late: list[Future[Any]] = []
    silent, acks = Strange(), futures(2)
    gather(purgatory, [Raising(), silent, *acks], answers, quorum=3)
    (operation,) = purgatory.operations()
    assert isinstance(operation, QuorumOperation)
    operation._new = Raced()
    silent.ended = True
    early.append(acks[0])
    late.append(acks[1])
    purgatory.check_and_complete(operation)
    assert answers.given == [("completed", 1)]


def test_futures_of_asyncio_have_one_callback_too(purgatory: DelayedOperationPurgatory) -> None:
    setting: contextvars.ContextVar[object] = contextvars.ContextVar("setting")

    class Setting:
        """What a caller has in its context."""

    async def serve() -> list[tuple[str, int]]:
        answers = Answers()
        loop = asyncio.get_running_loop()
        closing: asyncio.Future[Any] = loop.create_future()

        def wait(quorum: int) -> asyncio.Future[Any]:
            setting.set(Setting())
            ghosts.append(weakref.ref(setting.get()))
            ack: asyncio.Future[Any] = loop.create_future()
            gather(purgatory, [closing, ack], answers, quorum=quorum)
            return ack

        ghosts: list[weakref.ref[object]] = []
        acks = [contextvars.copy_context().run(wait, quorum) for quorum in (1, 2, 2, 2)]
        assert [ghost() for ghost in ghosts] == [None] * 4
        assert len(closing._callbacks) == 1  # type: ignore[attr-defined]
        acks[0].set_result(0)
        acks[1].set_exception(Fault())
        acks[2].cancel()
        await asyncio.sleep(0)
        assert sorted(answers.given) == [("completed", 1), ("failed", 1), ("failed", 1)]
        acks[3].set_result(0)
        closing.set_result(0)
        await asyncio.sleep(0)
        return answers.given[3:]

    assert asyncio.run(serve()) == [("completed", 0)]


# -- threads


def test_operations_share_a_future_among_threads(
    make_wheel_purgatory: MakePurgatory, thread_group: ThreadGroup, switching: None
) -> None:
    purgatory = make_wheel_purgatory()
    for _ in range(20):
        shared: Future[Any] = Future()
        answers = [Answers() for _ in range(90)]

        def wait(part: int, shared: Future[Any] = shared, answers: list[Answers] = answers) -> None:
            for number in range(part, len(answers), 3):
                gathered = purgatory.gather([shared, Future()], quorum=1, timeout=60)
                gathered.add_done_callback(answers[number])
                if number % 2:
                    gathered.cancel()

        threads = [thread_group.start(wait, part) for part in range(3)]
        thread_group.start(shared.set_result, 0)
        for thread in threads:
            thread.join()
        thread_group.join()
        for number, answer in enumerate(answers):
            assert len(answer.given) == 1
            assert answer.given[0][0] in (
                ("completed", "cancelled") if number % 2 else ("completed",)
            )
        assert callbacks_of(shared) <= 3
    assert purgatory.num_delayed == 0
