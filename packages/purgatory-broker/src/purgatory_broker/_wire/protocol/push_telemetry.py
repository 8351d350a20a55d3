"""The messages of PushTelemetry.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from uuid import UUID

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_ITB = struct.Struct(">i?b")
_IH = struct.Struct(">ih")


class PushTelemetryRequest(MessageStruct):
    """PushTelemetryRequest of Kafka."""

    __slots__ = (
        "client_instance_id",
        "subscription_id",
        "terminating",
        "compression_type",
        "metrics",
    )
    client_instance_id: UUID | None
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes

    def __init__(
        self,
        client_instance_id: UUID | None = None,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics


class PushTelemetryResponse(MessageStruct):
    """PushTelemetryResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code")
    throttle_time_ms: int
    error_code: int

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


def _read_push_telemetry_request(reader: Reader, version: int) -> PushTelemetryRequest:
    client_instance_id = reader.topic_id("client_instance_id")
    subscription_id, terminating, compression_type = _ITB.unpack_from(reader.frame, reader.position)
    reader.position += 6
    metrics = reader.blob("metrics")
    reader.skip_tagged_fields()
    return PushTelemetryRequest(
        client_instance_id, subscription_id, terminating, compression_type, metrics
    )


def _read_push_telemetry_response(reader: Reader, version: int) -> PushTelemetryResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    reader.skip_tagged_fields()
    return PushTelemetryResponse(throttle_time_ms, error_code)


def _write_push_telemetry_response(out: Writer, data: PushTelemetryResponse, version: int) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.append(0)


def _error_response(request: PushTelemetryRequest, code: int) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=code)


PUSH_TELEMETRY_MESSAGES = ApiMessages(
    key=72,
    name="PushTelemetry",
    versions=(0, 0),
    flexible_since=0,
    request=PushTelemetryRequest,
    response=PushTelemetryResponse,
    read_request=_read_push_telemetry_request,
    read_response=_read_push_telemetry_response,
    write_response=_write_push_telemetry_response,
    error_response=_error_response,
    fields={},
)
