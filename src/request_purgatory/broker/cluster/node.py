"""A node of a cluster: one broker with its replicas, group coordinator, server and purgatories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from request_purgatory.aio import Purgatory
from request_purgatory.aio.loop_clock import clock_of
from request_purgatory.broker.api.registry import APIS
from request_purgatory.broker.cluster.interception import Interceptions
from request_purgatory.broker.cluster.network import CONTROLLER, Network
from request_purgatory.broker.cluster.node_partitions import NodePartitions
from request_purgatory.broker.cluster.remote_leader import RemoteLeader
from request_purgatory.broker.cluster.replicated_offsets import ReplicatedOffsets
from request_purgatory.broker.cluster.request_handler import RequestHandler
from request_purgatory.broker.cluster.waits import Waits
from request_purgatory.broker.cluster.wall_time import WallTime
from request_purgatory.broker.deferred_actions import ActionQueue
from request_purgatory.broker.groups import GroupCoordinator, GroupPurgatories
from request_purgatory.broker.listeners import Listener
from request_purgatory.broker.metadata.client_quotas import ClientLimit, client_limit
from request_purgatory.broker.metadata.controller import AlterPartitionRequest, Controller
from request_purgatory.broker.metadata.metadata_cache import MetadataCache
from request_purgatory.broker.metadata.offsets_topic import create_offsets_topic
from request_purgatory.broker.metadata.scram_credentials import ScramCredentials
from request_purgatory.broker.replication.appends import Appends
from request_purgatory.broker.replication.fetch_sessions import FetchSessions
from request_purgatory.broker.replication.fetcher_manager import FetcherManager
from request_purgatory.broker.replication.fetches import Fetches
from request_purgatory.broker.replication.leader_elections import LeaderElections
from request_purgatory.broker.replication.log_directory import LogDirectory
from request_purgatory.broker.replication.record_deletions import RecordDeletions
from request_purgatory.broker.replication.recorder import Recorder
from request_purgatory.broker.replication.replica import Replica
from request_purgatory.broker.replication.replica_manager import (
    ReplicaManager,
    ReplicaPurgatories,
)
from request_purgatory.broker.replication.replica_metrics import NodeMetrics
from request_purgatory.broker.request_context import Client
from request_purgatory.broker.server.connection_limit import ConnectionLimit
from request_purgatory.broker.server.faults import Faults
from request_purgatory.broker.server.quotas import ByteRateQuota
from request_purgatory.broker.server.request_log import RequestLog
from request_purgatory.broker.server.security import Security
from request_purgatory.broker.server.server import Server
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.apis import ApiTable
from request_purgatory.clock import Clock

#: The node's purgatories by name; the names are Kafka's where Kafka has such a purgatory.
PURGATORIES = (
    "Produce",
    "Fetch",
    "DeleteRecords",
    "ElectLeader",
    "Rebalance",
    "Sync",
    "Heartbeat",
    "Throttle",
)
#: The purge interval of the other purgatories: the default of Kafka's `DelayedOperationPurgatory`.
_PURGE_INTERVAL = 1_000
#: Kafka's `replica.high.watermark.checkpoint.interval.ms`.
_CHECKPOINT_INTERVAL_MS = 5_000


@dataclass(frozen=True, slots=True)
class ClusterParts:
    """What the nodes of a cluster share."""

    settings: ClusterSettings
    controller: Controller
    network: Network
    faults: Faults
    interceptions: Interceptions
    recorder: Recorder | None
    wall_ms: WallTime
    security: Security
    connection_limit: ConnectionLimit = field(default_factory=ConnectionLimit)
    #: What tests wait for.
    waits: Waits = field(default_factory=Waits)
    request_log: RequestLog = field(init=False)
    #: All nodes, by number.
    nodes: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        log = RequestLog(self.wall_ms, self.waits.request_received)
        object.__setattr__(self, "request_log", log)
        self.faults.on_hit = self.waits.fault_hit


class Node:
    """One broker of a cluster. All of it runs on the cluster's event loop."""

    def __init__(
        self,
        cluster: ClusterParts,
        node_id: int,
        log_directory: LogDirectory,
        listeners: Sequence[Listener],
        *,
        is_replication_paused: bool = False,
    ) -> None:
        """Create a node; `start` starts it.

        Args:
            cluster: what the node shares with the others.
            node_id: its number.
            log_directory: its logs.
            listeners: where it listens.
            is_replication_paused: do not fetch as a follower until replication is resumed.
        """
        self.node_id = node_id
        self.settings = cluster.settings
        self.controller = cluster.controller
        self.metadata = MetadataCache(cluster.controller)
        self.log_directory = log_directory
        self.actions = ActionQueue()
        self.is_stopped = True
        self.purgatories: dict[str, Purgatory] = {}
        self.fetch_sessions = FetchSessions()
        windows, window_ms = self.settings.quota_window_num, self.settings.quota_window_size_ms
        self._producer_quota = ByteRateQuota(windows, window_ms)
        self._consumer_quota = ByteRateQuota(windows, window_ms)
        #: Handles the requests of clients.
        self.requests = RequestHandler(
            self,
            self.actions,
            faults=cluster.faults,
            interceptions=cluster.interceptions,
            recorder=cluster.recorder,
            is_stopped=lambda: self.is_stopped,
        )
        self._cluster = cluster
        self._listeners = listeners
        self._is_replication_paused = is_replication_paused
        self._stack = AsyncExitStack()
        #: The clock of the event loop, from `start` on.
        self._clock: Clock
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # -- start and stop

    async def start(self) -> None:
        """Open the purgatories and listen; `connect_controller` then gives the node partitions."""
        self._clock = clock_of(asyncio.get_running_loop())
        intervals = {
            "Produce": self.settings.producer_purgatory_purge_interval_requests,
            "Fetch": self.settings.fetch_purgatory_purge_interval_requests,
            "DeleteRecords": self.settings.delete_records_purgatory_purge_interval_requests,
        }
        for name in PURGATORIES:
            interval = intervals.get(name, _PURGE_INTERVAL)
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
            partition_exists=self.metadata.partition_exists,
            alive=self.metadata.alive,
            alter_partition=self._alter_partition,
            on_change=self._cluster.waits.partition_changed,
        )
        self.replicas.recorder = self._cluster.recorder
        self.appends = Appends(self.replicas, self._cluster.wall_ms)
        self.fetches = Fetches(self.replicas)
        self.deletions = RecordDeletions(self.replicas)
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
                self.appends,
                self.actions,
                self.settings.offsets_commit_timeout_ms,
                self._cluster.wall_ms,
            ),
            now_ms=self._cluster.wall_ms,
            on_stable=self._cluster.waits.group_stable,
        )
        self.fetchers = FetcherManager(
            self.replicas, self._leader, is_paused=self._is_replication_paused
        )
        self.elections = LeaderElections(self.purgatories["ElectLeader"], self.actions)
        self.partitions = NodePartitions(
            self.node_id,
            self.settings,
            metadata=self.metadata,
            log_directory=self.log_directory,
            replicas=self.replicas,
            fetchers=self.fetchers,
            elections=self.elections,
            groups=self.groups,
        )
        self.metrics = NodeMetrics(self.purgatories, self.fetches.expirations, self.now_ms())
        self.server = Server(
            self.node_id,
            self.settings,
            self._listeners,
            APIS,
            self.requests.handle,
            refuse=self.requests.refuse,
            security=self._cluster.security,
            take_response_fault=partial(self._cluster.faults.take_response_fault, self.node_id),
            throttle_purgatory=self.purgatories["Throttle"],
            connection_limit=self._cluster.connection_limit,
            now_ms=self.now_ms,
            request_log=self._cluster.request_log,
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
        self._schedule("checkpoint", _CHECKPOINT_INTERVAL_MS, self.partitions.checkpoint)
        self._schedule("retention", retention_interval_ms, self._delete_old_segments)

    def kill(self) -> None:
        """Stop at once, as by `kill -9`: send and write nothing more."""
        self._halt()
        self.partitions.abandon_logs()

    def stop(self) -> None:
        """Stop in an orderly way: flush the logs and checkpoint the high watermarks."""
        self.partitions.checkpoint()
        self._halt()
        self.partitions.close_logs()

    def _halt(self) -> None:
        self.is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self.fetchers.close()
        self.replicas.is_closed = True
        self.server.stop()
        for purgatory in self.purgatories.values():
            purgatory.close()

    def release_ports(self) -> None:
        """Leave the ports of a stopped node to other programs; no-op if it has none."""
        if hasattr(self, "server"):  # It is made by `start`.
            self.server.release_ports()

    def release(self) -> None:
        """Drop the parts of a stopped node, whose place another node has taken.

        The parts refer back to the node. Without these cycles reference counting frees them, with
        the timing wheels of their purgatories. The cyclic collector would take milliseconds for
        these, whenever it runs.
        """
        assert self.is_stopped
        self.groups.abandon()
        del self.requests, self.replicas, self.appends, self.fetches, self.deletions
        del self.groups, self.fetchers, self.partitions, self.server

    def _schedule(self, name: str, interval_ms: int, work: Callable[[], None]) -> None:
        """Call `work` every `interval_ms` milliseconds until the node stops."""

        def run() -> None:
            self._schedule(name, interval_ms, work)
            with self.actions:
                work()

        self._timers[name] = asyncio.get_running_loop().call_later(interval_ms / 1_000, run)

    def _delete_old_segments(self) -> None:
        self.partitions.delete_old_segments(self._cluster.wall_ms())

    def time_advanced(self) -> None:
        """Apply retention and the sessions of group members to an advanced time of day."""
        with self.actions:
            self._delete_old_segments()
        self.groups.time_advanced()

    # -- what handlers need

    @property
    def apis(self) -> ApiTable:
        """The APIs that the broker serves, by key."""
        return APIS

    def now_ms(self) -> int:
        """Return the event loop's time in whole milliseconds, rounded down."""
        return self._clock.now_ms

    def wall_ms(self) -> int:
        """Return the time of day in milliseconds since 1970."""
        return self._cluster.wall_ms()

    @property
    def reaches_controller(self) -> bool:
        """True unless the node is partitioned."""
        return self._cluster.network.is_connected(self.node_id, CONTROLLER)

    def create_offsets_topic(self) -> None:
        """Create `__consumer_offsets`, the topic of groups and offsets; no-op if it exists."""
        create_offsets_topic(self.controller, self.settings)

    def produce_throttle_ms(self, client: Client, size_bytes: int) -> int:
        """Return a client's throttle time in milliseconds, with some more produced bytes."""
        default = self.settings.producer_byte_rate
        return self._throttle_ms(
            self._producer_quota, "producer_byte_rate", default, client, size_bytes
        )

    def fetch_throttle_ms(self, client: Client, size_bytes: int) -> int:
        """Return a consumer's throttle time in milliseconds, with some more fetched bytes."""
        default = self.settings.consumer_byte_rate
        return self._throttle_ms(
            self._consumer_quota, "consumer_byte_rate", default, client, size_bytes
        )

    def _throttle_ms(
        self, quota: ByteRateQuota, key: str, default: float | None, client: Client, size_bytes: int
    ) -> int:
        """Return a client's throttle time by its quota, or by the setting if it has none."""
        limit = None if default is None else ClientLimit(default, ("", client.client_id))
        if self.metadata.client_quotas:
            found = client_limit(self.metadata.client_quotas, key, client.user, client.client_id)
            limit = found or limit
        if limit is None:
            return 0
        return quota.throttle_ms(limit.shared_by, limit.value, size_bytes, self.now_ms())

    def has_room_for_records(self) -> bool:
        """Return whether a response may have records: clients read those they have been sent."""
        return self.server.unread_responses.has_room(is_fetch=True)

    @property
    def scram_credentials(self) -> ScramCredentials:
        """The cluster's SCRAM credentials."""
        return self.controller.scram_credentials

    def endpoints(self, nodes: Iterable[int], listener: str) -> list[dict[str, Any]]:
        """Return the addresses of nodes, in the order of their numbers.

        Args:
            nodes: node numbers; negative ones (no leader) are skipped.
            listener: the name of the listener whose addresses are returned.

        Returns:
            `node_id`, `host`, `port` and `rack` of each.
        """
        found = []
        for node in (self._cluster.nodes[each] for each in sorted(nodes) if each >= 0):
            host, port = node.server.advertised(listener)
            found.append({"node_id": node.node_id, "host": host, "port": port, "rack": None})
        return found

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
        self.partitions.connect(self.controller.topics.values())

    def _leader(self, leader: int) -> RemoteLeader:
        nodes = self._cluster.nodes
        return RemoteLeader(
            self._cluster.network, self.node_id, leader, lambda: nodes[leader].fetches
        )

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
            if not controller.leaders.alter_partition(request):
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
