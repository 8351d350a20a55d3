"""ConsumerGroupHeartbeat: refuse the newer group protocol (KIP-848) by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from purgatory_broker.wire.error_code import ErrorCode


@dataclass(frozen=True, slots=True)
class _Request:
    """A member's heartbeat, which is refused.

    Attributes:
        assigned: The ids of topics and the numbers of partitions that the member has.
    """

    group_id: str
    assigned: tuple[tuple[UUID | None, tuple[int, ...]], ...]


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(
        message.group_id,
        tuple(
            (topic.topic_id, tuple(topic.partitions)) for topic in message.topic_partitions or ()
        ),
    )


def _consumer_group_heartbeat(
    broker: BrokerApi, context: RequestContext, request: _Request
) -> None:
    """Refuse a ConsumerGroupHeartbeat request, as Kafka does without this group protocol.

    A client that does not find the API at all may wait for it for ever.
    """
    context.reply(
        ConsumerGroupHeartbeatResponse(
            error_code=int(ErrorCode.UNSUPPORTED_VERSION),
            error_message="Only the classic group protocol is supported: group.protocol=classic.",
        )
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return ConsumerGroupHeartbeatResponse(error_code=int(code))


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(
        partitions=(
            (broker.metadata.topic_name(topic_id), indexes)
            for topic_id, indexes in request.assigned
        ),
        groups=[request.group_id],
    )


API = ServedApi(
    key=68,
    name="ConsumerGroupHeartbeat",
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
    min_version=0,
    max_version=1,
    decode=_decode,
    handle=_consumer_group_heartbeat,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION, Subject.GROUP}),
)
