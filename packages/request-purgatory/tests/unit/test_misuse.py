"""Ordinary mistakes: each is an error that names what was wrong, and leaves nothing behind."""

from __future__ import annotations

import abc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    NotInitializedError,
    SystemTimer,
    TimerHandle,
    TimerTask,
)
from request_purgatory.legacy import LegacyPurgatory
from tests.conftest import MakePurgatory
from tests.support.requests import Request, fail


@pytest.mark.parametrize("wrong", [None, 5, "task", object(), TimerTask])
def test_timer_refuses_what_is_no_task(timer: SystemTimer, wrong: Any) -> None:
    with pytest.raises(TypeError, match="task"):
        timer.add(wrong)
    assert timer.size == 0


@pytest.mark.parametrize("wrong", [None, 5, "request", TimerTask(5), Request])
@pytest.mark.parametrize(
    "call",
    [
        lambda purgatory, wrong: purgatory.try_complete_else_watch(wrong, ["a"]),
        lambda purgatory, wrong: purgatory.renew(wrong, 1),
        lambda purgatory, wrong: purgatory._discard(wrong),
    ],
    ids=["try_complete_else_watch", "renew", "discard"],
)
def test_purgatory_refuses_what_is_no_operation(
    purgatory: DelayedOperationPurgatory,
    call: Callable[[DelayedOperationPurgatory, Any], object],
    wrong: Any,
) -> None:
    with pytest.raises(TypeError, match="operation"):
        call(purgatory, wrong)
    assert (purgatory.num_delayed, purgatory.watched) == (0, 0)


class Forgetful:
    """A base whose `__init__` calls no other."""

    def __init__(self) -> None:
        pass


class ForgetfulTimer(Forgetful, SystemTimer):
    pass


class ForgetfulPurgatory(Forgetful, DelayedOperationPurgatory):
    pass


class ForgetfulLegacyPurgatory(Forgetful, LegacyPurgatory):
    pass


class ForgetfulTask(Forgetful, TimerTask):
    pass


class ForgetfulHandle(Forgetful, TimerHandle):
    pass


class ForgetfulRequest(Forgetful, Request):
    pass


class RefusedTimer(SystemTimer):
    """A timer that goes on after its `__init__` was refused."""

    def __init__(self) -> None:
        with pytest.raises(InvalidArgumentError):
            super().__init__("test", tick_ms=0)


class RefusedPurgatory(DelayedOperationPurgatory):
    """A purgatory that goes on after its `__init__` was refused."""

    def __init__(self) -> None:
        with pytest.raises(InvalidArgumentError):
            super().__init__("test", shards=0)


TIMER_CALLS: list[Callable[[Any], object]] = [
    lambda timer: timer.add(Request()),
    lambda timer: timer.call_later_ms(5, fail),
    lambda timer: timer.advance_clock(0),
    lambda timer: timer.run_due(5),
    lambda timer: timer.size,
    lambda timer: timer.tick_ms,
    lambda timer: timer.next_expiration_ms,
    lambda timer: timer._peek_expiration_ms(),
    lambda timer: timer.wake(),
    lambda timer: timer.start(),
    lambda timer: timer.shutdown(),
    lambda timer: timer._all_buckets(),
    lambda timer: timer._pending_tasks(),
    lambda timer: timer.occupancy(),
    lambda timer: timer.__enter__(),
    lambda timer: timer.__exit__(None, None, None),
]

PURGATORY_CALLS: list[Callable[[Any], object]] = [
    lambda purgatory: purgatory.try_complete_else_watch(Request(), ["a"]),
    lambda purgatory: purgatory.hold(["a"], until=fail),
    lambda purgatory: purgatory.gather([]),
    lambda purgatory: purgatory.notify("a"),
    lambda purgatory: purgatory.notify_many(["a"]),
    lambda purgatory: purgatory.check_and_complete("a"),
    lambda purgatory: purgatory.cancel_for_key("a"),
    lambda purgatory: purgatory.renew(Request(), 1),
    lambda purgatory: purgatory._discard(Request()),
    lambda purgatory: purgatory.advance_clock(0),
    lambda purgatory: purgatory.purge(),
    lambda purgatory: purgatory.is_closed,
    lambda purgatory: purgatory.num_delayed,
    lambda purgatory: purgatory.watched,
    lambda purgatory: purgatory.num_keys,
    lambda purgatory: purgatory.num_watchers("a"),
    lambda purgatory: purgatory.operations(),
    lambda purgatory: purgatory.metrics(),
    lambda purgatory: purgatory.snapshot(),
    lambda purgatory: purgatory.close(),
    lambda purgatory: purgatory.__exit__(None, None, None),
]

TASK_CALLS: list[Callable[[Any], object]] = [
    lambda task: task.cancel(),
    lambda task: task.delay_ms,
    lambda task: setattr(task, "delay_ms", 5),
    lambda task: task._timer_list,
    lambda task: SystemTimer("test", clock=ManualClock()).add(task),
]

OPERATION_CALLS: list[Callable[[Any], object]] = [
    *TASK_CALLS,
    lambda operation: operation.force_complete(),
    lambda operation: operation.run(),
    lambda operation: operation.drop(),
    lambda operation: operation.outcome,
    lambda operation: operation.is_completed,
    lambda operation: operation.timeout_ms,
]


@pytest.mark.parametrize(
    ("make", "call"),
    [
        *[(make, call) for make in (ForgetfulTimer, RefusedTimer) for call in TIMER_CALLS],
        *[
            (make, call)
            for make in (ForgetfulPurgatory, RefusedPurgatory, ForgetfulLegacyPurgatory)
            for call in PURGATORY_CALLS
        ],
        *[(ForgetfulTask, call) for call in TASK_CALLS],
        *[(ForgetfulHandle, call) for call in [*TASK_CALLS, lambda handle: handle.run()]],
        *[(ForgetfulRequest, call) for call in OPERATION_CALLS],
    ],
)
def test_object_whose_init_did_not_run_says_so(
    make: Callable[[], object], call: Callable[[object], object]
) -> None:
    made = make()
    with pytest.raises(NotInitializedError, match=rf"{type(made).__name__}.__init__"):
        call(made)
    assert repr(made) == f"<{type(made).__name__} not initialized>"


@pytest.mark.parametrize(
    "timer",
    [5, ForgetfulTimer, ForgetfulTimer(), ManualClock(), SimpleNamespace(clock=ManualClock())],
)
def test_purgatory_refuses_what_is_no_timer(timer: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="timer must be a SystemTimer whose __init__"):
        DelayedOperationPurgatory("test", timer=timer)


def test_timer_that_holds_tasks_is_not_initialized_again(timer: SystemTimer) -> None:
    timer.call_later_ms(5, fail)
    with pytest.raises(RuntimeError, match="'test' size=1> has been initialized before"):
        timer.__init__("again")  # type: ignore[misc]
    assert (timer.name, timer.size) == ("test", 1)


def test_purgatory_that_holds_operations_is_not_initialized_again(
    purgatory: DelayedOperationPurgatory,
) -> None:
    purgatory.try_complete_else_watch(Request(), ["a"])
    with pytest.raises(RuntimeError, match="pending=1> has been initialized before"):
        purgatory.__init__("again")  # type: ignore[misc]
    assert (purgatory.name, purgatory.num_delayed) == ("test", 1)


class AbstractRequest(Request, abc.ABC):
    """An operation with a metaclass."""

    @property
    @abc.abstractmethod
    def topic(self) -> str: ...


class ProduceRequest(AbstractRequest):
    topic = "orders"


class HasTopic(Protocol):
    topic: str


class TypedRequest(Request, HasTopic):
    topic = "orders"


class Registry(type):
    """A metaclass that makes objects in its own way."""

    made: ClassVar[list[object]] = []

    def __call__(cls, *args: Any) -> Any:
        made = super().__call__(*args)
        Registry.made.append(made)
        return made


class PlainAbstract(DelayedOperation, abc.ABC):
    """An operation with the core's own `__init__`."""

    def try_complete(self) -> bool:
        return False

    @abc.abstractmethod
    def on_complete(self) -> None: ...


class PlainRequest(PlainAbstract):
    def on_complete(self) -> None: ...


class RegisteredRequest(PlainRequest, metaclass=type("RegistryABC", (Registry, abc.ABCMeta), {})):
    pass


@pytest.mark.parametrize("kind", [ProduceRequest, TypedRequest, PlainRequest, RegisteredRequest])
def test_operation_may_have_a_metaclass(make_purgatory: MakePurgatory, kind: type[Any]) -> None:
    purgatory = make_purgatory()
    # The first object of a class is made in another way than those after it.
    for _ in range(3):
        operation = kind(1000)
        assert not purgatory.try_complete_else_watch(operation, ["a"])
    assert purgatory.num_delayed == 3
    assert len(purgatory.close()) == 3


def test_metaclass_of_an_operation_makes_every_object() -> None:
    Registry.made.clear()
    made = [RegisteredRequest(1000) for _ in range(3)]
    assert made == Registry.made
    Registry.made.clear()


@pytest.mark.parametrize("kind", [AbstractRequest, PlainAbstract])
def test_abstract_operation_is_not_made(kind: type[Any]) -> None:
    with pytest.raises(TypeError, match="abstract"):
        kind(1000)
