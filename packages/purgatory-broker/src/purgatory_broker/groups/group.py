"""A group: its members and its state in the rebalance protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.consumer_protocol import subscribed_topics
from purgatory_broker.groups.group_messages import GroupError, JoinReply, Protocols
from purgatory_broker.groups.group_records import GroupKey, GroupValue
from purgatory_broker.groups.member import Member
from request_purgatory.purgatory.operation import DelayedOperation

#: The protocol type of consumer groups.
CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_VALID_PREVIOUS_STATES = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {
        GroupState.EMPTY,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    },
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState),
}


class Group:
    """A group of the classic protocol: its members elect a leader, which assigns work to them.

    | state | waits for | next states |
    |---|---|---|
    | Empty | a member | PreparingRebalance |
    | PreparingRebalance | JoinGroup of all members, or timeout | CompletingRebalance, Empty |
    | CompletingRebalance | the leader's SyncGroup and its record | Stable, PreparingRebalance |
    | Stable | nothing | PreparingRebalance |
    | Dead | nothing | |

    CompletingRebalance and Stable change to PreparingRebalance when a member joins, changes its
    protocols or leaves. A group is dead when it is deleted or when its coordinator moves.

    A group holds state only. `Rebalancer` sends responses, sets timeouts and stores records.

    Attributes:
        static_members: Member ids of the static members, by instance id.
        pending_join_members: Member ids that were returned with MEMBER_ID_REQUIRED and whose
            clients have not sent JoinGroup again yet.
        pending_sync_members: Ids of members that have received this generation and have not sent
            SyncGroup yet.
        new_member_added: A member has joined during the present initial rebalance delay.
        delayed_join: The pending `DelayedJoin`; every other one of this group is stale.
        delayed_sync: The pending `DelayedSync`; every other one of this group is stale.
        heartbeats: The pending `DelayedHeartbeat` of each member id; every other one is stale.
        is_stored: The log has a record of the group.
        has_offsets: The log has a record of an offset that the group has committed.
    """

    group_type: ClassVar[str] = "classic"

    def __init__(self, group_id: str, now_ms: int, state: GroupState = GroupState.EMPTY) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = state
        self.state_timestamp_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_join_members: set[str] = set()
        self.pending_sync_members: set[str] = set()
        self.new_member_added = False
        self.is_stored = False
        self.has_offsets = False
        self.delayed_join: DelayedOperation | None = None
        self.delayed_sync: DelayedOperation | None = None
        self.heartbeats: dict[str, DelayedOperation] = {}
        #: For each protocol, the number of members that support it.
        self._num_supporters: Counter[str] = Counter()
        self.num_awaiting_join = 0

    # -- states

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        assert self.state in _VALID_PREVIOUS_STATES[state], (
            f"group {self.group_id!r} cannot change from {self.state.value} to {state.value}"
        )
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def init_next_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.pending_sync_members.clear()
        self.protocol = self.select_protocol() if self.members else None
        self.transition_to(
            GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms
        )

    @property
    def can_rebalance(self) -> bool:
        """True if a rebalance may start: the group is neither preparing one nor dead."""
        return self.state in _VALID_PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    @property
    def has_all_members_joined(self) -> bool:
        """True if every member's JoinGroup is pending and no new member id is outstanding."""
        return self.num_awaiting_join == len(self.members) and not self.pending_join_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members, in whole milliseconds."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_record(self) -> bool:
        """True if the log has a record of the group or of an offset that it has committed."""
        return self.is_stored or self.has_offsets

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def state_name(self) -> str:
        return self.state.value

    # -- members

    def add(self, member: Member, join_reply: JoinReply | None = None) -> None:
        # The first member of an empty group sets the protocol type and becomes the leader.
        if not self.members:
            self.protocol_type = member.protocol_type
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._num_supporters.update(name for name, _ in member.protocols)
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_join_members.discard(member.member_id)
        self.set_join_reply(member, join_reply)

    def remove(self, member_id: str) -> None:
        self.pending_join_members.discard(member_id)
        self.pending_sync_members.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        assert member.join_reply is None, f"{member} has a pending JoinGroup request"
        assert member.sync_reply is None, f"{member} has a pending SyncGroup request"
        self._num_supporters.subtract(name for name, _ in member.protocols)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def replace_static_member(self, former: Member, member: Member) -> None:
        assert former.join_reply is None, f"{former} has a pending JoinGroup request"
        assert former.sync_reply is None, f"{former} has a pending SyncGroup request"
        assert member.instance_id is not None, f"{member} is not static"
        del self.members[former.member_id]
        self.members[member.member_id] = member
        self.static_members[member.instance_id] = member.member_id
        self._num_supporters.subtract(name for name, _ in former.protocols)
        self._num_supporters.update(name for name, _ in member.protocols)
        if self.leader_id == former.member_id:
            self.leader_id = member.member_id
        if former.member_id in self.pending_sync_members:
            self.pending_sync_members.remove(former.member_id)
            self.pending_sync_members.add(member.member_id)

    def update_member(
        self,
        member: Member,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._num_supporters.subtract(name for name, _ in member.protocols)
        member.protocols = protocols
        self._num_supporters.update(name for name, _ in protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def set_join_reply(self, member: Member, reply: JoinReply | None) -> None:
        self.num_awaiting_join += (reply is not None) - (member.join_reply is not None)
        member.join_reply = reply

    def validate_member(self, member_id: str, instance_id: str | None) -> Member:
        """Refuse with UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID after another process's join."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, self.group_id)
            if known != member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID, self.group_id)
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, self.group_id)
        return member

    def elect_joined_leader(self) -> bool:
        """Have a leader whose JoinGroup is pending; return False if no member has joined."""
        joined = [key for key, member in self.members.items() if member.join_reply is not None]
        if joined and self.leader_id not in joined:
            self.leader_id = joined[0]
        return bool(joined)

    # -- protocols

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        num_members = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._num_supporters[name] == num_members for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Return what most members prefer of what all support; the first voted for wins a tie."""
        num_members = len(self.members)
        candidates = {name for name, count in self._num_supporters.items() if count == num_members}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the consumers' topics; None if a member's, or the protocol, are unknown."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return frozenset()
        if self.members and self.protocol is None:
            return None
        try:
            each = [
                subscribed_topics(member.metadata(str(self.protocol)))
                for member in self.members.values()
            ]
        except (ValueError, StopIteration):
            return None
        return frozenset().union(*each)

    # -- records

    def tombstone_keys(self) -> list[GroupKey]:
        """Return the keys of all records of the group."""
        return [GroupKey(self.group_id)]

    def to_record(self, assignment: Mapping[str, bytes]) -> GroupValue:
        """Return the group's record; members without an assignment get an empty one."""
        return GroupValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader_id,
            state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(
                member.to_record(str(self.protocol), assignment.get(member.member_id, b""))
                for member in self.members.values()
            ),
        )

    @classmethod
    def from_record(cls, group_id: str, value: GroupValue, now_ms: int) -> Group:
        """Build a group from its record, which may have no timestamp: then `now_ms` is its own."""
        group = cls(group_id, now_ms, GroupState.STABLE if value.members else GroupState.EMPTY)
        group.is_stored = True
        group.generation = value.generation
        if value.state_timestamp_ms != -1:
            group.state_timestamp_ms = value.state_timestamp_ms
        group.leader_id = value.leader
        for member in value.members:
            group.add(Member.from_record(member, value.protocol_type, value.protocol or ""))
        if group.leader_id not in group.members:
            group.leader_id = next(iter(group.members), None)
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        return group

    # -- invariants

    def check(self) -> None:
        members, state, shown = self.members, self.state, vars(self)
        awaiting_join = {
            member_id for member_id, member in members.items() if member.join_reply is not None
        }
        awaiting_sync = {
            member_id for member_id, member in members.items() if member.sync_reply is not None
        }
        self._check_members(awaiting_join)
        if state is GroupState.DEAD:
            assert not any([awaiting_join, awaiting_sync, self.heartbeats]), shown
            assert self.delayed_join is None, shown
            assert self.delayed_sync is None, shown
            return
        assert (state is GroupState.PREPARING_REBALANCE) == (self.delayed_join is not None), shown
        assert state is GroupState.COMPLETING_REBALANCE or not awaiting_sync, shown
        assert state is not GroupState.COMPLETING_REBALANCE or not awaiting_join, shown
        assert (self.delayed_sync is not None) >= bool(self.pending_sync_members), shown
        if state is GroupState.EMPTY:
            assert not members, shown
        if state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert members, shown
            assert self._num_supporters[str(self.protocol)] == len(members), shown
        # Every member has a session timeout, or a pending request whose end sets one.
        assert self.pending_join_members <= set(self.heartbeats), shown
        without_timeout = set(members) - set(self.heartbeats)
        assert without_timeout <= awaiting_join | awaiting_sync, shown

    def _check_members(self, awaiting_join: set[str]) -> None:
        members, shown = self.members, vars(self)
        assert self.num_awaiting_join == len(awaiting_join), shown
        assert all(member_id == member.member_id for member_id, member in members.items()), shown
        assert (self.leader_id is None) == (not members), shown
        assert self.leader_id is None or self.leader_id in members, shown
        assert self.static_members == {
            member.instance_id: member_id
            for member_id, member in members.items()
            if member.instance_id is not None
        }, shown
        assert +self._num_supporters == Counter(
            name for member in members.values() for name, _ in member.protocols
        ), shown
        assert not self.pending_join_members & set(members), shown
        assert self.pending_sync_members <= set(members), shown
        assert set(self.heartbeats) <= set(members) | self.pending_join_members, shown
