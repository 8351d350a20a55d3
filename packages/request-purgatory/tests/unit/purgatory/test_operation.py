"""The delayed operation by itself: one end, one try at a time."""

from __future__ import annotations

import copy
import logging
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    NotCompletedError,
    NotificationLoopError,
    NotInitializedError,
    SystemTimer,
    TaskInUseError,
    TimerTask,
)
from request_purgatory._native import primitives, states
from request_purgatory.purgatory.operation import OperationHost
from tests.support.interleaving import interleave_tasks, interpreted_only
from tests.support.invariants import check_invariants
from tests.support.requests import Fault, Request, fail
from tests.support.thread_group import ThreadGroup

TIME_LIMIT = 20.0


def test_new_operation_is_pending() -> None:
    request = Request(500)
    assert (request.delay_ms, request.is_completed, request.outcome) == (500, False, None)
    assert repr(request) == "<Request timeout_ms=500 pending>"


@pytest.mark.parametrize("delay_ms", [0.5, None, "1"])
def test_timeout_is_validated(delay_ms: object) -> None:
    with pytest.raises(InvalidArgumentError, match="timeout_ms"):
        Request(delay_ms)  # type: ignore[arg-type]


def test_force_complete_is_true_once() -> None:
    request = Request()
    assert [request.force_complete(), request.force_complete(), request.cancel()] == [
        True,
        False,
        False,
    ]
    assert (request.outcome, request.is_completed, request.calls) == (
        "completed",
        True,
        ["complete"],
    )
    assert repr(request) == "<Request timeout_ms=1000 completed>"


def test_cancel_is_true_once() -> None:
    request = Request()
    assert [request.cancel(), request.cancel(), request.force_complete()] == [True, False, False]
    assert (request.outcome, request.is_completed, request.calls) == (
        "cancelled",
        True,
        ["cancellation"],
    )


def test_expiration_calls_both_callbacks_in_order(clock: ManualClock, timer: SystemTimer) -> None:
    request = Request(10)
    timer.add(request)
    clock.advance(10)
    timer.advance_clock(0)
    assert (request.outcome, request.calls) == ("expired", ["complete", "expiration"])
    assert request.force_complete() is False


@pytest.mark.parametrize("end", [Request.force_complete, Request.cancel])
def test_end_takes_the_operation_out_of_its_timer(timer: SystemTimer, end: object) -> None:
    request = Request(10)
    timer.add(request)
    end(request)  # type: ignore[operator]
    assert timer.size == 0


def test_on_expiration_is_called_even_if_on_complete_raises(
    clock: ManualClock, timer: SystemTimer
) -> None:
    request = Request(10, complete=fail)
    timer.add(request)
    clock.advance(10)
    timer.advance_clock(0)
    assert request.calls == ["complete", "expiration"]
    assert timer.callback_errors == 1


@pytest.mark.parametrize(
    ("end", "callback", "outcome"),
    [
        (Request.force_complete, "complete", "completed"),
        (Request.cancel, "cancellation", "cancelled"),
    ],
)
def test_what_a_callback_raises_reaches_who_ended_the_operation(
    end: object, callback: str, outcome: str
) -> None:
    request = Request(**{callback: fail})
    with pytest.raises(Fault):
        end(request)  # type: ignore[operator]
    assert (request.outcome, request.calls) == (outcome, [callback])
    assert end(request) is False  # type: ignore[operator]


def test_operation_without_its_methods_says_so(purgatory: DelayedOperationPurgatory) -> None:
    with pytest.raises(NotImplementedError):
        purgatory.try_complete_else_watch(DelayedOperation(10), ["a"])
    with pytest.raises(NotImplementedError):
        DelayedOperation(10).force_complete()


def test_host_is_an_interface() -> None:
    if not primitives.COMPILED:  # Compiled, these are in C only.
        with pytest.raises(NotImplementedError):
            OperationHost()._operation_ended(Request(), states.COMPLETED, 0)
        with pytest.raises(NotImplementedError):
            OperationHost()._callback_failed(Request(), Fault())
        with pytest.raises(NotImplementedError):
            OperationHost()._now_or(0)
        with pytest.raises(NotImplementedError):
            OperationHost()._ran_early(Request())
        with pytest.raises(NotImplementedError):
            OperationHost()._callbacks_ran(Request(), 0)
    with pytest.raises(NotImplementedError):
        OperationHost().try_complete_else_watch(Request(), ["a"])
    with pytest.raises(NotImplementedError):
        OperationHost().check_and_complete("a")
    with pytest.raises(NotImplementedError):
        OperationHost()._check("a", True)
    with pytest.raises(NotImplementedError):
        _ = OperationHost().is_closed
    with pytest.raises(NotImplementedError):
        OperationHost()._discard(Request())


def test_only_one_of_many_threads_ends_an_operation(
    thread_group: ThreadGroup, switching: None
) -> None:
    clock = ManualClock()
    timer = SystemTimer("test", clock=clock)
    requests = [Request(10) for _ in range(200)]
    for request in requests:
        timer.add(request)
    clock.advance(10)
    start = threading.Barrier(5)
    won: list[int] = []

    def race(end: object) -> None:
        start.wait(TIME_LIMIT)
        won.append(sum(end(request) for request in requests))  # type: ignore[operator]

    for end in (Request.force_complete, Request.cancel, Request.cancel, Request.force_complete):
        thread_group.start(race, end)
    start.wait(TIME_LIMIT)
    timer.advance_clock(0)
    thread_group.join()
    expired = sum(request.outcome == "expired" for request in requests)
    assert sum(won) + expired == len(requests)
    for request in requests:
        calls = {
            "completed": ["complete"],
            "cancelled": ["cancellation"],
            "expired": ["complete", "expiration"],
        }
        assert request.calls == calls[str(request.outcome)]
    assert timer.size == 0


# -- one try at a time


def test_event_that_a_try_causes_leads_to_another_try(purgatory: DelayedOperationPurgatory) -> None:
    request = Request()

    def meddle() -> None:
        if request.tries == 2:
            request.ready = True
            assert purgatory.check_and_complete("a") == 0

    request.during["try"] = meddle
    purgatory.try_complete_else_watch(request, ["a"])
    assert request.tries == 1
    assert purgatory.check_and_complete("a") == 1
    assert (request.tries, request.outcome) == (3, "completed")


def test_event_during_a_running_try_leads_to_another_try(
    purgatory: DelayedOperationPurgatory, thread_group: ThreadGroup
) -> None:
    inside, release = threading.Event(), threading.Event()
    request = Request()

    def linger() -> None:
        if request.tries == 2:
            inside.set()
            assert release.wait(TIME_LIMIT)

    request.during["try"] = linger
    purgatory.try_complete_else_watch(request, ["a"])
    completed: list[int] = []
    thread_group.start(lambda: completed.append(purgatory.check_and_complete("a")))
    assert inside.wait(TIME_LIMIT)
    request.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert (request.tries, request.outcome) == (2, None)
    release.set()
    thread_group.join()
    assert (completed, request.tries, request.outcome) == ([1], 3, "completed")


def test_many_events_during_a_try_lead_to_one_more_try(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = Request()

    def meddle() -> None:
        if request.tries == 2:
            for _ in range(10):
                purgatory.check_and_complete("a")

    request.during["try"] = meddle
    purgatory.try_complete_else_watch(request, ["a"])
    purgatory.check_and_complete("a")
    assert (request.tries, request.outcome) == (3, None)


def test_event_during_a_try_that_raises_is_not_lost(purgatory: DelayedOperationPurgatory) -> None:
    request = Request()

    def meddle() -> None:
        if request.tries == 2:
            request.ready = True
            purgatory.check_and_complete("a")
            fail()

    request.during["try"] = meddle
    purgatory.try_complete_else_watch(request, ["a"])
    assert purgatory.check_and_complete("a") == 1
    assert request.outcome == "completed"
    assert purgatory.metrics().callback_errors == 1


def test_operation_can_be_tried_again_after_a_try_that_raised(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = Request()

    def leave() -> None:
        if request.tries == 2:
            raise KeyboardInterrupt

    request.during["try"] = leave
    purgatory.try_complete_else_watch(request, ["a"])
    with pytest.raises(KeyboardInterrupt):
        purgatory.check_and_complete("a")
    request.ready = True
    assert purgatory.check_and_complete("a") == 1


def test_try_that_claims_completion_without_completing_is_an_error(
    purgatory: DelayedOperationPurgatory, caplog: pytest.LogCaptureFixture
) -> None:
    class Liar(Request):
        def try_complete(self) -> bool:
            return self.ready

    with pytest.raises(
        NotCompletedError, match=r"Liar.try_complete .* return self.force_complete\(\)"
    ):
        purgatory.try_complete_else_watch(Liar(10, ready=True), ["a"])
    liar = Liar(10)
    purgatory.try_complete_else_watch(liar, ["a"])
    liar.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert (liar.outcome, purgatory.num_delayed, purgatory.metrics().callback_errors) == (
        None,
        1,
        1,
    )
    assert "return self.force_complete()" in caplog.text


def test_claim_of_completion_in_a_try_that_is_repeated_is_an_error_each_time(
    purgatory: DelayedOperationPurgatory, caplog: pytest.LogCaptureFixture
) -> None:
    class Liar(Request):
        tries = 0

        def try_complete(self) -> bool:
            self.tries += 1
            if self.tries == 1:
                purgatory.check_and_complete("a")
            return True

    liar = Liar(10)
    with pytest.raises(NotCompletedError):
        purgatory.try_complete_else_watch(liar, ["a"])
    assert (liar.tries, purgatory.metrics().callback_errors) == (2, 1)
    assert "return self.force_complete()" in caplog.text
    assert (liar.outcome, purgatory.watched) == ("cancelled", 0)


@pytest.mark.parametrize("exit_error", [KeyboardInterrupt, SystemExit])
def test_exit_out_of_a_try_loses_no_event(
    purgatory: DelayedOperationPurgatory, exit_error: type[BaseException]
) -> None:
    """Neither one that came during the try, nor that of the others who watch the key.

    The program may go on.
    """

    class Leaving(Request):
        def try_complete(self) -> bool:
            if self.tries == 1:
                self.ready = True
                purgatory.check_and_complete(
                    "a"
                )  # As another thread might now: it finds this try running.
                self.tries += 1
                raise exit_error
            return super().try_complete()

    leaving, other = Leaving(), Request()
    for request in (leaving, other):
        purgatory.try_complete_else_watch(request, ["a"])
    other.ready = True
    with pytest.raises(exit_error):
        purgatory.check_and_complete("a")
    assert [request.outcome for request in (leaving, other)] == ["completed", "completed"]
    purgatory.purge()
    check_invariants(purgatory)


def test_condition_that_notifies_itself_is_an_error(purgatory: DelayedOperationPurgatory) -> None:
    request = Request()
    request.during["try"] = lambda: purgatory.check_and_complete("a")
    with pytest.raises(
        NotificationLoopError, match=r"Request\.try_complete caused an event for itself 1000 times"
    ):
        purgatory.try_complete_else_watch(request, ["a"])
    assert (request.outcome, purgatory.num_delayed, purgatory.watched) == ("cancelled", 0, 0)


def test_conditions_that_notify_one_another_are_an_error(
    purgatory: DelayedOperationPurgatory,
) -> None:
    first, second = Request(), Request()
    purgatory.try_complete_else_watch(first, ["a"])
    purgatory.try_complete_else_watch(second, ["b"])
    first.during["try"] = lambda: purgatory.check_and_complete("b")
    second.during["try"] = lambda: purgatory.check_and_complete("a")
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.metrics().callback_errors >= 1
    assert (first.outcome, second.outcome, purgatory.num_delayed) == (None, None, 2)


def test_condition_may_notify_itself_now_and_then(purgatory: DelayedOperationPurgatory) -> None:
    request = Request()

    def count() -> None:
        if request.tries == 500:
            request.ready = True
        purgatory.check_and_complete("a")

    request.during["try"] = count
    assert purgatory.try_complete_else_watch(request, ["a"]) is True
    assert request.tries == 501


def test_subclass_that_forgets_the_base_class_is_refused(
    purgatory: DelayedOperationPurgatory, timer: SystemTimer
) -> None:
    class Forgetful(DelayedOperation):
        def __init__(self) -> None:
            self.mine = 1

    class ForgetfulTask(TimerTask):
        def __init__(self) -> None:
            pass

    with pytest.raises(
        NotInitializedError, match=r"Forgetful.__init__ did not call super\(\).__init__"
    ):
        purgatory.try_complete_else_watch(Forgetful(), ["a"])
    forgetful = Forgetful()
    calls: list[Callable[[], object]] = [
        lambda: purgatory.renew(forgetful, 1),
        lambda: purgatory._discard(forgetful),
        forgetful._abandon_in_child,
    ]
    for call in calls:
        with pytest.raises(NotInitializedError, match="Forgetful"):
            call()
    with pytest.raises(NotInitializedError, match="ForgetfulTask"):
        timer.add(ForgetfulTask())
    assert (purgatory.num_delayed, purgatory.watched, timer.size) == (0, 0, 0)


def test_operation_that_is_due_in_the_first_millisecond_is_used_as_any(
    purgatory: DelayedOperationPurgatory,
) -> None:
    renewed, discarded, abandoned = (Request(1) for _ in range(3))
    for request in (renewed, discarded, abandoned):
        purgatory.try_complete_else_watch(request, ["a"])
    assert purgatory.renew(renewed, 5)
    assert purgatory._discard(discarded)
    abandoned._abandon_in_child()
    assert [request.outcome for request in (renewed, discarded, abandoned)] == [
        *(None, "cancelled", "cancelled")
    ]


def test_operation_that_is_due_in_the_first_millisecond_is_looked_at_as_any(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = Request(1)
    purgatory.try_complete_else_watch(request, ["a"])
    assert (request.timeout_ms, request.is_completed) == (1, False)
    assert repr(request) == "<Request timeout_ms=1 pending>"


def test_operation_outside_of_purgatories_that_is_run_ends_as_expired() -> None:
    request = Request(5)
    request.run()
    assert (request.outcome, request.calls) == ("expired", ["complete", "expiration"])


@pytest.mark.skipif(primitives.COMPILED, reason="compiled, `_try` is in C only")
def test_operation_outside_of_purgatories_is_tried_again_for_an_event_of_its_own_try() -> None:
    def notify() -> None:
        if request.tries == 1:
            assert not request._try()

    request = Request(**{"try": notify})
    assert not request._try()
    assert request.tries == 2


@interpreted_only
def test_ended_operation_that_is_dropped_leaves_the_timer_alone(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = Request(5)
    purgatory.try_complete_else_watch(request, ["a"])
    assert request.force_complete()
    added: list[str] = []
    interleave_tasks(purgatory.timer).before(  # type: ignore[arg-type]
        1, lambda: added.append("timer")
    )
    request.drop()
    assert (request.outcome, added) == ("completed", [])


def test_operation_outside_of_purgatories_that_is_dropped_ends_as_cancelled() -> None:
    request = Request(5)
    request.drop()
    assert (request.outcome, request.calls) == ("cancelled", ["cancellation"])


@pytest.mark.skipif(primitives.COMPILED, reason="compiled, `_remove_from_timer` is in C only")
def test_renewed_operation_that_is_dropped_goes_back_into_the_timer(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    request = Request(5)
    purgatory.try_complete_else_watch(request, ["a"])
    clock.advance(4)
    assert purgatory.renew(request, 0.005)
    request._remove_from_timer()
    request.drop()
    clock.advance(6)
    purgatory.advance_clock(0)
    assert request.outcome == "expired"


def test_delay_of_an_operation_in_a_purgatory_cannot_be_changed(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = Request(10)
    request.delay_ms = 20
    purgatory.try_complete_else_watch(request, ["a"])
    with pytest.raises(TaskInUseError, match="its delay_ms can't be changed to 500 now"):
        request.delay_ms = 500
    assert request.delay_ms == 20


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_operation_cannot_be_copied(
    purgatory: DelayedOperationPurgatory, copied: Callable[[object], object]
) -> None:
    request = Request()
    purgatory.try_complete_else_watch(request, ["a"])
    with pytest.raises(TypeError, match=r"Request can't be (copied|pickled): it may be in use"):
        copied(request)
    assert (request.outcome, purgatory.num_delayed) == (None, 1)


class Unprintable(Request):
    """Its `repr`, which is for logs, fails as well."""

    def __repr__(self) -> str:
        raise RecursionError


def test_failure_that_cannot_be_logged_harms_no_other_operation(
    purgatory: DelayedOperationPurgatory, capsys: pytest.CaptureFixture[str]
) -> None:
    failing, other = Unprintable(), Request()
    for request in (failing, other):
        purgatory.try_complete_else_watch(request, ["a"])
    failing.during["try"] = fail
    other.ready = True
    logger = logging.getLogger("request_purgatory.purgatory")
    logger.addFilter(refuse)
    try:
        assert purgatory.check_and_complete("a") == 1
    finally:
        logger.removeFilter(refuse)
    assert purgatory.metrics().callback_errors == 1
    assert "raised Fault, and logging it raised ZeroDivisionError" in capsys.readouterr().err
    failing.during.clear()
    failing.ready = True
    assert purgatory.check_and_complete("a") == 1


def refuse(record: logging.LogRecord) -> bool:
    """Fail, as a filter of an application may."""
    return bool(1 / 0)


def test_try_that_says_true_of_what_was_cancelled_completes_nothing(
    purgatory: DelayedOperationPurgatory,
) -> None:
    class Cancelling(Request):
        def try_complete(self) -> bool:
            return self.ready and self.cancel()

    request = Cancelling()
    purgatory.try_complete_else_watch(request, ["a"])
    request.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert (request.outcome, request.calls) == ("cancelled", ["cancellation"])


# -- what a class may change


def ended_by(kind: type[DelayedOperation]) -> str:
    """Return the name of the `on_complete` that a new object of the class calls."""
    called: list[str] = []
    operation = kind(10)
    operation.called = called  # type: ignore[attr-defined]
    assert operation.force_complete()
    (name,) = called
    return name


@pytest.mark.parametrize("slots", [(), ("called",)], ids=["with a dict", "with slots"])
def test_method_that_is_replaced_is_not_called(slots: tuple[str, ...]) -> None:
    fields = {"__slots__": slots} if slots else {}

    def named(name: str) -> Callable[[Any], None]:
        return lambda operation: operation.called.append(name)

    base = type("Base", (DelayedOperation,), {**fields, "on_complete": named("of the base")})
    kind = type("Kind", (base,), {"__slots__": ()} if slots else {})
    for _ in range(3):
        assert ended_by(kind) == "of the base"
    base.on_complete = named("new in the base")
    assert ended_by(kind) == "new in the base"
    kind.on_complete = named("of the class")
    for _ in range(3):
        assert ended_by(kind) == "of the class"
    del kind.on_complete
    assert ended_by(kind) == "new in the base"


def test_method_may_be_set_on_an_object() -> None:
    class Free(DelayedOperation):
        def on_complete(self) -> None:
            raise AssertionError("the object has its own")

    for _ in range(3):
        operation, called = Free(10), []
        operation.on_complete = lambda called=called: called.append(1)
        assert operation.force_complete()
        assert called == [1]


def test_constructor_may_be_given_to_a_class_later() -> None:
    class Kind(DelayedOperation):
        pass

    assert [Kind(5).timeout_ms, Kind(timeout_ms=6).timeout_ms] == [5, 6]

    def init(self: DelayedOperation, *, seconds: int) -> None:
        DelayedOperation.__init__(self, 1000 * seconds)

    Kind.__init__ = init  # type: ignore[assignment,method-assign]
    assert Kind(seconds=3).timeout_ms == 3000  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        Kind(5)
    del Kind.__init__
    Kind.__new__ = lambda kind, *_: DelayedOperation.__new__(kind)  # type: ignore[assignment]
    assert Kind(7).timeout_ms == 7
    for wrong in ("7", 7.0, None):
        with pytest.raises(InvalidArgumentError, match="timeout_ms must be whole milliseconds"):
            Kind(wrong)  # type: ignore[arg-type]
    for arguments in ((), (1, 2)):
        with pytest.raises(TypeError):
            Kind(*arguments)
