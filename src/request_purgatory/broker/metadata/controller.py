"""The controller: a cluster's topics, the leaders of their partitions, and the live nodes.

Kafka's controllers replicate this metadata by Raft. Here one object in the nodes' process keeps it,
so the controller never fails alone.
"""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from request_purgatory.broker.metadata.metadata_file import (
    FILE_NAME,
    StoredMetadata,
    load_metadata,
    save_metadata,
)
from request_purgatory.broker.metadata.replica_placement import (
    default_assignment,
    replica_list_error,
)
from request_purgatory.broker.metadata.topic_configs import topic_config_error, topic_value
from request_purgatory.broker.metadata.topics import (
    INTERNAL_TOPICS,
    MAX_NAME_LENGTH,
    NO_LEADER,
    Partition,
    Topic,
    TopicPartition,
    topic_name_error,
)
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.errors import InvalidArgumentError

logger = logging.getLogger(__name__)

_POLICY = "cleanup.policy"

#: Producer ids reserved in the file at a time, so that no id is assigned twice after a crash.
_PRODUCER_ID_BLOCK = 1_000


class ControllerError(Exception):
    """The controller refuses a change.

    Attributes:
        code: Kafka's error code.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class AlterPartitionRequest(NamedTuple):
    """A leader's request to change the in-sync replicas of a partition (KIP-497).

    The leader epoch and the partition epoch are those that the leader knows: the request applies to
    that state of the partition only.
    """

    key: TopicPartition
    topic_id: uuid.UUID
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: list[int]


class ElectionResult(NamedTuple):
    """The result of an election that a client has asked for, with the error's message."""

    error: ErrorCode
    message: str | None = None
    #: The leader epoch that has begun.
    leader_epoch: int = -1


_PREFERRED_REFUSAL = ElectionResult(
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
)
_UNCLEAN_REFUSAL = ElectionResult(
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."
)


class Controller:
    """The topics and the live nodes of a cluster.

    What can't be stored does not take effect: after a crash, the same leader epoch or producer id
    would be assigned a second time. A change that a client asks for is refused with
    KAFKA_STORAGE_ERROR. A node that is gone can't be refused: its partitions have no leader until
    the next change that can be stored.

    `on_change` is called after each change with the changed partitions, `on_delete` with a deleted
    topic. The cluster sets both, to notify the nodes.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        """Create a controller, and load the topics in `settings.data_dir`, if there are any.

        Raises:
            InvalidArgumentError: the directory has data of more nodes than `settings.nodes`, or its
                metadata is damaged, or `settings.topic_defaults` are not settings of topics.
            OSError: the metadata can't be read or written.
        """
        error = topic_config_error(settings.topic_defaults)
        if error is not None:
            raise InvalidArgumentError(
                "topic_defaults", f"valid settings of topics ({error})", settings.topic_defaults
            )
        _warn_about_compaction("topic_defaults", settings.topic_defaults)
        self.settings = settings
        self.cluster_id = _base64_id(uuid.uuid4())
        self.topics: dict[str, Topic] = {}
        self.names: dict[uuid.UUID, str] = {}
        self.alive: set[int] = set()
        self.on_change: Callable[[list[Partition]], None] = lambda _partitions: None
        self.on_delete: Callable[[Topic], None] = lambda _topic: None
        self._next_producer_id = 0
        self._producer_ids_reserved = 0
        self._topics_created = 0
        #: Elections could not be stored, and have to be repeated.
        self._has_pending_elections = False
        self._path: Path | None = None
        if settings.data_dir is not None:
            settings.data_dir.mkdir(parents=True, exist_ok=True)
            self._path = settings.data_dir / FILE_NAME
            if self._path.exists():
                self._load(self._path)
            self._save()

    # -- lookup

    def partition(self, key: TopicPartition) -> Partition | None:
        """Return a partition; None if there is no such topic or partition number."""
        topic = self.topics.get(key.topic)
        if topic is None or not 0 <= key.partition < len(topic.partitions):
            return None
        return topic.partitions[key.partition]

    @property
    def controller_id(self) -> int:
        """The node that Metadata responses name as the controller: the first live one, or -1."""
        return min(self.alive, default=-1)

    # -- topics

    def create_topic(
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
        """Create a topic.

        Args:
            name: the topic's name.
            partitions: their number; -1 is the cluster's default.
            replication_factor: replicas of each partition; -1 is the cluster's default.
            assignment: nodes of each partition's replicas, by partition number, the first of them
                the preferred leader; None or empty assigns them by default.
            configs: topic settings by Kafka's names.
            validate_only: check the arguments, and create nothing.
            internal: allow the name of an internal topic.

        Returns:
            The topic.

        Raises:
            ControllerError: with the error code of Kafka's CreateTopics.
        """
        self._check_new_name(name, internal=internal)
        if assignment:
            replicas = self._check_assignment(assignment, partitions, replication_factor)
        else:
            replicas = self._assign_replicas(partitions, replication_factor)
        given = configs or {}
        _check_configs(given)
        if not validate_only and not internal:
            _warn_about_compaction(name, given)
        topic = Topic(
            name,
            uuid.uuid4(),
            configs={key: value for key, value in given.items() if value is not None},
        )
        topic.partitions = [
            self._new_partition(name, index, nodes) for index, nodes in enumerate(replicas)
        ]
        if not validate_only:
            self.topics[name] = topic
            self.names[topic.topic_id] = name

            def undo() -> None:
                del self.topics[name]
                del self.names[topic.topic_id]

            self._store(undo)
            self._topics_created += 1
            self.on_change(topic.partitions)
        return topic

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
        if name in self.topics:
            raise ControllerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if "." in name or "_" in name:
            # Kafka's metric names replace "." by "_", so the two names would share their metrics.
            metric_name = name.replace(".", "_")
            for other in self.topics:
                if other.replace(".", "_") == metric_name:
                    raise ControllerError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION,
                        f"Topic '{name}' collides with existing topic: {other}",
                    )

    def _new_partition(self, topic: str, index: int, replicas: list[int]) -> Partition:
        isr = [node for node in replicas if node in self.alive]
        leader = isr[0] if isr else NO_LEADER
        return Partition(topic, index, list(replicas), isr or list(replicas), leader)

    def _assign_replicas(self, partitions: int, factor: int) -> list[list[int]]:
        if partitions == -1:
            partitions = self.settings.num_partitions
        if partitions <= 0:
            raise ControllerError(
                ErrorCode.INVALID_PARTITIONS,
                f"Number of partitions was set to an invalid non-positive value: {partitions}",
            )
        if factor == -1:
            factor = self.settings.replication_factor
        if factor <= 0:
            raise ControllerError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Replication factor must be larger than 0, got {factor}.",
            )
        nodes = sorted(self.alive)
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
        for each in replicas:
            self._check_replicas(each, len(replicas[0]))
        return replicas

    def _check_replicas(self, replicas: list[int], factor: int) -> None:
        error = replica_list_error(replicas, factor, self.settings.nodes)
        if error is not None:
            raise ControllerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, error)

    def create_partitions(
        self,
        name: str,
        count: int,
        assignments: list[list[int]] | None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Add partitions to a topic.

        Args:
            name: the topic's name.
            count: the number of partitions after the call.
            assignments: nodes of each new partition's replicas; None assigns them by default.
            validate_only: check the arguments, and add nothing.

        Raises:
            ControllerError: with the error code of Kafka's CreatePartitions.
        """
        topic = self.require_topic(name)
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
            nodes = sorted(self.alive)
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

        self._store(undo)
        self.on_change(new)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records.

        Raises:
            ControllerError: there is no such topic, or the change can't be stored.
        """
        topic = self.require_topic(name)
        del self.topics[name]
        del self.names[topic.topic_id]

        def undo() -> None:
            self.topics[name] = topic
            self.names[topic.topic_id] = name

        self._store(undo)
        self.on_delete(topic)

    def alter_configs(self, name: str, configs: dict[str, str]) -> None:
        """Replace a topic's settings; a setting that is not given returns to its default.

        Args:
            name: the topic's name.
            configs: settings by Kafka's names.

        Raises:
            ControllerError: there is no such topic or setting, a value is not allowed, or the
                change can't be stored.
        """
        topic = self.require_topic(name)
        _check_configs(configs)
        before = topic.configs
        if configs.get(_POLICY) != before.get(_POLICY):
            _warn_about_compaction(name, configs)
        topic.configs = dict(configs)
        changed = [_copy(each) for each in topic.partitions]
        for partition in changed:
            if partition.leader == NO_LEADER:
                # The change may have enabled unclean elections.
                self._elect(partition)
        try:
            self._commit(changed)
        except ControllerError:
            topic.configs = before
            raise

    def reset(self) -> None:
        """Delete all topics and fence all nodes, without notice to the nodes, which are to restart.

        The cluster id and the producer ids go on: clients may have been assigned some.

        Raises:
            ControllerError: the change can't be stored.
        """
        topics, names = dict(self.topics), dict(self.names)
        self.topics.clear()
        self.names.clear()

        def undo() -> None:
            self.topics.update(topics)
            self.names.update(names)

        self._store(undo)
        self.alive.clear()
        # Topics are placed as on a new cluster.
        self._topics_created = 0
        self._has_pending_elections = False

    def require_topic(self, name: str) -> Topic:
        """Return a topic.

        Raises:
            ControllerError: there is no such topic.
        """
        topic = self.topics.get(name)
        if topic is None:
            raise ControllerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        return topic

    # -- leaders and in-sync replicas

    def alter_partition(self, request: AlterPartitionRequest) -> bool:
        """Change the in-sync replicas of a partition as its leader requests.

        Refuses a request for an earlier state of the partition: since then the leader may have
        stopped waiting for a replica that the request would add. Refuses a node that is not alive,
        which must not become the leader. A refused leader learns the current state, and requests
        again if necessary.

        Args:
            request: the leader's request.

        Returns:
            True if the request was granted. False if it was refused, or can't be stored.
        """
        partition = self.partition(request.key)
        if partition is None or self.topics[request.key.topic].topic_id != request.topic_id:
            return False
        present = (partition.leader, partition.leader_epoch, partition.partition_epoch)
        if present != (
            request.leader,
            request.leader_epoch,
            request.partition_epoch,
        ) or not self.alive.issuperset(request.isr):
            return False
        changed = _copy(partition)
        changed.isr = list(request.isr)
        changed.partition_epoch += 1
        try:
            self._commit([changed])
        except ControllerError:
            return False
        return True

    def move_leader(self, key: TopicPartition, node: int) -> None:
        """Make another in-sync replica the leader of a partition.

        Args:
            key: the partition.
            node: the new leader.

        Raises:
            ControllerError: there is no such partition, the node is not in sync or not alive, or
                the change can't be stored.
        """
        partition = self.partition(key)
        if partition is None:
            raise ControllerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {key}"
            )
        eligible = [each for each in partition.isr if each in self.alive]
        if node not in eligible:
            raise ControllerError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"node {node} can't lead {key}: the live in-sync replicas are {eligible}",
            )
        if partition.leader != node:
            changed = _copy(partition)
            _set_leader(changed, node)
            self._commit([changed])

    def elect_leaders(
        self, keys: Iterable[TopicPartition], *, is_unclean: bool
    ) -> dict[TopicPartition, ElectionResult]:
        """Make the preferred replicas leaders, as Kafka's ElectLeaders.

        Args:
            keys: the partitions.
            is_unclean: instead, give partitions without a leader a live replica as the leader,
                in sync or not.

        Returns:
            The results by partition.

        Raises:
            ControllerError: the change can't be stored.
        """
        results: dict[TopicPartition, ElectionResult] = {}
        changed = []
        for key in keys:
            partition = self.partition(key)
            if partition is None:
                # Not longer than a valid name: each of many partitions may repeat it.
                name = key.topic[:MAX_NAME_LENGTH]
                missing = f"partition as {key}" if name in self.topics else f"topic as {name}"
                results[key] = ElectionResult(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {missing}"
                )
                continue
            preferred = partition.replicas[0]
            has_leader = partition.leader != NO_LEADER
            new = _copy(partition)
            if has_leader if is_unclean else partition.leader == preferred:
                results[key] = ElectionResult(
                    ErrorCode.ELECTION_NOT_NEEDED,
                    "Leader election not needed for topic partition.",
                )
                continue
            if is_unclean:
                is_elected = self._elect(new, is_unclean=True)
            elif is_elected := preferred in partition.isr and preferred in self.alive:
                _set_leader(new, preferred)
            if is_elected:
                changed.append(new)
                results[key] = ElectionResult(ErrorCode.NONE, None, new.leader_epoch)
            else:
                results[key] = _UNCLEAN_REFUSAL if is_unclean else _PREFERRED_REFUSAL
        self._commit(changed)
        return results

    def register_broker(self, *nodes: int) -> None:
        """Mark nodes as alive, and elect leaders for partitions that have none.

        Nodes that start together must be registered in one call, so that each partition's first
        in-sync replica becomes its leader.

        Args:
            nodes: the nodes' numbers.
        """
        self.alive.update(nodes)
        self._update_leaders()

    def fence_broker(self, node: int) -> None:
        """Mark a node as dead, and elect other leaders for the partitions that it led.

        The node leaves the in-sync replicas, except where it is the only one: its log has every
        committed record, so it stays eligible.

        Args:
            node: the node's number.
        """
        self.alive.discard(node)
        self._update_leaders()

    def _update_leaders(self) -> None:
        """Elect leaders where there is none alive, and remove dead nodes from in-sync replicas."""
        changed = []
        for partition in self._partitions():
            if partition.leader in self.alive and self.alive.issuperset(partition.isr):
                continue
            new = _copy(partition)
            in_sync = [node for node in new.isr if node in self.alive]
            if in_sync and in_sync != new.isr:
                new.isr = in_sync
                new.partition_epoch += 1
            has_leader = new.leader in self.alive or self._elect(new)
            if not has_leader and new.leader != NO_LEADER:
                _set_leader(new, NO_LEADER)
            if new != partition:
                changed.append(new)
        try:
            self._commit(changed)
        except ControllerError:
            self._has_pending_elections = True
            orphans = [
                each
                for each in self._partitions()
                if each.leader != NO_LEADER and each.leader not in self.alive
            ]
            for partition in orphans:
                # In no later leader epoch has anyone led the partition, so that this need not be
                # stored.
                _set_leader(partition, NO_LEADER)
            if orphans:
                self.on_change(orphans)

    def _elect(self, partition: Partition, *, is_unclean: bool = False) -> bool:
        """Elect a live in-sync replica, or any live replica if unclean elections are enabled.

        Args:
            partition: the partition, which gets the leader.
            is_unclean: allow an unclean election even if the topic does not.

        Returns:
            False if no replica is eligible.
        """
        for node in partition.replicas:
            if node in partition.isr and node in self.alive:
                _set_leader(partition, node)
                return True
        topic = self.topics[partition.topic]
        unclean = topic_value("unclean.leader.election.enable", topic.configs, self.settings)
        if is_unclean or unclean.lower() == "true":
            for node in partition.replicas:
                if node in self.alive:
                    logger.warning(
                        "%s: unclean election of node %d: records that it lacks are lost",
                        partition.key,
                        node,
                    )
                    partition.isr = [node]
                    _set_leader(partition, node)
                    return True
        return False

    def _partitions(self) -> list[Partition]:
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    # -- producer ids

    def new_producer_id(self) -> int:
        """Return a producer id that was never assigned before.

        Raises:
            ControllerError: no further ids can be reserved in the file.
        """
        if self._next_producer_id >= self._producer_ids_reserved:
            before = self._producer_ids_reserved
            self._producer_ids_reserved = self._next_producer_id + _PRODUCER_ID_BLOCK

            def undo() -> None:
                self._producer_ids_reserved = before

            self._store(undo)
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # -- storage

    def _commit(self, changed: list[Partition]) -> None:
        """Store new states of partitions, let them take effect, and notify the nodes.

        Args:
            changed: copies of the partitions, with their new states.

        Raises:
            ControllerError: the states can't be stored, and do not take effect.
        """
        if not changed:
            return
        partitions = [self.topics[each.topic].partitions[each.index] for each in changed]
        before = [_copy(each) for each in partitions]
        _assign(partitions, changed)
        self._store(lambda: _assign(partitions, before))
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

    def _store(self, undo: Callable[[], None]) -> None:
        """Save a change of the metadata.

        Args:
            undo: called to undo the change if it can't be saved.

        Raises:
            ControllerError: KAFKA_STORAGE_ERROR.
        """
        try:
            self._save()
        except OSError as error:
            undo()
            logger.exception("can't write the cluster's metadata to %s", self._path)
            raise ControllerError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The metadata can't be written to {self._path}: {error}",
            ) from error
        if self._has_pending_elections:
            self._has_pending_elections = False
            self._update_leaders()

    def _save(self) -> None:
        if self._path is None:
            return
        topics = list(self.topics.values())
        stored = StoredMetadata(
            self.cluster_id, self.settings.nodes, self._producer_ids_reserved, topics
        )
        save_metadata(self._path, stored)

    def _load(self, path: Path) -> None:
        stored = load_metadata(path)
        partitions = [each for topic in stored.topics for each in topic.partitions]
        nodes = 1 + max((node for each in partitions for node in each.replicas), default=-1)
        if nodes > self.settings.nodes:
            raise InvalidArgumentError(
                "nodes", f"at least {nodes}, of which {path.parent} has data", self.settings.nodes
            )
        self.cluster_id = stored.cluster_id
        self._next_producer_id = self._producer_ids_reserved = stored.producer_ids_reserved
        # No node is alive until it registers.
        for partition in partitions:
            partition.leader = NO_LEADER
        for topic in stored.topics:
            self.topics[topic.name] = topic
            self.names[topic.topic_id] = topic.name


def _copy(partition: Partition) -> Partition:
    return replace(partition, replicas=list(partition.replicas), isr=list(partition.isr))


def _assign(partitions: list[Partition], states: list[Partition]) -> None:
    """Give partitions the leaders and in-sync replicas of other states of them."""
    for partition, state in zip(partitions, states, strict=True):
        partition.isr = list(state.isr)
        partition.leader = state.leader
        partition.leader_epoch = state.leader_epoch
        partition.partition_epoch = state.partition_epoch


def _set_leader(partition: Partition, node: int) -> None:
    partition.leader = node
    partition.leader_epoch += 1
    partition.partition_epoch += 1


def _check_configs(configs: Mapping[str, str | None]) -> None:
    error = topic_config_error(configs)
    if error is not None:
        raise ControllerError(ErrorCode.INVALID_CONFIG, error)


def _warn_about_compaction(subject: str, configs: Mapping[str, str | None]) -> None:
    if "compact" in (configs.get(_POLICY) or ""):
        logger.warning(
            "%s: %s=%s is accepted, but nothing is compacted: each record of a key is kept",
            subject,
            _POLICY,
            configs[_POLICY],
        )


def _base64_id(identifier: uuid.UUID) -> str:
    """Return an id in Kafka's form: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(identifier.bytes).rstrip(b"=").decode()
