"""The share coordinators, wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster.node_requests import NodeRequests
from purgatory_broker.cluster.node_timers import NodeTimers
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.groups.share.messages import OffsetReply, ShareOffset
from purgatory_broker.metadata.controller import Controller
from purgatory_broker.metadata.metadata_cache import MetadataCache
from purgatory_broker.metadata.topics import (
    NO_LEADER,
    SHARE_STATE_TOPIC,
    ControllerError,
    TopicPartition,
)
from purgatory_broker.sharing.share_coordinator import ShareCoordinator, StateReply, StateResult
from purgatory_broker.sharing.state import ShareKey, ShareState

_RETRIABLE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
#: Kafka's `PersisterStateManager` asks five times, and waits for a second before the next time.
_ATTEMPTS = 5
_BACKOFF_MS = 100

_Serve: TypeAlias = Callable[[ShareCoordinator, StateReply], None]


class ShareNode(Protocol):
    """What is needed of a node, at either end of a request."""

    node_id: int
    is_stopped: bool
    actions: ActionQueue
    timers: NodeTimers
    metadata: MetadataCache
    controller: Controller
    share_coordinator: ShareCoordinator

    @property
    def reaches_controller(self) -> bool: ...


@dataclass(slots=True, eq=False)
class RemoteShareStates:
    """Asks the coordinator of a share partition, and asks again if it has moved or is away."""

    node: ShareNode
    requests: NodeRequests
    #: Returns the node of a number, which is another one after a restart.
    find: Callable[[int], ShareNode]

    def initialize(
        self, key: ShareKey, state_epoch: int, start_offset: int, reply: StateReply
    ) -> None:
        self._send(
            key,
            lambda coordinator, answer: coordinator.initialize(
                key, state_epoch, start_offset, answer
            ),
            reply,
        )

    def read(self, key: ShareKey, leader_epoch: int, reply: StateReply) -> None:
        self._send(
            key, lambda coordinator, answer: coordinator.read(key, leader_epoch, answer), reply
        )

    def read_summary(self, key: ShareKey, reply: StateReply) -> None:
        self._send(key, lambda coordinator, answer: coordinator.read_summary(key, answer), reply)

    def write(self, key: ShareKey, update: ShareState, reply: StateReply) -> None:
        self._send(key, lambda coordinator, answer: coordinator.write(key, update, answer), reply)

    def delete(self, key: ShareKey, reply: StateReply) -> None:
        self._send(key, lambda coordinator, answer: coordinator.delete(key, answer), reply)

    def of_groups(self) -> GroupShareOffsets:
        """Return the same, as the group coordinator uses it."""
        return GroupShareOffsets(self)

    def _send(
        self, key: ShareKey, ask: _Serve, reply: StateReply, attempts: int = _ATTEMPTS
    ) -> None:
        def respond(result: StateResult) -> None:
            if self.node.is_stopped:
                return
            if result.error in _RETRIABLE and attempts > 1:
                again = partial(self._send, key, ask, reply, attempts - 1)
                self.node.timers.call_later(_BACKOFF_MS, again)
            else:
                with self.node.actions:
                    reply(result)

        number = self.node.share_coordinator.partition_for(key.text)
        leader = self._leader(number)
        if leader == NO_LEADER:
            respond(StateResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return

        def serve(answer: Callable[[StateResult], None]) -> bool:
            coordinator = self.find(leader)
            if coordinator.is_stopped:
                return False
            ask(coordinator.share_coordinator, answer)
            return True

        lost = partial(respond, StateResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        self.requests.send(self.node.node_id, leader, serve, respond, lost)

    def _leader(self, number: int) -> int:
        if SHARE_STATE_TOPIC not in self.node.metadata.topics and self.node.reaches_controller:
            with suppress(ControllerError):
                self.node.controller.topic_changes.create_share_state_topic()
        leader, _ = self.node.metadata.leader_of(TopicPartition(SHARE_STATE_TOPIC, number))
        return leader


@dataclass(slots=True, eq=False)
class GroupShareOffsets:
    """The `ShareOffsets` of the group coordinator."""

    states: RemoteShareStates

    def initialize(
        self,
        group_id: str,
        partition: TopicIdPartition,
        state_epoch: int,
        start_offset: int,
        reply: OffsetReply,
    ) -> None:
        key = ShareKey(group_id, *partition)
        self.states.initialize(key, state_epoch, start_offset, _offset_reply(reply))

    def read(self, group_id: str, partition: TopicIdPartition, reply: OffsetReply) -> None:
        self.states.read_summary(ShareKey(group_id, *partition), _offset_reply(reply))

    def delete(self, group_id: str, partition: TopicIdPartition, reply: OffsetReply) -> None:
        self.states.delete(ShareKey(group_id, *partition), _offset_reply(reply))


def _offset_reply(reply: OffsetReply) -> StateReply:
    def answer(result: StateResult) -> None:
        state = result.state
        reply(ShareOffset(result.error, result.message, state.start_offset, state.leader_epoch))

    return answer
