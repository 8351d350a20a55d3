"""What the handlers of requests need of a broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from purgatory_broker._wire.apis import ApiTable
from purgatory_broker.groups.coordinator import GroupCoordinator
from purgatory_broker.metadata.authorizer import Authorizer
from purgatory_broker.metadata.client_telemetry import ClientTelemetry
from purgatory_broker.metadata.controller import Controller
from purgatory_broker.metadata.metadata_cache import MetadataCache
from purgatory_broker.metadata.producer_ids import ProducerIds
from purgatory_broker.metadata.scram_credentials import ScramCredentials
from purgatory_broker.replication.appends import Appends
from purgatory_broker.replication.fetch_sessions import FetchSessions
from purgatory_broker.replication.fetches import Fetches
from purgatory_broker.replication.leader_elections import LeaderElections
from purgatory_broker.replication.log_manager import LogManager
from purgatory_broker.replication.record_deletions import RecordDeletions
from purgatory_broker.replication.replica_manager import ReplicaManager
from purgatory_broker.replication.transaction_markers import TransactionMarkers
from purgatory_broker.replication.transaction_verifier import TransactionVerifications
from purgatory_broker.request_context import Client
from purgatory_broker.settings import ClusterSettings
from purgatory_broker.sharing.group_settings import ShareGroupSettings
from purgatory_broker.sharing.share_coordinator import ShareCoordinator
from purgatory_broker.sharing.share_members import ShareMembers
from purgatory_broker.transactions.coordinator import TransactionCoordinator


class BrokerEndpoint(NamedTuple):
    """Where clients of a listener reach a broker."""

    node_id: int
    host: str
    port: int


class BrokerApi(Protocol):
    """What handlers need of their broker; a node implements it."""

    node_id: int
    apis: ApiTable
    #: Those that the cluster was started with.
    static_settings: ClusterSettings
    #: The topics and the live brokers, as far as the broker knows them.
    metadata: MetadataCache
    #: Decides what clients may do; None allows everything.
    authorizer: Authorizer | None
    #: The cluster's controller; to be used if `reaches_controller` only.
    controller: Controller
    replicas: ReplicaManager
    appends: Appends
    verifications: TransactionVerifications
    markers: TransactionMarkers
    fetches: Fetches
    deletions: RecordDeletions
    log_manager: LogManager
    elections: LeaderElections
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    share_coordinator: ShareCoordinator
    share_members: ShareMembers
    share_settings: ShareGroupSettings
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    telemetry: ClientTelemetry
    scram_credentials: ScramCredentials

    @property
    def settings(self) -> ClusterSettings:
        """The settings with what clients have changed for this broker."""

    @property
    def reaches_controller(self) -> bool: ...

    def now_ms(self) -> int: ...

    def wall_ms(self) -> int:
        """Return the time of day in milliseconds since 1970."""

    def endpoints(self, nodes: Iterable[int], listener: str) -> list[BrokerEndpoint]:
        """Return where brokers are, in the order of their ids; skip negative ids."""

    def produce_throttle_ms(self, client: Client, size_bytes: int) -> int:
        """Return a client's throttle time in milliseconds, with some more produced bytes."""

    def fetch_throttle_ms(self, client: Client, size_bytes: int) -> int:
        """Return a consumer's throttle time in milliseconds, with some more fetched bytes."""

    def has_room_for_records(self) -> bool:
        """Return whether a response may have records: clients read those they have been sent."""
