"""A node of a cluster: one broker with its replicas, group coordinator, server and purgatories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from purgatory_broker._wire.apis import ApiTable
from purgatory_broker.api.broker_api import BrokerEndpoint
from purgatory_broker.api.registry import APIS
from purgatory_broker.cluster.client_throttles import ClientThrottles
from purgatory_broker.cluster.controller_requests import ControllerRequests
from purgatory_broker.cluster.interception import Interceptions
from purgatory_broker.cluster.network import CONTROLLER, Network
from purgatory_broker.cluster.node_partitions import NodePartitions
from purgatory_broker.cluster.node_purgatories import (
    node_purgatories,
    of_groups,
    of_replicas,
    of_transactions,
)
from purgatory_broker.cluster.node_requests import NodeRequests
from purgatory_broker.cluster.node_sharing import node_sharing
from purgatory_broker.cluster.node_timers import NodeTimers
from purgatory_broker.cluster.remote_leader import RemoteLeader
from purgatory_broker.cluster.remote_share_states import RemoteShareStates
from purgatory_broker.cluster.remote_transactions import (
    RemotePartitionLeaders,
    RemoteTransactionCoordinator,
)
from purgatory_broker.cluster.replicated_records import (
    ReplicatedOffsets,
    ReplicatedTransactions,
)
from purgatory_broker.cluster.request_handler import RequestHandler
from purgatory_broker.cluster.waits import Waits
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.coordinator import GroupCoordinator, ShareGroupParts
from purgatory_broker.listeners import Listener
from purgatory_broker.metadata.authorizer import Authorizer
from purgatory_broker.metadata.broker_configs import effective_settings
from purgatory_broker.metadata.client_telemetry import ClientTelemetry
from purgatory_broker.metadata.controller import Controller
from purgatory_broker.metadata.metadata_cache import MetadataCache
from purgatory_broker.metadata.producer_ids import ProducerIds
from purgatory_broker.metadata.topics import OFFSETS_TOPIC
from purgatory_broker.replication.appends import Appends
from purgatory_broker.replication.fetch_sessions import FetchSessions
from purgatory_broker.replication.fetcher import FetcherManager
from purgatory_broker.replication.fetches import Fetches
from purgatory_broker.replication.leader_elections import LeaderElections
from purgatory_broker.replication.log_cleaner import LogCleaner
from purgatory_broker.replication.log_manager import LogManager
from purgatory_broker.replication.record_deletions import RecordDeletions
from purgatory_broker.replication.recorder import Recorder
from purgatory_broker.replication.replica_manager import ReplicaManager
from purgatory_broker.replication.replica_metrics import NodeMetrics
from purgatory_broker.replication.transaction_markers import TransactionMarkers
from purgatory_broker.replication.transaction_verifier import (
    TransactionVerifications,
)
from purgatory_broker.request_context import Client
from purgatory_broker.server.faults import Faults
from purgatory_broker.server.request_log import RequestLog
from purgatory_broker.server.security import Security
from purgatory_broker.server.server import ConnectionLimit, Server
from purgatory_broker.settings import ClusterSettings
from purgatory_broker.transactions.coordinator import (
    TransactionCoordinator,
)
from request_purgatory.aio.loop_clock import LoopClock
from request_purgatory.clock import Clock


@dataclass(slots=True, eq=False)
class WallTime:
    """Returns the time of day in milliseconds since 1970, and what it was advanced by."""

    read: Callable[[], int]
    advanced_ms: int = 0

    def __call__(self) -> int:
        return self.read() + self.advanced_ms


#: Kafka's `replica.high.watermark.checkpoint.interval.ms`.
_CHECKPOINT_INTERVAL_MS = 5_000
#: Kafka's `share.coordinator.state.topic.prune.interval.ms`.
_PRUNE_INTERVAL_MS = 300_000


@dataclass(frozen=True, slots=True)
class ClusterParts:
    settings: ClusterSettings
    controller: Controller
    network: Network
    faults: Faults
    interceptions: Interceptions
    recorder: Recorder | None
    wall_ms: WallTime
    security: Security
    connection_limit: ConnectionLimit = field(default_factory=ConnectionLimit)
    #: The requests between nodes.
    requests: NodeRequests = field(init=False)
    #: What tests wait for.
    waits: Waits = field(default_factory=Waits)
    request_log: RequestLog = field(init=False)
    #: All nodes, by number.
    nodes: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        log = RequestLog(self.wall_ms, partial(self.waits.changed, "request"))
        object.__setattr__(self, "request_log", log)
        object.__setattr__(self, "requests", NodeRequests(self.network))
        self.faults.on_hit = partial(self.waits.changed, "fault")


class Node:
    """One broker of a cluster. All of it runs on the cluster's event loop."""

    apis: ApiTable = APIS

    def __init__(
        self,
        cluster: ClusterParts,
        node_id: int,
        log_manager: LogManager,
        listeners: Sequence[Listener],
        *,
        is_replication_paused: bool = False,
    ) -> None:
        settings = cluster.settings
        self.node_id = node_id
        self.static_settings = settings
        #: The configs that `settings` were last computed of, and the settings.
        self._changed: tuple[object, ClusterSettings] = None, settings
        self.controller = cluster.controller
        self.scram_credentials = cluster.controller.scram_credentials
        self.metadata = MetadataCache(cluster.controller)
        self.authorizer: Authorizer | None = None
        if settings.authorizer:
            self.authorizer = Authorizer(
                lambda: self.metadata.acls,
                settings.super_user_names,
                settings.allow_everyone_if_no_acl_found,
            )
        self.log_manager = log_manager
        self.actions = ActionQueue()
        self.wall_ms = cluster.wall_ms
        self.is_stopped = True
        self._cluster = cluster
        #: The clock of the event loop, from `start` on.
        self._clock: Clock
        #: Done once the node has stopped; from `start` on.
        self.halted: asyncio.Future[None]
        self.timers = NodeTimers(self.actions)
        self.fetch_sessions = FetchSessions()
        self.telemetry = ClientTelemetry()
        self._throttles = ClientThrottles(settings, self.metadata)
        self.purgatories = node_purgatories(node_id, settings)
        to_controller = ControllerRequests(self, cluster.network)
        self.replicas = ReplicaManager(
            node_id=node_id,
            settings=settings,
            purgatories=of_replicas(self.purgatories),
            actions=self.actions,
            now_ms=self.now_ms,
            partition_exists=self.metadata.partition_exists,
            alive=self.metadata.alive,
            alter_partition=to_controller.alter_partition,
            on_change=cluster.waits.partition_changed,
            recorder=cluster.recorder,
        )
        self.appends = Appends(self.replicas, cluster.wall_ms)
        self.verifications = TransactionVerifications(
            self.replicas,
            cluster.wall_ms,
            RemoteTransactionCoordinator(self, cluster.requests, self._find),
        )
        self.fetches = Fetches(self.replicas)
        self.deletions = RecordDeletions(self.replicas)
        self.share_states = RemoteShareStates(self, cluster.requests, self._find)
        sharing = node_sharing(
            node_id,
            settings,
            self.share_states,
            metadata=self.metadata,
            replicas=self.replicas,
            appends=self.appends,
            deletions=self.deletions,
            actions=self.actions,
            purgatories=self.purgatories,
            wall_ms=cluster.wall_ms,
        )
        self.share_settings = sharing.settings
        self.share_coordinator = sharing.coordinator
        self._acquisition_locks = sharing.locks
        self.share_partitions = sharing.partitions
        self.share_members = sharing.members
        self.groups = GroupCoordinator(
            node_id,
            settings,
            actions=self.actions,
            purgatories=of_groups(self.purgatories),
            store=ReplicatedOffsets(
                self.appends,
                self.actions,
                cluster.wall_ms,
                self.verifications,
                settings.offsets_commit_timeout_ms,
                self._offsets_changed,
            ),
            now_ms=cluster.wall_ms,
            metadata=self.metadata,
            share=ShareGroupParts(
                self.share_states.of_groups(),
                self.share_settings.session_timeout_ms,
                self.share_settings.heartbeat_interval_ms,
            ),
            group_config=self.metadata.group_config,
            on_stable=partial(cluster.waits.changed, "group"),
        )
        self.producer_ids = ProducerIds(to_controller.new_producer_ids)
        self.transactions = TransactionCoordinator(
            node_id,
            settings,
            actions=self.actions,
            purgatories=of_transactions(self.purgatories),
            store=ReplicatedTransactions(self.appends, self.actions, cluster.wall_ms),
            channel=RemotePartitionLeaders(self, cluster.requests, self._find),
            new_producer_id=self.producer_ids.next_id,
            now_ms=cluster.wall_ms,
            on_change=partial(cluster.waits.changed, "transaction"),
        )
        self.markers = TransactionMarkers(
            self.replicas, self.appends, cluster.wall_ms, self._end_transactional_offsets
        )
        self.fetchers = FetcherManager(self.replicas, self._leader, is_paused=is_replication_paused)
        self.cleaner = LogCleaner(self.replicas, self.actions, cluster.wall_ms)
        self.elections = LeaderElections(self.purgatories["ElectLeader"], self.actions)
        self.partitions = NodePartitions(
            node_id=node_id,
            current_settings=lambda: self.settings,
            metadata=self.metadata,
            log_manager=log_manager,
            replicas=self.replicas,
            fetchers=self.fetchers,
            elections=self.elections,
            groups=self.groups,
            transactions=self.transactions,
            share_coordinator=self.share_coordinator,
            share_partitions=self.share_partitions,
        )
        self.metrics = NodeMetrics(self.purgatories, self.fetches.expirations)
        #: Handles the requests of clients.
        self.requests = RequestHandler(
            broker=self,
            actions=self.actions,
            faults=cluster.faults,
            interceptions=cluster.interceptions,
            recorder=cluster.recorder,
            is_stopped=lambda: self.is_stopped,
        )
        self.server = Server(
            node_id,
            settings,
            listeners,
            APIS,
            self.requests.handle,
            refuse=self.requests.refuse,
            security=cluster.security,
            take_response_fault=partial(cluster.faults.take_response_fault, node_id),
            throttle_purgatory=self.purgatories["Throttle"],
            connection_limit=cluster.connection_limit,
            max_connections=lambda: self.settings.max_connections,
            now_ms=self.now_ms,
            wall_ms=cluster.wall_ms,
            request_log=cluster.request_log,
        )

    # -- start and stop

    async def start(self) -> None:
        """Open the purgatories and listen; `connect_controller` then gives the node partitions."""
        self._clock = LoopClock(asyncio.get_running_loop())
        self.halted = asyncio.get_running_loop().create_future()
        self.metrics.started_ms = self.now_ms()
        for purgatory in self.purgatories.values():
            await purgatory.__aenter__()
        try:
            self.server.start()
        except BaseException:
            self._halt()
            raise
        self.is_stopped = False
        # Kafka too checks for lagging followers twice per `replica.lag.time.max.ms`.
        shrink_interval_ms = max(1, self.settings.replica_lag_time_max_ms // 2)
        retention_interval_ms = self.settings.log_retention_check_interval_ms
        self.timers.call_every(shrink_interval_ms, self.replicas.shrink_isr)
        self.timers.call_every(_CHECKPOINT_INTERVAL_MS, self.partitions.checkpoint)
        self.timers.call_every(retention_interval_ms, self._delete_old_segments)
        self.timers.call_every(self.settings.log_cleaner_backoff_ms, self.cleaner.start)
        self.timers.call_every(_PRUNE_INTERVAL_MS, self.share_coordinator.prune)

    def kill(self) -> None:
        """Stop at once, as by `kill -9`: send and write nothing more."""
        self._halt()
        for replica in self.replicas.replicas.values():
            self.log_manager.abandon(replica.log)

    def stop(self) -> None:
        """Stop in an orderly way: flush the logs and checkpoint the high watermarks."""
        self.partitions.checkpoint()
        self._halt()
        for replica in self.replicas.replicas.values():
            self.log_manager.close(replica.log)

    def _halt(self) -> None:
        self.is_stopped = True
        if not self.halted.done():
            self.halted.set_result(None)
        self.timers.close()
        self.fetchers.close()
        self.cleaner.close()
        self.replicas.is_closed = True
        self._cluster.requests.disconnect(self.node_id)
        self.server.stop()
        for purgatory in self.purgatories.values():
            purgatory.close()

    def release(self) -> None:
        """Drop the parts of a stopped node, whose place another node has taken.

        The parts refer back to the node. Without these cycles reference counting frees them, with
        the timing wheels of their purgatories. The cyclic collector would take milliseconds for
        these, whenever it runs.
        """
        assert self.is_stopped
        self.groups.abandon()
        self.transactions.abandon()
        self.share_partitions.abandon()
        self._acquisition_locks.abandon()
        del self.requests, self.replicas, self.appends, self.fetches, self.deletions
        del self.verifications, self.markers, self.cleaner
        del self.groups, self.fetchers, self.partitions, self.server
        del self.share_coordinator, self.share_states, self.share_partitions, self.share_members
        del self.share_settings, self._acquisition_locks
        del self.transactions, self.producer_ids

    def _offsets_changed(self) -> None:
        self._cluster.waits.changed("topic", OFFSETS_TOPIC)

    def _end_transactional_offsets(self, partition: int, producer_id: int, is_commit: bool) -> None:
        self.groups.offsets.end_transaction(partition, producer_id, is_commit)
        self._offsets_changed()

    def _delete_old_segments(self) -> None:
        self.partitions.delete_old_segments(self.wall_ms())

    def time_advanced(self) -> None:
        """Apply an advanced time of day to retention, compaction, sessions and transactions."""
        with self.actions:
            self._delete_old_segments()
        self.cleaner.start()
        self.groups.time_advanced()
        self.transactions.time_advanced()
        self._acquisition_locks.time_advanced()

    # -- what handlers need

    @property
    def settings(self) -> ClusterSettings:
        configs = self.metadata.resource_configs
        if configs is not self._changed[0]:
            settings = effective_settings(self.static_settings, configs, self.node_id)
            self._changed = configs, settings
        return self._changed[1]

    def now_ms(self) -> int:
        """Return the event loop's time in whole milliseconds, rounded down."""
        return self._clock.now_ms

    @property
    def reaches_controller(self) -> bool:
        return self._cluster.network.is_connected(self.node_id, CONTROLLER)

    def produce_throttle_ms(self, client: Client, size_bytes: int) -> int:
        rate = self.settings.producer_byte_rate
        return self._throttles.throttle_ms(
            "producer_byte_rate", rate, client, size_bytes, self.now_ms
        )

    def fetch_throttle_ms(self, client: Client, size_bytes: int) -> int:
        rate = self.settings.consumer_byte_rate
        return self._throttles.throttle_ms(
            "consumer_byte_rate", rate, client, size_bytes, self.now_ms
        )

    def has_room_for_records(self) -> bool:
        return self.server.unread_responses.has_room(is_fetch=True)

    def endpoints(self, nodes: Iterable[int], listener: str) -> list[BrokerEndpoint]:
        endpoints = []
        for node_id in sorted(node for node in nodes if node >= 0):
            host, port = self._cluster.nodes[node_id].server.advertised(listener)
            endpoints.append(BrokerEndpoint(node_id, host, port))
        return endpoints

    # -- contact with the controller

    def connect_controller(self) -> None:
        """Take over the controller's metadata; replicas that are not this node's go."""
        self.metadata.connect()
        self.partitions.connect(self.controller.topics.values())

    def _find(self, node: int) -> Node:
        return self._cluster.nodes[node]

    def _leader(self, leader: int) -> RemoteLeader:
        nodes = self._cluster.nodes
        return RemoteLeader(
            self._cluster.network, self.node_id, leader, lambda: nodes[leader].fetches
        )
