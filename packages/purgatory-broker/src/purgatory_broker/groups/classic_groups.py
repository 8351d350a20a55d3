"""The groups of the classic protocol of a node: their leaders make the assignments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.consumer.classic_members import ClassicMembers
from purgatory_broker.groups.group import Group
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
from purgatory_broker.groups.join_group import JoinGroupHandler
from purgatory_broker.groups.membership import MembershipHandler
from purgatory_broker.groups.rebalancer import Rebalancer
from purgatory_broker.groups.shards import Shards
from purgatory_broker.settings import ClusterSettings

#: Errors for which Kafka leaves the member id out of the JoinGroup response.
_ERRORS_WITHOUT_MEMBER_ID = (ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR)


class ClassicGroups:
    """Answers the requests of members of the classic protocol, in groups of any kind."""

    def __init__(
        self,
        settings: ClusterSettings,
        shards: Shards,
        rebalancer: Rebalancer,
        classic_members: ClassicMembers,
        *,
        actions: ActionQueue,
        now_ms: Callable[[], int],
    ) -> None:
        self._actions = actions
        self._rebalancer = rebalancer
        self._max_size = settings.group_max_size
        self._join_group = JoinGroupHandler(
            settings, shards, rebalancer, classic_members, actions, now_ms
        )
        self._membership = MembershipHandler(shards, rebalancer, classic_members, actions)

    # -- requests

    def join(self, request: JoinRequest, reply: JoinReply) -> None:
        """Answer a JoinGroup request when the group's next generation starts."""
        with self._actions:
            try:
                self._join_group.join(request, reply)
            except GroupError as error:
                member_id = "" if error.code in _ERRORS_WITHOUT_MEMBER_ID else request.member_id
                self._actions.add(partial(reply, JoinResult(error.code, member_id)))

    def sync(self, request: SyncRequest, reply: SyncReply) -> None:
        """Answer a SyncGroup request when the leader's assignment is stored."""
        with self._actions:
            try:
                self._membership.sync(request, reply)
            except GroupError as error:
                self._actions.add(partial(reply, SyncResult(error.code)))

    def heartbeat(self, request: Heartbeat) -> ErrorCode:
        with self._actions:
            try:
                self._membership.heartbeat(request)
            except GroupError as error:
                return error.code
        return ErrorCode.NONE

    def leave(self, group_id: str, leaving: Sequence[LeavingMember], reply: LeaveReply) -> None:
        with self._actions:
            try:
                self._membership.leave(group_id, leaving, reply)
            except GroupError as error:
                self._actions.add(partial(reply, RemovalResult(error.code)))

    # -- loading and time

    def load(self, group: Group) -> None:
        for member in group.members.values():
            self._rebalancer.heartbeats.reschedule(
                group, member.member_id, member.session_timeout_ms
            )
        if len(group.members) > self._max_size:
            self._rebalancer.prepare_rebalance(
                group, f"{len(group.members)} members, group.max.size is {self._max_size}"
            )

    def unload(self, group: Group) -> None:
        self._rebalancer.mark_dead(group, ErrorCode.NOT_COORDINATOR)

    def time_advanced(self, group: Group) -> None:
        self._rebalancer.heartbeats.time_advanced(group)

    def abandon(self) -> None:
        self._rebalancer.heartbeats.abandon()
