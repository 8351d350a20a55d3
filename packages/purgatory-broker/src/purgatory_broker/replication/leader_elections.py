"""The leader elections that clients have asked a node for, until the node learns the leaders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.metadata.topics import Partition, TopicPartition
from request_purgatory.aio import Purgatory
from request_purgatory.purgatory.operation import DelayedOperation


class _DelayedElectLeader(DelayedOperation):
    """Waits until the node knows the leaders that the controller has elected.

    The watch keys are the partitions. At the end the operation calls `reply` with the partitions
    whose leader the node does not know.
    """

    __slots__ = ("known_epochs", "reply", "waiting")

    def __init__(
        self,
        timeout_ms: int,
        elected: Mapping[TopicPartition, int],
        known_epochs: Mapping[TopicPartition, int],
        reply: Callable[[set[TopicPartition]], None],
    ) -> None:
        super().__init__(timeout_ms)
        self.waiting = dict(elected)
        self.known_epochs = known_epochs
        self.reply = reply

    def try_complete(self) -> bool:
        self.waiting = {
            key: epoch
            for key, epoch in self.waiting.items()
            if self.known_epochs.get(key, -1) < epoch
        }
        return not self.waiting and self.force_complete()

    def on_complete(self) -> None:
        self.reply(set(self.waiting))


class LeaderElections:
    """The leader epochs that one node knows, and the requests that wait for later ones.

    Methods that change an epoch defer the notifications of waiting requests to the end of the
    outermost `with actions:` block; callers must be inside one.
    """

    def __init__(self, purgatory: Purgatory, actions: ActionQueue) -> None:
        self._purgatory = purgatory
        self._actions = actions
        self._epochs: dict[TopicPartition, int] = {}

    def learn(self, partition: Partition) -> None:
        key = partition.key
        self._epochs[key] = partition.leader_epoch
        if self._purgatory.num_watchers(key):
            self._actions.add(partial(self._purgatory.notify, key))

    def forget(self, key: TopicPartition) -> None:
        self._epochs.pop(key, None)

    def clear(self) -> None:
        self._epochs.clear()

    def wait(
        self,
        timeout_ms: int,
        elected: Mapping[TopicPartition, int],
        reply: Callable[[set[TopicPartition]], None],
    ) -> _DelayedElectLeader | None:
        """Call `reply` when the leaders are known or time is out; None if that was at once."""
        if not elected:
            reply(set())
            return None
        operation = _DelayedElectLeader(timeout_ms, elected, self._epochs, reply)
        self._purgatory.try_complete_else_watch(operation, list(elected))
        return None if operation.is_completed else operation
