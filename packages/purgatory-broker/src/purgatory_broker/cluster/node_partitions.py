"""The partitions of a node: it becomes their leader or follower as the controller decides."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from purgatory_broker.groups.coordinator import GroupCoordinator
from purgatory_broker.groups.shards import NO_PRODUCER_ID, StoredMarker, StoredRecord
from purgatory_broker.log.control_batch import read_end_marker
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.record import read_records
from purgatory_broker.metadata.metadata_cache import MetadataCache
from purgatory_broker.metadata.topic_configs import topic_value
from purgatory_broker.metadata.topics import (
    NO_LEADER,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    Partition,
    Topic,
    TopicPartition,
)
from purgatory_broker.replication.fetcher import FetcherManager
from purgatory_broker.replication.leader_elections import LeaderElections
from purgatory_broker.replication.log_manager import LogManager, log_settings
from purgatory_broker.replication.replica import Replica
from purgatory_broker.replication.replica_manager import ReplicaManager
from purgatory_broker.settings import ClusterSettings
from purgatory_broker.sharing.share_coordinator import ShareCoordinator
from purgatory_broker.sharing.share_partitions import SharePartitions
from purgatory_broker.transactions.coordinator import TransactionCoordinator

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class NodePartitions:
    node_id: int
    current_settings: Callable[[], ClusterSettings]
    metadata: MetadataCache
    log_manager: LogManager
    replicas: ReplicaManager
    fetchers: FetcherManager
    elections: LeaderElections
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    share_coordinator: ShareCoordinator
    share_partitions: SharePartitions

    # -- notifications of the controller

    def connect(self, topics: Iterable[Topic]) -> None:
        """Take over all partitions from a controller that was out of reach."""
        partitions = [(topic, partition) for topic in topics for partition in topic.partitions]
        states = {(partition.key, topic.topic_id): partition for topic, partition in partitions}
        here = [key for key, state in states.items() if self.node_id in state.replicas]
        with self.replicas.actions:
            for replica in list(self.replicas.replicas.values()):
                # A request that was in flight when the node was partitioned gets no response.
                replica.pending_isr = None
                state = states.get((replica.key, replica.topic_id))
                if state is None:
                    self._delete_replica(replica)
                elif self.node_id not in state.replicas:
                    self._remove(state)
        self.log_manager.delete_unknown(here)
        self.elections.clear()
        self.apply([(topic.topic_id, partition) for topic, partition in partitions])

    def apply(self, partitions: list[tuple[uuid.UUID, Partition]]) -> None:
        if self.replicas.is_closed:
            return
        with self.replicas.actions:
            self.groups.topics_changed({partition.topic for _, partition in partitions})
            for topic_id, partition in partitions:
                # If the topic was deleted or created again in the meantime, a later notification
                # says so.
                topic = self.metadata.topics.get(partition.topic)
                if topic is None or topic.topic_id != topic_id:
                    continue
                self.elections.learn(partition)
                if self.node_id not in partition.replicas:
                    self._remove(partition)
                else:
                    try:
                        self._apply_partition(partition, topic)
                    except RecordError as error:
                        # The other partitions go on. This one is tried again at its next change.
                        logger.error(
                            "node %d: can't open the log of %s: %s",
                            self.node_id,
                            partition.key,
                            error,
                        )

    def _apply_partition(self, partition: Partition, topic: Topic) -> None:
        key = partition.key
        replica = self.replicas.find(key)
        current = self.current_settings()
        settings = log_settings(topic, current)
        if replica is None:
            log = self.log_manager.open(key, topic.topic_id, settings)
            high_watermark = self.log_manager.high_watermark(key, topic.topic_id)
            replica = Replica(self.node_id, key, topic.topic_id, log, high_watermark)
            self.replicas.replicas[key] = replica
        replica.log.settings = settings
        min_insync = int(topic_value("min.insync.replicas", topic.configs, current))
        was_leader = replica.is_leader
        if replica.apply(partition, min_insync, self.replicas.now_ms()):
            self.fetchers.remove(key)
            if not replica.is_leader and replica.leader != NO_LEADER:
                self.fetchers.add(key, replica.leader)
            if replica.is_leader:
                self._load(replica)
            elif was_leader:
                self._unload(key)
            self.share_partitions.forget(key)
        if replica.is_leader:
            self.replicas.advance_high_watermark(replica)
        self.replicas.notify_partition(key)

    def _remove(self, partition: Partition) -> None:
        replica = self.replicas.find(partition.key)
        if replica is not None:
            # It leads no more: so are waiting requests answered.
            replica.apply(partition, replica.min_insync_replicas, self.replicas.now_ms())
            self._delete_replica(replica)

    def _load(self, replica: Replica) -> None:
        """Become the coordinator of a partition's groups or transactional ids, if it has some."""
        key = replica.key
        try:
            if key.topic == OFFSETS_TOPIC:
                self.groups.load(key.partition, _offsets_entries(replica))
            elif key.topic == TRANSACTIONS_TOPIC:
                self.transactions.load(key.partition, replica.leader_epoch, _records(replica))
            elif key.topic == SHARE_STATE_TOPIC:
                self.share_coordinator.load(key.partition, _numbered_records(replica))
        except RecordError as error:
            logger.error(
                "node %d: can't read %s, so that it has no coordinator: %s",
                self.node_id,
                key,
                error,
            )
            self._unload(key)

    def _unload(self, key: TopicPartition) -> None:
        if key.topic == OFFSETS_TOPIC:
            self.groups.unload(key.partition)
        elif key.topic == TRANSACTIONS_TOPIC:
            self.transactions.unload(key.partition)
        elif key.topic == SHARE_STATE_TOPIC:
            self.share_coordinator.unload(key.partition)

    def delete_topic(self, topic: Topic) -> None:
        if self.replicas.is_closed:
            return
        with self.replicas.actions:
            for partition in topic.partitions:
                self.elections.forget(partition.key)
                replica = self.replicas.find(partition.key)
                if replica is not None and replica.topic_id == topic.topic_id:
                    self._delete_replica(replica)
            self.groups.forget_topic(topic.name)
            self.share_coordinator.forget_topic(topic.topic_id)
            self.groups.topics_changed({topic.name})

    def _delete_replica(self, replica: Replica) -> None:
        key = replica.key
        self.fetchers.remove(key)
        del self.replicas.replicas[key]
        self.log_manager.delete(replica.log, key, replica.topic_id)
        self._unload(key)
        self.share_partitions.forget(key)
        self.replicas.notify_partition(key)

    # -- periodic work

    def checkpoint(self) -> None:
        replicas = self.replicas.replicas.values()
        self.log_manager.checkpoint_high_watermarks(
            {
                (replica.topic_id, replica.key.partition): replica.high_watermark
                for replica in replicas
            }
        )

    def delete_old_segments(self, now_ms: int) -> None:
        for replica in self.replicas.replicas.values():
            try:
                deleted = replica.log.delete_old_segments(now_ms, replica.high_watermark)
            except RecordError as error:
                logger.error(
                    "node %d: can't delete old segments of %s: %s", self.node_id, replica.key, error
                )
                continue
            if deleted:
                self.replicas.notify_partition(replica.key)


def _records(replica: Replica) -> Iterator[tuple[bytes, bytes | None]]:
    for _, key, value in _numbered_records(replica):
        yield key, value


def _numbered_records(replica: Replica) -> Iterator[tuple[int, bytes, bytes | None]]:
    for record in replica.log.records():
        if record.key is not None:
            yield record.offset, record.key, record.value


def _offsets_entries(replica: Replica) -> Iterator[StoredRecord | StoredMarker]:
    """Iterate over the records of a partition of the offsets topic, and transactions' markers."""
    for header, batch in replica.log.batches():
        if header.is_control:
            marker = read_end_marker(header, batch)
            if marker is not None:
                yield StoredMarker(header.producer_id, marker.is_commit)
            continue
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        for record in read_records(header, batch):
            if record.key is not None:
                yield StoredRecord(record.key, record.value, producer_id)
