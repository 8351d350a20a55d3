"""Handlers of ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from kafka.protocol.admin import DeleteGroupsResponse, DescribeGroupsResponse, ListGroupsResponse

from request_purgatory.broker.groups.errors import GroupError, coordinator_error
from request_purgatory.broker.groups.group import Group, GroupState
from request_purgatory.broker.groups.member import Member
from request_purgatory.broker.groups.offset_manager import OffsetManager
from request_purgatory.broker.groups.rebalancer import Rebalancer
from request_purgatory.broker.groups.records import GroupKey, OffsetKey
from request_purgatory.broker.groups.requests import Reply, version_at_least
from request_purgatory.broker.groups.shards import Record, Shard
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)

_CLASSIC = "classic"
#: The first DescribeGroups version whose response has GROUP_ID_NOT_FOUND.
GROUP_ID_NOT_FOUND_SINCE = 6

#: Kafka's codes of the ACL operations on a group: read, delete, describe, describe configs and
#: alter configs. There is no authorizer, so clients may do all of them.
_ALL_OPERATIONS = frozenset({3, 6, 8, 10, 11})


class AdministrationHandler:
    """Handles the requests of admin clients.

    As in Kafka, these requests only see groups that have a record in the log.
    """

    def __init__(self, rebalancer: Rebalancer, offsets: OffsetManager) -> None:
        self._rebalancer = rebalancer
        self._offsets = offsets
        self._shards = rebalancer.shards

    # -- ListGroups

    def list_groups(self, request: Any) -> Any:
        """Handle a ListGroups request.

        Args:
            request: The decoded request.

        Returns:
            The response, with this node's groups that match the requested states and types.
        """
        states = {state.lower() for state in request.states_filter or ()}
        types = {kind.lower() for kind in request.types_filter or ()}
        if any(shard.is_loading for shard in self._shards):
            return ListGroupsResponse(
                throttle_time_ms=0, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[]
            )
        groups = [
            group for shard in self._shards for group in shard.groups.values() if group.has_record
        ]
        return ListGroupsResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            groups=[
                ListGroupsResponse.ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=_CLASSIC,
                )
                for group in groups
                if (not states or group.state.value.lower() in states)
                and (not types or _CLASSIC in types)
            ],
        )

    # -- DescribeGroups

    def describe_groups(self, request: Any) -> Any:
        """Return the response to a DescribeGroups request."""
        groups = [self._describe(group_id, request) for group_id in request.groups]
        return DescribeGroupsResponse(throttle_time_ms=0, groups=groups)

    def _describe(self, group_id: str, request: Any) -> Any:
        try:
            group = self._shards.shard_of(group_id).groups.get(group_id)
        except GroupError as error:
            return _described(group_id, error_code=error.code)
        if group is not None and not group.has_record:
            group = None
        if group is None and version_at_least(request, GROUP_ID_NOT_FOUND_SINCE):
            return _described(
                group_id,
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} not found.",
                group_state=GroupState.DEAD.value,
            )
        operations = _ALL_OPERATIONS if request.include_authorized_operations else None
        if group is None:
            return _described(
                group_id, group_state=GroupState.DEAD.value, authorized_operations=operations
            )
        is_stable = group.state is GroupState.STABLE
        return _described(
            group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=group.protocol if is_stable else "",
            members=[_described_member(group, member) for member in group.members.values()],
            authorized_operations=operations,
        )

    # -- DeleteGroups

    def delete_groups(self, request: Any, reply: Reply) -> None:
        """Handle a DeleteGroups request: delete groups without members, with their offsets.

        Args:
            request: The decoded request.
            reply: Called with the response when all tombstones are replicated or have failed.
        """
        results: dict[str, ErrorCode] = {}
        by_shard: dict[int, tuple[Shard, list[Group]]] = {}
        for group_id in dict.fromkeys(request.groups_names):
            try:
                shard, group = self._find_deletable(group_id)
            except GroupError as error:
                results[group_id] = error.code
            else:
                by_shard.setdefault(shard.partition, (shard, []))[1].append(group)
        pending_partitions = set(by_shard)

        def done(partition: int, error: ErrorCode) -> None:
            shard, groups = by_shard[partition]
            for group in groups:
                results[group.group_id] = coordinator_error(error)
                if error is ErrorCode.NONE:
                    self._tombstone_stored(shard, group)
            pending_partitions.discard(partition)
            if not pending_partitions:
                self._rebalancer.reply_later(reply, delete_response(results))

        for partition, (shard, groups) in by_shard.items():
            keys: list[OffsetKey] = [
                key for group in groups for key in shard.offsets.keys_of_group(group.group_id)
            ]
            tombstones: list[Record] = [(GroupKey(group.group_id), None) for group in groups]
            self._offsets.remove(shard, keys, tombstones, partial(done, partition))
        if not by_shard:
            self._rebalancer.reply_later(reply, delete_response(results))

    def _find_deletable(self, group_id: str) -> tuple[Shard, Group]:
        """Return a group without members, and its shard.

        Raises:
            GroupError: There is no such group, it has members, or another node coordinates it.
        """
        shard = self._shards.shard_of(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, group_id)
        if group.state is not GroupState.EMPTY:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP, group_id)
        return shard, group

    def _tombstone_stored(self, shard: Shard, group: Group) -> None:
        """Remove a group whose tombstone is replicated.

        A group that has got members or committed offsets in the meantime stays, as a new group.
        """
        group.has_record = False
        is_unused = group.state is GroupState.EMPTY and not shard.offsets.of_group(group.group_id)
        if is_unused and shard.groups.get(group.group_id) is group:
            del shard.groups[group.group_id]
            self._rebalancer.mark_dead(group, ErrorCode.UNKNOWN_MEMBER_ID)
            logger.info("deleted group %r", group.group_id)


def delete_response(results: dict[str, ErrorCode]) -> Any:
    """Return a DeleteGroupsResponse with the error code of each group id."""
    return DeleteGroupsResponse(
        throttle_time_ms=0,
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in results.items()
        ],
    )


def _described(group_id: str, **fields: Any) -> Any:
    return DescribeGroupsResponse.DescribedGroup(
        **{
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "group_id": group_id,
            "group_state": "",
            "protocol_type": "",
            "protocol_data": "",
            "members": [],
            "authorized_operations": None,
        }
        | fields
    )


def _described_member(group: Group, member: Member) -> Any:
    """Return a member of a DescribeGroups response, with metadata only in a stable group."""
    return DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(str(group.protocol))
        if group.state is GroupState.STABLE
        else b"",
        member_assignment=member.assignment,
    )
