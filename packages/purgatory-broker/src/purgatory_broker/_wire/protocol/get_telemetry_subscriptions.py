"""The messages of GetTelemetrySubscriptions.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from uuid import UUID

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_IIT = struct.Struct(">ii?")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class GetTelemetrySubscriptionsRequest(MessageStruct):
    """GetTelemetrySubscriptionsRequest of Kafka."""

    client_instance_id: UUID | None = None


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class GetTelemetrySubscriptionsResponse(MessageStruct):
    """GetTelemetrySubscriptionsResponse of Kafka."""

    throttle_time_ms: int = 0
    error_code: int = 0
    client_instance_id: UUID | None = None
    subscription_id: int = 0
    accepted_compression_types: list[int] = field(default_factory=list)
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = field(default_factory=list)


def _read_get_telemetry_subscriptions_request(
    reader: Reader, version: int
) -> GetTelemetrySubscriptionsRequest:
    client_instance_id = reader.topic_id("client_instance_id")
    reader.skip_tagged_fields()
    return GetTelemetrySubscriptionsRequest(client_instance_id)


def _read_get_telemetry_subscriptions_response(
    reader: Reader, version: int
) -> GetTelemetrySubscriptionsResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    client_instance_id = reader.topic_id("client_instance_id")
    (subscription_id,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    accepted_compression_types = reader.numbers("accepted_compression_types", "b", 1)
    push_interval_ms, telemetry_max_bytes, delta_temporality = _IIT.unpack_from(
        reader.frame, reader.position
    )
    reader.position += 9
    requested_metrics = reader.strings("requested_metrics")
    reader.skip_tagged_fields()
    return GetTelemetrySubscriptionsResponse(
        throttle_time_ms,
        error_code,
        client_instance_id,
        subscription_id,
        accepted_compression_types,
        push_interval_ms,
        telemetry_max_bytes,
        delta_temporality,
        requested_metrics,
    )


def _write_get_telemetry_subscriptions_response(
    out: Writer, data: GetTelemetrySubscriptionsResponse, version: int
) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.topic_id(data.client_instance_id)
    out += _I.pack(data.subscription_id)
    out.numbers(data.accepted_compression_types, "b")
    out += _IIT.pack(data.push_interval_ms, data.telemetry_max_bytes, data.delta_temporality)
    out.strings(data.requested_metrics)
    out.append(0)


def _error_response(
    request: GetTelemetrySubscriptionsRequest, code: int
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(error_code=code)


GET_TELEMETRY_SUBSCRIPTIONS_MESSAGES = ApiMessages(
    key=71,
    name="GetTelemetrySubscriptions",
    versions=(0, 0),
    flexible_since=0,
    request=GetTelemetrySubscriptionsRequest,
    response=GetTelemetrySubscriptionsResponse,
    read_request=_read_get_telemetry_subscriptions_request,
    read_response=_read_get_telemetry_subscriptions_response,
    write_response=_write_get_telemetry_subscriptions_response,
    error_response=_error_response,
    fields={},
)
