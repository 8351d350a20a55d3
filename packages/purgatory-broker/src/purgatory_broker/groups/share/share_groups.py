"""The share groups of a node, and what the coordinator needs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.change import refuse_waiting
from purgatory_broker.groups.group_messages import GroupError
from purgatory_broker.groups.modern.group import ModernGroup
from purgatory_broker.groups.modern.share_group import ShareGroup
from purgatory_broker.groups.modern.subscribed_topics import TopicsMetadata
from purgatory_broker.groups.modern.timers import MemberTimers
from purgatory_broker.groups.shards import Shards
from purgatory_broker.groups.share.heartbeat import SESSION, ShareHeartbeatHandler
from purgatory_broker.groups.share.messages import (
    OffsetsReply,
    OffsetsResult,
    ShareGroupDescription,
    ShareHeartbeat,
    ShareHeartbeatReply,
    ShareHeartbeatResult,
    ShareMemberDescription,
    ShareOffsets,
)
from purgatory_broker.groups.share.share_states import ShareGroupStates
from purgatory_broker.groups.share.start_offsets import NewOffsets, StartOffsets
from request_purgatory.aio import Purgatory


class ShareGroups:
    def __init__(
        self,
        shards: Shards,
        *,
        actions: ActionQueue,
        purgatory: Purgatory,
        metadata: TopicsMetadata,
        offsets: ShareOffsets,
        max_size: int,
        session_timeout_ms: Callable[[str], int],
        interval_ms: Callable[[str], int],
        now_ms: Callable[[], int],
        on_change: Callable[[str], object],
    ) -> None:
        self._actions = actions
        self.timers = MemberTimers({SESSION: purgatory}, actions, now_ms, self._expire)
        self.states = ShareGroupStates(shards, actions, metadata, offsets)
        self._members = ShareHeartbeatHandler(
            shards=shards,
            actions=actions,
            timers=self.timers,
            metadata=metadata,
            states=self.states,
            max_size=max_size,
            session_timeout_ms=session_timeout_ms,
            interval_ms=interval_ms,
            on_change=on_change,
        )
        self._starts = StartOffsets(shards, metadata, self._members, self.states)

    # -- members

    def heartbeat(self, request: ShareHeartbeat, reply: ShareHeartbeatReply) -> None:
        """Answer a ShareGroupHeartbeat request when its records are replicated."""
        with self._actions:
            try:
                self._members.heartbeat(request, reply)
            except GroupError as error:
                result = ShareHeartbeatResult(error.code, error.message)
                self._actions.add(partial(reply, result))

    def describe(self, group_id: str) -> ShareGroupDescription:
        try:
            group = self._members.present_group(group_id)
        except GroupError as error:
            return ShareGroupDescription(group_id, error.code, error.message)
        return ShareGroupDescription(
            group_id,
            state=group.state_name,
            epoch=group.epoch,
            target_epoch=max(0, group.target_epoch),
            members=tuple(
                ShareMemberDescription(member_id, member, group.current_of(member_id))
                for member_id, member in group.members.items()
            ),
        )

    # -- offsets

    def describe_offsets(
        self, group_id: str, wanted: Mapping[str, Iterable[int]] | None, reply: OffsetsReply
    ) -> None:
        """Answer where a group begins with partitions, by what their coordinators say."""
        self._answer(partial(self._starts.describe, group_id, wanted, reply), reply)

    def alter_offsets(self, group_id: str, given: NewOffsets, reply: OffsetsReply) -> None:
        """Answer when the coordinators of the share partitions have stored the offsets."""
        self._answer(partial(self._starts.alter, group_id, given, reply), reply)

    def delete_offsets(self, group_id: str, topics: Iterable[str], reply: OffsetsReply) -> None:
        """Answer when the coordinators of the share partitions have deleted the states."""
        self._answer(partial(self._starts.delete, group_id, topics, reply), reply)

    def _answer(self, handle: Callable[[], None], reply: OffsetsReply) -> None:
        with self._actions:
            try:
                handle()
            except GroupError as error:
                self._actions.add(partial(reply, OffsetsResult(error.code, error.message)))

    def delete_states(self, group: ShareGroup, done: Callable[[ErrorCode], object]) -> None:
        """Delete all that is stored of a group's partitions; `done` gets an error of one."""
        self._starts.delete_all(group, done)

    # -- loading, time and topics

    def load(self, group: ShareGroup) -> None:
        for member_id in group.members:
            self._members.expect(group, member_id)

    def unload(self, group: ModernGroup) -> None:
        self.timers.cancel_group(group)
        refuse_waiting(group, self._actions)

    def forget_topics(self, groups: Iterable[object]) -> None:
        for group in groups:
            if isinstance(group, ShareGroup):
                self.states.forget_topics(group)

    def _expire(self, group: ModernGroup, member_id: str, _kind: str) -> None:
        assert isinstance(group, ShareGroup)
        self._members.expire(group, member_id)
