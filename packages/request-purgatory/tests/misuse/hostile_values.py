"""Values that no argument expects: each is made anew for its call, inside of the child."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from request_purgatory import (
    Clock,
    DelayedOperation,
    DelayedOperationPurgatory,
    ManualClock,
    SystemTimer,
    TimerTask,
)
from tests.support.requests import Request


class HostileError(Exception):
    """What hostile objects raise: their own error, which may reach the caller."""


def _raise(*_: object) -> Any:
    raise HostileError


def _with(**methods: Callable[..., Any]) -> object:
    return type("Hostile", (), methods)()


def _generator() -> Iterator[int]:
    yield 1
    raise HostileError


class _Text(str):
    __slots__ = ()


class _Number(int):
    pass


class _Timeless(DelayedOperation):
    """Its `__init__` does not call super's."""

    def __init__(self) -> None:
        pass


class _Escaped(DelayedOperation):
    """Its `__init__` raises, and the object gets out."""

    made: _Escaped

    def __init__(self) -> None:
        _Escaped.made = self
        super().__init__("no number")  # type: ignore[arg-type]


def _escaped() -> object:
    try:
        _Escaped()
    except ValueError:
        pass
    return _Escaped.made


_owners: list[DelayedOperationPurgatory] = []


def _purgatory() -> DelayedOperationPurgatory:
    timer = SystemTimer("another", wheel_size=20, clock=ManualClock())
    _owners.append(DelayedOperationPurgatory("another", timer=timer, shards=4, reaper=False))
    return _owners[-1]


def _of_another_purgatory() -> object:
    request = Request()
    _purgatory().try_complete_else_watch(request, ["a"])
    return request


def _of_another_timer() -> object:
    task = TimerTask(5)
    _purgatory().timer.add(task)
    return task


def _ended() -> object:
    request = Request()
    request.cancel()
    return request


def _closed_purgatory() -> object:
    purgatory = _purgatory()
    purgatory.close()
    return purgatory


def _closed_timer() -> object:
    timer = SystemTimer("closed", wheel_size=20, clock=ManualClock())
    timer.shutdown()
    return timer


#: By the name under which a call is recorded.
HOSTILE: dict[str, Callable[[], object]] = {
    "None": lambda: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "2**64": lambda: 2**64,
    "-2**63": lambda: -(2**63),
    "-2**64": lambda: -(2**64),
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "empty str": str,
    "str": lambda: "x",
    "lone surrogate": lambda: "\ud800",
    "bytes": lambda: b"",
    "list": list,
    "list of None": lambda: [None],
    "dict": dict,
    "object": object,
    "class": lambda: int,
    "function": lambda: _raise,
    "str subclass": lambda: _Text("x"),
    "int subclass": lambda: _Number(5),
    "generator": _generator,
    "__index__ raises": lambda: _with(__index__=_raise),
    "__hash__ raises": lambda: _with(__hash__=_raise),
    "__eq__ raises": lambda: _with(__eq__=_raise, __hash__=lambda _: hash("a")),
    "__repr__ raises": lambda: _with(__repr__=_raise),
    "__bool__ raises": lambda: _with(__bool__=_raise),
    "__getattr__ raises": lambda: _with(__getattr__=_raise),
    "operation without __init__": lambda: DelayedOperation.__new__(DelayedOperation),
    "operation without super().__init__": _Timeless,
    "operation whose __init__ raised": _escaped,
    "task without __init__": lambda: TimerTask.__new__(TimerTask),
    "task of another timer": _of_another_timer,
    "operation of another purgatory": _of_another_purgatory,
    "operation that ended": _ended,
    "purgatory without __init__": lambda: DelayedOperationPurgatory.__new__(
        DelayedOperationPurgatory
    ),
    "closed purgatory": _closed_purgatory,
    "timer without __init__": lambda: SystemTimer.__new__(SystemTimer),
    "closed timer": _closed_timer,
    "clock without methods": Clock,
    "clock without __init__": lambda: ManualClock.__new__(ManualClock),
}
