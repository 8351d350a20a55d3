"""A node of a cluster.

Its replicas, its group coordinator, its connections, and the purgatories of what waits for them.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import uuid
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from request_purgatory.aio import Purgatory
from request_purgatory.broker.cluster.network import CONTROLLER
from request_purgatory.broker.cluster.replicated_offsets import (
    ReplicatedOffsets,
    stored_records,
)
from request_purgatory.broker.groups import GroupCoordinator, GroupPurgatories
from request_purgatory.broker.log import RecordError
from request_purgatory.broker.metadata.controller import IsrWish
from request_purgatory.broker.metadata.topic_configs import topic_value
from request_purgatory.broker.metadata.topics import (
    NO_LEADER,
    OFFSETS_TOPIC,
    Partition,
    Topic,
    TopicPartition,
)
from request_purgatory.broker.replication.deferred_actions import Actions
from request_purgatory.broker.replication.fetch_sessions import FetchSessions
from request_purgatory.broker.replication.fetcher import Fetcher
from request_purgatory.broker.replication.log_directory import Disk, log_settings
from request_purgatory.broker.replication.replica import Replica, ReplicaError
from request_purgatory.broker.replication.replica_manager import (
    ReplicaManager,
    ReplicaPurgatories,
)
from request_purgatory.broker.replication.replica_metrics import NodeMetrics
from request_purgatory.broker.server.quotas import ByteRateQuota
from request_purgatory.broker.server.server import Server
from request_purgatory.broker.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from request_purgatory.broker.cluster.async_cluster import AsyncCluster
    from request_purgatory.broker.replication.recorder import Recorder

logger = logging.getLogger(__name__)

#: Kafka's names for what is counted by purgatory, as far as it has them.
PURGATORIES = ("Produce", "Fetch", "DeleteRecords", "Rebalance", "Sync", "Heartbeat", "Throttle")
_WATERMARKS_EVERY_MS = 5_000


class Node:
    """One broker of a cluster. All of it runs on the cluster's event loop."""

    def __init__(self, cluster: AsyncCluster, node_id: int, disk: Disk, port: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.settings = cluster.settings
        self.disk = disk
        self.actions = Actions()
        self.is_stopped = True
        self.purgatories: dict[str, Purgatory] = {}
        self.fetchers: dict[int, Fetcher] = {}
        self.fetch_sessions = FetchSessions()
        self.recorder: Recorder | None = cluster.recorder
        self.server = Server(self, cluster.host, port)
        windows, window_ms = self.settings.quota_window_num, self.settings.quota_window_size_ms
        self.producer_quota = ByteRateQuota(self.settings.producer_byte_rate, windows, window_ms)
        self.consumer_quota = ByteRateQuota(self.settings.consumer_byte_rate, windows, window_ms)
        #: What the node knows while it can't hear from the controller; None while it can.
        self._image: tuple[dict[str, Topic], dict[uuid.UUID, str], set[int]] | None = None
        self._stack = AsyncExitStack()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # -- beginning and end

    async def start(self) -> None:
        """Listen. The node has no partition until `find_controller`."""
        interval = self.settings.purgatory_purge_interval_requests
        for name in PURGATORIES:
            purgatory = Purgatory(f"{name}-{self.node_id}", purge_interval=interval)
            self.purgatories[name] = await self._stack.enter_async_context(purgatory)
        waiting = ReplicaPurgatories(
            self.purgatories["Produce"],
            self.purgatories["Fetch"],
            self.purgatories["DeleteRecords"],
        )
        self.replicas = ReplicaManager(
            self.node_id,
            self.settings,
            waiting,
            self.actions,
            now_ms=self.now_ms,
            wall_ms=self.cluster.wall_ms,
            knows=self.knows,
            alive=self.visible_nodes,
            alter_isr=self._alter_isr,
        )
        self.replicas.recorder = self.recorder
        self.groups = GroupCoordinator(
            self.node_id,
            self.settings,
            purgatories=GroupPurgatories(
                self.purgatories["Rebalance"],
                self.purgatories["Sync"],
                self.purgatories["Heartbeat"],
            ),
            store=ReplicatedOffsets(
                self.replicas, self.settings.offsets_commit_timeout_ms, self.cluster.wall_ms
            ),
            now_ms=self.cluster.wall_ms,
        )
        self.metrics = NodeMetrics(self.purgatories, self.replicas.fetch_expirations)
        try:
            await self.server.start()
        except BaseException:
            self._halt()
            raise
        self.is_stopped = False
        self._every(
            "shrink", max(1, self.settings.replica_lag_time_max_ms // 2), self.replicas.shrink
        )
        self._every("watermarks", _WATERMARKS_EVERY_MS, self._keep_high_watermarks)
        self._every("retention", self.settings.log_retention_check_interval_ms, self._delete_old)

    def kill(self) -> None:
        """Stop at once, as by `kill -9`: nobody is told, nothing is written any more."""
        self._halt()
        for replica in self.replicas.replicas.values():
            self.disk.abandon(replica.log)

    def stop(self) -> None:
        """Stop in an orderly way: what was appended is forced to the disk."""
        self._keep_high_watermarks()
        self._halt()
        for replica in self.replicas.replicas.values():
            self.disk.close(replica.log)

    def _halt(self) -> None:
        self.is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        for fetcher in self.fetchers.values():
            fetcher.close()
        self.server.stop()
        for purgatory in self.purgatories.values():
            purgatory.close()

    def _every(self, name: str, interval_ms: int, work: Any) -> None:
        def again() -> None:
            self._every(name, interval_ms, work)
            with self.actions:
                work()

        self._timers[name] = asyncio.get_running_loop().call_later(interval_ms / 1_000, again)

    # -- what it knows of the cluster

    def now_ms(self) -> int:
        """The loop's time in whole milliseconds."""
        return round(asyncio.get_running_loop().time() * 1_000)

    @property
    def topics(self) -> dict[str, Topic]:
        """The topics by name."""
        return self.cluster.controller.topics if self._image is None else self._image[0]

    @property
    def names(self) -> dict[uuid.UUID, str]:
        """The topics' names by their ids."""
        return self.cluster.controller.names if self._image is None else self._image[1]

    def visible_nodes(self) -> set[int]:
        """The nodes that are alive, as far as this one knows."""
        return self.cluster.controller.alive if self._image is None else self._image[2]

    @property
    def reaches_controller(self) -> bool:
        """True unless the node is cut off."""
        return self.cluster.network.is_connected(self.node_id, CONTROLLER)

    def lose_controller(self) -> None:
        """From here on the node knows what it knew."""
        controller = self.cluster.controller
        self._image = (
            copy.deepcopy(controller.topics),
            dict(controller.names),
            set(controller.alive),
        )

    def start_alone(self) -> None:
        """The node has started, and the controller is out of reach: it knows of no topic yet."""
        self._image = ({}, {}, {self.node_id})

    def find_controller(self) -> None:
        """The node hears from the controller (again), and of all that it has missed."""
        self._image = None
        topics = self.cluster.controller.topics.values()
        partitions = [(topic, partition) for topic in topics for partition in topic.partitions]
        here = {
            partition.key: topic.topic_id
            for topic, partition in partitions
            if self.node_id in partition.replicas
        }
        with self.actions:
            for replica in list(self.replicas.replicas.values()):
                # What was asked for on a link that was cut is not answered any more.
                replica.wished_isr = None
                if here.get(replica.key) != replica.topic_id:
                    self._delete(replica)
        self.disk.delete_unknown(here.items())
        self.apply([(topic.topic_id, partition) for topic, partition in partitions])

    def knows(self, key: TopicPartition) -> bool:
        """True if there is such a partition."""
        topic = self.topics.get(key.topic)
        return topic is not None and 0 <= key.partition < len(topic.partitions)

    def topic_id(self, name: str) -> uuid.UUID | None:
        """A topic's id; None if there is no such topic."""
        topic = self.topics.get(name)
        return None if topic is None else topic.topic_id

    def leader_of(self, key: TopicPartition) -> tuple[int, int]:
        """A partition's leader and its epoch; -1 for what is not known."""
        if not self.knows(key):
            return NO_LEADER, -1
        partition = self.topics[key.topic].partitions[key.partition]
        return partition.leader, partition.leader_epoch

    def endpoints(self, nodes: Iterable[int]) -> list[dict[str, Any]]:
        """Where nodes listen."""
        found = [self.cluster.nodes[node] for node in sorted(nodes) if node >= 0]
        return [
            {
                "node_id": node.node_id,
                "host": node.server.host,
                "port": node.server.port,
                "rack": None,
            }
            for node in found
        ]

    def leader_replica(self, key: TopicPartition, leader_epoch: int = -1) -> Replica:
        """The replica of a partition that this node leads.

        Raises:
            ReplicaError: as Kafka answers for one that it does not lead.
        """
        if not self.knows(key):
            raise ReplicaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        replica = self.replicas.find(key)
        if replica is None:
            raise ReplicaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        replica.require_leader(leader_epoch)
        return replica

    # -- what the controller tells

    def apply(self, partitions: list[tuple[uuid.UUID, Partition]]) -> None:
        """Lead, follow or leave what the controller has changed.

        Partitions as they were then, each with its topic's id.
        """
        if self.is_stopped:
            return
        with self.actions:
            for topic_id, partition in partitions:
                # A topic that has been deleted meanwhile, or made anew, has its own notice, which
                # comes after this one.
                topic = self.topics.get(partition.topic)
                if (
                    self.node_id in partition.replicas
                    and topic is not None
                    and topic.topic_id == topic_id
                ):
                    try:
                        self._apply(partition, topic)
                    except RecordError:
                        # The others are not to suffer from it. It is tried again with the
                        # partition's next change.
                        logger.exception("node %d can't take up %s", self.node_id, partition.key)

    def _apply(self, partition: Partition, topic: Topic) -> None:
        key = partition.key
        replica = self.replicas.find(key)
        settings = log_settings(topic, self.settings)
        if replica is None:
            log = self.disk.open(key, topic.topic_id, settings)
            high_watermark = self.disk.high_watermark(key, topic.topic_id)
            replica = Replica(self.node_id, key, topic.topic_id, log, high_watermark)
            self.replicas.replicas[key] = replica
        replica.log.settings = settings
        least = int(topic_value("min.insync.replicas", topic.configs, self.settings))
        led = replica.is_leader
        if replica.apply(partition, least, self.now_ms()):
            for fetcher in self.fetchers.values():
                fetcher.remove(key)
            if not replica.is_leader and replica.leader != NO_LEADER:
                self._fetcher(replica.leader).add(key)
            if key.topic == OFFSETS_TOPIC and replica.is_leader:
                self._load_groups(replica)
            elif key.topic == OFFSETS_TOPIC and led:
                self.groups.unload(key.partition)
        if replica.is_leader:
            self.replicas.advance(replica)
        self.replicas.wake(key)

    def _load_groups(self, replica: Replica) -> None:
        try:
            self.groups.load(replica.key.partition, stored_records(replica.log))
        except RecordError:
            logger.exception(
                "node %d can't read %s, and does not coordinate its groups",
                self.node_id,
                replica.key,
            )
            self.groups.unload(replica.key.partition)

    def _fetcher(self, leader: int) -> Fetcher:
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            fetcher = self.fetchers[leader] = Fetcher(self, leader)
            fetcher.is_frozen = self.node_id in self.cluster.frozen
        return fetcher

    def reconnect(self, other: int) -> None:
        """The link to another node was cut, and is there again.

        Requests that were on it are made anew.
        """
        if other in self.fetchers:
            self.fetchers[other].again()

    def remove(self, topic: Topic) -> None:
        """A topic was deleted."""
        if self.is_stopped:
            return
        with self.actions:
            for partition in topic.partitions:
                replica = self.replicas.find(partition.key)
                if replica is not None and replica.topic_id == topic.topic_id:
                    self._delete(replica)
            self.groups.forget_topic(topic.name)

    def _delete(self, replica: Replica) -> None:
        key = replica.key
        for fetcher in self.fetchers.values():
            fetcher.remove(key)
        del self.replicas.replicas[key]
        self.disk.delete(replica.log, key, replica.topic_id)
        if key.topic == OFFSETS_TOPIC:
            self.groups.unload(key.partition)
        self.replicas.wake(key)

    def _alter_isr(self, replica: Replica, isr: list[int]) -> None:
        """Ask the controller for other in-sync replicas of a partition; one wish at a time."""
        if replica.wished_isr is not None or not self.reaches_controller:
            return
        replica.wished_isr = isr
        wish = IsrWish(
            replica.key,
            replica.topic_id,
            self.node_id,
            replica.leader_epoch,
            replica.partition_epoch,
            isr,
        )
        controller, network = self.cluster.controller, self.cluster.network

        def arrive() -> None:
            if not controller.alter_isr(wish):
                network.send(CONTROLLER, self.node_id, refused)

        def refused() -> None:
            # A wish that was granted is over with what the controller tells then, which comes
            # first.
            if self.is_stopped or replica.wished_isr is not isr:
                return
            replica.wished_isr = None
            with self.actions:
                self.replicas.advance(replica)

        network.send(self.node_id, CONTROLLER, arrive)

    # -- from time to time

    def _keep_high_watermarks(self) -> None:
        replicas = self.replicas.replicas.values()
        self.disk.keep_high_watermarks(
            {(each.topic_id, each.key.partition): each.high_watermark for each in replicas}
        )

    def _delete_old(self) -> None:
        now_ms = self.cluster.wall_ms()
        for replica in self.replicas.replicas.values():
            try:
                deleted = replica.log.delete_old(now_ms, replica.high_watermark)
            except RecordError:
                logger.exception(
                    "node %d can't delete what is old in %s", self.node_id, replica.key
                )
                continue
            if deleted:
                self.replicas.wake(replica.key)
