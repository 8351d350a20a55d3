"""GetTelemetrySubscriptions and PushTelemetry: the metrics of clients (KIP-714).

They are checked as in Kafka, and dropped. A test finds them among the last requests.
"""

from __future__ import annotations

import base64
from uuid import UUID, uuid4

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.get_telemetry_subscriptions import (
    GET_TELEMETRY_SUBSCRIPTIONS_MESSAGES,
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from purgatory_broker._wire.protocol.push_telemetry import (
    PUSH_TELEMETRY_MESSAGES,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.client_telemetry import CODECS, MAX_BYTES
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.request_context import RequestContext

#: Kafka's reserved ids are below this, as numbers.
_FIRST_ID = 100


def _attributes(context: RequestContext, client: UUID) -> dict[str, str]:
    """Return what subscriptions may match; the client's port is not known."""
    name, version = context.client.software
    return {
        # As Kafka writes ids.
        "client_instance_id": base64.urlsafe_b64encode(client.bytes).rstrip(b"=").decode(),
        "client_id": context.client.client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": context.client.client_host.removeprefix("/"),
    }


def _get_telemetry_subscriptions(
    broker: BrokerApi, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    client = request.client_instance_id or uuid4()
    subscription_id, wanted = broker.telemetry.ask(
        client, _attributes(context, client), broker.metadata.resource_configs, broker.wall_ms()
    )
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client,
        subscription_id=subscription_id,
        accepted_compression_types=list(CODECS),
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=MAX_BYTES,
        delta_temporality=True,
        requested_metrics=list(wanted.metrics),
    )


GET_TELEMETRY_SUBSCRIPTIONS = ServedApi(
    messages=GET_TELEMETRY_SUBSCRIPTIONS_MESSAGES,
    versions=(0, 0),
    answer=_get_telemetry_subscriptions,
)


def _push_telemetry(
    broker: BrokerApi, context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse:
    client = request.client_instance_id
    if client is None or client.int < _FIRST_ID:
        raise ControllerError(ErrorCode.INVALID_REQUEST, f"invalid client instance id {client}")
    broker.telemetry.push(
        client,
        _attributes(context, client),
        broker.metadata.resource_configs,
        broker.wall_ms(),
        subscription_id=request.subscription_id,
        is_terminating=request.terminating,
        codec=request.compression_type,
        metrics=request.metrics,
    )
    return PushTelemetryResponse()


PUSH_TELEMETRY = ServedApi(
    messages=PUSH_TELEMETRY_MESSAGES, versions=(0, 0), answer=_push_telemetry
)
