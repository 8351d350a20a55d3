"""A cluster on the running event loop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any

from request_purgatory.broker.api.registry import find_api
from request_purgatory.broker.cluster.data_dir import DataDir
from request_purgatory.broker.cluster.network import CONTROLLER, Network
from request_purgatory.broker.cluster.node import ClusterParts, Node
from request_purgatory.broker.metadata.controller import Controller
from request_purgatory.broker.metadata.offsets_topic import create_offsets_topic
from request_purgatory.broker.metadata.topics import Partition, Topic, TopicPartition
from request_purgatory.broker.replication.log_directory import LogDirectory
from request_purgatory.broker.replication.recorder import Recorder
from request_purgatory.broker.server.faults import Faults
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.errors import InvalidArgumentError

logger = logging.getLogger(__name__)


def wall_clock_ms() -> int:
    """Return the time of day in milliseconds since 1970."""
    return round(time.time() * 1_000)


class AsyncCluster:
    """A Kafka cluster for tests and development, on the running event loop.

    Composes the nodes, the controller and the network between them, for one `async with` block.
    All nodes share the process and the event loop. Methods must be called on that loop's thread.
    Nodes are named by their numbers, from 0.
    """

    def __init__(
        self,
        settings: ClusterSettings | None = None,
        *,
        recorder: Recorder | None = None,
        wall_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """Create a cluster; entering the block starts it.

        Args:
            settings: the cluster's settings; None is the defaults.
            recorder: records the requests that wait; None records none.
            wall_ms: the time of day in milliseconds since 1970, for record timestamps, retention
                and groups.

        Raises:
            ControllerError: the data directory has data of more nodes than `settings.nodes`.
            InvalidArgumentError: another cluster uses the data directory.
        """
        self.settings = settings or ClusterSettings()
        self.wall_ms = wall_ms
        self.network = Network()
        self.faults = Faults(find_api)
        folder = self.settings.data_dir
        self._data_dir = None if folder is None else DataDir(folder)
        self.controller = Controller(self.settings)
        self.controller.on_change = self._send_partitions
        self.controller.on_delete = self._send_deletion
        self._parts = ClusterParts(
            self.settings, self.controller, self.network, self.faults, recorder, wall_ms
        )
        self.nodes = self._parts.nodes
        port = self.settings.port
        for node in range(self.settings.nodes):
            logs = LogDirectory(node, None if folder is None else folder / f"node-{node}")
            self.nodes.append(Node(self._parts, node, logs, port + node if port else 0))
        self._fence_timers: dict[int, asyncio.TimerHandle] = {}

    async def __aenter__(self) -> AsyncCluster:
        try:
            for node in self.nodes:
                await node.start()
        except BaseException:
            self._stop_all()
            raise
        # All nodes register together. If the first registered alone, it would become the leader of
        # all its partitions, by unclean election too, where that is enabled.
        self.controller.register_broker(*range(len(self.nodes)))
        for node in self.nodes:
            node.connect_controller()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop_all()
        # Let the closed transports run their last callbacks.
        await asyncio.sleep(0)

    def _stop_all(self) -> None:
        for handle in self._fence_timers.values():
            handle.cancel()
        for node in self.nodes:
            if not node.is_stopped:
                node.stop()
        if self._data_dir is not None:
            self._data_dir.release()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, "host:port,host:port", for clients' `bootstrap_servers`."""
        return ",".join(f"{node.server.host}:{node.server.port}" for node in self.nodes)

    def addresses(self) -> list[str]:
        """Return the nodes' addresses, "host:port", by node number."""
        return self.bootstrap_servers.split(",")

    # -- notifications of the controller to the nodes

    def _send_partitions(self, partitions: list[Partition]) -> None:
        # Copies: a later change is sent as a later message, and must not alter this one.
        sent = [
            (
                self.controller.topics[each.topic].topic_id,
                replace(each, replicas=list(each.replicas), isr=list(each.isr)),
            )
            for each in partitions
        ]
        for node in self.nodes:
            if not node.is_stopped:
                deliver = partial(node.apply_partitions, sent)
                self.network.send(CONTROLLER, node.node_id, deliver)

    def _send_deletion(self, topic: Topic) -> None:
        for node in self.nodes:
            if not node.is_stopped:
                deliver = partial(node.delete_topic, topic)
                self.network.send(CONTROLLER, node.node_id, deliver)

    # -- topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: dict[str, str | None] | None = None,
    ) -> None:
        """Create a topic. The nodes are notified in the event loop's next round.

        Args:
            name: the topic's name.
            partitions: their number; -1 is the cluster's default.
            replication_factor: replicas of each partition; -1 is the cluster's default.
            configs: topic settings by Kafka's names.

        Raises:
            ControllerError: with the error code of Kafka's CreateTopics.
        """
        self.controller.create_topic(
            name, partitions=partitions, replication_factor=replication_factor, configs=configs
        )

    def create_offsets_topic(self) -> None:
        """Create `__consumer_offsets`, the topic of groups and offsets; no-op if it exists."""
        create_offsets_topic(self.controller, self.settings)

    # -- operations on nodes

    def pause_replication(self, node: int) -> None:
        """Stop a node from fetching as a follower, until `resume_replication`.

        Args:
            node: the node's number.

        Raises:
            InvalidArgumentError: there is no such node.
        """
        self.nodes[self._require_node(node)].pause_replication()

    def resume_replication(self, node: int) -> None:
        """Undo `pause_replication`."""
        self.nodes[self._require_node(node)].resume_replication()

    def set_latency(self, node: int, latency_ms: int) -> None:
        """Delay each message between a node and the other nodes or the controller.

        Args:
            node: the node's number.
            latency_ms: milliseconds in each direction; 0 removes the delay.

        Raises:
            InvalidArgumentError: there is no such node, or the latency is negative.
        """
        if latency_ms < 0:
            raise InvalidArgumentError("latency_ms", "at least 0", latency_ms)
        self.network.set_latency(self._require_node(node), latency_ms)

    def partition_node(self, node: int) -> None:
        """Cut a node off from the other nodes and the controller; clients still reach it.

        The controller fences the node after `broker_session_timeout_ms`.
        """
        if node in self.network.partitioned_nodes:
            return
        self.nodes[self._require_node(node)].disconnect_controller()
        self.network.partition_node(node)
        delay = self.settings.broker_session_timeout_ms / 1_000
        self._fence_timers[node] = asyncio.get_running_loop().call_later(
            delay, self.controller.fence_broker, node
        )

    def heal_node(self, node: int) -> None:
        """Undo `partition_node`."""
        if self._require_node(node) not in self.network.partitioned_nodes:
            return
        self.network.heal_node(node)
        self._fence_timers.pop(node).cancel()
        if not self.nodes[node].is_stopped:
            self._register(node)
        for other in self.nodes:
            if not other.is_stopped:
                other.resend_fetch(node)
                self.nodes[node].resend_fetch(other.node_id)

    def kill(self, node: int) -> None:
        """Stop a node at once, as `kill -9` would: data written but not flushed survives.

        Without `data_dir` the node's logs stay in memory. No-op if the node is not running.
        """
        if self._is_running(node):
            self.nodes[node].kill()
            self.controller.fence_broker(node)

    def stop(self, node: int) -> None:
        """Stop a node in an orderly way; no-op if it is not running."""
        if self._is_running(node):
            self.controller.fence_broker(node)
            self.nodes[node].stop()

    async def restart(self, node: int) -> None:
        """Start a killed or stopped node again, on its previous port and with its log.

        Args:
            node: the node's number.

        Raises:
            InvalidArgumentError: there is no such node, or it is running.
        """
        if self._is_running(node):
            raise InvalidArgumentError("node", "a killed or stopped node", node)
        old = self.nodes[node]
        new = Node(
            self._parts,
            node,
            old.log_directory,
            old.server.port,
            is_replication_paused=old.is_replication_paused,
        )
        await new.start()
        self.nodes[node] = new
        if node in self.network.partitioned_nodes:
            new.start_without_metadata()
        else:
            self._register(node)

    def _register(self, node: int) -> None:
        self.controller.register_broker(node)
        self.nodes[node].connect_controller()

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make another in-sync replica the leader of a partition, in a new leader epoch.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            node: the new leader.

        Raises:
            ControllerError: there is no such partition, or the node is not in sync.
        """
        self.controller.move_leader(TopicPartition(topic, partition), self._require_node(node))

    def _require_node(self, node: int) -> int:
        if not 0 <= node < len(self.nodes):
            raise InvalidArgumentError("node", f"between 0 and {len(self.nodes) - 1}", node)
        return node

    def _is_running(self, node: int) -> bool:
        return not self.nodes[self._require_node(node)].is_stopped

    # -- state

    def metrics(self) -> dict[int, dict[str, dict[str, float]]]:
        """Return the metrics of every live node's purgatories, by node, purgatory and metric.

        The metrics are those of `NodeMetrics.read`.
        """
        return {
            node.node_id: node.metrics.read(node.now_ms())
            for node in self.nodes
            if not node.is_stopped
        }

    def describe_topic(self, topic: str) -> list[dict[str, Any]]:
        """Return the state of a topic's partitions.

        Args:
            topic: the topic's name.

        Returns:
            For each partition `partition`, `leader`, `leader_epoch`, `replicas`, `isr`, and
            `offsets`: for each live replica's node its `log_start_offset`, `end_offset` and
            `high_watermark`.

        Raises:
            ControllerError: there is no such topic.
        """
        partitions = self.controller.require_topic(topic).partitions
        return [self._describe_partition(partition) for partition in partitions]

    def _describe_partition(self, partition: Partition) -> dict[str, Any]:
        offsets = {}
        for node in partition.replicas:
            replica = (
                None
                if self.nodes[node].is_stopped
                else self.nodes[node].replicas.find(partition.key)
            )
            if replica is not None:
                offsets[node] = {
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
            "offsets": offsets,
        }

    def check(self) -> None:
        """Assert every invariant of every replica and purgatory."""
        for node in self.nodes:
            if not node.is_stopped:
                for replica in node.replicas.replicas.values():
                    replica.check()
                for purgatory in node.purgatories.values():
                    purgatory._check_invariants()
