"""Handlers of SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.consumer.classic_members import ClassicMembers
from purgatory_broker.groups.group import Group, GroupState
from purgatory_broker.groups.group_messages import (
    GroupError,
    Heartbeat,
    LeaveReply,
    LeavingMember,
    RemovalResult,
    SyncReply,
    SyncRequest,
    coordinator_error,
)
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from purgatory_broker.groups.rebalancer import Rebalancer, assignment_result
from purgatory_broker.groups.shards import Shards

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class MembershipHandler:
    shards: Shards
    rebalancer: Rebalancer
    classic_members: ClassicMembers
    actions: ActionQueue

    def _group(self, group_id: str) -> Group | ConsumerGroup:
        if not group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID, group_id)
        group = self.shards.shard_of(group_id).groups.get(group_id)
        if not isinstance(group, Group | ConsumerGroup):
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, group_id)
        return group

    # -- SyncGroup

    def sync(self, request: SyncRequest, reply: SyncReply) -> None:
        if (
            request.group_id
            and request.requires_protocol
            and None in (request.protocol_type, request.protocol_name)
        ):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.group_id)
        group = self._group(request.group_id)
        if isinstance(group, ConsumerGroup):
            self.classic_members.sync(group, request, reply)
            return
        member = group.validate_member(request.member_id, request.instance_id)
        if request.generation_id != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, group.group_id)
        is_type = request.protocol_type in (None, group.protocol_type)
        if not is_type or request.protocol_name not in (None, group.protocol):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, group.group_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, group.group_id)
        self.rebalancer.remove_pending_sync(group, member.member_id)
        if group.state is GroupState.STABLE:
            self.actions.add(partial(reply, assignment_result(group, member)))
            return
        self.rebalancer.await_sync(member, reply)
        if group.leader_id == member.member_id:
            assignment = request.assignments
            unassigned = sorted(set(group.members) - set(assignment))
            if unassigned:
                logger.warning(
                    "group %r: the leader has no assignment for %s", group.group_id, unassigned
                )
            done = partial(self._assignment_stored, group, group.generation, assignment)
            self.rebalancer.store_group(group, assignment, done)

    def _assignment_stored(
        self, group: Group, generation: int, assignment: Mapping[str, bytes], error: ErrorCode
    ) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
            # Another rebalance has started since, and has answered the members that waited.
            return
        if error is ErrorCode.NONE:
            self.rebalancer.set_and_propagate_assignment(group, assignment)
        else:
            self.rebalancer.fail_assignment(group, coordinator_error(error))

    # -- Heartbeat

    def heartbeat(self, request: Heartbeat) -> None:
        group = self._group(request.group_id)
        if isinstance(group, ConsumerGroup):
            self.classic_members.heartbeat(group, request)
            return
        member = group.validate_member(request.member_id, request.instance_id)
        if request.generation_id != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, group.group_id)
        self.rebalancer.heartbeats.reschedule(group, member.member_id, member.session_timeout_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, group.group_id)

    # -- LeaveGroup

    def leave(self, group_id: str, leaving: Sequence[LeavingMember], reply: LeaveReply) -> None:
        """Remove members; answer NONE for each, or the reason why it was not removed."""
        try:
            group = self._group(group_id)
        except GroupError as error:
            if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
                raise
            result = RemovalResult(parts=(error.code,) * len(leaving))
            self.actions.add(partial(reply, result))
            return
        if isinstance(group, ConsumerGroup):
            self.classic_members.leave(group, leaving, reply)
            return
        errors = tuple(
            self._leave(group, member.member_id, member.instance_id) for member in leaving
        )
        if ErrorCode.NONE in errors and group.state is not GroupState.EMPTY:
            self.rebalancer.prepare_rebalance_or_complete_join(group, "members have left")
        self.actions.add(partial(reply, RemovalResult(parts=errors)))

    def _leave(self, group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
        if not member_id and instance_id is not None:
            member_id = group.static_members.get(instance_id, "")
        if member_id in group.pending_join_members:
            self.rebalancer.remove_member_id(group, member_id)
            return ErrorCode.NONE
        try:
            member = group.validate_member(member_id, instance_id)
        except GroupError as error:
            return error.code
        self.rebalancer.remove_member(group, member)
        return ErrorCode.NONE
