"""Handlers of SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from kafka.protocol.consumer import LeaveGroupResponse

from request_purgatory.broker.groups.errors import GroupError, coordinator_error
from request_purgatory.broker.groups.group import Group, GroupState
from request_purgatory.broker.groups.rebalancer import Rebalancer
from request_purgatory.broker.groups.requests import Reply, version_at_least
from request_purgatory.broker.groups.responses import assignment_response
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)

#: The first SyncGroup version that must name the protocol and its type.
PROTOCOL_NAME_SINCE = 5
#: The first LeaveGroup version with a list of members, each perhaps by its instance id alone.
MEMBER_LIST_SINCE = 3


class MembershipHandler:
    """Handles the requests of members between joining and leaving."""

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer

    def _group(self, group_id: str) -> Group:
        """Return a group.

        Raises:
            GroupError: The group id is empty, there is no such group, or another node coordinates
                it.
        """
        if not group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID, group_id)
        group = self._rebalancer.shards.shard_of(group_id).groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, group_id)
        return group

    # -- SyncGroup

    def sync(self, request: Any, reply: Reply) -> None:
        """Handle a SyncGroup request.

        Args:
            request: The decoded request.
            reply: Called with the response once the leader's assignment is stored.

        Raises:
            GroupError: The request is rejected.
        """
        if (
            request.group_id
            and version_at_least(request, PROTOCOL_NAME_SINCE)
            and None in (request.protocol_type, request.protocol_name)
        ):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.group_id)
        group = self._group(request.group_id)
        member = group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, group.group_id)
        if request.protocol_type not in (
            None,
            group.protocol_type,
        ) or request.protocol_name not in (None, group.protocol):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, group.group_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, group.group_id)
        self._rebalancer.remove_pending_sync(group, member.member_id)
        if group.state is GroupState.STABLE:
            self._rebalancer.reply_later(reply, assignment_response(group, member))
            return
        self._rebalancer.await_sync(member, reply)
        if group.leader_id == member.member_id:
            assignment = {each.member_id: bytes(each.assignment) for each in request.assignments}
            unassigned = sorted(set(group.members) - set(assignment))
            if unassigned:
                logger.warning(
                    "group %r: the leader has no assignment for %s", group.group_id, unassigned
                )
            done = partial(self._assignment_stored, group, group.generation, assignment)
            self._rebalancer.store_group(group, assignment, done)

    def _assignment_stored(
        self, group: Group, generation: int, assignment: dict[str, bytes], error: ErrorCode
    ) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
            # Another rebalance has started since, and has answered the members that waited.
            return
        if error is ErrorCode.NONE:
            self._rebalancer.set_and_propagate_assignment(group, assignment)
        else:
            self._rebalancer.fail_assignment(group, coordinator_error(error))

    # -- Heartbeat

    def heartbeat(self, request: Any) -> None:
        """Handle a Heartbeat request.

        Args:
            request: The decoded request.

        Raises:
            GroupError: The request is rejected, or the member has to join again.
        """
        group = self._group(request.group_id)
        member = group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, group.group_id)
        self._rebalancer.reschedule_heartbeat(group, member.member_id, member.session_timeout_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, group.group_id)

    # -- LeaveGroup

    def leave(self, request: Any) -> Any:
        """Handle a LeaveGroup request.

        Up to version 2 the request is about its sender. Later versions list members, which may be
        named by their instance id alone.

        Args:
            request: The decoded request.

        Returns:
            The response, with an error for each member that was not removed.

        Raises:
            GroupError: The whole request is rejected.
        """
        is_single = not version_at_least(request, MEMBER_LIST_SINCE)
        leaving: list[tuple[str, str | None]] = [
            (each.member_id, each.group_instance_id) for each in request.members
        ]
        if is_single:
            leaving = [(request.member_id, None)]
        try:
            group = self._group(request.group_id)
        except GroupError as error:
            if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
                raise
            errors: list[ErrorCode] = [error.code] * len(leaving)
        else:
            errors = [
                self._leave(group, member_id, instance_id) for member_id, instance_id in leaving
            ]
            if ErrorCode.NONE in errors and group.state is not GroupState.EMPTY:
                self._rebalancer.prepare_rebalance_or_complete_join(group, "members have left")
        return LeaveGroupResponse(
            throttle_time_ms=0,
            error_code=errors[0] if is_single else ErrorCode.NONE,
            members=[
                LeaveGroupResponse.MemberResponse(
                    member_id=member_id, group_instance_id=instance_id, error_code=error
                )
                for (member_id, instance_id), error in zip(leaving, errors, strict=True)
            ],
        )

    def _leave(self, group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
        """Remove one member.

        Returns:
            NONE, or the reason why the member was not removed.
        """
        if not member_id and instance_id is not None:
            member_id = group.static_members.get(instance_id, "")
        if member_id in group.pending_join_members:
            self._rebalancer.remove_member_id(group, member_id)
            return ErrorCode.NONE
        try:
            member = group.validate_member(member_id, instance_id)
        except GroupError as error:
            return error.code
        self._rebalancer.remove_member(group, member)
        return ErrorCode.NONE
