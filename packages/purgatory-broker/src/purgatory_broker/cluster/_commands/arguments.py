"""The types of commands' arguments, as their annotations say."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import operator
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from request_purgatory.errors import InvalidArgumentError

INT32_MAX = 2**31 - 1
_INT64 = range(-(2**63), 2**63)
#: How much of a refused value an error message quotes.
QUOTED_CHARACTERS = 200

_hints_of = functools.cache(get_type_hints)
_signature_of = functools.cache(inspect.signature)


class _UnfitError(Exception):
    pass


def checked_call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> inspect.BoundArguments:
    try:
        bound = _signature_of(function).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}: {error}") from None
    bound.arguments.update(checked_types(function, bound.arguments))
    return bound


def checked_types(function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a command's arguments, converted to the types of its parameters.

    Whole numbers become an int, other numbers a float, and the lists of JSON tuples. Arguments that
    the command does not have are left out.
    """
    hints = _hints_of(function)
    checked = {}
    for name, value in arguments.items():
        if name in hints:
            try:
                checked[name] = _converted(value, hints[name])
            except _UnfitError:
                requirement = _describe(hints[name])
                raise InvalidArgumentError(name, requirement, quoted(value)) from None
    return checked


def require_between(name: str, value: int, lowest: int, highest: int) -> int:
    if not lowest <= value <= highest:
        raise InvalidArgumentError(name, f"between {lowest} and {highest}", value)
    return value


def quoted(value: object) -> object:
    """Return what an error shows of a value: the value, or the beginning of a long one's text."""
    if isinstance(value, str) and len(value) <= QUOTED_CHARACTERS + 3:
        return value  # as this function has shortened it, maybe
    try:
        text = repr(value)
    except Exception:  # as that of an int of more than 4,300 digits
        return f"a value of {type(value).__name__}"
    return value if len(text) <= QUOTED_CHARACTERS else f"{text[:QUOTED_CHARACTERS]}..."


def _converted(value: Any, hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _converted_to_any(value, arguments)
    if origin is dict:
        keys, values = arguments
        if isinstance(value, dict):
            return {_converted(k, keys): _converted(item, values) for k, item in value.items()}
    elif origin is tuple:
        if isinstance(value, (tuple, list)) and len(value) == len(arguments):
            return tuple(map(_converted, value, arguments))
    elif origin is list:
        if isinstance(value, (tuple, list)):
            return [_converted(element, arguments[0]) for element in value]
    elif origin is Callable:
        if callable(value):
            return value
    elif hint is int:
        return _whole_number(value)
    elif hint is float:
        return _finite_number(value)
    elif isinstance(value, hint):
        return value
    raise _UnfitError


def _converted_to_any(value: Any, hints: tuple[Any, ...]) -> Any:
    for hint in hints:
        try:
            return _converted(value, hint)
        except _UnfitError:
            pass
    raise _UnfitError


def _whole_number(value: Any) -> int:
    if isinstance(value, bool):
        raise _UnfitError
    try:
        number = operator.index(value)
    except TypeError:
        raise _UnfitError from None
    if number not in _INT64:
        raise _UnfitError
    return number


def _finite_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _UnfitError
    try:
        number = float(value)
    except OverflowError:
        raise _UnfitError from None
    if not math.isfinite(number):
        raise _UnfitError
    return number


def _describe(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(map(_describe, arguments))
    if origin is dict:
        return f"a dict of {_name(arguments[0])} to {_name(arguments[1])}"
    if origin is Callable:
        return "callable"
    if hint is int:
        return "a whole number (an int of 64 bits)"
    return {float: "a finite number", str: "a str"}.get(hint) or _name(hint)


def _name(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return f"({' or '.join(map(_name, arguments))})"
    if origin is tuple:
        return f"({', '.join(map(_name, arguments))})"
    if origin is list:
        return f"[{_name(arguments[0])}, ...]"
    return "None" if hint is NoneType else str(hint.__name__)
