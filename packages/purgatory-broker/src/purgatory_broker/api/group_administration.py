"""FindCoordinator, ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from contextlib import suppress

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.delete_groups import (
    DELETE_GROUPS_MESSAGES,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from purgatory_broker._wire.protocol.describe_groups import (
    DESCRIBE_GROUPS_MESSAGES,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from purgatory_broker._wire.protocol.find_coordinator import (
    FIND_COORDINATOR_MESSAGES,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from purgatory_broker._wire.protocol.list_groups import (
    LIST_GROUPS_MESSAGES,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.metadata import NOT_ASKED, ON_GROUPS
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.groups.group_messages import GroupDescription
from purgatory_broker.metadata.topics import (
    NO_LEADER,
    OFFSETS_TOPIC,
    ControllerError,
    TopicPartition,
)
from purgatory_broker.request_context import RequestContext

#: The key types.
GROUP = 0
TRANSACTION = 1

#: The first version for several groups at a time.
BATCHED_SINCE = 4
#: The version that librdkafka sends. It gives up on an authorization error only, whose message it
#: shows. Other clients have other versions, and give up on UNSUPPORTED_VERSION.
LIBRDKAFKA_VERSION = 2


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
    host, port = "", -1
    if code is ErrorCode.NONE:
        (endpoint,) = broker.endpoints([leader], context.client.listener)
        host, port = endpoint.host, endpoint.port
    return Coordinator(
        key=key, node_id=leader, host=host, port=port, error_code=code, error_message=message
    )


FIND_COORDINATOR = ServedApi(
    messages=FIND_COORDINATOR_MESSAGES,
    versions=(0, 6),
    answer=_find_coordinator,
    more_groups=lambda request: (
        [*request.coordinator_keys, *([request.key] if request.key else [])]
        if request.key_type == GROUP
        else []
    ),
)


def _list_groups(
    broker: BrokerApi, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    listed = broker.groups.list_groups(request.states_filter, request.types_filter)
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in listed
        ]
    )


LIST_GROUPS = ServedApi(
    messages=LIST_GROUPS_MESSAGES,
    versions=(0, 5),
    answer=_list_groups,
)


#: The first version whose response has GROUP_ID_NOT_FOUND.
GROUP_ID_NOT_FOUND_SINCE = 6


def _describe_groups(
    broker: BrokerApi, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    operations = ON_GROUPS if request.include_authorized_operations else NOT_ASKED
    return DescribeGroupsResponse(
        groups=[
            _described(broker.groups.describe_group(group_id), operations, context.version)
            for group_id in dict.fromkeys(request.groups)
        ]
    )


def _described(group: GroupDescription, operations: int, version: int) -> DescribedGroup:
    """Return a group of the response; old versions report a group that is not found as dead."""
    error, message = group.error, None
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        if version >= GROUP_ID_NOT_FOUND_SINCE:
            message = f"Group {group.group_id} not found."
        else:
            error = ErrorCode.NONE
    return DescribedGroup(
        error_code=int(error),
        error_message=message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=operations if error is ErrorCode.NONE else NOT_ASKED,
    )


DESCRIBE_GROUPS = ServedApi(
    messages=DESCRIBE_GROUPS_MESSAGES, versions=(0, 6), answer=_describe_groups
)


def _delete_groups(
    broker: BrokerApi, context: RequestContext, request: DeleteGroupsRequest
) -> None:
    def reply(errors: dict[str, ErrorCode]) -> None:
        results = [
            DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in errors.items()
        ]
        context.reply(DeleteGroupsResponse(results=results))

    broker.groups.delete_groups(request.groups_names, reply)


DELETE_GROUPS = ServedApi(messages=DELETE_GROUPS_MESSAGES, versions=(0, 2), handle=_delete_groups)
