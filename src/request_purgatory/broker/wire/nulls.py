"""Nulls where the protocol has none."""

from __future__ import annotations

from typing import Any

from request_purgatory.broker.wire.apis import Api
from request_purgatory.broker.wire.errors import WireError


def require_arrays(api: Api, request: Any, version: int) -> None:
    """Refuse a request with a null where its version must have an array or a text, however deep.

    Raises:
        WireError: as Kafka, which ends the connection, with the field's name.
    """
    _require(api, request, version, request._struct)


def _require(api: Api, data: Any, version: int, struct: Any) -> None:
    for field in struct.fields.values():
        if not field.for_version_q(version):
            continue
        value = getattr(data, field.name)
        if value is None:
            if not field.nullable_for_version_q(version) and field._tag is None:
                raise WireError(f"{api.name} request of version {version}: {field.name} is null")
        elif field.is_struct_array():
            for each in value:
                _require(api, each, version, each._struct)
