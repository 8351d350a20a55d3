"""Nulls where the protocol has none, which the library reads as None without a word."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from request_purgatory.broker.wire.apis import Api
from request_purgatory.broker.wire.errors import WireError


class _Field(NamedTuple):
    """A field that may not be null, or whose elements have such fields."""

    name: str
    nullable: bool
    #: Of texts, which may not be null whatever the array may.
    is_plain_array: bool
    inner: tuple[_Field, ...]


def require_no_nulls(api: Api, request: Any, version: int) -> None:
    """Refuse a request with a null where its version must have an array, a text or bytes, however deep.

    Raises:
        WireError: as Kafka, which ends the connection, with the field's name.
    """
    _require(api, request, version, _fields_of(api, version))


@cache
def _fields_of(api: Api, version: int) -> tuple[_Field, ...]:
    return _fields(api.request._struct, version)


def _fields(part: Any, version: int) -> tuple[_Field, ...]:
    found = []
    for field in part.untagged_fields(version):
        nullable = bool(field.nullable_for_version_q(version))
        inner = _fields(field, version) if field.is_struct_array() else ()
        is_plain_array = field.is_array() and not field.is_struct_array()
        # Numbers are never null, and a topic's id of nothing but zeros, which is read as None, is
        # no id.
        kind = field._type_str
        may_be_null = kind in ("string", "bytes", "records") or kind.startswith("[]")
        if may_be_null and (not nullable or inner or is_plain_array):
            found.append(_Field(field.name, nullable, is_plain_array, inner))
    return tuple(found)


def _require(api: Api, data: Any, version: int, fields: tuple[_Field, ...]) -> None:
    for name, nullable, is_plain_array, inner in fields:
        value = getattr(data, name)
        if value is None:
            if not nullable:
                raise WireError(f"{api.name} request of version {version}: {name} is null")
        elif inner:
            for each in value:
                _require(api, each, version, inner)
        elif is_plain_array and None in value:
            raise WireError(f"{api.name} request of version {version}: a null among {name}")
