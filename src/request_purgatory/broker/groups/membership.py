"""SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from kafka.protocol.consumer import LeaveGroupResponse

from request_purgatory.broker.groups.errors import GroupError, coordinator_error
from request_purgatory.broker.groups.group import Group, GroupState
from request_purgatory.broker.groups.member import Reply, has_version
from request_purgatory.broker.groups.rebalancer import Rebalancer, assignment_response
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)


class Membership:
    """What members do between joining and leaving, for a `Rebalancer`."""

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer

    def _group(self, group_id: str) -> Group:
        """The group; GroupError if there is none, or if it can't be known."""
        if not group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID, group_id)
        group = self._rebalancer.shards.shard_of(group_id).groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, group_id)
        return group

    # -- SyncGroup

    def sync(self, request: Any, reply: Reply) -> None:
        """Handle a SyncGroup request; GroupError where it is refused."""
        if (
            request.group_id
            and has_version(request, 5)
            and None in (request.protocol_type, request.protocol_name)
        ):
            # From this version on both must be said.
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
        self._rebalancer.synced(group, member.member_id)
        if group.state is GroupState.STABLE:
            self._rebalancer.reply(reply, assignment_response(group, member))
            return
        self._rebalancer.await_sync(member, reply)
        if group.leader_id == member.member_id:
            assignment = {each.member_id: bytes(each.assignment) for each in request.assignments}
            left_out = sorted(set(group.members) - set(assignment))
            if left_out:
                logger.warning(
                    "the leader of group %r assigns nothing to %s", group.group_id, left_out
                )
            done = partial(self._assignment_stored, group, group.generation, assignment)
            self._rebalancer.store(group, assignment, done)

    def _assignment_stored(
        self, group: Group, generation: int, assignment: dict[str, bytes], error: ErrorCode
    ) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
            # Somebody came or went meanwhile: those who waited have been told, and join again.
            return
        if error is ErrorCode.NONE:
            self._rebalancer.assign(group, assignment)
        else:
            self._rebalancer.assignment_failed(group, coordinator_error(error))

    # -- Heartbeat

    def heartbeat(self, request: Any) -> None:
        """Handle a Heartbeat request.

        GroupError where it is refused, or if its sender has to join again.
        """
        group = self._group(request.group_id)
        member = group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, group.group_id)
        self._rebalancer.expect_heartbeat(group, member.member_id, member.session_timeout_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, group.group_id)

    # -- LeaveGroup

    def leave(self, request: Any) -> Any:
        """The response to a LeaveGroup request; GroupError where all of it is refused.

        Up to version 2 it is one member that leaves; later, members may also be removed by an
        instance id alone.
        """
        is_single = not has_version(request, 3)
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
                self._rebalancer.prepare_or_try_join(group, "members have left")
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
        """Let one member go, or tell why not."""
        if not member_id and instance_id is not None:
            member_id = group.static_members.get(instance_id, "")
        if member_id in group.pending_join:
            self._rebalancer.forget(group, member_id)
            return ErrorCode.NONE
        try:
            self._rebalancer.remove(group, group.validate_member(member_id, instance_id))
        except GroupError as error:
            return error.code
        return ErrorCode.NONE
