"""FindCoordinator: look up the brokers that coordinate groups."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.metadata.controller_error import ControllerError
from purgatory_broker.metadata.topics import NO_LEADER, OFFSETS_TOPIC, TopicPartition
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_Coordinator = FindCoordinatorResponse.Coordinator

#: The key types.
GROUP = 0
TRANSACTION = 1

#: The first versions with a key type, and for several groups at a time.
KEY_TYPE_SINCE = 1
BATCHED_SINCE = 4
#: The version that librdkafka sends. It gives up on an authorization error only, whose message it
#: shows. Other clients have other versions, and give up on UNSUPPORTED_VERSION.
LIBRDKAFKA_VERSION = 2


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for coordinators.

    Attributes:
        key_type: The type of the keys; that of groups in old versions.
        keys: The keys, such as the ids of groups.
        is_batched: The response has a list of coordinators; otherwise there is one key.
    """

    key_type: int
    keys: tuple[str, ...]
    is_batched: bool


def _decode(message: Any, context: RequestContext) -> _Request:
    is_batched = context.version >= BATCHED_SINCE
    return _Request(
        message.key_type if context.version >= KEY_TYPE_SINCE else GROUP,
        tuple(message.coordinator_keys) if is_batched else (message.key,),
        is_batched,
    )


def _find_coordinator(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    located = [
        (key, _coordinator_of(broker, context, key, request.key_type)) for key in request.keys
    ]
    if request.is_batched:
        coordinators = [_Coordinator(**coordinator, key=key) for key, coordinator in located]
        context.reply(FindCoordinatorResponse(coordinators=coordinators))
        return
    ((_, coordinator),) = located
    context.reply(FindCoordinatorResponse(**coordinator))


def _coordinator_of(
    broker: BrokerApi, context: RequestContext, key: str, key_type: int
) -> dict[str, Any]:
    code = ErrorCode.NONE
    leader = NO_LEADER
    message = None
    if key_type not in (GROUP, TRANSACTION):
        code = ErrorCode.INVALID_REQUEST
    elif key_type == TRANSACTION:
        # Clients would retry COORDINATOR_NOT_AVAILABLE for ever.
        code = (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if context.version == LIBRDKAFKA_VERSION
            else ErrorCode.UNSUPPORTED_VERSION
        )
        message = "This broker does not support transactions."
    elif not broker.reaches_controller:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        with suppress(ControllerError):  # Clients retry, and so does the creation.
            broker.controller.topic_changes.create_offsets_topic()
        partition = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_for(key))
        leader, _ = broker.metadata.leader_of(partition)
        if leader == NO_LEADER:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code is not ErrorCode.NONE:
        return {
            "error_code": int(code),
            "error_message": message,
            "node_id": -1,
            "host": "",
            "port": -1,
        }
    (endpoint,) = broker.endpoints([leader], context.client.listener)
    return {
        "error_code": 0,
        "error_message": None,
        "node_id": leader,
        "host": endpoint["host"],
        "port": endpoint["port"],
    }


def _error_response(request: _Request, code: ErrorCode) -> Any:
    coordinators = [
        _Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=int(code), error_message=None
        )
        for key in (request.keys if request.is_batched else ())
    ]
    return FindCoordinatorResponse(
        error_code=int(code),
        error_message=None,
        node_id=-1,
        host="",
        port=-1,
        coordinators=coordinators,
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(groups=request.keys if request.key_type == GROUP else ())


API = ServedApi(
    key=10,
    name="FindCoordinator",
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    min_version=0,
    max_version=6,
    decode=_decode,
    handle=_find_coordinator,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.GROUP}),
)
