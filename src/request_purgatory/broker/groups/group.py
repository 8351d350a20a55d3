"""A group: its members, and the states that a rebalance leads it through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from request_purgatory.broker.groups.errors import GroupError
from request_purgatory.broker.groups.member import Member, Protocols, Reply
from request_purgatory.broker.groups.records import GroupValue
from request_purgatory.broker.groups.subscription import subscribed_topics
from request_purgatory.broker.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from request_purgatory.broker.groups.delayed import (
        DelayedHeartbeat,
        DelayedJoin,
        DelayedSync,
    )

CONSUMER = "consumer"


class GroupState(Enum):
    """A group's state, by Kafka's name for it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_BEFORE = {
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
    """A group of the classic protocol: members that agree on a leader, and take what it assigns to them.

    | state | what it waits for | next |
    |---|---|---|
    | Empty | a member | PreparingRebalance |
    | PreparingRebalance | JoinGroup of all members, or the rebalance timeout | CompletingRebalance, next generation; Empty |
    | CompletingRebalance | the leader's SyncGroup, and its record | Stable; PreparingRebalance when members come, change or go |
    | Stable | nothing | PreparingRebalance when members come, change or go |
    | Dead | nothing: deleted, or another node is its coordinator now | |

    It changes nothing by itself and calls nobody: who answers, waits and stores is the
    `Rebalancer`.

    Attributes:
        pending_join: member ids that were given out with MEMBER_ID_REQUIRED and have not come back
            yet.
        pending_sync: members that have been answered with this generation and have not sent
            SyncGroup yet.
        delayed_join, delayed_sync, heartbeats: the operations that are in force; others for this
            group are void.
        was_stored: the log has a record of it, if only of an offset that it has committed.
    """

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
        self.pending_join: set[str] = set()
        self.pending_sync: set[str] = set()
        self.new_member_added = False
        self.was_stored = False
        self.delayed_join: DelayedJoin | None = None
        self.delayed_sync: DelayedSync | None = None
        self.heartbeats: dict[str, DelayedHeartbeat] = {}
        self._supporters: Counter[str] = Counter()
        self._awaiting_join = 0

    # -- states

    def transition(self, state: GroupState, now_ms: int) -> None:
        """Enter a state that may follow the present one."""
        assert self.state in _BEFORE[state], (
            f"group {self.group_id!r} can't go from {self.state.value} to {state.value}"
        )
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def next_generation(self, now_ms: int) -> None:
        """All who come have come.

        With them begins the next generation, an empty one if there are none.
        """
        self.generation += 1
        self.pending_sync.clear()
        self.protocol = self.select_protocol() if self.members else None
        self.transition(
            GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms
        )

    @property
    def can_rebalance(self) -> bool:
        """True if a rebalance may begin: none is being prepared."""
        return self.state in _BEFORE[GroupState.PREPARING_REBALANCE]

    @property
    def has_all_joined(self) -> bool:
        """True if every member's JoinGroup is here, and nobody is expected who was given a member id."""
        return self._awaiting_join == len(self.members) and not self.pending_join

    @property
    def awaiting_join(self) -> int:
        """How many members' JoinGroup wait to be answered."""
        return self._awaiting_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that one of the members asks for, in whole milliseconds."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- members

    def add(self, member: Member, join_reply: Reply | None = None) -> None:
        """Take a member in.

        The first one of an empty group says the type of protocol, and leads.
        """
        if not self.members:
            self.protocol_type = member.protocol_type
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(name for name, _ in member.protocols)
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_join.discard(member.member_id)
        self.await_join(member, join_reply)

    def remove(self, member_id: str) -> None:
        """Let a member go, whose requests must have been answered, or one that was expected."""
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        assert member.join_reply is None, f"{member} is waiting"
        assert member.sync_reply is None, f"{member} is waiting"
        self._supporters.subtract(name for name, _ in member.protocols)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def replace_static(self, former: Member, member: Member) -> None:
        """A static member, whose requests must have been answered, is another one from now on, with the same instance id."""
        assert former.join_reply is None, f"{former} is waiting"
        assert former.sync_reply is None, f"{former} is waiting"
        assert member.instance_id is not None, f"{member} is not static"
        del self.members[former.member_id]
        self.members[member.member_id] = member
        self.static_members[member.instance_id] = member.member_id
        self._supporters.subtract(name for name, _ in former.protocols)
        self._supporters.update(name for name, _ in member.protocols)
        if self.leader_id == former.member_id:
            self.leader_id = member.member_id
        if former.member_id in self.pending_sync:
            self.pending_sync.remove(former.member_id)
            self.pending_sync.add(member.member_id)

    def update(
        self,
        member: Member,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """A member has joined again, perhaps with other wishes."""
        self._supporters.subtract(name for name, _ in member.protocols)
        member.protocols = protocols
        self._supporters.update(name for name, _ in protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def await_join(self, member: Member, reply: Reply | None) -> None:
        """A member's JoinGroup waits to be answered by `reply`, or, with None, waits no longer."""
        self._awaiting_join += (reply is not None) - (member.join_reply is not None)
        member.join_reply = reply

    def validate_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member.

        GroupError if it is none, or if another process has taken its instance id over.
        """
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
        """See to it that the leader is one of those who have joined; False if nobody has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_reply is not None:
            return True
        joined = next(
            (member.member_id for member in self.members.values() if member.join_reply is not None),
            None,
        )
        if joined is None:
            return False
        self.leader_id = joined
        return True

    # -- protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """True if a member with these protocols can join the others."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._supporters[name] == everybody for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """The one that most members prefer, of those that all support.

        The one that was voted for first if there are several.
        """
        everybody = len(self.members)
        candidates = {name for name, count in self._supporters.items() if count == everybody}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that its consumers read; None where that can't be known, and may be any."""
        if self.protocol_type != CONSUMER:
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

    def stored(self, assignment: Mapping[str, bytes]) -> GroupValue:
        """It as a record has it, with what is assigned to each of its members."""
        return GroupValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader_id,
            state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(
                member.stored(str(self.protocol), assignment.get(member.member_id, b""))
                for member in self.members.values()
            ),
        )

    @classmethod
    def restored(cls, group_id: str, value: GroupValue, now_ms: int) -> Group:
        """It as it is after a coordinator has loaded the record."""
        group = cls(group_id, now_ms, GroupState.STABLE if value.members else GroupState.EMPTY)
        group.was_stored = True
        group.generation = value.generation
        if value.state_timestamp_ms != -1:
            group.state_timestamp_ms = value.state_timestamp_ms
        group.leader_id = value.leader
        for member in value.members:
            group.add(Member.restored(member, value.protocol_type, value.protocol or ""))
        if group.leader_id not in group.members:
            group.leader_id = next(iter(group.members), None)
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        return group

    # -- what must always hold

    def check(self) -> None:
        """Assert every invariant. O(members)."""
        members, state = self.members, self.state
        waiting_to_join = {
            each for each, member in members.items() if member.join_reply is not None
        }
        waiting_to_sync = {
            each for each, member in members.items() if member.sync_reply is not None
        }
        assert self._awaiting_join == len(waiting_to_join), (self._awaiting_join, waiting_to_join)
        assert all(each == member.member_id for each, member in members.items()), members
        assert (self.leader_id is None) == (not members), (self.leader_id, members)
        assert self.leader_id is None or self.leader_id in members, (self.leader_id, members)
        assert self.static_members == _static(members.values()), self.static_members
        assert +self._supporters == Counter(
            name for member in members.values() for name, _ in member.protocols
        )
        assert not self.pending_join & set(members), self.pending_join
        assert self.pending_sync <= set(members), self.pending_sync
        assert set(self.heartbeats) <= set(members) | self.pending_join, self.heartbeats
        if state is GroupState.DEAD:
            left = (
                waiting_to_join,
                waiting_to_sync,
                self.heartbeats,
                self.delayed_join,
                self.delayed_sync,
            )
            assert not any(left), left
            return
        assert (state is GroupState.PREPARING_REBALANCE) == (self.delayed_join is not None), (
            state,
            self.delayed_join,
        )
        assert state is GroupState.COMPLETING_REBALANCE or not waiting_to_sync, (
            state,
            waiting_to_sync,
        )
        assert state is not GroupState.COMPLETING_REBALANCE or not waiting_to_join, (
            state,
            waiting_to_join,
        )
        assert (self.delayed_sync is not None) >= bool(self.pending_sync), (
            state,
            self.pending_sync,
        )
        if state is GroupState.EMPTY:
            assert not members, members
        if state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert members, state
            assert self._supporters[str(self.protocol)] == len(members), (
                self.protocol,
                self._supporters,
            )
        # Somebody sees to it that each of them is either heard of or removed.
        assert self.pending_join <= set(self.heartbeats), self.pending_join
        unheard = set(members) - set(self.heartbeats)
        assert unheard <= waiting_to_join | waiting_to_sync, unheard


def _static(members: Iterable[Member]) -> dict[str, str]:
    return {
        member.instance_id: member.member_id for member in members if member.instance_id is not None
    }
