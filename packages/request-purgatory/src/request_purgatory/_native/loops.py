"""Quick looks at an event loop: whether it runs here, and whose method it has.

Compiled, the functions of `loops.h` take the place of these. CPython 3.11 asks the system for
the process whenever it is asked for the running loop, so that a forked child finds none. That
takes as long as a purgatory's own part of an event. A purgatory knows that it is in a child.
"""

from __future__ import annotations

from asyncio import _get_running_loop
from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar

Result = TypeVar("Result")


def runs_here(loop: object) -> bool:
    """Return True if the loop runs on this thread; compiled, also if it did before a fork."""
    return _get_running_loop() is loop


def has_method(target: object, name: str, function: object) -> bool:  # pragma: no cover
    """Return True if `target`'s method of this name is `function`; asked when compiled alone."""
    method = getattr(target, name)
    return type(method) is MethodType and method.__func__ is function


def call_with(kind: Callable[..., Result], named: dict[str, Any]) -> Result:
    """Return `kind(**named)`; compiled, without a copy of the arguments."""
    return kind(**named)
