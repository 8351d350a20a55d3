"""Creation, deletion and configuration of topics."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.metadata_store import MetadataStore
from purgatory_broker.metadata.partition_leaders import PartitionLeaders
from purgatory_broker.metadata.topic_configs import topic_config_error
from purgatory_broker.metadata.topics import (
    INTERNAL_TOPICS,
    NO_LEADER,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    ControllerError,
    Partition,
    Topic,
    default_assignment,
    replica_list_error,
    topic_name_error,
)
from purgatory_broker.setting_values import MAX_NEW_PARTITIONS

#: The settings of `__consumer_offsets`.
_OFFSETS_CONFIGS = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}
_SHARE_STATE_CONFIGS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "min.insync.replicas": "2",
    "retention.ms": "-1",
    "segment.bytes": "104857600",
}
#: The settings of `__transaction_state`, without `min.insync.replicas`.
_TRANSACTIONS_CONFIGS = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "segment.bytes": "104857600",
    "unclean.leader.election.enable": "false",
}


class TopicChanges:
    def __init__(self, store: MetadataStore, leaders: PartitionLeaders) -> None:
        self._store = store
        self._leaders = leaders
        self._topics_created = 0

    def reset(self) -> None:
        """Place the next topics as on a new cluster."""
        self._topics_created = 0

    def create(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        assignment: dict[int, list[int]] | None = None,
        configs: dict[str, str | None] | None = None,
        validate_only: bool = False,
        internal: bool = False,
    ) -> Topic:
        """-1 is the cluster's default. `assignment` has the nodes, the preferred leader first."""
        self._check_new_name(name, internal=internal)
        if assignment:
            replicas = self._check_assignment(assignment, partitions, replication_factor)
        else:
            replicas = self._assign_replicas(partitions, replication_factor)
        given = configs or {}
        _check_configs(given)
        topic = Topic(
            name,
            uuid.uuid4(),
            configs={key: value for key, value in given.items() if value is not None},
        )
        topic.partitions = [
            self._new_partition(name, index, nodes) for index, nodes in enumerate(replicas)
        ]
        if not validate_only:
            self._store.add_topic(topic)
            self._store.store(lambda: self._store.remove_topic(topic))
            self._topics_created += 1
            self._store.on_change(topic.partitions)
        return topic

    def create_offsets_topic(self) -> None:
        partitions = self._store.settings.offsets_topic_num_partitions
        self._create_internal(OFFSETS_TOPIC, partitions, _OFFSETS_CONFIGS)

    def create_transactions_topic(self) -> None:
        settings = self._store.settings
        configs = _TRANSACTIONS_CONFIGS | {
            "min.insync.replicas": str(settings.transaction_state_log_min_isr)
        }
        partitions = settings.transaction_state_log_num_partitions
        self._create_internal(TRANSACTIONS_TOPIC, partitions, configs)

    def create_share_state_topic(self) -> None:
        partitions = self._store.settings.share_coordinator_state_topic_num_partitions
        self._create_internal(SHARE_STATE_TOPIC, partitions, _SHARE_STATE_CONFIGS)

    def _create_internal(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        if name not in self._store.topics:
            self.create(
                name,
                partitions=partitions,
                replication_factor=min(
                    self._store.settings.replication_factor, len(self._store.alive)
                ),
                configs=dict(configs),
                internal=True,
            )

    def _check_new_name(self, name: str, *, internal: bool) -> None:
        error = topic_name_error(name)
        if error is not None:
            raise ControllerError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {error}"
            )
        if name in INTERNAL_TOPICS and not internal:
            raise ControllerError(
                ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
            )
        if name in self._store.topics:
            raise ControllerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if "." in name or "_" in name:
            # Kafka's metric names replace "." by "_", so the two names would share their metrics.
            metric_name = name.replace(".", "_")
            for other in self._store.topics:
                if other.replace(".", "_") == metric_name:
                    raise ControllerError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION,
                        f"Topic '{name}' collides with existing topic: {other}",
                    )

    def _new_partition(self, topic: str, index: int, replicas: list[int]) -> Partition:
        isr = [node for node in replicas if node in self._store.alive]
        leader = isr[0] if isr else NO_LEADER
        return Partition(topic, index, list(replicas), isr or list(replicas), leader)

    def _assign_replicas(self, partitions: int, factor: int) -> list[list[int]]:
        if partitions == -1:
            partitions = self._store.settings.num_partitions
        if partitions <= 0:
            raise ControllerError(
                ErrorCode.INVALID_PARTITIONS,
                f"Number of partitions was set to an invalid non-positive value: {partitions}",
            )
        if partitions > MAX_NEW_PARTITIONS:
            raise ControllerError(
                ErrorCode.INVALID_PARTITIONS,
                f"Number of partitions was set to {partitions}; a topic is created with at most "
                f"{MAX_NEW_PARTITIONS}.",
            )
        if factor == -1:
            factor = self._store.settings.replication_factor
        if factor <= 0:
            raise ControllerError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Replication factor must be larger than 0, got {factor}.",
            )
        nodes = sorted(self._store.alive)
        if factor > len(nodes):
            raise ControllerError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): The target replication "
                f"factor of {factor} cannot be reached because only {len(nodes)} broker(s) are "
                "registered.",
            )
        return default_assignment(nodes, partitions, factor, self._topics_created)

    def _check_assignment(
        self, assignment: dict[int, list[int]], partitions: int, factor: int
    ) -> list[list[int]]:
        if partitions != -1 or factor != -1:
            raise ControllerError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions or "
                "replicationFactor was not set to -1.",
            )
        if sorted(assignment) != list(range(len(assignment))):
            raise ControllerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence",
            )
        replicas = [assignment[index] for index in range(len(assignment))]
        for node in replicas:
            self._check_replicas(node, len(replicas[0]))
        return replicas

    def _check_replicas(self, replicas: list[int], factor: int) -> None:
        error = replica_list_error(replicas, factor, self._store.settings.nodes)
        if error is not None:
            raise ControllerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, error)

    def add_partitions(
        self,
        name: str,
        count: int,
        assignments: list[list[int]] | None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Add partitions to a topic, up to `count`; assignments of None are made by default."""
        topic = self._store.require_topic(name)
        present = len(topic.partitions)
        if count == present:
            raise ControllerError(
                ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s)."
            )
        if count < present:
            raise ControllerError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {name} currently has {present} partition(s); {count} would not be an "
                "increase.",
            )
        factor = len(topic.partitions[0].replicas)
        if assignments is None:
            nodes = sorted(self._store.alive)
            if factor > len(nodes):
                raise ControllerError(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    f"{factor} replicas, but {len(nodes)} broker(s) are registered.",
                )
            assignments = default_assignment(
                nodes, count - present, factor, topic.partitions[0].replicas[0] + present
            )
        elif len(assignments) != count - present:
            raise ControllerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {count - present} additional partition(s), but "
                f"{len(assignments)} assignment(s) were given.",
            )
        for replicas in assignments:
            self._check_replicas(replicas, factor)
        if validate_only:
            return
        new = [
            self._new_partition(name, present + step, replicas)
            for step, replicas in enumerate(assignments)
        ]
        topic.partitions += new

        def undo() -> None:
            del topic.partitions[present:]

        self._store.store(undo)
        self._store.on_change(new)

    def delete(self, name: str) -> None:
        topic = self._store.require_topic(name)
        self._store.remove_topic(topic)
        self._store.store(lambda: self._store.add_topic(topic))
        self._store.on_delete(topic)

    def alter_configs(self, name: str, configs: dict[str, str]) -> None:
        """Replace a topic's settings; a setting that is not given returns to its default."""
        topic = self._store.require_topic(name)
        _check_configs(configs)
        before = topic.configs
        topic.configs = dict(configs)
        changed = [partition.copy() for partition in topic.partitions]
        for partition in changed:
            if partition.leader == NO_LEADER:
                # The change may have enabled unclean elections.
                self._leaders.elect(partition)
        try:
            self._store.commit(changed)
        except ControllerError:
            topic.configs = before
            raise


def _check_configs(configs: Mapping[str, str | None]) -> None:
    error = topic_config_error(configs)
    if error is not None:
        raise ControllerError(ErrorCode.INVALID_CONFIG, error)
