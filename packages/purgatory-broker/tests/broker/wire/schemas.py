"""kafka-python's messages, which have schemas, beside those that the broker reads and writes."""

from __future__ import annotations

import dataclasses
import typing
from functools import cache
from typing import Any, Protocol

from kafka.protocol import admin, consumer, metadata, producer, sasl

from purgatory_broker._wire.apis import Api
from tests.broker.wire import consumer_groups, share_groups, telemetry


class Named(Protocol):
    """An API, or its messages."""

    @property
    def name(self) -> str: ...


_MODULES = (
    admin,
    consumer,
    metadata,
    producer,
    sasl,
    consumer_groups,
    share_groups,
    telemetry,
)
#: A bit field has no bits: the null of kafka-python.
_NO_BITS = -(2**31)


def theirs(name: str) -> Any:
    """Return kafka-python's class of a message."""
    return next(getattr(module, name) for module in _MODULES if hasattr(module, name))


def request_class(api: Named) -> Any:
    return theirs(f"{api.name}Request")


def response_class(api: Named) -> Any:
    return theirs(f"{api.name}Response")


def read_body(api: Api, version: int, body: bytes) -> Any:
    """Return the request of some bytes without a header."""
    return api.messages.read_request(api.messages.reader(body, 0, version), version)


def own(message: Any, struct_field: Any, kind: Any) -> Any:
    """Return kafka-python's message, or a part of one, as an object of the class made for it."""
    values = {}
    for field in struct_field.fields.values():
        name = own_name(kind, field)
        if name is not None:
            values[name] = _own_value(getattr(message, field.name), field, kind, name)
    return kind(**values)


def own_name(kind: Any, field: Any) -> str | None:
    """Return Kafka's name of a field, which kafka-python shortens for bit fields.

    It is None if Kafka 4.1 does not have the field.
    """
    names = [each.name for each in dataclasses.fields(kind)]
    return next((name for name in names if name == field.name), None) or next(
        (name for name in names if name.endswith(f"_{field.name}")), None
    )


def _own_value(value: Any, field: Any, kind: Any, name: str) -> Any:
    if not field.is_array() and not field.is_struct() and field._type_str == "bitfield":
        return _NO_BITS if value is None else sum(1 << bit for bit in value)
    if value is None:
        return None
    if field.is_struct_array():
        return [own(each, field, part_class(kind, name)) for each in value]
    if field.is_struct():
        return own(value, field, part_class(kind, name))
    return bytes(value) if isinstance(value, memoryview) else value


@cache
def part_class(kind: Any, name: str) -> Any:
    """Return the class of a field, or of its elements."""
    kinds = [typing.get_type_hints(kind)[name]]
    for each in kinds:
        kinds += typing.get_args(each)
    return next(each for each in kinds if dataclasses.is_dataclass(each))
