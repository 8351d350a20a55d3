"""FindCoordinator: the nodes that coordinate groups and transactional ids."""

from __future__ import annotations

from contextlib import suppress

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.find_coordinator import (
    FIND_COORDINATOR_MESSAGES,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from purgatory_broker.api.access import DENIED, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import (
    NO_LEADER,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    ControllerError,
    TopicPartition,
)
from purgatory_broker.request_context import RequestContext

#: The key types.
GROUP = 0
TRANSACTION = 1
SHARE = 2
_REQUIRED = {
    GROUP: (AclOperation.DESCRIBE, AclResource.GROUP),
    TRANSACTION: (AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID),
    SHARE: (AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),
}

#: The first version for several groups at a time.
BATCHED_SINCE = 4


def _find_coordinator(
    broker: BrokerApi, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    if context.version >= BATCHED_SINCE:
        keys = request.coordinator_keys
        return FindCoordinatorResponse(
            coordinators=[_coordinator_of(broker, context, key, request.key_type) for key in keys]
        )
    found = _coordinator_of(broker, context, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _coordinator_of(
    broker: BrokerApi, context: RequestContext, key: str, key_type: int
) -> Coordinator:
    code = ErrorCode.NONE
    leader = NO_LEADER
    if key_type not in (GROUP, TRANSACTION, SHARE):
        code = ErrorCode.INVALID_REQUEST
    elif not _is_allowed(broker, context, key, key_type):
        code = DENIED[_REQUIRED[key_type][1]]
    elif not broker.reaches_controller:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        partition = _partition_of(broker, key, key_type)
        leader, _ = broker.metadata.leader_of(partition)
        if leader == NO_LEADER:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    host, port = "", -1
    if code is ErrorCode.NONE:
        (endpoint,) = broker.endpoints([leader], context.client.listener)
        host, port = endpoint.host, endpoint.port
    return Coordinator(
        key=key, node_id=leader, host=host, port=port, error_code=code, error_message=None
    )


def _is_allowed(broker: BrokerApi, context: RequestContext, key: str, key_type: int) -> bool:
    operation, resource = _REQUIRED[key_type]
    if resource is AclResource.CLUSTER:
        return is_allowed(broker, context, operation, resource)
    return is_allowed(broker, context, operation, resource, key)


def _partition_of(broker: BrokerApi, key: str, key_type: int) -> TopicPartition:
    """Return the partition whose leader is the coordinator; create its topic if need be."""
    changes = broker.controller.topic_changes
    with suppress(ControllerError):  # Clients retry, and so does the creation.
        if key_type == GROUP:
            changes.create_offsets_topic()
        elif key_type == SHARE:
            changes.create_share_state_topic()
        else:
            changes.create_transactions_topic()
    if key_type == GROUP:
        return TopicPartition(OFFSETS_TOPIC, broker.groups.partition_for(key))
    if key_type == SHARE:
        return TopicPartition(SHARE_STATE_TOPIC, broker.share_coordinator.partition_for(key))
    return TopicPartition(TRANSACTIONS_TOPIC, broker.transactions.partition_for(key))


def _keys(request: FindCoordinatorRequest, key_type: int) -> list[str]:
    if request.key_type != key_type:
        return []
    return [*request.coordinator_keys, *([request.key] if request.key else [])]


FIND_COORDINATOR = ServedApi(
    messages=FIND_COORDINATOR_MESSAGES,
    versions=(0, 6),
    answer=_find_coordinator,
    more_groups=lambda request: _keys(request, GROUP),
    more_transactional_ids=lambda request: _keys(request, TRANSACTION),
)
