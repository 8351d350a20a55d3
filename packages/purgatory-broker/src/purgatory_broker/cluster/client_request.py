"""The requests of clients, as a test looks at them."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.reader import Reader
from purgatory_broker.server.request_log import LoggedRequest
from request_purgatory.error_log import ErrorLog

logger = logging.getLogger(__name__)
_errors = ErrorLog(logger)

#: The requests that are decoded before others have their turn on the event loop.
REQUESTS_PER_SLICE = 4
#: A response frame's size and correlation id.
_RESPONSE_HEADER_BYTES = 8
#: What stands for a secret, as for passwords in Kafka.
_HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request of a client, and its response.

    Fields of `request` and `response` that are bytes, such as a Produce request's `records`, are
    bytes. In JSON they are `{"base64": "..."}`, also where they are text. Uuids are text. The
    tokens of logins and salted passwords are "[hidden]".

    Attributes:
        node: the number of the node that has received it.
        api: Kafka's name of its API.
        version: its version.
        client_id: its `client.id`; "" if it has none.
        correlation_id: the number by which the client finds its response.
        received_ms: milliseconds since 1970.
        answered_ms: the same of its response; None while it waits.
        request: its fields; None if they are not remembered.
        response: the response's fields, before an injected response fault; None if there is no
            response, or its fields are not remembered.
    """

    node: int
    api: str
    version: int
    client_id: str
    correlation_id: int
    received_ms: int
    answered_ms: int | None
    request: dict[str, Any] | None
    response: dict[str, Any] | None


def client_request(logged: LoggedRequest) -> ClientRequest:
    header = logged.header
    api, version = header.api, header.version if header.is_supported else 0
    request = response = None
    if logged.frame is not None and header.is_supported:
        body = logged.frame[header.body_offset :]
        request = _fields(api, api.messages.read_request, body, version)
    if logged.response is not None:
        tagged = api.has_tagged_header and api.is_flexible(version)
        body = bytes(logged.response[_RESPONSE_HEADER_BYTES + tagged :])
        response = _fields(api, api.messages.read_response, body, version)
    return ClientRequest(
        node=logged.node_id,
        api=api.name,
        version=header.version,
        client_id=header.client_id or "",
        correlation_id=header.correlation_id,
        received_ms=logged.received_ms,
        answered_ms=logged.answered_ms,
        request=request,
        response=response,
    )


def _fields(
    api: Api, read: Callable[[Reader, int], Any], body: bytes, version: int
) -> dict[str, Any] | None:
    """Return the fields of a message; None if it can't be decoded."""
    try:
        # What the broker has read once, or has written itself, is not limited.
        message = read(api.messages.reader(body, 0, version, sys.maxsize), version)
    except Exception as error:  # A response may be of a function's making.
        _errors.log(error, "can't show a message of %s, version %d", api.name, version)
        return None
    fields: dict[str, Any] = _plain(message, api, version)
    return fields


def _plain(value: Any, api: Api, version: int) -> Any:
    if isinstance(value, list):
        return [_plain(element, api, version) for element in value]
    if dataclasses.is_dataclass(value):
        versions = api.messages.fields.get(type(value), {})
        return {
            name: _HIDDEN if name in api.secrets else _plain(getattr(value, name), api, version)
            for name in (field.name for field in dataclasses.fields(value))
            if name not in versions or versions[name][0] <= version <= versions[name][1]
        }
    return str(value) if isinstance(value, UUID) else value
