"""FindCoordinator, ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.delete_groups import (
    DELETE_GROUPS_MESSAGES,
    DeletableGroupResult,
    DeleteGroupsResponse,
)
from purgatory_broker._wire.protocol.describe_groups import (
    DESCRIBE_GROUPS_MESSAGES,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from purgatory_broker._wire.protocol.find_coordinator import (
    FIND_COORDINATOR_MESSAGES,
    Coordinator,
    FindCoordinatorResponse,
)
from purgatory_broker._wire.protocol.list_groups import (
    LIST_GROUPS_MESSAGES,
    ListedGroup,
    ListGroupsResponse,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.metadata import NOT_ASKED, ON_GROUPS
from purgatory_broker.api.served_api import ServedApi, Subjects
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

#: The first versions with a key type, and for several groups at a time.
KEY_TYPE_SINCE = 1
BATCHED_SINCE = 4
#: The version that librdkafka sends. It gives up on an authorization error only, whose message it
#: shows. Other clients have other versions, and give up on UNSUPPORTED_VERSION.
LIBRDKAFKA_VERSION = 2


@dataclass(frozen=True, slots=True)
class _FindCoordinator:
    #: The type of the keys; that of groups in old versions.
    key_type: int
    keys: tuple[str, ...]
    #: The response has a list of coordinators; otherwise there is one key.
    is_batched: bool


def _decode_find_coordinator(message: Any, context: RequestContext) -> _FindCoordinator:
    is_batched = context.version >= BATCHED_SINCE
    return _FindCoordinator(
        message.key_type if context.version >= KEY_TYPE_SINCE else GROUP,
        tuple(message.coordinator_keys) if is_batched else (message.key,),
        is_batched,
    )


def _find_coordinator(broker: BrokerApi, context: RequestContext, request: _FindCoordinator) -> Any:
    located = [
        (key, _coordinator_of(broker, context, key, request.key_type)) for key in request.keys
    ]
    if request.is_batched:
        coordinators = [Coordinator(**coordinator, key=key) for key, coordinator in located]
        return FindCoordinatorResponse(coordinators=coordinators)
    ((_, coordinator),) = located
    return FindCoordinatorResponse(**coordinator)


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
    host, port = "", -1
    if code is ErrorCode.NONE:
        (endpoint,) = broker.endpoints([leader], context.client.listener)
        host, port = endpoint["host"], endpoint["port"]
    return {
        "error_code": int(code),
        "error_message": message,
        "node_id": leader,
        "host": host,
        "port": port,
    }


def _refuse_find_coordinator(request: _FindCoordinator, code: ErrorCode) -> Any:
    coordinators = [
        Coordinator(key=key, node_id=-1, port=-1, error_code=int(code), error_message=None)
        for key in (request.keys if request.is_batched else ())
    ]
    return FindCoordinatorResponse(
        error_code=int(code), error_message=None, node_id=-1, port=-1, coordinators=coordinators
    )


FIND_COORDINATOR = ServedApi(
    messages=FIND_COORDINATOR_MESSAGES,
    versions=(0, 6),
    decode=_decode_find_coordinator,
    answer=_find_coordinator,
    refuse=_refuse_find_coordinator,
    subjects=Subjects(
        groups=lambda _broker, request: request.keys if request.key_type == GROUP else ()
    ),
)


@dataclass(frozen=True, slots=True)
class _ListGroups:
    """A request for the groups of some states and types; empty is all."""

    states: tuple[str, ...]
    types: tuple[str, ...]


def _decode_list_groups(message: Any, context: RequestContext) -> _ListGroups:
    return _ListGroups(tuple(message.states_filter or ()), tuple(message.types_filter or ()))


def _list_groups(broker: BrokerApi, context: RequestContext, request: _ListGroups) -> Any:
    listed = broker.groups.list_groups(request.states, request.types)
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
    decode=_decode_list_groups,
    answer=_list_groups,
)


#: The first version whose response has GROUP_ID_NOT_FOUND.
GROUP_ID_NOT_FOUND_SINCE = 6


@dataclass(frozen=True, slots=True)
class _DescribeGroups:
    group_ids: tuple[str, ...]
    include_authorized_operations: bool


def _decode_describe_groups(message: Any, context: RequestContext) -> _DescribeGroups:
    return _DescribeGroups(tuple(message.groups), message.include_authorized_operations)


def _describe_groups(broker: BrokerApi, context: RequestContext, request: _DescribeGroups) -> Any:
    operations = ON_GROUPS if request.include_authorized_operations else NOT_ASKED
    groups = [
        _described(broker.groups.describe_group(group_id), operations, context.version)
        for group_id in dict.fromkeys(request.group_ids)
    ]
    return DescribeGroupsResponse(groups=groups)


def _described(group: GroupDescription, operations: int, version: int) -> Any:
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


def _refuse_describe_groups(request: _DescribeGroups, code: ErrorCode) -> Any:
    return DescribeGroupsResponse(
        groups=[
            DescribedGroup(error_code=int(code), group_id=group_id, members=[])
            for group_id in request.group_ids
        ]
    )


DESCRIBE_GROUPS = ServedApi(
    messages=DESCRIBE_GROUPS_MESSAGES,
    versions=(0, 6),
    decode=_decode_describe_groups,
    answer=_describe_groups,
    refuse=_refuse_describe_groups,
    subjects=Subjects(groups=lambda _broker, request: request.group_ids),
)


@dataclass(frozen=True, slots=True)
class _DeleteGroups:
    group_ids: tuple[str, ...]


def _decode_delete_groups(message: Any, context: RequestContext) -> _DeleteGroups:
    return _DeleteGroups(tuple(message.groups_names))


def _delete_groups(broker: BrokerApi, context: RequestContext, request: _DeleteGroups) -> None:
    def reply(errors: dict[str, ErrorCode]) -> None:
        results = [
            DeletableGroupResult(group_id=group_id, error_code=int(error))
            for group_id, error in errors.items()
        ]
        context.reply(DeleteGroupsResponse(results=results))

    broker.groups.delete_groups(request.group_ids, reply)


def _refuse_delete_groups(request: _DeleteGroups, code: ErrorCode) -> Any:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=int(code))
            for group_id in request.group_ids
        ]
    )


DELETE_GROUPS = ServedApi(
    messages=DELETE_GROUPS_MESSAGES,
    versions=(0, 2),
    decode=_decode_delete_groups,
    handle=_delete_groups,
    refuse=_refuse_delete_groups,
    subjects=Subjects(groups=lambda _broker, request: request.group_ids),
)
