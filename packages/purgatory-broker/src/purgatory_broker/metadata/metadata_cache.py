"""What one node knows of the cluster's metadata."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from purgatory_broker.metadata.acls import Acls
from purgatory_broker.metadata.client_quotas import ClientQuotaValues
from purgatory_broker.metadata.controller import Controller
from purgatory_broker.metadata.topic_configs import ResourceType
from purgatory_broker.metadata.topics import NO_LEADER, Topic, TopicPartition


@dataclass(frozen=True, slots=True)
class _Image:
    topics: Mapping[str, Topic]
    names: Mapping[uuid.UUID, str]
    alive: frozenset[int]
    client_quotas: ClientQuotaValues
    resource_configs: Mapping[tuple[int, str], Mapping[str, str]]
    acls: Acls


class MetadataCache:
    """The topics and the live nodes, as far as one node knows them.

    While the node is connected, that is the controller's own state. A node that loses its
    controller keeps the metadata of the last contact.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        #: The controller's own while the node is connected, else the metadata at the last contact.
        self._known: Controller | _Image = controller

    # -- contact with the controller

    def connect(self) -> None:
        """Show the controller's present state from now on."""
        self._known = self._controller

    def disconnect(self) -> None:
        """Keep the present state, since the controller becomes unreachable."""
        self._known = _Image(
            copy.deepcopy(self._controller.topics),
            dict(self._controller.names),
            frozenset(self._controller.alive),
            self._controller.client_quotas,
            self._controller.resource_configs,
            self._controller.acls,
        )

    def start_empty(self, node_id: int) -> None:
        """Begin without topics, since a node has started out of reach of the controller."""
        self._known = _Image({}, {}, frozenset({node_id}), {}, {}, Acls())

    # -- lookup

    @property
    def topics(self) -> Mapping[str, Topic]:
        return self._known.topics

    @property
    def client_quotas(self) -> ClientQuotaValues:
        return self._known.client_quotas

    @property
    def resource_configs(self) -> Mapping[tuple[int, str], Mapping[str, str]]:
        return self._known.resource_configs

    @property
    def acls(self) -> Acls:
        return self._known.acls

    def group_config(self, group_id: str, name: str) -> int | None:
        """Return the value of a whole number that is set for a group; None if it is not set."""
        configs = self.resource_configs
        value = configs and configs.get((ResourceType.GROUP, group_id), {}).get(name)
        return int(value) if value else None

    def alive(self) -> AbstractSet[int]:
        return self._known.alive

    def partition_exists(self, key: TopicPartition) -> bool:
        topic = self._known.topics.get(key.topic)
        return topic is not None and 0 <= key.partition < len(topic.partitions)

    def topic_name(self, topic_id: uuid.UUID | None) -> str | None:
        return None if topic_id is None else self._known.names.get(topic_id)

    def topic_id(self, name: str) -> uuid.UUID | None:
        topic = self.topics.get(name)
        return None if topic is None else topic.topic_id

    def leader_of(self, key: TopicPartition) -> tuple[int, int]:
        """Return a partition's leader and leader epoch; (-1, -1) if there is no such partition."""
        if not self.partition_exists(key):
            return NO_LEADER, -1
        partition = self.topics[key.topic].partitions[key.partition]
        return partition.leader, partition.leader_epoch
