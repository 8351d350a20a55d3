"""FindCoordinator, ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

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
from purgatory_broker._wire.protocol.list_groups import (
    LIST_GROUPS_MESSAGES,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from purgatory_broker.api.access import DENIED, NOT_ASKED, authorized_operations, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.groups.group_messages import GroupDescription
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.request_context import RequestContext


def _may_describe(broker: BrokerApi, context: RequestContext, group_id: str) -> bool:
    return is_allowed(broker, context, AclOperation.DESCRIBE, AclResource.GROUP, group_id)


def _list_groups(
    broker: BrokerApi, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    listed = broker.groups.administration.list_groups(request.states_filter, request.types_filter)
    if not is_allowed(broker, context, AclOperation.DESCRIBE, AclResource.CLUSTER):
        listed = tuple(group for group in listed if _may_describe(broker, context, group.group_id))
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
    groups = []
    for group_id in dict.fromkeys(request.groups):
        if not _may_describe(broker, context, group_id):
            code = DENIED[AclResource.GROUP]
            groups.append(DescribedGroup(error_code=code, error_message=None, group_id=group_id))
            continue
        operations = NOT_ASKED
        if request.include_authorized_operations:
            operations = authorized_operations(broker, context, AclResource.GROUP, group_id)
        described = broker.groups.administration.describe_group(group_id)
        groups.append(_described(described, operations, context.version))
    return DescribeGroupsResponse(groups=groups)


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
    denied = {
        group_id: DENIED[AclResource.GROUP]
        for group_id in request.groups_names
        if not is_allowed(broker, context, AclOperation.DELETE, AclResource.GROUP, group_id)
    }

    def reply(errors: dict[str, ErrorCode]) -> None:
        results = [
            DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in (errors | denied).items()
        ]
        context.reply(DeleteGroupsResponse(results=results))

    allowed = [group_id for group_id in request.groups_names if group_id not in denied]
    broker.groups.administration.delete_groups(allowed, reply)


DELETE_GROUPS = ServedApi(messages=DELETE_GROUPS_MESSAGES, versions=(0, 2), handle=_delete_groups)
