"""Quick looks at an event loop. Compiled, the functions of `loops.h` take the place of these."""

from __future__ import annotations

from types import MethodType


def has_method(target: object, name: str, function: object) -> bool:
    """Return True if `target`'s method of this name is `function`."""
    method = getattr(target, name)
    return type(method) is MethodType and method.__func__ is function
