"""Hypothesis strategies for the messages of any version of an API, from kafka-python's schemas."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from purgatory_broker._wire.apis import Api

#: Some have lengths of two and three bytes in flexible versions.
TEXTS = st.one_of(
    st.text(max_size=12),
    st.text(max_size=12),
    st.sampled_from(["", "é" * 300, "a" * 5_000, "a" * 32_767]),
)
BYTES = st.one_of(
    st.binary(max_size=40), st.binary(max_size=40), st.sampled_from([b"", b"\xff" * 5_000])
)
INTEGERS = {
    f"int{bits}": st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)
}
#: kafka-python decodes an id of zeros as None. A bit field has no bit 31: with only this bit set it
#: is null.
NO_ID = uuid.UUID(int=0)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **INTEGERS,
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "uuid": st.one_of(st.none(), st.uuids().filter(NO_ID.__ne__)),
    "bitfield": st.one_of(st.none(), st.sets(st.integers(0, 30), max_size=4)),
    "string": TEXTS,
    "bytes": BYTES,
    "records": BYTES,
}
MAX_ELEMENTS = 3


@st.composite
def messages(draw: st.DrawFn, api: Api, message: Any) -> tuple[int, Any]:
    """Draw a supported version of an API, and one of its messages; `message` is their class."""
    version = draw(st.integers(api.min_version, api.max_version))
    return version, draw(message_of(message, version))


def message_of(message: Any, version: int) -> st.SearchStrategy[Any]:
    """Return the messages of a version; `message` is their class."""
    return _parts(message, message._struct, version)


@st.composite
def _parts(draw: st.DrawFn, make: Callable[..., Any], struct_field: Any, version: int) -> Any:
    """Draw a message or a part of one, with every field that the version has."""
    drawn = {}
    for field in struct_field.fields.values():
        # A tagged field may be absent, which means its default.
        if field.for_version_q(version) and (
            not field.tagged_field_q(version) or draw(st.booleans())
        ):
            drawn[field.name] = draw(_values(field, version))
    return make(**drawn)


def _values(field: Any, version: int) -> st.SearchStrategy[Any]:
    """Return what a field may be in a version."""
    if field.is_struct_array():
        values: st.SearchStrategy[Any] = st.lists(
            _parts(field.data_class, field, version), max_size=MAX_ELEMENTS
        )
    elif field.is_struct():
        values = _parts(field.data_class, field, version)
    elif field.is_array():
        values = st.lists(VALUES[field.array_of._type_str], max_size=MAX_ELEMENTS)
    else:
        values = VALUES[field._type_str]
    return st.one_of(st.none(), values) if field.nullable_for_version_q(version) else values


def plain(message: Any, struct_field: Any, version: int) -> dict[str, Any]:
    """Return the fields of a message or a part of one as a dict, as deep as it goes."""
    return {
        field.name: _plain_value(getattr(message, field.name), field, version)
        for field in struct_field.fields.values()
        if field.for_version_q(version)
    }


def _plain_value(value: Any, field: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_struct_array():
        return [plain(each, field, version) for each in value]
    if field.is_struct():
        return plain(value, field, version)
    return bytes(value) if field._type_str in ("bytes", "records") else value
