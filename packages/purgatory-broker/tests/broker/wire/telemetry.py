"""The messages of clients' telemetry (KIP-714), which kafka-python lacks.

Their fields are in the JSON files beside this module, in the form of Kafka's own definitions.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class GetTelemetrySubscriptionsRequest(ApiMessage, load_json=__package__):  # type: ignore[misc, call-arg]
    pass


class GetTelemetrySubscriptionsResponse(ApiMessage, load_json=__package__):  # type: ignore[misc, call-arg]
    pass


class PushTelemetryRequest(ApiMessage, load_json=__package__):  # type: ignore[misc, call-arg]
    pass


class PushTelemetryResponse(ApiMessage, load_json=__package__):  # type: ignore[misc, call-arg]
    pass
