"""The controller: a cluster's topics, the leaders of their partitions, and the live nodes.

Kafka's controllers replicate this metadata by Raft. Here one object in the nodes' process keeps it,
so the controller never fails alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from purgatory_broker.metadata.acl_changes import AclChanges
from purgatory_broker.metadata.acls import Acls
from purgatory_broker.metadata.client_quotas import ClientQuotas, ClientQuotaValues
from purgatory_broker.metadata.metadata_store import MetadataStore
from purgatory_broker.metadata.partition_leaders import PartitionLeaders
from purgatory_broker.metadata.reassignment import Reassignments
from purgatory_broker.metadata.resource_configs import ResourceConfigs
from purgatory_broker.metadata.scram_credentials import ScramCredentials
from purgatory_broker.metadata.topic_changes import TopicChanges
from purgatory_broker.metadata.topic_configs import topic_config_error
from purgatory_broker.metadata.topics import Partition, Topic
from purgatory_broker.settings import ClusterSettings
from request_purgatory.errors import InvalidArgumentError


class Controller:
    """The topics and the live nodes of a cluster.

    What can't be stored does not take effect: after a crash, the same leader epoch or producer id
    would be assigned a second time. A change that a client asks for is refused with
    KAFKA_STORAGE_ERROR, as a `ControllerError`.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        error = topic_config_error(settings.topic_defaults)
        if error is not None:
            raise InvalidArgumentError(
                "topic_defaults", f"valid settings of topics ({error})", settings.topic_defaults
            )
        self.settings = settings
        #: Incremented when `controller_id` changes.
        self.controller_epoch = 0
        self._store = MetadataStore(settings)
        self.scram_credentials = ScramCredentials(settings.sasl_users, self._store)
        self.leaders = PartitionLeaders(self._store)
        self.topic_changes = TopicChanges(self._store, self.leaders)
        self.quotas = ClientQuotas(self._store)
        self.config_changes = ResourceConfigs(self._store, self.leaders, settings)
        self.acl_changes = AclChanges(self._store)
        self.reassignments = Reassignments(self._store, self.leaders)
        self.cluster_id = self._store.cluster_id
        # The store's own, which it changes in place.
        self.topics = self._store.topics
        self.names = self._store.names
        self.alive = self._store.alive
        self.partition = self._store.partition
        self.require_partition = self._store.require_partition
        self.require_topic = self._store.require_topic
        self.new_producer_ids = self._store.new_producer_ids

    def notify(
        self, on_change: Callable[[list[Partition]], None], on_delete: Callable[[Topic], None]
    ) -> None:
        self._store.on_change = on_change
        self._store.on_delete = on_delete

    # -- lookup

    @property
    def controller_id(self) -> int:
        """The node that Metadata responses name as the controller: the first live one, or -1."""
        return min(self.alive, default=-1)

    @property
    def client_quotas(self) -> ClientQuotaValues:
        return self._store.client_quotas

    @property
    def resource_configs(self) -> Mapping[tuple[int, str], Mapping[str, str]]:
        return self._store.resource_configs

    @property
    def acls(self) -> Acls:
        return self._store.acls

    @property
    def change_count(self) -> int:
        return self._store.change_count

    def reset(self) -> None:
        """Forget all but the ids, of which clients may have some; the nodes are to restart."""
        self._store.clear()
        self.topic_changes.reset()
        self.leaders.forget()

    # -- nodes

    def register_broker(self, *nodes: int) -> None:
        """Mark nodes as alive, and elect leaders for partitions that have none.

        Nodes that start together must be registered in one call, so that each partition's first
        in-sync replica becomes its leader.
        """
        before = self.controller_id
        self.alive.update(nodes)
        self.controller_epoch += self.controller_id != before
        self.leaders.update()

    def fence_broker(self, node: int) -> None:
        """Fence a node; it stays in sync where it is the only one, with every committed record."""
        before = self.controller_id
        self.alive.discard(node)
        self.controller_epoch += self.controller_id != before
        self.leaders.update()
