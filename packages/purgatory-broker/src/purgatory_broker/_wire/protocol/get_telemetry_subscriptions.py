"""The messages of GetTelemetrySubscriptions.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_IIT = struct.Struct(">ii?")


class GetTelemetrySubscriptionsRequest(MessageStruct):
    """GetTelemetrySubscriptionsRequest of Kafka."""

    __slots__ = ("client_instance_id",)
    client_instance_id: UUID | None

    def __init__(self, client_instance_id: UUID | None = None) -> None:
        self.client_instance_id = client_instance_id


class GetTelemetrySubscriptionsResponse(MessageStruct):
    """GetTelemetrySubscriptionsResponse of Kafka."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "client_instance_id",
        "subscription_id",
        "accepted_compression_types",
        "push_interval_ms",
        "telemetry_max_bytes",
        "delta_temporality",
        "requested_metrics",
    )
    throttle_time_ms: int
    error_code: int
    client_instance_id: UUID | None
    subscription_id: int
    accepted_compression_types: list[int]
    push_interval_ms: int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: list[str]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: UUID | None = None,
        subscription_id: int = 0,
        accepted_compression_types: list[int] = NEW_LIST,
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: list[str] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.accepted_compression_types = (
            [] if accepted_compression_types is NEW_LIST else accepted_compression_types
        )
        self.push_interval_ms = push_interval_ms
        self.telemetry_max_bytes = telemetry_max_bytes
        self.delta_temporality = delta_temporality
        self.requested_metrics = [] if requested_metrics is NEW_LIST else requested_metrics


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
