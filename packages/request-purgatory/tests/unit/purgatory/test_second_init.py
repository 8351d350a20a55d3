"""`__init__` that is called again, on what is in use and on what is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    SystemTimer,
    TaskInUseError,
    TimerTask,
)
from request_purgatory.purgatory.hold import HoldOperation
from request_purgatory.purgatory.hold_future import HoldFuture
from request_purgatory.purgatory.quorum import QuorumOperation
from request_purgatory.timer.task import TimerHandle
from tests.support.invariants import check_invariants
from tests.support.requests import Request


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def timer(clock: ManualClock) -> SystemTimer:
    return SystemTimer("test", clock=clock)


class Note(TimerTask):
    """A task that notes that it ran."""

    ran = False

    def run(self) -> None:
        self.ran = True


def test_pending_task_stays_as_it_was(clock: ManualClock, timer: SystemTimer) -> None:
    task = Note(10)
    timer.add(task)
    with pytest.raises(TaskInUseError, match="<Note delay_ms=10 pending> is in use"):
        task.__init__(20)  # type: ignore[misc]
    check_invariants(timer)
    assert (task.delay_ms, timer.size) == (10, 1)
    clock.advance(10)
    timer.advance_clock(0)
    assert (task.ran, timer.size) == (True, 0)


def test_pending_handle_keeps_its_callback(clock: ManualClock, timer: SystemTimer) -> None:
    ran: list[str] = []
    handle = timer.call_later_ms(10, ran.append, "first")
    with pytest.raises(TaskInUseError, match=r"<TimerHandle delay_ms=10 .*pending> is in use"):
        TimerHandle.__init__(handle, 20, ran.append, ("second",))
    clock.advance(10)
    timer.advance_clock(0)
    assert ran == ["first"]


def hold() -> HoldOperation:
    return HoldOperation(bool, 10, HoldFuture())


def quorum() -> QuorumOperation:
    return QuorumOperation((HoldFuture(),), None, 10, HoldFuture())


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (lambda: Request(10), (20,)),
        (hold, (bool, 20, HoldFuture())),
        (quorum, ((), None, 20, HoldFuture())),
    ],
    ids=["operation", "hold", "quorum"],
)
def test_operation_of_a_purgatory_stays_as_it_was(
    clock: ManualClock,
    timer: SystemTimer,
    make: Callable[[], Request],
    arguments: tuple[object, ...],
) -> None:
    with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:
        operation = make()
        before = getattr(operation, "future", None)
        purgatory.try_complete_else_watch(operation, ["a"])
        for _ in range(2):
            with pytest.raises(TaskInUseError, match="is in use: its __init__ can't be called"):
                operation.__init__(*arguments)  # type: ignore[misc]
        assert (operation.timeout_ms, operation.is_completed) == (10, False)
        assert getattr(operation, "future", None) is before
        check_invariants(purgatory)
        clock.advance(10)
        purgatory.advance_clock(0)
        assert (operation.outcome, purgatory.num_delayed) == ("expired", 0)
        with pytest.raises(TaskInUseError, match="is in use: its __init__ can't be called"):
            operation.__init__(*arguments)  # type: ignore[misc]


def test_what_is_not_in_use_takes_another_delay(clock: ManualClock, timer: SystemTimer) -> None:
    task = Note(10)
    task.__init__(20)  # type: ignore[misc]
    timer.add(task)
    clock.advance(20)
    timer.advance_clock(0)
    assert task.ran
    task.__init__(30)  # type: ignore[misc]
    assert task.delay_ms == 30
    with pytest.raises(InvalidArgumentError, match="delay_ms"):
        task.__init__(1.5)  # type: ignore[misc, arg-type]
    request = Request(10)
    request.__init__(20)  # type: ignore[misc]
    assert request.timeout_ms == 20
