"""What the handlers of requests need of a broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from request_purgatory.broker.groups import GroupCoordinator
from request_purgatory.broker.metadata.controller import Controller
from request_purgatory.broker.metadata.topics import Topic, TopicPartition
from request_purgatory.broker.replication.fetch_sessions import FetchSessions
from request_purgatory.broker.replication.replica import Replica
from request_purgatory.broker.replication.replica_manager import ReplicaManager
from request_purgatory.broker.server.memory_limits import UnreadResponses
from request_purgatory.broker.server.quotas import ByteRateQuota
from request_purgatory.broker.settings import ClusterSettings


class ClusterApi(Protocol):
    """What handlers need of the cluster."""

    @property
    def controller(self) -> Controller:
        """The cluster's controller."""

    def create_offsets_topic(self) -> None:
        """Create `__consumer_offsets`, if it does not exist."""


class ServerApi(Protocol):
    """What handlers need of the broker's server."""

    @property
    def unread_responses(self) -> UnreadResponses:
        """The responses that clients do not read."""


class BrokerApi(Protocol):
    """What handlers need of their broker; a node implements it."""

    @property
    def node_id(self) -> int:
        """The broker's id."""

    @property
    def settings(self) -> ClusterSettings:
        """The settings of the cluster."""

    @property
    def cluster(self) -> ClusterApi:
        """The broker's cluster."""

    @property
    def server(self) -> ServerApi:
        """The broker's server."""

    @property
    def replicas(self) -> ReplicaManager:
        """The broker's replicas."""

    @property
    def groups(self) -> GroupCoordinator:
        """The broker's group coordinator."""

    @property
    def fetch_sessions(self) -> FetchSessions:
        """The fetch sessions of the broker's clients."""

    @property
    def producer_quota(self) -> ByteRateQuota:
        """The quota of Produce requests."""

    @property
    def consumer_quota(self) -> ByteRateQuota:
        """The quota of consumers' Fetch requests."""

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics by name, as far as the broker knows."""

    @property
    def names(self) -> Mapping[uuid.UUID, str]:
        """The topics' names by topic id, as far as the broker knows."""

    @property
    def reaches_controller(self) -> bool:
        """Whether the broker is connected to the controller."""

    def now_ms(self) -> int:
        """Return the event loop's time in milliseconds."""

    def visible_nodes(self) -> set[int]:
        """Return the ids of the live brokers, as far as the broker knows."""

    def partition_exists(self, key: TopicPartition) -> bool:
        """Return whether a partition exists, as far as the broker knows."""

    def topic_id(self, name: str) -> uuid.UUID | None:
        """Return a topic's id, or None if the topic is unknown."""

    def leader_of(self, key: TopicPartition) -> tuple[int, int]:
        """Return a partition's leader and leader epoch; -1 for what is unknown."""

    def endpoints(self, nodes: Iterable[int]) -> list[dict[str, Any]]:
        """Return the `node_id`, `host`, `port` and `rack` of brokers."""

    def leader_replica(self, key: TopicPartition, leader_epoch: int = -1) -> Replica:
        """Return the replica of a partition that the broker leads.

        Raises:
            ReplicaError: The broker does not lead the partition, or in another epoch.
        """
