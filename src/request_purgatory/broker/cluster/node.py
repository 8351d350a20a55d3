"""A node of a cluster: one broker with its replicas, group coordinator, server and purgatories."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from request_purgatory.aio import Purgatory
from request_purgatory.broker.api.registry import APIS, handle
from request_purgatory.broker.cluster.network import CONTROLLER, Network
from request_purgatory.broker.cluster.remote_leader import RemoteLeader
from request_purgatory.broker.cluster.replicated_offsets import (
    ReplicatedOffsets,
    stored_records,
)
from request_purgatory.broker.deferred_actions import ActionQueue
from request_purgatory.broker.groups import GroupCoordinator, GroupPurgatories
from request_purgatory.broker.log import RecordError
from request_purgatory.broker.metadata.controller import AlterPartitionRequest, Controller
from request_purgatory.broker.metadata.metadata_cache import MetadataCache
from request_purgatory.broker.metadata.offsets_topic import create_offsets_topic
from request_purgatory.broker.metadata.topic_configs import topic_value
from request_purgatory.broker.metadata.topics import (
    NO_LEADER,
    OFFSETS_TOPIC,
    Partition,
    Topic,
)
from request_purgatory.broker.replication.fetch_sessions import FetchSessions
from request_purgatory.broker.replication.fetcher import Fetcher
from request_purgatory.broker.replication.log_directory import LogDirectory, log_settings
from request_purgatory.broker.replication.recorder import Recorder
from request_purgatory.broker.replication.replica import Replica
from request_purgatory.broker.replication.replica_manager import (
    ReplicaManager,
    ReplicaPurgatories,
)
from request_purgatory.broker.replication.replica_metrics import NodeMetrics
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.server.connection_limit import ConnectionLimit
from request_purgatory.broker.server.faults import Faults
from request_purgatory.broker.server.quotas import ByteRateQuota
from request_purgatory.broker.server.server import Server
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.apis import ApiTable

logger = logging.getLogger(__name__)

#: The node's purgatories by name; the names are Kafka's where Kafka has such a purgatory.
PURGATORIES = ("Produce", "Fetch", "DeleteRecords", "Rebalance", "Sync", "Heartbeat", "Throttle")
#: Kafka's `replica.high.watermark.checkpoint.interval.ms`.
_CHECKPOINT_INTERVAL_MS = 5_000


@dataclass(frozen=True, slots=True)
class ClusterParts:
    """What the nodes of a cluster share."""

    settings: ClusterSettings
    controller: Controller
    network: Network
    faults: Faults
    recorder: Recorder | None
    #: Returns the time of day in milliseconds since 1970.
    wall_ms: Callable[[], int]
    connection_limit: ConnectionLimit = field(default_factory=ConnectionLimit)
    #: All nodes, by number.
    nodes: list[Node] = field(default_factory=list)


class Node:
    """One broker of a cluster. All of it runs on the cluster's event loop."""

    def __init__(
        self,
        cluster: ClusterParts,
        node_id: int,
        log_directory: LogDirectory,
        port: int,
        *,
        is_replication_paused: bool = False,
    ) -> None:
        """Create a node; `start` starts it.

        Args:
            cluster: what the node shares with the others.
            node_id: its number.
            log_directory: its logs.
            port: the TCP port that it listens on; 0 takes a free one.
            is_replication_paused: do not fetch as a follower until `resume_replication`.
        """
        self.node_id = node_id
        self.settings = cluster.settings
        self.controller = cluster.controller
        self.metadata = MetadataCache(cluster.controller)
        self.log_directory = log_directory
        self.actions = ActionQueue()
        self.is_stopped = True
        self.is_replication_paused = is_replication_paused
        self.purgatories: dict[str, Purgatory] = {}
        self.fetchers: dict[int, Fetcher] = {}
        self.fetch_sessions = FetchSessions()
        windows, window_ms = self.settings.quota_window_num, self.settings.quota_window_size_ms
        self._producer_quota = ByteRateQuota(self.settings.producer_byte_rate, windows, window_ms)
        self._consumer_quota = ByteRateQuota(self.settings.consumer_byte_rate, windows, window_ms)
        self._cluster = cluster
        self._port = port
        self._stack = AsyncExitStack()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # -- start and stop

    async def start(self) -> None:
        """Open the purgatories and listen; `connect_controller` then gives the node partitions."""
        interval = self.settings.purgatory_purge_interval_requests
        for name in PURGATORIES:
            purgatory = Purgatory(f"{name}-{self.node_id}", purge_interval=interval)
            self.purgatories[name] = await self._stack.enter_async_context(purgatory)
        replica_purgatories = ReplicaPurgatories(
            self.purgatories["Produce"],
            self.purgatories["Fetch"],
            self.purgatories["DeleteRecords"],
        )
        self.replicas = ReplicaManager(
            self.node_id,
            self.settings,
            replica_purgatories,
            self.actions,
            now_ms=self.now_ms,
            wall_ms=self._cluster.wall_ms,
            partition_exists=self.metadata.partition_exists,
            alive=self.metadata.alive,
            alter_partition=self._alter_partition,
        )
        self.replicas.recorder = self._cluster.recorder
        self.groups = GroupCoordinator(
            self.node_id,
            self.settings,
            actions=self.actions,
            purgatories=GroupPurgatories(
                self.purgatories["Rebalance"],
                self.purgatories["Sync"],
                self.purgatories["Heartbeat"],
            ),
            store=ReplicatedOffsets(
                self.replicas, self.settings.offsets_commit_timeout_ms, self._cluster.wall_ms
            ),
            now_ms=self._cluster.wall_ms,
        )
        self.metrics = NodeMetrics(self.purgatories, self.replicas.fetch_expirations)
        self.server = Server(
            self.node_id,
            self.settings,
            self._port,
            APIS,
            self.handle,
            take_response_fault=partial(self._cluster.faults.take_response_fault, self.node_id),
            throttle_purgatory=self.purgatories["Throttle"],
            connection_limit=self._cluster.connection_limit,
            now_ms=self.now_ms,
        )
        try:
            await self.server.start()
        except BaseException:
            self._halt()
            raise
        self.is_stopped = False
        # Kafka too checks for lagging followers twice per `replica.lag.time.max.ms`.
        shrink_interval_ms = max(1, self.settings.replica_lag_time_max_ms // 2)
        retention_interval_ms = self.settings.log_retention_check_interval_ms
        self._schedule("shrink", shrink_interval_ms, self.replicas.shrink_isr)
        self._schedule("checkpoint", _CHECKPOINT_INTERVAL_MS, self._checkpoint_high_watermarks)
        self._schedule("retention", retention_interval_ms, self._delete_old_segments)

    def kill(self) -> None:
        """Stop at once, as by `kill -9`: send and write nothing more."""
        self._halt()
        for replica in self.replicas.replicas.values():
            self.log_directory.abandon(replica.log)

    def stop(self) -> None:
        """Stop in an orderly way: flush the logs and checkpoint the high watermarks."""
        self._checkpoint_high_watermarks()
        self._halt()
        for replica in self.replicas.replicas.values():
            self.log_directory.close(replica.log)

    def _halt(self) -> None:
        self.is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        for fetcher in self.fetchers.values():
            fetcher.close()
        self.replicas.close()
        self.server.stop()
        for purgatory in self.purgatories.values():
            purgatory.close()

    def _schedule(self, name: str, interval_ms: int, work: Callable[[], None]) -> None:
        """Call `work` every `interval_ms` milliseconds until the node stops."""

        def run() -> None:
            self._schedule(name, interval_ms, work)
            with self.actions:
                work()

        self._timers[name] = asyncio.get_running_loop().call_later(interval_ms / 1_000, run)

    def handle(self, context: RequestContext, request: Any) -> None:
        """Handle a client's request, now or later, unless an injected error answers it.

        Args:
            context: the request's context, which takes the response.
            request: the decoded request; None for an unsupported version of ApiVersions.
        """
        api = APIS[context.header.api.key]
        if request is not None:
            if self._cluster.recorder is not None and api.recorded_timeout_ms is not None:
                timeout_ms = api.recorded_timeout_ms(request)
                self._cluster.recorder.request(self.node_id, context, timeout_ms)
            code = self._cluster.faults.take_request_error(self.node_id, api)
            if code is not None:
                context.reply(api.error_response(request, code))
                return
        with self.actions:
            handle(self, context, request)

    # -- what handlers need

    @property
    def apis(self) -> ApiTable:
        """The APIs that the broker serves, by key."""
        return APIS

    def now_ms(self) -> int:
        """Return the event loop's time in whole milliseconds."""
        return round(asyncio.get_running_loop().time() * 1_000)

    @property
    def reaches_controller(self) -> bool:
        """True unless the node is partitioned."""
        return self._cluster.network.is_connected(self.node_id, CONTROLLER)

    def create_offsets_topic(self) -> None:
        """Create `__consumer_offsets`, the topic of groups and offsets; no-op if it exists."""
        create_offsets_topic(self.controller, self.settings)

    def produce_throttle_ms(self, client_id: str, size_bytes: int) -> int:
        """Return a client's throttle time in milliseconds, with some more produced bytes."""
        return self._producer_quota.throttle_ms(client_id, size_bytes, self.now_ms())

    def fetch_throttle_ms(self, client_id: str, size_bytes: int) -> int:
        """Return a consumer's throttle time in milliseconds, with some more fetched bytes."""
        return self._consumer_quota.throttle_ms(client_id, size_bytes, self.now_ms())

    def has_room_for_records(self) -> bool:
        """Return whether a response may have records: clients read those they have been sent."""
        return self.server.unread_responses.has_room(is_fetch=True)

    def endpoints(self, nodes: Iterable[int]) -> list[dict[str, Any]]:
        """Return the addresses of nodes, in the order of their numbers.

        Args:
            nodes: node numbers; negative ones (no leader) are skipped.

        Returns:
            `node_id`, `host`, `port` and `rack` of each.
        """
        found = [self._cluster.nodes[node] for node in sorted(nodes) if node >= 0]
        return [
            {
                "node_id": node.node_id,
                "host": node.server.host,
                "port": node.server.port,
                "rack": None,
            }
            for node in found
        ]

    # -- contact with the controller

    def disconnect_controller(self) -> None:
        """Keep the present metadata, since the controller becomes unreachable."""
        self.metadata.disconnect()

    def start_without_metadata(self) -> None:
        """Begin with empty metadata, since the node has started out of reach of the controller."""
        self.metadata.start_empty(self.node_id)

    def connect_controller(self) -> None:
        """Take over the controller's metadata and every change since the last contact.

        Deletes the replicas of partitions that this node no longer has.
        """
        self.metadata.connect()
        topics = self.controller.topics.values()
        partitions = [(topic, partition) for topic in topics for partition in topic.partitions]
        here = {
            partition.key: topic.topic_id
            for topic, partition in partitions
            if self.node_id in partition.replicas
        }
        with self.actions:
            for replica in list(self.replicas.replicas.values()):
                # A request that was in flight when the node was partitioned gets no response.
                replica.pending_isr = None
                if here.get(replica.key) != replica.topic_id:
                    self._delete_replica(replica)
        self.log_directory.delete_unknown(here.items())
        self.apply_partitions([(topic.topic_id, partition) for topic, partition in partitions])

    # -- notifications of the controller

    def apply_partitions(self, partitions: list[tuple[uuid.UUID, Partition]]) -> None:
        """Become leader or follower of changed partitions.

        Args:
            partitions: topic ids, and the partitions' states when the controller sent them.
        """
        if self.is_stopped:
            return
        with self.actions:
            for topic_id, partition in partitions:
                # If the topic was deleted or created again in the meantime, a later notification
                # says so.
                topic = self.metadata.topics.get(partition.topic)
                if (
                    self.node_id in partition.replicas
                    and topic is not None
                    and topic.topic_id == topic_id
                ):
                    try:
                        self._apply_partition(partition, topic)
                    except RecordError:
                        # The other partitions go on. This one is tried again at its next change.
                        logger.exception(
                            "node %d: can't open the log of %s", self.node_id, partition.key
                        )

    def _apply_partition(self, partition: Partition, topic: Topic) -> None:
        key = partition.key
        replica = self.replicas.find(key)
        settings = log_settings(topic, self.settings)
        if replica is None:
            log = self.log_directory.open(key, topic.topic_id, settings)
            high_watermark = self.log_directory.high_watermark(key, topic.topic_id)
            replica = Replica(self.node_id, key, topic.topic_id, log, high_watermark)
            self.replicas.replicas[key] = replica
        replica.log.settings = settings
        min_insync = int(topic_value("min.insync.replicas", topic.configs, self.settings))
        was_leader = replica.is_leader
        if replica.apply(partition, min_insync, self.now_ms()):
            for fetcher in self.fetchers.values():
                fetcher.remove(key)
            if not replica.is_leader and replica.leader != NO_LEADER:
                self._fetcher_from(replica.leader).add(key)
            if key.topic == OFFSETS_TOPIC and replica.is_leader:
                self._load_groups(replica)
            elif key.topic == OFFSETS_TOPIC and was_leader:
                self.groups.unload(key.partition)
        if replica.is_leader:
            self.replicas.advance_high_watermark(replica)
        self.replicas.notify_partition(key)

    def _load_groups(self, replica: Replica) -> None:
        try:
            self.groups.load(replica.key.partition, stored_records(replica.log))
        except RecordError:
            logger.exception(
                "node %d: can't read %s; its groups have no coordinator",
                self.node_id,
                replica.key,
            )
            self.groups.unload(replica.key.partition)

    # -- replication

    def _fetcher_from(self, leader: int) -> Fetcher:
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            nodes = self._cluster.nodes
            remote = RemoteLeader(
                self._cluster.network, self.node_id, leader, lambda: nodes[leader].replicas
            )
            fetcher = Fetcher(self.replicas, remote, is_paused=self.is_replication_paused)
            self.fetchers[leader] = fetcher
        return fetcher

    def pause_replication(self) -> None:
        """Stop fetching as a follower, until `resume_replication`."""
        self.is_replication_paused = True
        for fetcher in self.fetchers.values():
            fetcher.pause()

    def resume_replication(self) -> None:
        """Undo `pause_replication`."""
        self.is_replication_paused = False
        for fetcher in self.fetchers.values():
            fetcher.resume()

    def resend_fetch(self, leader: int) -> None:
        """Send the fetch request to a leader again: the one in flight was lost with the link."""
        if leader in self.fetchers:
            self.fetchers[leader].restart()

    def delete_topic(self, topic: Topic) -> None:
        """Delete the replicas of a topic that the controller has deleted."""
        if self.is_stopped:
            return
        with self.actions:
            for partition in topic.partitions:
                replica = self.replicas.find(partition.key)
                if replica is not None and replica.topic_id == topic.topic_id:
                    self._delete_replica(replica)
            self.groups.forget_topic(topic.name)

    def _delete_replica(self, replica: Replica) -> None:
        key = replica.key
        for fetcher in self.fetchers.values():
            fetcher.remove(key)
        del self.replicas.replicas[key]
        self.log_directory.delete(replica.log, key, replica.topic_id)
        if key.topic == OFFSETS_TOPIC:
            self.groups.unload(key.partition)
        self.replicas.notify_partition(key)

    def _alter_partition(self, replica: Replica, isr: list[int]) -> None:
        """Ask the controller to change the in-sync replicas, as Kafka's AlterPartition does.

        No-op while an earlier request for the partition is pending, or if the controller is out of
        reach.
        """
        if replica.pending_isr is not None or not self.reaches_controller:
            return
        replica.pending_isr = isr
        request = AlterPartitionRequest(
            replica.key,
            replica.topic_id,
            self.node_id,
            replica.leader_epoch,
            replica.partition_epoch,
            isr,
        )
        controller, network = self.controller, self._cluster.network

        def handle_request() -> None:
            if not controller.alter_partition(request):
                network.send(CONTROLLER, self.node_id, handle_refusal)

        def handle_refusal() -> None:
            # A granted request has no response: the partition's notification, which is sent first,
            # ends it.
            if self.is_stopped or replica.pending_isr is not isr:
                return
            replica.pending_isr = None
            with self.actions:
                self.replicas.advance_high_watermark(replica)

        network.send(self.node_id, CONTROLLER, handle_request)

    # -- periodic work

    def _checkpoint_high_watermarks(self) -> None:
        replicas = self.replicas.replicas.values()
        self.log_directory.checkpoint_high_watermarks({
            (each.topic_id, each.key.partition): each.high_watermark for each in replicas
        })

    def _delete_old_segments(self) -> None:
        now_ms = self._cluster.wall_ms()
        for replica in self.replicas.replicas.values():
            try:
                deleted = replica.log.delete_old_segments(now_ms, replica.high_watermark)
            except RecordError:
                logger.exception(
                    "node %d: can't delete old segments of %s", self.node_id, replica.key
                )
                continue
            if deleted:
                self.replicas.notify_partition(replica.key)
