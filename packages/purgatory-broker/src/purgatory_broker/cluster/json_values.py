"""The results of commands as JSON, and back, and the slices in which long ones are made.

Dataclasses become objects, tuples and sets arrays, and the keys of objects text. Bytes become text
where they are UTF-8, and `{"base64": "..."}` otherwise, so that a person can read most of them and
none are lost. What a value was is known from the command's annotation. Where the annotation is Any,
as for the fields of a request, all bytes are `{"base64": "..."}`, which tells them from text.
"""

from __future__ import annotations

import asyncio
import functools
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Sequence
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

#: The types of a class's fields; a list of records has the same ones thousands of times.
_hints_of = functools.cache(get_type_hints)


def to_json(value: Any, *, is_untyped: bool = False) -> Any:
    """`is_untyped` says that no annotation tells bytes from text."""
    kind: type = type(value)
    if is_dataclass(kind):
        return {
            name: to_json(getattr(value, name), is_untyped=untyped)
            for name, untyped in _fields_of(kind)
        }
    if isinstance(value, dict):
        return {key: to_json(item, is_untyped=is_untyped) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item, is_untyped=is_untyped) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes_to_json(bytes(value), is_untyped=is_untyped)
    if isinstance(value, (set, frozenset)):
        return sorted(to_json(item, is_untyped=is_untyped) for item in value)
    if isinstance(value, UUID):
        return str(value)
    return value


@functools.cache
def _fields_of(kind: Any) -> tuple[tuple[str, bool], ...]:
    hints = _hints_of(kind)
    return tuple((field.name, _has_any(hints[field.name])) for field in fields(kind))


def _has_any(hint: Any) -> bool:
    return hint is Any or any(map(_has_any, get_args(hint)))


def _bytes_to_json(value: bytes, *, is_untyped: bool) -> str | dict[str, str]:
    if not is_untyped:
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {"base64": b64encode(value).decode()}


def from_json(value: Any, hint: Any) -> Any:
    """With Any, every `{"base64": "..."}` becomes bytes."""
    if hint is Any:
        return _untyped_from_json(value)
    origin, arguments = get_origin(hint), get_args(hint)
    if value is None:
        return None
    if origin in (Union, UnionType):
        return from_json(
            value, next(argument for argument in arguments if argument is not NoneType)
        )
    if origin is list:
        return [from_json(item, arguments[0]) for item in value]
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return tuple(from_json(item, arguments[0]) for item in value)
        return tuple(map(from_json, value, arguments))
    if origin is dict:
        key_type, value_type = arguments
        return {key_type(key): from_json(item, value_type) for key, item in value.items()}
    if is_typeddict(hint) or is_dataclass(hint):
        hints = _hints_of(hint)
        return hint(**{key: from_json(item, hints[key]) for key, item in value.items()})
    if hint is bytes:
        return value.encode() if isinstance(value, str) else b64decode(value["base64"])
    return value


def _untyped_from_json(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_untyped_from_json, value))
    if not isinstance(value, dict):
        return value
    if value.keys() == {"base64"}:
        return b64decode(value["base64"])
    return {key: _untyped_from_json(item) for key, item in value.items()}


T = TypeVar("T")

#: The values of a result that are prepared for JSON in a slice: requests may have 1 MiB each.
VALUES_PER_SLICE = 25


async def slices(values: Sequence[T], size: int) -> AsyncIterator[Sequence[T]]:
    """Iterate over consecutive parts of a sequence, and give way between them."""
    for start in range(0, len(values), size):
        if start:
            await asyncio.sleep(0)
        yield values[start : start + size]
