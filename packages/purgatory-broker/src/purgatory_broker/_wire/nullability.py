"""Refuses nulls that the protocol does not allow; kafka-python decodes them as None."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.wire_error import WireError


class _Field(NamedTuple):
    name: str
    nullable: bool
    #: An array of strings or numbers, whose elements must not be null even if the array may.
    is_plain_array: bool
    element: tuple[_Field, ...]


def check_nullability(api: Api, request: Any, version: int) -> None:
    """Refuse a request with a null array, string or bytes where `version` allows none."""
    _check(request, _request_fields(api, version))


@cache
def _request_fields(api: Api, version: int) -> tuple[_Field, ...]:
    return _fields(api.request.fields.values(), version)


def _fields(fields: Iterable[Any], version: int) -> tuple[_Field, ...]:
    checked = []
    for field in fields:
        if not field.for_version_q(version) or field.tagged_field_q(version):
            continue
        nullable = bool(field.nullable_for_version_q(version))
        is_struct_array = field.is_struct_array()
        element = _fields(field.fields.values(), version) if is_struct_array else ()
        is_plain_array = field.is_array() and not is_struct_array
        # Numbers are never null. A topic id of zeros, which is decoded as None, means no id.
        can_be_null = field.is_array() or field.type_str in ("string", "bytes", "records")
        if can_be_null and (not nullable or element or is_plain_array):
            checked.append(_Field(field.name, nullable, is_plain_array, element))
    return tuple(checked)


def _check(data: Any, fields: tuple[_Field, ...]) -> None:
    for name, nullable, is_plain_array, element in fields:
        value = getattr(data, name)
        if value is None:
            if not nullable:
                raise WireError(f"{name} must not be null")
        elif element:
            for item in value:
                _check(item, element)
        elif is_plain_array and None in value:
            raise WireError(f"an element of {name} must not be null")
