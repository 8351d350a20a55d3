"""The messages of consumer groups (KIP-848) that kafka-python lacks.

Their fields are in the JSON files beside this module, in the form of Kafka's own definitions.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=__package__):  # type: ignore[misc, call-arg]
    pass


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=__package__):  # type: ignore[misc, call-arg]
    pass


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[misc, call-arg]
    pass


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[misc, call-arg]
    pass
