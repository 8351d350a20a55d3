"""The handler of ConsumerGroupHeartbeat."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.change import Change
from purgatory_broker.groups.consumer.heartbeat_messages import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    HeartbeatReply,
)
from purgatory_broker.groups.consumer.membership import (
    REBALANCE,
    SESSION,
    ConsumerMembership,
    new_member_id,
)
from purgatory_broker.groups.consumer.migration import Migration
from purgatory_broker.groups.consumer.regexes import Regexes
from purgatory_broker.groups.group_messages import GroupError
from purgatory_broker.groups.modern.consumer_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
)
from purgatory_broker.groups.modern.partitions import NO_PARTITIONS
from purgatory_broker.groups.modern.record_values import ConsumerMemberValue, CurrentAssignment
from purgatory_broker.groups.modern.records import RecordKind

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class ConsumerHeartbeatHandler:
    """Handles the only request of a group's members: they join, leave and are told of changes.

    A request with another epoch than the member's is refused, but for the epoch before: the answer
    with the present one may have been lost. A member then gets the same answer again.
    """

    membership: ConsumerMembership
    regexes: Regexes
    migration: Migration
    actions: ActionQueue
    max_size: int
    #: Returns the interval of a group's heartbeats, in milliseconds.
    interval_ms: Callable[[str], int]

    def heartbeat(self, request: ConsumerHeartbeat, reply: HeartbeatReply) -> None:
        """Handle a request; if it raises GroupError, `reply` has not been called."""
        self._validate(request)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            self._leave(request, reply)
            return
        change = self.migration.consumer_group(
            request.group_id, creates=request.member_epoch == JOIN_EPOCH
        )
        try:
            result, member_id = self._heartbeat(change, request)
        except GroupError:
            change.undo()
            raise
        group = change.group
        assert isinstance(group, ConsumerGroup)
        timeout_ms = self.membership.session_timeout_ms(group.group_id)
        self.membership.timers.schedule(group, member_id, SESSION, timeout_ms)
        change.append(self.actions, partial(self._done, change, result, reply))
        self.regexes.refresh(group, request.describable)

    def _done(
        self,
        change: Change,
        result: ConsumerHeartbeatResult,
        reply: HeartbeatReply,
        error: ErrorCode,
    ) -> None:
        group = change.group
        assert isinstance(group, ConsumerGroup)
        if error is not ErrorCode.NONE:
            result = ConsumerHeartbeatResult(error)
        elif change.records:
            self.membership.on_change(group.group_id)
        reply(result)

    # -- validation

    def _validate(self, request: ConsumerHeartbeat) -> None:
        def refuse(message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> GroupError:
            return GroupError(code, request.group_id, message)

        epoch = request.member_epoch
        needs_id = request.requires_member_id or epoch > 0 or epoch == LEAVE_EPOCH
        if needs_id and not request.member_id.strip():
            raise refuse("MemberId can't be empty.")
        if not request.group_id.strip():
            raise refuse("GroupId can't be empty.")
        if request.instance_id is not None and not request.instance_id.strip():
            raise refuse("InstanceId can't be empty.")
        if request.rack_id is not None and not request.rack_id.strip():
            raise refuse("RackId can't be empty.")
        if epoch == JOIN_EPOCH:
            if request.rebalance_timeout_ms == -1:
                raise refuse("RebalanceTimeoutMs must be provided in first request.")
            if request.owned is None or request.owned:
                raise refuse("TopicPartitions must be empty when (re-)joining.")
            if request.topics is None and request.regex is None:
                raise refuse(
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                    "(re-)joining."
                )
        elif epoch == STATIC_LEAVE_EPOCH:
            if request.instance_id is None:
                raise refuse("InstanceId can't be null.")
        elif epoch < STATIC_LEAVE_EPOCH:
            raise refuse("MemberEpoch is invalid.")
        assignors = self.membership.assignors
        if request.assignor is not None and request.assignor not in assignors:
            raise refuse(
                f"ServerAssignor {request.assignor} is not supported. Supported assignors: "
                f"{', '.join(assignors)}.",
                ErrorCode.UNSUPPORTED_ASSIGNOR,
            )

    def _require_epoch(
        self, group: ConsumerGroup, current: CurrentAssignment, request: ConsumerHeartbeat
    ) -> None:
        epoch = request.member_epoch
        is_lost_answer = (
            epoch == current.previous_epoch
            and request.owned is not None
            and request.owned <= current.assigned
        )
        if epoch == current.epoch or (epoch < current.epoch and is_lost_answer):
            return
        raise GroupError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            group.group_id,
            f"The consumer group member has a {'greater' if epoch > current.epoch else 'smaller'} "
            f"member epoch ({epoch}) than the one known by the group coordinator "
            f"({current.epoch}). The member must abandon all its partitions and rejoin.",
        )

    # -- joining, and being told

    def _heartbeat(
        self, change: Change, request: ConsumerHeartbeat
    ) -> tuple[ConsumerHeartbeatResult, str]:
        group = change.group
        assert isinstance(group, ConsumerGroup)
        if len(group.members) >= self.max_size and request.member_id not in group.members:
            raise GroupError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                group.group_id,
                f"The consumer group has reached its maximum capacity of {self.max_size} members.",
            )
        member_id = self._member_id(change, request)
        former = group.members.get(member_id, ConsumerMemberValue())
        before = group.current_of(member_id)
        member = _updated(former, request)
        is_resolved = self.regexes.is_resolved_change(group, former, member)
        bump = group.epoch == 0 or member.topics != former.topics or is_resolved
        self.membership.put_member(change, member_id, member)
        self.membership.forget_regexes(change)
        if bump or group.needs_refresh:
            self.membership.put_epoch(change, bump=bump)
        self.membership.put_target(change)
        after = self.membership.reconcile(change, member_id, request.owned)
        is_full = (
            request.rebalance_timeout_ms != -1
            and (request.topics is not None or request.regex is not None)
            and request.owned is not None
        )
        tells_assignment = is_full or after.assigned != before.assigned
        return ConsumerHeartbeatResult(
            member_id=member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self.interval_ms(group.group_id),
            assignment=after.assigned if tells_assignment else None,
        ), member_id

    def _member_id(self, change: Change, request: ConsumerHeartbeat) -> str:
        """Return the member's id, which takes the place of a static member if need be."""
        group = change.group
        assert isinstance(group, ConsumerGroup)
        joins = request.member_epoch == JOIN_EPOCH
        member_id = request.member_id or new_member_id()
        if request.instance_id is None:
            if member_id not in group.members:
                if not joins:
                    raise _unknown(group, member_id)
                logger.info("group %r: member %r joins", group.group_id, member_id)
            else:
                self._require_epoch(group, group.current_of(member_id), request)
            return member_id
        known = group.static_members.get(request.instance_id)
        if not joins:
            known = _require_instance(group, request)
            self._require_epoch(group, group.current_of(known), request)
            return known
        if known is None:
            return member_id
        is_classic = group.members[known].classic is not None
        if group.current_of(known).epoch != STATIC_LEAVE_EPOCH and not is_classic:
            raise GroupError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                group.group_id,
                f"Static member {member_id} with instance id {request.instance_id} cannot join "
                f"the group because the instance id is owned by {known} member.",
            )
        logger.info("group %r: %r returns as %r", group.group_id, known, member_id)
        self.membership.replace_member(change, known, member_id)
        self.membership.timers.cancel_member(group, known)
        return member_id

    # -- leaving

    def _leave(self, request: ConsumerHeartbeat, reply: HeartbeatReply) -> None:
        group = self.migration.present_group(request.group_id)
        member_id = request.member_id
        if request.instance_id is not None:
            member_id = _require_instance(group, request)
        elif member_id not in group.members:
            raise _unknown(group, member_id)
        result = ConsumerHeartbeatResult(member_id=member_id, member_epoch=request.member_epoch)
        logger.info("group %r: member %r leaves", group.group_id, member_id)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            change = self.membership.change(group)
            left = replace(
                group.current_of(member_id),
                epoch=STATIC_LEAVE_EPOCH,
                pending_revocation=NO_PARTITIONS,
            )
            change.put(RecordKind.CONSUMER_CURRENT, left, member_id)
            self.membership.timers.cancel(group, member_id, REBALANCE)
        else:
            change = self.migration.fence(group, [member_id])
        change.append(self.actions, partial(self._done, change, result, reply))


def _updated(former: ConsumerMemberValue, request: ConsumerHeartbeat) -> ConsumerMemberValue:
    """Return a member with what a request tells; what it leaves out stays as it was."""
    return ConsumerMemberValue(
        client_id=request.client.client_id,
        client_host=request.client.client_host,
        instance_id=former.instance_id if request.instance_id is None else request.instance_id,
        rack_id=former.rack_id if request.rack_id is None else request.rack_id,
        topics=former.topics if request.topics is None else request.topics,
        regex=former.regex if request.regex is None else request.regex or None,
        rebalance_timeout_ms=former.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        assignor=former.assignor if request.assignor is None else request.assignor,
        classic=None,
    )


def _unknown(group: ConsumerGroup, member_id: str) -> GroupError:
    return GroupError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        group.group_id,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def _require_instance(group: ConsumerGroup, request: ConsumerHeartbeat) -> str:
    """Return the member's id; refuse if another member id has the instance id."""
    instance_id = request.instance_id or ""
    known = group.static_members.get(instance_id)
    if known is None:
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID, group.group_id, f"Instance id {instance_id} is unknown."
        )
    if known != request.member_id:
        raise GroupError(
            ErrorCode.FENCED_INSTANCE_ID,
            group.group_id,
            f"Static member {request.member_id} with instance id {instance_id} was fenced by "
            f"member {known}.",
        )
    return known
