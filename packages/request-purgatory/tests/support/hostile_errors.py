"""Exceptions that raise from whatever is asked of them."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn


class Hostile(Exception):  # noqa: N818 - not an error of the program's
    """What a hostile exception raises when it is looked at."""


def _refuse(*args: object) -> NoReturn:
    raise Hostile


def _leave_no_exception(*args: object) -> NoReturn:
    raise asyncio.CancelledError  # No subclass of Exception.


def _of_metaclass(**members: Any) -> type[Exception]:
    kind = type("HostileMeta", (type,), {"__hash__": type.__hash__, **members})
    return kind("Unhashable", (Exception,), {})  # type: ignore[no-any-return]


def _with(**members: Any) -> type[Exception]:
    return type("Unlogged", (Exception,), members)


#: By what they refuse. Each is made anew, as a test may leave a traceback in it.
HOSTILE_ERRORS: dict[str, type[Exception]] = {
    "hash of the class": _of_metaclass(__hash__=_refuse),
    "equality of the class": _of_metaclass(__eq__=_refuse, __hash__=lambda kind: 1),
    "name of the class": _of_metaclass(__name__=property(_refuse)),
    "attributes of the class": _of_metaclass(__getattribute__=_refuse),
    "traceback": _with(__traceback__=property(_refuse)),
    "traceback that is none": _with(__traceback__=7),
    "class": _with(__class__=property(_refuse)),
    "equality": _with(__eq__=_refuse, __hash__=_refuse),
    "truth": _with(__bool__=_refuse, __len__=_refuse),
    "text": _with(__str__=_refuse, __repr__=_refuse, __format__=_refuse),
    "text by no Exception": _with(__str__=_leave_no_exception, __repr__=_leave_no_exception),
    "cause": _with(__cause__=property(_refuse), __context__=property(_refuse)),
    "every attribute": _with(__getattribute__=_refuse, __repr__=_refuse),
}
