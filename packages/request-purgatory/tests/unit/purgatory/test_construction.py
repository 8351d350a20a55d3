"""Objects of operation classes: compiled, the second one of a class is made in a quicker way."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partialmethod

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    SystemTimer,
)
from request_purgatory._native import primitives
from request_purgatory.timer.task import MAX_DELAY_MS

LIMIT = 2**62 - 1


class Plain(DelayedOperation):
    """An operation with the core's own `__init__`."""

    __slots__ = ()


class Named(DelayedOperation):
    """An operation with arguments of its own."""

    def __init__(self, timeout_ms: int, *names: str, first: int = 0, second: int = 0) -> None:
        super().__init__(timeout_ms)
        self.seen = (names, first, second)


class Counted(DelayedOperation):
    """An operation with a `__new__` of its own."""

    made = 0

    def __new__(cls, timeout_ms: int) -> Counted:
        cls.made += 1
        return super().__new__(cls)


@pytest.fixture(autouse=True)
def first_objects() -> None:
    """Make the first object of each class."""
    for kind in (Plain, Named, Counted):
        kind(1)


@pytest.mark.parametrize("timeout_ms", [-(2**70), -1, 0, 1, 500, MAX_DELAY_MS])
@pytest.mark.parametrize("make", [Plain, lambda ms: Plain(timeout_ms=ms)], ids=["plain", "named"])
def test_timeout_is_the_argument(make: Callable[[int], DelayedOperation], timeout_ms: int) -> None:
    operation = make(timeout_ms)
    assert operation.timeout_ms == max(timeout_ms, -LIMIT)
    assert (operation.outcome, operation._timer_expiration_ms) == (None, -1)


@pytest.mark.parametrize("wrong", [MAX_DELAY_MS + 1, 2**70, 1.5, "5", None, True])
def test_wrong_timeout_is_refused_by_its_value(wrong: object) -> None:
    with pytest.raises(InvalidArgumentError, match="timeout_ms"):
        Plain(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda: Plain(),
        lambda: Plain(1, 2),
        lambda: Plain(1, timeout_ms=2),
        lambda: Plain(other=1),
        lambda: Plain(1, other=1),
    ],
)
def test_wrong_number_or_name_of_arguments_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        call()


def test_arguments_of_a_class_s_own_init_arrive_as_they_were_given() -> None:
    assert Named(5).seen == ((), 0, 0)
    assert Named(5, "a", "b").seen == (("a", "b"), 0, 0)
    operation = Named(5, "a", second=2, first=1)
    assert (operation.timeout_ms, operation.seen) == (5, (("a",), 1, 2))
    assert Named(first=3, timeout_ms=7).timeout_ms == 7


async def coroutine_function(self: DelayedOperation) -> bool:
    return True


def generator_function(self: DelayedOperation) -> Iterator[bool]:
    yield True


async def asynchronous_generator_function(self: DelayedOperation) -> AsyncIterator[bool]:
    yield True


@pytest.mark.parametrize(
    "method", ["try_complete", "on_complete", "on_expiration", "on_cancellation"]
)
@pytest.mark.parametrize(
    "function",
    [coroutine_function, generator_function, asynchronous_generator_function],
    ids=lambda function: function.__name__,
)
def test_method_that_would_not_run_is_refused(
    method: str, function: Callable[[DelayedOperation], object]
) -> None:
    class Sub(type("Base", (Plain,), {method: function})):  # type: ignore[misc]
        pass

    for _ in range(2):
        with pytest.raises(
            TypeError, match=rf"^Sub\.{method} must be a plain function: .* neither awaits"
        ):
            Sub(1)


@pytest.mark.parametrize("name", ["run", "drop"])
def test_method_by_which_the_timer_ends_an_operation_is_not_to_be_replaced(name: str) -> None:
    job = type("Job", (Plain,), {name: lambda _: None})
    for _ in range(2):
        with pytest.raises(
            TypeError, match=rf"^Job\.{name} can't be overridden: the timer calls it"
        ):
            job(1)


@pytest.mark.skipif(primitives.COMPILED, reason="compiled, these names are nobody's")
@pytest.mark.parametrize(
    "name", ["_end", "_try", "_cancel", "_run_out", "_remove_from_timer", "_state"]
)
def test_name_of_a_private_method_is_not_to_be_taken(name: str) -> None:
    mixin = type("Mixin", (), {name: lambda _: None})
    for bases in ((Plain,), (mixin, Plain)):
        members = {name: lambda _: None} if bases == (Plain,) else {}
        with pytest.raises(TypeError, match=rf"^Job\.{name} has a private name"):
            type("Job", bases, members)(1)


class OwnTimer(SystemTimer):
    """A timer of users, with an attribute of their own."""

    def __init__(self, name: str) -> None:
        super().__init__("own", clock=ManualClock())
        setattr(self, name, threading.Lock())


class OwnPurgatory(DelayedOperationPurgatory):
    def __init__(self, name: str) -> None:
        super().__init__("own", reaper=False)
        setattr(self, name, [])


class OwnRequest(Plain):
    def __init__(self, name: str) -> None:
        super().__init__(1)
        setattr(self, name, "new")


@pytest.mark.skipif(primitives.COMPILED, reason="compiled, these fields are C's")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (OwnRequest, "_state"),
        (OwnRequest, "_watches"),
        (OwnRequest, "node_list"),
        (OwnTimer, "_lock"),
        (OwnTimer, "_wheel"),
        (OwnPurgatory, "_closed"),
        (OwnPurgatory, "_table"),
    ],
)
def test_name_of_a_private_field_is_not_to_be_taken(
    kind: Callable[[str], object], name: str
) -> None:
    with pytest.raises(AttributeError, match=f"attribute '{name}' of 'Own.* give yours another"):
        kind(name)


@pytest.mark.skipif(primitives.COMPILED, reason="compiled, these fields are C's")
def test_fields_of_all_bases_are_guarded() -> None:
    class Base:
        __slots__ = ("_of_base",)

    class Kind(Base):
        __slots__ = ("__dict__", "_slot", "node_link", "public")

        def __init__(self) -> None:
            self._set_here = 1

    class Sub(Kind):
        pass

    primitives.guard_fields(Kind)
    sub = Sub.__new__(Sub)
    for name in ("_of_base", "_slot", "node_link", "_set_here"):
        with pytest.raises(AttributeError, match="give yours another name"):
            setattr(sub, name, 1)
    sub.public = sub._own = 1
    assert (sub.public, sub._own) == (1, 1)


@pytest.mark.parametrize("kind", [OwnRequest, OwnTimer, OwnPurgatory])
def test_other_attributes_are_free(kind: Callable[[str], object]) -> None:
    assert getattr(kind("_session"), "_session", None) is not None


def test_method_that_a_subclass_replaces_is_not_looked_at() -> None:
    base = type("Base", (Plain,), {"on_complete": coroutine_function})
    kind = type("Sub", (base,), {"on_complete": lambda self: None})
    assert kind(1).force_complete()


def test_method_that_is_no_function_is_taken_as_it_is() -> None:
    called: list[str] = []
    kind = type("Sub", (Plain,), {"on_complete": partialmethod(lambda self: called.append("it"))})
    assert kind(1).force_complete()
    assert called == ["it"]


def test_class_in_the_place_of_one_that_is_gone_is_looked_at() -> None:
    for _ in range(20):
        kind = type("Gone", (Plain,), {})
        kind(1)
        del kind
        gc.collect()
        wrong = type("Wrong", (Plain,), {"on_complete": coroutine_function})
        with pytest.raises(TypeError, match=r"Wrong\.on_complete"):
            wrong(1)
        del wrong
        gc.collect()


def test_new_of_a_class_is_called() -> None:
    before = Counted.made
    assert Counted(5).timeout_ms == 5
    assert Counted.made == before + 1
