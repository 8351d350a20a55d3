"""The handler of JoinGroup."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.consumer.classic_members import ClassicMembers
from purgatory_broker.groups.group import Group, GroupState
from purgatory_broker.groups.group_messages import (
    GroupError,
    JoinReply,
    JoinRequest,
    JoinResult,
    SyncResult,
    coordinator_error,
)
from purgatory_broker.groups.member import Member
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from purgatory_broker.groups.rebalancer import Rebalancer, generation_result
from purgatory_broker.groups.shards import Record, Shard, Shards
from purgatory_broker.settings import ClusterSettings

logger = logging.getLogger(__name__)

#: A new member whose JoinGroup is pending for this long must send it again, because its connection
#: may have ended unnoticed. Source: Kafka's classicGroupNewMemberJoinTimeoutMs.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


@dataclass(slots=True, eq=False)
class JoinGroupHandler:
    """Handles JoinGroup requests.

    | member id | instance id | result |
    |---|---|---|
    | none, which is required | none | MEMBER_ID_REQUIRED with a member id to join with |
    | none | none | a new dynamic member |
    | none | new | a new static member |
    | none | known | the static member is replaced (see below) |
    | outstanding | none | a new dynamic member |
    | known | as before | the member joins again (see below) |

    Replacing a static member of a stable group rebalances only if it changes the group's protocol.
    A member that joins again rebalances the group if it is the leader or its protocols have
    changed; otherwise it gets the present generation, whose response it may have missed.
    """

    settings: ClusterSettings
    shards: Shards
    rebalancer: Rebalancer
    classic_members: ClassicMembers
    actions: ActionQueue
    now_ms: Callable[[], int]

    def join(self, request: JoinRequest, reply: JoinReply) -> None:
        """Handle a request; if it raises GroupError, `reply` has not been called."""
        group_id, member_id = request.group_id, request.member_id
        if not group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID, group_id)
        min_ms = self.settings.group_min_session_timeout_ms
        max_ms = self.settings.group_max_session_timeout_ms
        if not min_ms <= request.session_timeout_ms <= max_ms:
            raise GroupError(ErrorCode.INVALID_SESSION_TIMEOUT, group_id)
        shard = self.shards.shard_of(group_id)
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            if not group.is_empty:
                self.classic_members.join(group, request, reply)
                return
            group = self._replaced(shard, group)
        if group is not None and not isinstance(group, Group):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, group_id)
        if group is None:
            if member_id:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, group_id)
            group = shard.add_group(group_id, self.now_ms())
            self.rebalancer.store_group(group, {}, partial(self._new_group_stored, shard, group))
        if not self._accepts(group, member_id):
            self._reject_for_size(group, request, reply)
        elif not group.supports_protocols(request.protocol_type, request.protocols):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, group_id)
        elif member_id:
            self._join_with_member_id(group, request, reply)
        else:
            self._join_without_member_id(group, request, reply)

    def _replaced(self, shard: Shard, former: ConsumerGroup) -> Group:
        """Return a classic group in the place of an empty consumer group."""
        group = shard.add_group(former.group_id, self.now_ms())
        group.has_offsets = former.has_offsets
        tombstones: list[Record] = [(key, None) for key in former.tombstone_keys()]
        self.shards.append(shard, tombstones, lambda _error: None)
        self.rebalancer.store_group(group, {}, partial(self._new_group_stored, shard, group))
        return group

    def _accepts(self, group: Group, member_id: str) -> bool:
        """Count pending JoinGroup requests, not members, in a rebalance: the last are refused."""
        if group.state is GroupState.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            is_counted = member is not None and member.join_reply is not None
            size = group.num_awaiting_join
        else:
            is_counted = member is not None
            size = len(group.members)
        return is_counted or size < self.settings.group_max_size

    def _reject_for_size(self, group: Group, request: JoinRequest, reply: JoinReply) -> None:
        member = group.members.get(request.member_id)
        if member is not None:
            self.rebalancer.remove_member(group, member)
        elif request.member_id in group.pending_join_members:
            self.rebalancer.remove_member_id(group, request.member_id)
        self.rebalancer.try_complete_join(group)
        self.actions.add(partial(reply, JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED)))

    def _new_group_stored(self, shard: Shard, group: Group, error: ErrorCode) -> None:
        """Remove a new group whose record was not stored, unless it has a generation."""
        if error is ErrorCode.NONE or group.has_record:
            return
        logger.warning("cannot store new group %r: %s", group.group_id, error.name)
        if group.generation == 0 and shard.groups.get(group.group_id) is group:
            del shard.groups[group.group_id]
            self.rebalancer.mark_dead(group, coordinator_error(error))

    # -- without a member id

    def _join_without_member_id(self, group: Group, request: JoinRequest, reply: JoinReply) -> None:
        member_id = f"{request.instance_id or request.client.client_id}-{uuid.uuid4()}"
        if request.instance_id is not None:
            known = group.static_members.get(request.instance_id)
            if known is None:
                self._add_member(group, member_id, request, reply)
            else:
                former = group.members[known]
                self._replace_static_member(group, former, member_id, request, reply)
        elif request.requires_known_member_id:
            group.pending_join_members.add(member_id)
            self.rebalancer.heartbeats.reschedule(group, member_id, request.session_timeout_ms)
            result = JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            self.actions.add(partial(reply, result))
        else:
            self._add_member(group, member_id, request, reply)

    def _add_member(
        self, group: Group, member_id: str, request: JoinRequest, reply: JoinReply
    ) -> None:
        member = Member(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client.client_id,
            client_host=request.client.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=request.protocols,
            is_new=True,
        )
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is GroupState.EMPTY
        ):
            group.new_member_added = True
        group.add(member, reply)
        self.rebalancer.heartbeats.reschedule(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.rebalancer.prepare_rebalance_or_complete_join(
            group, f"new member {member_id}; {request.reason}"
        )

    def _replace_static_member(
        self, group: Group, former: Member, member_id: str, request: JoinRequest, reply: JoinReply
    ) -> None:
        logger.info(
            "group %r: static member %r joins again as %r",
            group.group_id,
            former.instance_id,
            member_id,
        )
        self.rebalancer.reply_to_join(
            group, former, JoinResult(ErrorCode.FENCED_INSTANCE_ID, former.member_id)
        )
        self.rebalancer.reply_to_sync(former, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        self.rebalancer.heartbeats.cancel(group, former.member_id)
        former_leader = group.leader_id or ""
        member = replace(
            former,
            member_id=member_id,
            protocols=request.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            is_new=False,
        )
        group.replace_static_member(former, member)
        self.rebalancer.heartbeats.reschedule(group, member_id, member.session_timeout_ms)
        self.rebalancer.await_join(group, member, reply)
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol:
            assignment = {member.member_id: member.assignment for member in group.members.values()}
            done = partial(
                self._replacement_stored,
                group,
                former,
                member,
                former_leader,
                request.supports_skip_assignment,
            )
            self.rebalancer.store_group(group, assignment, done)
        elif group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may have received the former member id, and would assign work to it.
            self.rebalancer.prepare_rebalance(
                group, f"static member {member_id} was replaced; {request.reason}"
            )
        else:
            self.rebalancer.prepare_rebalance_or_complete_join(
                group, f"static member {member_id} changes the protocol; {request.reason}"
            )

    def _replacement_stored(
        self,
        group: Group,
        former: Member,
        member: Member,
        former_leader: str,
        skip_assignment: bool,
        error: ErrorCode,
    ) -> None:
        is_current = (
            group.state is GroupState.STABLE and group.members.get(member.member_id) is member
        )
        if not is_current or member.join_reply is None:
            # The member has left, was replaced again, or waits for a rebalance that has started.
            return
        if error is not ErrorCode.NONE:
            logger.warning(
                "group %r: cannot store static member %r: %s",
                group.group_id,
                member.instance_id,
                error.name,
            )
            result = replace(
                generation_result(group, member, with_members=False),
                error=coordinator_error(error),
                member_id="",
                leader=former_leader,
            )
            self.rebalancer.reply_to_join(group, member, result)
            self.rebalancer.heartbeats.cancel(group, member.member_id)
            group.replace_static_member(member, former)
            self.rebalancer.heartbeats.reschedule(
                group, former.member_id, former.session_timeout_ms
            )
            return
        is_leader = group.leader_id == member.member_id
        result = generation_result(group, member, with_members=is_leader and skip_assignment)
        if skip_assignment:
            result = replace(result, skip_assignment=is_leader)
        else:
            # With the former member's id as the leader's, a client of an older version makes no
            # assignment. The stable group would ignore it.
            result = replace(result, leader=former_leader)
        self.rebalancer.reply_to_join(group, member, result)
        self.rebalancer.heartbeats.reschedule(group, member.member_id, member.session_timeout_ms)

    # -- with a member id

    def _join_with_member_id(self, group: Group, request: JoinRequest, reply: JoinReply) -> None:
        if request.member_id in group.pending_join_members:
            if request.instance_id is not None:
                # Only dynamic members get a member id before they join.
                raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR, group.group_id)
            self._add_member(group, request.member_id, request, reply)
            return
        member = group.validate_member(request.member_id, request.instance_id)
        is_leader = group.leader_id == member.member_id
        is_unchanged = member.protocols == request.protocols
        if group.state is GroupState.COMPLETING_REBALANCE and is_unchanged:
            # The client has missed the response to its previous request.
            result = generation_result(group, member, with_members=is_leader)
            self.actions.add(partial(reply, result))
        elif group.state is GroupState.STABLE and is_unchanged and not is_leader:
            result = generation_result(group, member, with_members=False)
            self.actions.add(partial(reply, result))
        else:
            # A leader joins again to make another assignment, for instance for new partitions.
            group.update_member(
                member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms
            )
            self.rebalancer.await_join(group, member, reply)
            self.rebalancer.prepare_rebalance_or_complete_join(
                group, f"member {member.member_id} joins again; {request.reason}"
            )
