"""A node of a cluster: its replicas, its group coordinator, its connections, and the purgatories of what waits for them."""

from __future__ import annotations

import asyncio
import copy
import logging
import uuid
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from request_purgatory.aio import Purgatory
from request_purgatory.broker.actions import Actions
from request_purgatory.broker.configs import topic_value
from request_purgatory.broker.disk import Disk
from request_purgatory.broker.fetch_sessions import FetchSessions
from request_purgatory.broker.fetcher import Fetcher
from request_purgatory.broker.groups import GroupCoordinator, GroupPurgatories
from request_purgatory.broker.log import LogSettings
from request_purgatory.broker.metrics import NodeMetrics
from request_purgatory.broker.network import CONTROLLER
from request_purgatory.broker.offsets_store import ReplicatedOffsets, stored_records
from request_purgatory.broker.quotas import ByteRateQuota
from request_purgatory.broker.replica import Replica, ReplicaError
from request_purgatory.broker.replica_manager import ReplicaManager, ReplicaPurgatories
from request_purgatory.broker.server import Server
from request_purgatory.broker.topics import NO_LEADER, OFFSETS_TOPIC, Partition, Topic, TopicPartition
from request_purgatory.broker.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from request_purgatory.broker.async_cluster import AsyncCluster
    from request_purgatory.broker.recorder import Recorder

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
        self._isr_wishes: set[TopicPartition] = set()

    # -- beginning and end

    async def start(self) -> None:
        """Listen, and take up the partitions that the controller knows to be here."""
        interval = self.settings.purgatory_purge_interval_requests
        for name in PURGATORIES:
            purgatory = Purgatory(f"{name}-{self.node_id}", purge_interval=interval)
            self.purgatories[name] = await self._stack.enter_async_context(purgatory)
        waiting = ReplicaPurgatories(self.purgatories["Produce"], self.purgatories["Fetch"], self.purgatories["DeleteRecords"])
        self.replicas = ReplicaManager(
            self.node_id,
            self.settings,
            waiting,
            self.actions,
            now_ms=self.now_ms,
            wall_ms=self.cluster.wall_ms,
            knows=self.knows,
            alter_isr=self._alter_isr,
        )
        self.replicas.recorder = self.recorder
        self.groups = GroupCoordinator(
            self.node_id,
            self.settings,
            purgatories=GroupPurgatories(self.purgatories["Rebalance"], self.purgatories["Sync"], self.purgatories["Heartbeat"]),
            store=ReplicatedOffsets(self.replicas, self.settings.offsets_commit_timeout_ms, self.cluster.wall_ms),
            now_ms=self.cluster.wall_ms,
        )
        self.metrics = NodeMetrics(self.purgatories, self.replicas.fetch_expirations)
        topics = self.cluster.controller.topics.values()
        self.disk.delete_unknown(
            partition.key for topic in topics for partition in topic.partitions if self.node_id in partition.replicas
        )
        self.is_stopped = False
        await self.server.start()
        self._every("shrink", max(1, self.settings.replica_lag_time_max_ms // 2), self.replicas.shrink)
        self._every("watermarks", _WATERMARKS_EVERY_MS, self._keep_high_watermarks)
        self._every("retention", self.settings.log_retention_check_interval_ms, self._delete_old)

    def kill(self) -> None:
        """Stop at once, as by `kill -9`: nobody is told, nothing is written any more."""
        self._halt()
        for replica in self.replicas.replicas.values():
            if self.disk.folder is not None:
                replica.log.close()

    def stop(self) -> None:
        """Stop in an orderly way: what was appended is forced to the disk."""
        self._keep_high_watermarks()
        self._halt()
        for replica in self.replicas.replicas.values():
            if self.disk.folder is not None:
                replica.log.close()
            else:
                replica.log.flush()

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
        self._image = (copy.deepcopy(controller.topics), dict(controller.names), set(controller.alive))

    def find_controller(self) -> None:
        """The node hears from the controller again, and of all that it has missed."""
        self._image = None
        topics = self.cluster.controller.topics
        self.apply([partition for topic in topics.values() for partition in topic.partitions])
        for key in [key for key in self.replicas.replicas if key.topic not in topics]:
            self._delete(key)

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
        return [{"node_id": node.node_id, "host": node.server.host, "port": node.server.port, "rack": None} for node in found]

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

    def apply(self, partitions: list[Partition]) -> None:
        """Lead, follow or leave what the controller has changed."""
        if self.is_stopped:
            return
        with self.actions:
            for partition in partitions:
                topic = self.topics.get(partition.topic)
                if self.node_id in partition.replicas and topic is not None:
                    self._apply(partition, topic)

    def _apply(self, partition: Partition, topic: Topic) -> None:
        key = partition.key
        replica = self.replicas.find(key)
        settings = self._log_settings(topic)
        if replica is None:
            replica = Replica(self.node_id, key, self.disk.open(key, settings), self.disk.high_watermark(key))
            self.replicas.replicas[key] = replica
        else:
            replica.log.settings = settings
        least = int(topic_value("min.insync.replicas", topic.configs, self.settings))
        led = replica.is_leader
        moved = replica.apply(partition, least, self.now_ms())
        self._isr_wishes.discard(key)
        if moved:
            for fetcher in self.fetchers.values():
                fetcher.remove(key)
            if not replica.is_leader and replica.leader != NO_LEADER:
                self._fetcher(replica.leader).add(key)
            if key.topic == OFFSETS_TOPIC:
                if replica.is_leader:
                    self.groups.load(key.partition, stored_records(replica.log))
                elif led:
                    self.groups.unload(key.partition)
        if replica.is_leader:
            self.replicas.advance(replica)
        self.replicas.wake(key)

    def _log_settings(self, topic: Topic) -> LogSettings:
        def value(name: str) -> str:
            return topic_value(name, topic.configs, self.settings)

        def limit(name: str) -> int | None:
            number = int(value(name))
            return None if number < 0 else number

        flush = int(value("flush.messages"))
        return LogSettings(
            segment_bytes=int(value("segment.bytes")),
            max_message_bytes=int(value("max.message.bytes")),
            retention_ms=limit("retention.ms") if "delete" in value("cleanup.policy") else None,
            retention_bytes=limit("retention.bytes") if "delete" in value("cleanup.policy") else None,
            flush_messages=None if flush == 2**63 - 1 else flush,
            message_timestamp_type=value("message.timestamp.type"),
            message_timestamp_before_max_ms=int(value("message.timestamp.before.max.ms")),
            message_timestamp_after_max_ms=int(value("message.timestamp.after.max.ms")),
            compacted="compact" in value("cleanup.policy"),
        )

    def _fetcher(self, leader: int) -> Fetcher:
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            fetcher = self.fetchers[leader] = Fetcher(self, leader)
            fetcher.is_frozen = self.node_id in self.cluster.frozen
        return fetcher

    def remove(self, topic: Topic) -> None:
        """A topic was deleted."""
        if self.is_stopped:
            return
        with self.actions:
            for partition in topic.partitions:
                if partition.key in self.replicas.replicas:
                    self._delete(partition.key)
            self.groups.forget_topic(topic.name)

    def _delete(self, key: TopicPartition) -> None:
        for fetcher in self.fetchers.values():
            fetcher.remove(key)
        replica = self.replicas.replicas.pop(key)
        self.disk.delete(replica.log, key)
        self.replicas.wake(key)

    def _alter_isr(self, replica: Replica, isr: list[int]) -> None:
        """Ask the controller for other in-sync replicas of a partition; one wish at a time."""
        if replica.key in self._isr_wishes or not self.reaches_controller:
            return
        self._isr_wishes.add(replica.key)
        epoch = replica.leader_epoch

        def arrive() -> None:
            if not self.cluster.controller.alter_isr(replica.key, self.node_id, epoch, isr):
                self._isr_wishes.discard(replica.key)

        self.cluster.network.send(self.node_id, CONTROLLER, arrive)

    # -- from time to time

    def _keep_high_watermarks(self) -> None:
        self.disk.keep_high_watermarks({key: each.high_watermark for key, each in self.replicas.replicas.items()})

    def _delete_old(self) -> None:
        now_ms = self.cluster.wall_ms()
        for replica in self.replicas.replicas.values():
            if replica.log.delete_old(now_ms, replica.high_watermark):
                self.replicas.wake(replica.key)
