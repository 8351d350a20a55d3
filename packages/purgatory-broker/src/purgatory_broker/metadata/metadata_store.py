"""The cluster's metadata: each change is stored, and then published to the nodes."""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.acls import Acls
from purgatory_broker.metadata.broker_configs import effective_settings
from purgatory_broker.metadata.metadata_file import (
    FILE_NAME,
    QuotaEntity,
    StoredMetadata,
    load_metadata,
    save_metadata,
)
from purgatory_broker.metadata.scram import ScramCredential, ScramMechanism
from purgatory_broker.metadata.topics import (
    NO_LEADER,
    ControllerError,
    Partition,
    Topic,
    TopicPartition,
)
from purgatory_broker.settings import ClusterSettings
from request_purgatory.errors import InvalidArgumentError

logger = logging.getLogger(__name__)

#: The producer ids of a block, as in Kafka.
_PRODUCER_ID_BLOCK = 1_000


class MetadataStore:
    """The topics, the live nodes and the producer ids of a cluster, with their file.

    What can't be stored does not take effect. `on_change` is called after each change with the
    changed partitions, `on_delete` with a deleted topic, `on_stored` after anything was stored.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        #: In Kafka's form: 22 characters of URL-safe base64.
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self.topics: dict[str, Topic] = {}
        self.names: dict[uuid.UUID, str] = {}
        self.alive: set[int] = set()
        #: The quotas of clients, by entity; replaced as a whole, never changed.
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        #: The settings of groups and brokers, by type and name; replaced as a whole.
        self.resource_configs: dict[tuple[int, str], dict[str, str]] = {}
        #: The SCRAM credentials that clients have stored, or deleted (None), by user and mechanism;
        #: replaced as a whole.
        self.scram_changes: dict[tuple[str, ScramMechanism], ScramCredential | None] = {}
        #: Replaced as a whole.
        self.acls = Acls()
        self.on_change: Callable[[list[Partition]], None] = lambda _partitions: None
        self.on_delete: Callable[[Topic], None] = lambda _topic: None
        self.on_stored: Callable[[], None] = lambda: None
        #: The changes that were stored since the start.
        self.change_count = 0
        self._producer_ids_reserved = 0
        self._path: Path | None = None
        if settings.data_dir is not None:
            settings.data_dir.mkdir(parents=True, exist_ok=True)
            self._path = settings.data_dir / FILE_NAME
            if self._path.exists():
                self._load(self._path)
            self._save()

    # -- lookup

    @property
    def effective_settings(self) -> ClusterSettings:
        """The settings with what clients have changed for all brokers."""
        return effective_settings(self.settings, self.resource_configs)

    def partition(self, key: TopicPartition) -> Partition | None:
        topic = self.topics.get(key.topic)
        if topic is None or not 0 <= key.partition < len(topic.partitions):
            return None
        return topic.partitions[key.partition]

    def require_topic(self, name: str) -> Topic:
        topic = self.topics.get(name)
        if topic is None:
            raise ControllerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        return topic

    def require_partition(self, key: TopicPartition) -> Partition:
        partition = self.partition(key)
        if partition is None:
            raise ControllerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {key}"
            )
        return partition

    def partitions(self) -> list[Partition]:
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    # -- changes

    def commit(self, changed: list[Partition]) -> None:
        """Store new states of partitions, let them take effect, and notify the nodes."""
        if not changed:
            return
        partitions = [
            self.topics[partition.topic].partitions[partition.index] for partition in changed
        ]
        before = [partition.copy() for partition in partitions]
        _assign(partitions, changed)
        self.store(lambda: _assign(partitions, before))
        for old, new in zip(before, partitions, strict=True):
            if new.leader_epoch != old.leader_epoch:
                logger.info(
                    "%s: the leader is now node %d, in epoch %d",
                    new.key,
                    new.leader,
                    new.leader_epoch,
                )
            if new.isr != old.isr:
                logger.info("%s: in-sync replicas are now %s", new.key, new.isr)
        self.on_change(partitions)

    def store(self, undo: Callable[[], None]) -> None:
        try:
            self._save()
        except OSError as error:
            undo()
            logger.error("can't write the cluster's metadata to %s: %s", self._path, error)
            raise ControllerError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The metadata can't be written to {self._path}: {error}",
            ) from error
        self.change_count += 1
        self.on_stored()

    def replace(self, name: str, value: object) -> None:
        """Store another value of a field that is replaced as a whole."""
        before = getattr(self, name)
        setattr(self, name, value)
        self.store(lambda: setattr(self, name, before))

    def add_topic(self, topic: Topic) -> None:
        """Add a topic that is to be stored, or to be removed if it can't be."""
        self.topics[topic.name] = topic
        self.names[topic.topic_id] = topic.name

    def remove_topic(self, topic: Topic) -> None:
        del self.topics[topic.name]
        del self.names[topic.topic_id]

    def clear(self) -> None:
        """Remove everything but the ids, without notice to the nodes."""
        topics, names, quotas = dict(self.topics), dict(self.names), self.client_quotas
        self.topics.clear()
        self.names.clear()
        configs, credentials = self.resource_configs, self.scram_changes
        acls = self.acls
        self.client_quotas = {}
        self.resource_configs = {}
        self.scram_changes = {}
        self.acls = Acls()

        def undo() -> None:
            self.client_quotas = quotas
            self.resource_configs = configs
            self.scram_changes = credentials
            self.acls = acls
            self.topics.update(topics)
            self.names.update(names)

        self.store(undo)
        self.alive.clear()

    def new_producer_ids(self) -> range:
        """Return a block of producer ids, which is stored as taken: a crash leaves ids unused."""
        first = self._producer_ids_reserved
        self.replace("_producer_ids_reserved", first + _PRODUCER_ID_BLOCK)
        return range(first, first + _PRODUCER_ID_BLOCK)

    # -- the file

    def _save(self) -> None:
        if self._path is None:
            return
        topics = list(self.topics.values())
        stored = StoredMetadata(
            self.cluster_id,
            self.settings.nodes,
            self._producer_ids_reserved,
            topics,
            self.client_quotas,
            self.resource_configs,
            self.scram_changes,
            self.acls,
        )
        save_metadata(self._path, stored)

    def _load(self, path: Path) -> None:
        stored = load_metadata(path)
        partitions = [partition for topic in stored.topics for partition in topic.partitions]
        nodes = 1 + max(
            (node for partition in partitions for node in partition.replicas), default=-1
        )
        if nodes > self.settings.nodes:
            raise InvalidArgumentError(
                "nodes", f"at least {nodes}, of which {path.parent} has data", self.settings.nodes
            )
        self.cluster_id = stored.cluster_id
        self._producer_ids_reserved = stored.producer_ids_reserved
        self.client_quotas = stored.client_quotas
        self.resource_configs = stored.resource_configs
        self.scram_changes = stored.scram_changes
        self.acls = stored.acls
        # No node is alive until it registers.
        for partition in partitions:
            partition.leader = NO_LEADER
        for topic in stored.topics:
            self.add_topic(topic)


def _assign(partitions: list[Partition], states: list[Partition]) -> None:
    for partition, state in zip(partitions, states, strict=True):
        own = state.copy()
        for field in fields(own):
            setattr(partition, field.name, getattr(own, field.name))
