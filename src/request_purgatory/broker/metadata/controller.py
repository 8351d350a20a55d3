"""The controller: what a cluster's topics are, who leads their partitions, and which nodes are alive.

One for a cluster, with what is Raft's work in Kafka left out: it is part of the process that the
nodes are in, and never fails alone.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from request_purgatory.broker.log.checkpoint import flush_folder
from request_purgatory.broker.metadata.topic_configs import config_fault, topic_value
from request_purgatory.broker.metadata.topics import (
    INTERNAL_TOPICS,
    NO_LEADER,
    Partition,
    Topic,
    TopicPartition,
    as_json,
    default_assignment,
    from_json,
    name_fault,
)
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)

_FILE = "cluster.json"
#: How many producer ids are taken from the file at a time, so that one is never given out twice.
_PRODUCER_ID_BLOCK = 1_000


class ControllerError(Exception):
    """A change that the controller refuses, with Kafka's error code for it."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class IsrWish(NamedTuple):
    """A leader's wish for other in-sync replicas of a partition, and which state of the partition it is meant for."""

    key: TopicPartition
    topic_id: uuid.UUID
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: list[int]


class Controller:
    """The topics of a cluster and the nodes that are alive.

    `changed` is called after each change with the partitions concerned, `removed` with a topic that
    was deleted: the cluster tells the nodes.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self.cluster_id = _short(uuid.uuid4())
        self.topics: dict[str, Topic] = {}
        self.names: dict[uuid.UUID, str] = {}
        self.alive: set[int] = set()
        self.changed: Callable[[list[Partition]], None] = lambda _partitions: None
        self.removed: Callable[[Topic], None] = lambda _topic: None
        self._next_producer_id = 0
        self._producer_ids_taken = 0
        self._placed = 0
        self._path: Path | None = None
        if settings.data_dir is not None:
            settings.data_dir.mkdir(parents=True, exist_ok=True)
            self._path = settings.data_dir / _FILE
            if self._path.exists():
                self._load(self._path)
            self._save()

    # -- looking up

    def partition(self, key: TopicPartition) -> Partition | None:
        """A partition; None if there is no such topic or no such number."""
        topic = self.topics.get(key.topic)
        if topic is None or not 0 <= key.partition < len(topic.partitions):
            return None
        return topic.partitions[key.partition]

    @property
    def controller_id(self) -> int:
        """The node that clients are told to be the controller: the first that is alive."""
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
        """A new topic; -1 is the cluster's default.

        Raises:
            ControllerError: as Kafka's CreateTopics answers.
        """
        fault = name_fault(name)
        if fault is not None:
            raise ControllerError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}"
            )
        if name in INTERNAL_TOPICS and not internal:
            raise ControllerError(
                ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
            )
        if name in self.topics:
            raise ControllerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if "." in name or "_" in name:
            # Kafka's metrics have both as "_".
            alike = name.replace(".", "_")
            for other in self.topics:
                if other.replace(".", "_") == alike:
                    raise ControllerError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION,
                        f"Topic '{name}' collides with existing topic: {other}",
                    )
        if assignment:
            replicas = self._checked_assignment(assignment, partitions, replication_factor)
        else:
            replicas = self._assigned(partitions, replication_factor)
        given = configs or {}
        fault = config_fault(given)
        if fault is not None:
            raise ControllerError(ErrorCode.INVALID_CONFIG, fault)
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
            self._placed += 1
            self._commit(topic.partitions)
        return topic

    def _new_partition(self, topic: str, index: int, replicas: list[int]) -> Partition:
        isr = [node for node in replicas if node in self.alive]
        leader = isr[0] if isr else NO_LEADER
        return Partition(topic, index, list(replicas), isr or list(replicas), leader)

    def _assigned(self, partitions: int, factor: int) -> list[list[int]]:
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
                f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
                f"reached because only {len(nodes)} broker(s) are registered.",
            )
        return default_assignment(nodes, partitions, factor, self._placed)

    def _checked_assignment(
        self, assignment: dict[int, list[int]], partitions: int, factor: int
    ) -> list[list[int]]:
        if partitions != -1 or factor != -1:
            raise ControllerError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions or replicationFactor was not set to -1.",
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
        code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        if not replicas:
            raise ControllerError(
                code, "The manual partition assignment includes an empty replica list."
            )
        if len(set(replicas)) < len(replicas):
            raise ControllerError(
                code,
                f"The manual partition assignment includes the same broker more than once: {replicas}.",
            )
        unknown = [node for node in replicas if not 0 <= node < self.settings.nodes]
        if unknown:
            raise ControllerError(
                code,
                f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered.",
            )
        if len(replicas) != factor:
            raise ControllerError(
                code,
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
                f"consistent with previous partitions, which have {factor} replica(s).",
            )

    def create_partitions(
        self,
        name: str,
        count: int,
        assignments: list[list[int]] | None,
        *,
        validate_only: bool = False,
    ) -> None:
        """More partitions of a topic, until there are `count`.

        Raises:
            ControllerError: as Kafka's CreatePartitions answers.
        """
        topic = self.known(name)
        present = len(topic.partitions)
        if count == present:
            raise ControllerError(
                ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s)."
            )
        if count < present:
            raise ControllerError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {name} currently has {present} partition(s); {count} would not be an increase.",
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
                f"Attempted to add {count - present} additional partition(s), but {len(assignments)} assignment(s) were given.",
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
        self._commit(new)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and all that is in it.

        Raises:
            ControllerError: there is none of that name.
        """
        topic = self.known(name)
        del self.topics[name]
        del self.names[topic.topic_id]
        self._keep()
        self.removed(topic)

    def set_configs(self, name: str, configs: dict[str, str]) -> None:
        """Give a topic other settings; what is not among them is the default.

        Raises:
            ControllerError: no such topic, no such setting, or a value that it can't have.
        """
        topic = self.known(name)
        fault = config_fault(configs)
        if fault is not None:
            raise ControllerError(ErrorCode.INVALID_CONFIG, fault)
        topic.configs = dict(configs)
        # An unclean election may be allowed from now on.
        self._led_now(topic.partitions)
        self._commit(topic.partitions)

    def known(self, name: str) -> Topic:
        """A topic; ControllerError if there is none of that name."""
        topic = self.topics.get(name)
        if topic is None:
            raise ControllerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        return topic

    # -- leaders and in-sync replicas

    def alter_isr(self, wish: IsrWish) -> bool:
        """Grant a leader other in-sync replicas; False if the partition has changed since it asked, or one of them is not alive.

        A leader that asks on the strength of an older state may have stopped to wait for a replica
        that it would let in again, and a node that is not alive is not to lead: the leader hears of
        what has changed and asks anew.
        """
        partition = self.partition(wish.key)
        if partition is None or self.topics[wish.key.topic].topic_id != wish.topic_id:
            return False
        present = (partition.leader, partition.leader_epoch, partition.partition_epoch)
        if present != (
            wish.leader,
            wish.leader_epoch,
            wish.partition_epoch,
        ) or not self.alive.issuperset(wish.isr):
            return False
        partition.isr = list(wish.isr)
        partition.partition_epoch += 1
        logger.info("%s: in-sync replicas are %s", wish.key, partition.isr)
        self._commit([partition])
        return True

    def move_leader(self, key: TopicPartition, node: int) -> None:
        """Make another in-sync replica the leader.

        Raises:
            ControllerError: no such partition, or the node is not in sync or not alive.
        """
        partition = self.partition(key)
        if partition is None:
            raise ControllerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {key}"
            )
        if node not in partition.isr or node not in self.alive:
            raise ControllerError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"node {node} can't lead {key}: in sync and alive are {[each for each in partition.isr if each in self.alive]}",
            )
        if partition.leader != node:
            self._lead(partition, node)
            self._commit([partition])

    def node_came(self, *nodes: int) -> None:
        """Nodes are alive (again): they may lead what has no leader.

        Those that come together are to be told together: of each partition the best of them leads.
        """
        self.alive.update(nodes)
        self._commit(self._led_now(self._partitions()))

    def _led_now(self, partitions: list[Partition]) -> list[Partition]:
        """Those of the partitions that had no leader and have got one."""
        return [each for each in partitions if each.leader == NO_LEADER and self._elect(each)]

    def node_went(self, node: int) -> None:
        """A node is gone.

        Others lead what it led, and it is in sync with nothing, but where nobody else is.
        """
        self.alive.discard(node)
        changed = []
        for partition in self._partitions():
            if node not in partition.replicas:
                continue
            if len(partition.isr) > 1 and node in partition.isr:
                partition.isr.remove(node)
                partition.partition_epoch += 1
                changed.append(partition)
            if partition.leader == node:
                if not self._elect(partition):
                    self._lead(partition, NO_LEADER)
                if partition not in changed:
                    changed.append(partition)
        self._commit(changed)

    def _elect(self, partition: Partition) -> bool:
        """Give a partition a leader: an in-sync replica, or, where the topic allows it, any."""
        for node in partition.replicas:
            if node in partition.isr and node in self.alive:
                self._lead(partition, node)
                return True
        topic = self.topics[partition.topic]
        if (
            topic_value("unclean.leader.election.enable", topic.configs, self.settings).lower()
            == "true"
        ):
            for node in partition.replicas:
                if node in self.alive:
                    logger.warning(
                        "%s: node %d leads, which was not in sync: what it lacks is lost",
                        partition.key,
                        node,
                    )
                    partition.isr = [node]
                    self._lead(partition, node)
                    return True
        return False

    def _lead(self, partition: Partition, node: int) -> None:
        partition.leader = node
        partition.leader_epoch += 1
        partition.partition_epoch += 1
        logger.info(
            "%s: the leader is %d, in epoch %d", partition.key, node, partition.leader_epoch
        )

    def _partitions(self) -> list[Partition]:
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    # -- producer ids

    def new_producer_id(self) -> int:
        """An id that no producer has had."""
        if self._next_producer_id >= self._producer_ids_taken:
            self._producer_ids_taken = self._next_producer_id + _PRODUCER_ID_BLOCK
            self._keep()
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # -- what is kept

    def _commit(self, partitions: list[Partition]) -> None:
        if partitions:
            self._keep()
            self.changed(partitions)

    def _keep(self) -> None:
        """Save, or go on without.

        A disk that is full is no reason for the nodes not to hear of what has changed.
        """
        try:
            self._save()
        except OSError:
            logger.exception("the cluster's state can't be written to %s", self._path)

    def _save(self) -> None:
        if self._path is None:
            return
        data = {
            "cluster_id": self.cluster_id,
            "nodes": self.settings.nodes,
            "producer_ids_taken": self._producer_ids_taken,
            "topics": [as_json(topic) for topic in self.topics.values()],
        }
        partial = self._path.with_suffix(".partial")
        with partial.open("w") as file:
            json.dump(data, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
        flush_folder(self._path.parent)

    def _load(self, path: Path) -> None:
        data = json.loads(path.read_text())
        nodes = max(
            [
                self.settings.nodes,
                *(
                    node + 1
                    for topic in data["topics"]
                    for each in topic["partitions"]
                    for node in each["replicas"]
                ),
            ]
        )
        if nodes > self.settings.nodes:
            raise ControllerError(
                ErrorCode.INVALID_REQUEST,
                f"{path.parent} has data of {nodes} nodes, where {self.settings.nodes} are to run",
            )
        self.cluster_id = data["cluster_id"]
        self._next_producer_id = self._producer_ids_taken = data["producer_ids_taken"]
        for each in data["topics"]:
            topic = from_json(each)
            # Who led then is not alive now, until it comes.
            for partition in topic.partitions:
                partition.leader = NO_LEADER
            self.topics[topic.name] = topic
            self.names[topic.topic_id] = topic.name


def _short(identifier: uuid.UUID) -> str:
    """An id as Kafka writes it: 22 letters and digits."""
    import base64

    return base64.urlsafe_b64encode(identifier.bytes).rstrip(b"=").decode()
