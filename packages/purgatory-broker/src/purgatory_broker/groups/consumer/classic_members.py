"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup and their like.

The coordinator makes their assignments as those of all members. A member learns by the error of a
heartbeat that it has to join again: to give up partitions, or to get others that are free now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.change import Change
from purgatory_broker.groups.consumer.membership import (
    JOIN,
    SESSION,
    SYNC,
    ConsumerMembership,
    new_member_id,
)
from purgatory_broker.groups.consumer.migration import Migration
from purgatory_broker.groups.consumer_protocol import (
    Subscription,
    decode_subscription,
    encode_assignment,
)
from purgatory_broker.groups.group import CONSUMER_PROTOCOL_TYPE
from purgatory_broker.groups.group_messages import (
    GroupError,
    Heartbeat,
    JoinReply,
    JoinRequest,
    JoinResult,
    LeaveReply,
    LeavingMember,
    RemovalResult,
    SyncReply,
    SyncRequest,
    SyncResult,
)
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from purgatory_broker.groups.modern.record_values import (
    ClassicMember,
    ConsumerMemberValue,
    MemberState,
)


@dataclass(slots=True, eq=False)
class ClassicMembers:
    membership: ConsumerMembership
    migration: Migration
    actions: ActionQueue
    max_size: int

    # -- JoinGroup

    def join(self, group: ConsumerGroup, request: JoinRequest, reply: JoinReply) -> None:
        """Handle a request; if it raises GroupError, `reply` has not been called."""
        group_id = group.group_id
        member_id = request.member_id or new_member_id()
        if len(group.members) >= self.max_size and request.member_id not in group.members:
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, group_id)
        names = [name for name, _ in request.protocols]
        if not group.supports_protocols(request.protocol_type, names):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, group_id)
        try:
            subscription = decode_subscription(request.protocols[0][1])
        except ValueError as error:
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, group_id) from error
        is_new = not request.member_id and request.instance_id is None
        if is_new and request.requires_known_member_id:
            self.actions.add(partial(reply, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)))
            return
        known = group.static_members.get(request.instance_id or "")
        if request.instance_id is not None and request.member_id:
            _require_instance(group, request.instance_id, member_id)
        member = _joined(group.members.get(known or member_id), request, subscription)
        if known is not None and known != member_id:
            former = group.members[known]
            downgrade = self.migration.downgrade_for(
                self.membership.change(group),
                known,
                member_id,
                member,
                rebalances=member.topics != former.topics,
            )
            if downgrade is not None:
                result = JoinResult(
                    member_id=member_id,
                    generation_id=group.epoch,
                    protocol_type=CONSUMER_PROTOCOL_TYPE,
                    protocol_name=names[0],
                )
                downgrade.append(self.actions, partial(_join_done, reply, result))
                return
        change = self.membership.change(group)
        if known is not None and known != member_id:
            self.membership.replace_member(change, known, member_id)
            self.membership.timers.cancel_member(group, known)
        self._put(change, member_id, member, subscription)
        epoch = group.current_of(member_id).epoch
        result = JoinResult(
            member_id=member_id,
            generation_id=epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=names[0],
        )
        timers = self.membership.timers
        timers.cancel(group, member_id, JOIN)
        timers.schedule(group, member_id, SESSION, request.session_timeout_ms)
        timers.schedule(group, member_id, SYNC, request.rebalance_timeout_ms)
        change.append(self.actions, partial(_join_done, reply, result))

    def _put(
        self,
        change: Change,
        member_id: str,
        member: ConsumerMemberValue,
        subscription: Subscription,
    ) -> None:
        group = change.group
        assert isinstance(group, ConsumerGroup)
        former = group.members.get(member_id, ConsumerMemberValue())
        bump = group.epoch == 0 or member.topics != former.topics
        try:
            self.membership.put_member(change, member_id, member)
            self.membership.forget_regexes(change)
            if bump or group.needs_refresh:
                self.membership.put_epoch(change, bump=bump)
            self.membership.put_target(change)
            self.membership.reconcile(change, member_id, self.migration.by_id(subscription.owned))
        except GroupError:
            change.undo()
            raise

    # -- SyncGroup, Heartbeat and LeaveGroup

    def sync(self, group: ConsumerGroup, request: SyncRequest, reply: SyncReply) -> None:
        member_id = request.member_id
        member, classic = self._classic_member(group, member_id, request.instance_id)
        current = group.current_of(member_id)
        if request.generation_id != current.epoch:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, group.group_id)
        name, metadata = classic.protocols[0]
        is_type = request.protocol_type in (None, CONSUMER_PROTOCOL_TYPE)
        if not is_type or request.protocol_name not in (None, name):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, group.group_id)
        timers = self.membership.timers
        if group.epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
            timers.schedule_if_absent(group, member_id, JOIN, member.rebalance_timeout_ms)
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, group.group_id)
        timers.cancel(group, member_id, SYNC)
        timers.schedule(group, member_id, SESSION, classic.session_timeout_ms)
        assignment = encode_assignment(
            decode_subscription(metadata).version, self.migration.by_name(current.assigned)
        )
        result = SyncResult(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment,
        )
        change = self.membership.change(group)
        change.append(self.actions, partial(_sync_done, reply, result))

    def heartbeat(self, group: ConsumerGroup, request: Heartbeat) -> None:
        member_id = request.member_id
        member, classic = self._classic_member(group, member_id, request.instance_id)
        current = group.current_of(member_id)
        if request.generation_id != current.epoch:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, group.group_id)
        timers = self.membership.timers
        timers.schedule(group, member_id, SESSION, classic.session_timeout_ms)
        if (
            current.epoch < group.epoch
            or current.state is MemberState.UNREVOKED_PARTITIONS
            or (
                current.state is MemberState.UNRELEASED_PARTITIONS
                and not group.is_waiting_for_others(member_id)
            )
        ):
            timers.schedule_if_absent(group, member_id, JOIN, member.rebalance_timeout_ms)
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, group.group_id)

    def leave(
        self, group: ConsumerGroup, leaving: Sequence[LeavingMember], reply: LeaveReply
    ) -> None:
        """Remove members, also those of the consumer protocol."""
        errors: list[ErrorCode] = []
        removed: dict[str, None] = {}
        for each in leaving:
            member_id = each.member_id
            try:
                if each.instance_id is not None:
                    member_id = _require_instance(group, each.instance_id, member_id)
                elif member_id not in group.members:
                    raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, group.group_id)
            except GroupError as error:
                errors.append(error.code)
                continue
            errors.append(ErrorCode.NONE)
            removed[member_id] = None
        result = RemovalResult(parts=tuple(errors))
        if not removed:
            self.actions.add(partial(reply, result))
            return
        change = self.migration.fence(group, removed)
        change.append(self.actions, partial(self._left, group, reply, result))

    def _left(
        self, group: ConsumerGroup, reply: LeaveReply, result: RemovalResult, error: ErrorCode
    ) -> None:
        self.membership.on_change(group.group_id)
        reply(result if error is ErrorCode.NONE else RemovalResult(error))

    def _classic_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> tuple[ConsumerMemberValue, ClassicMember]:
        if instance_id is not None:
            _require_instance(group, instance_id, member_id)
        member = group.members.get(member_id)
        if member is None or member.classic is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, group.group_id)
        return member, member.classic


def _joined(
    former: ConsumerMemberValue | None, request: JoinRequest, subscription: Subscription
) -> ConsumerMemberValue:
    former = former or ConsumerMemberValue()
    return ConsumerMemberValue(
        client_id=request.client.client_id,
        client_host=request.client.client_host,
        instance_id=former.instance_id if request.instance_id is None else request.instance_id,
        rack_id=former.rack_id if subscription.rack_id is None else subscription.rack_id,
        topics=subscription.topics,
        regex=former.regex,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        assignor=former.assignor,
        classic=ClassicMember(request.session_timeout_ms, request.protocols),
    )


def _require_instance(group: ConsumerGroup, instance_id: str, member_id: str) -> str:
    """Return the member id of an instance; refuse if it is another one, unless that is empty."""
    known = group.static_members.get(instance_id)
    if known is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, group.group_id)
    if member_id not in ("", known):
        raise GroupError(ErrorCode.FENCED_INSTANCE_ID, group.group_id)
    return known


def _join_done(reply: JoinReply, result: JoinResult, error: ErrorCode) -> None:
    reply(result if error is ErrorCode.NONE else JoinResult(error))


def _sync_done(reply: SyncReply, result: SyncResult, error: ErrorCode) -> None:
    reply(result if error is ErrorCode.NONE else SyncResult(error))
