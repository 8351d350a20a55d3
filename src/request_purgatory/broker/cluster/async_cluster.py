"""A cluster on the running event loop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any

from request_purgatory.broker.cluster.data_dir import DataDir
from request_purgatory.broker.cluster.network import CONTROLLER, Network
from request_purgatory.broker.cluster.node import Node
from request_purgatory.broker.metadata.controller import Controller, ControllerError
from request_purgatory.broker.metadata.topics import (
    OFFSETS_TOPIC,
    Partition,
    Topic,
    TopicPartition,
)
from request_purgatory.broker.replication.log_directory import Disk
from request_purgatory.broker.replication.recorder import Recorder
from request_purgatory.broker.server.faults import Faults
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.errors import InvalidArgumentError

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_COMPACTED = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}


def wall_clock_ms() -> int:
    """Milliseconds since 1970, which records and groups are stamped with."""
    return round(time.time() * 1_000)


class AsyncCluster:
    """Nodes, a controller, and what lies between them, for one `async with` block on the loop that runs it.

    Not a production broker: all nodes share a process and an event loop. Every method belongs to
    that loop's thread; methods that do something to a node take its number.
    """

    host = LOOPBACK

    def __init__(
        self,
        settings: ClusterSettings | None = None,
        *,
        recorder: Recorder | None = None,
        wall_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.settings = settings or ClusterSettings()
        self.wall_ms = wall_ms
        self.recorder = recorder
        self.network = Network()
        self.faults = Faults()
        self.frozen: set[int] = set()
        folder = self.settings.data_dir
        self._data_dir = None if folder is None else DataDir(folder)
        self.controller = Controller(self.settings)
        self.controller.changed = self._tell
        self.controller.removed = self._tell_removed
        disks = [
            Disk(node, None if folder is None else folder / f"node-{node}")
            for node in range(self.settings.nodes)
        ]
        ports = [
            self.settings.port + node if self.settings.port else 0
            for node in range(self.settings.nodes)
        ]
        self.nodes = [
            Node(self, node, disk, port)
            for node, (disk, port) in enumerate(zip(disks, ports, strict=True))
        ]
        self._fencing: dict[int, asyncio.TimerHandle] = {}

    async def __aenter__(self) -> AsyncCluster:
        try:
            for node in self.nodes:
                await node.start()
        except BaseException:
            self._stop_all()
            raise
        # All at once: the first alone would lead everything, or, where that is allowed, what it was
        # not in sync with.
        self.controller.node_came(*range(len(self.nodes)))
        for node in self.nodes:
            node.find_controller()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop_all()
        # The transports' last callbacks.
        await asyncio.sleep(0)

    def _stop_all(self) -> None:
        for handle in self._fencing.values():
            handle.cancel()
        for node in self.nodes:
            if not node.is_stopped:
                node.stop()
        if self._data_dir is not None:
            self._data_dir.release()

    @property
    def bootstrap(self) -> str:
        """What clients are given: the addresses of all nodes."""
        return ",".join(f"{node.server.host}:{node.server.port}" for node in self.nodes)

    def addresses(self) -> list[str]:
        """The nodes' addresses, by their numbers."""
        return self.bootstrap.split(",")

    # -- what the controller tells the nodes

    def _tell(self, partitions: list[Partition]) -> None:
        # As they are now: what changes while this is under way is told after it.
        told = [
            (
                self.controller.topics[each.topic].topic_id,
                replace(each, replicas=list(each.replicas), isr=list(each.isr)),
            )
            for each in partitions
        ]
        for node in self.nodes:
            if not node.is_stopped:
                self.network.send(CONTROLLER, node.node_id, lambda node=node: node.apply(told))  # type: ignore[misc]

    def _tell_removed(self, topic: Topic) -> None:
        for node in self.nodes:
            if not node.is_stopped:
                self.network.send(CONTROLLER, node.node_id, lambda node=node: node.remove(topic))  # type: ignore[misc]

    # -- topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: dict[str, str | None] | None = None,
    ) -> None:
        """A new topic; -1 is the cluster's default. Nodes hear of it in the loop's next round.

        Raises:
            ControllerError: as Kafka's CreateTopics answers.
        """
        self.controller.create_topic(
            name, partitions=partitions, replication_factor=replication_factor, configs=configs
        )

    def create_offsets_topic(self) -> None:
        """The topic that groups' offsets are in, if it is not there yet."""
        if OFFSETS_TOPIC not in self.controller.topics:
            count = self.settings.offsets_topic_num_partitions
            factor = min(self.settings.replication_factor, len(self.controller.alive))
            self.controller.create_topic(
                OFFSETS_TOPIC,
                partitions=count,
                replication_factor=factor,
                configs=dict(_COMPACTED),
                internal=True,
            )

    # -- what can be done to nodes

    def freeze(self, node: int) -> None:
        """Have a node fetch nothing any more as a follower, until `thaw`."""
        self.frozen.add(self._number(node))
        for fetcher in self.nodes[node].fetchers.values():
            fetcher.freeze()

    def thaw(self, node: int) -> None:
        """Undo `freeze`."""
        self.frozen.discard(self._number(node))
        for fetcher in self.nodes[node].fetchers.values():
            fetcher.thaw()

    def lag(self, node: int, lag_ms: int) -> None:
        """Have all that passes between a node and the others take so long; 0 is none."""
        if lag_ms < 0:
            raise InvalidArgumentError("lag_ms", "at least 0", lag_ms)
        self.network.lag(self._number(node), lag_ms)

    def cut_off(self, node: int) -> None:
        """Let nothing pass between a node and the others or the controller; clients reach it as before.

        The controller takes it for dead after `broker_session_timeout_ms`.
        """
        if node in self.network.cut:
            return
        self.nodes[self._number(node)].lose_controller()
        self.network.cut_off(node)
        delay = self.settings.broker_session_timeout_ms / 1_000
        self._fencing[node] = asyncio.get_running_loop().call_later(
            delay, self.controller.node_went, node
        )

    def reconnect(self, node: int) -> None:
        """Undo `cut_off`."""
        if self._number(node) not in self.network.cut:
            return
        self.network.reconnect(node)
        self._fencing.pop(node).cancel()
        if not self.nodes[node].is_stopped:
            self._came(node)
        for other in self.nodes:
            if not other.is_stopped:
                other.reconnect(node)
                self.nodes[node].reconnect(other.node_id)

    def kill(self, node: int) -> None:
        """End a node at once; what it has not forced to the disk stays, as after `kill -9`.

        In memory, the memory is its disk.
        """
        if self._running(node):
            self.nodes[node].kill()
            self.controller.node_went(node)

    def stop(self, node: int) -> None:
        """End a node in an orderly way."""
        if self._running(node):
            self.controller.node_went(node)
            self.nodes[node].stop()

    async def restart(self, node: int) -> None:
        """Start a node that was killed or stopped, on the port that it had."""
        if self._running(node):
            raise InvalidArgumentError("node", "one that was killed or stopped", node)
        old = self.nodes[node]
        new = Node(self, node, old.disk, old.server.port)
        await new.start()
        self.nodes[node] = new
        if node in self.network.cut:
            new.start_alone()
        else:
            self._came(node)

    def _came(self, node: int) -> None:
        self.controller.node_came(node)
        self.nodes[node].find_controller()

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make another in-sync replica a partition's leader.

        Raises:
            ControllerError: there is no such partition, or the node is not in sync.
        """
        self.controller.move_leader(TopicPartition(topic, partition), self._number(node))

    def _number(self, node: int) -> int:
        if not 0 <= node < len(self.nodes):
            raise InvalidArgumentError("node", f"between 0 and {len(self.nodes) - 1}", node)
        return node

    def _running(self, node: int) -> bool:
        return not self.nodes[self._number(node)].is_stopped

    # -- what it is like

    def metrics(self) -> dict[int, dict[str, dict[str, float]]]:
        """PurgatorySize, NumDelayedOperations, ExpiresPerSec and more, by node and purgatory."""
        return {
            node.node_id: node.metrics.read(node.now_ms())
            for node in self.nodes
            if not node.is_stopped
        }

    def describe(self, topic: str) -> list[dict[str, Any]]:
        """A topic's partitions: leader, epoch, replicas, those in sync, and each live replica's offsets.

        Raises:
            ControllerError: there is no such topic.
        """
        return [self._describe(partition) for partition in self.controller.known(topic).partitions]

    def _describe(self, partition: Partition) -> dict[str, Any]:
        found = {}
        for node in partition.replicas:
            replica = (
                None
                if self.nodes[node].is_stopped
                else self.nodes[node].replicas.find(partition.key)
            )
            if replica is not None:
                found[node] = {
                    "log_start_offset": replica.log.log_start_offset,
                    "end_offset": replica.log.end_offset,
                    "high_watermark": replica.high_watermark,
                }
        return {
            "partition": partition.index,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "offsets": found,
        }

    def check(self) -> None:
        """Assert every invariant of every replica and purgatory."""
        for node in self.nodes:
            if not node.is_stopped:
                for replica in node.replicas.replicas.values():
                    replica.check()
                for purgatory in node.purgatories.values():
                    purgatory.check()


__all__ = ["AsyncCluster", "ControllerError"]
