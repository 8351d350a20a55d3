"""The conditions that `wait_for` knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from purgatory_broker.api.registry import find_api
from purgatory_broker.cluster.node import ClusterParts, Node
from purgatory_broker.cluster.readable_records import CommittedCounts
from purgatory_broker.cluster.snapshots import GroupSnapshot, snapshot
from purgatory_broker.cluster.waits import Condition
from purgatory_broker.groups.shards import AnyGroup
from purgatory_broker.metadata.controller import Controller
from purgatory_broker.metadata.topics import OFFSETS_TOPIC, Partition, TopicPartition
from purgatory_broker.replication.replica import Replica
from purgatory_broker.server.faults import FaultDescription
from request_purgatory.errors import InvalidArgumentError

#: Kafka's name of the state of a group whose members have their assignments.
_STABLE = "Stable"


def leader_replica(nodes: list[Node], partition: Partition) -> Replica | None:
    """Return the replica of a partition's leader; None if it has no leader that runs."""
    if partition.leader < 0 or nodes[partition.leader].is_stopped:
        return None
    return nodes[partition.leader].replicas.find(partition.key)


def partition_state(nodes: list[Node], partition: Partition) -> str:
    """Return a partition's offsets and in-sync replicas as text."""
    replica = leader_replica(nodes, partition)
    if replica is None:
        return f"no leader, in sync {partition.isr}"
    offsets = f"offsets {replica.log.log_start_offset} to {replica.log.end_offset}"
    stable = replica.last_stable_offset
    behind = f", last stable offset {stable}" if stable < replica.high_watermark else ""
    return f"{offsets}, high watermark {replica.high_watermark}{behind}, in sync {partition.isr}"


def records_behind(nodes: list[Node], partition: Partition, offset: int) -> int | None:
    """Return how many records from an offset on consumers can read; None without a leader.

    It is a group's lag in records: nobody commits the offset after a marker at the end.
    """
    replica = leader_replica(nodes, partition)
    return None if replica is None else replica.log.record_count(offset, replica.high_watermark)


def coordinated_groups(
    controller: Controller, nodes: list[Node]
) -> Iterator[tuple[Node, AnyGroup]]:
    """Iterate over the groups with their coordinators' nodes, as the controller knows them."""
    for node in nodes:
        if node.is_stopped:
            continue
        for group in node.groups.groups:
            key = TopicPartition(OFFSETS_TOPIC, node.groups.partition_for(group.group_id))
            partition = controller.partition(key)
            if partition is not None and partition.leader == node.node_id:
                yield node, group


@dataclass(frozen=True, slots=True)
class Conditions:
    parts: ClusterParts

    def records(self, given: tuple[str, int]) -> Condition:
        topic, count = given
        _require_count("records", given)

        def readable() -> int:
            return sum(
                replica.log.record_count(0, replica.high_watermark)
                for replica in self._leaders(topic)
            )

        def describe() -> str:
            return (
                f"expected {count} records in {topic}, got {readable()}"
                f"{self._describe_partitions(topic)}"
            )

        return Condition(("topic", topic), lambda: readable() >= count, describe)

    def committed_records(self, given: tuple[str, int]) -> Condition:
        topic, count = given
        _require_count("committed_records", given)
        counts = CommittedCounts()

        def committed() -> int:
            return sum(map(counts.count, self._leaders(topic)))

        def describe() -> str:
            return (
                f"expected {count} committed records in {topic}, got {committed()}"
                f"{self._describe_partitions(topic)}"
            )

        return Condition(("topic", topic), lambda: committed() >= count, describe)

    def _leaders(self, topic: str) -> list[Replica]:
        state = self.parts.controller.topics.get(topic)
        replicas = (
            leader_replica(self.parts.nodes, partition)
            for partition in (() if state is None else state.partitions)
        )
        return [replica for replica in replicas if replica is not None]

    def _describe_partitions(self, topic: str) -> str:
        state = self.parts.controller.topics.get(topic)
        if state is None:
            return " (there is no such topic)"
        states = [
            f"partition {partition.index}: {partition_state(self.parts.nodes, partition)}"
            for partition in state.partitions
        ]
        return f" ({'; '.join(states)})"

    def isr(self, given: tuple[str, int, list[int]]) -> Condition:
        topic, partition, nodes = given
        if partition < 0 or not all(0 <= node < len(self.parts.nodes) for node in nodes):
            requirement = (
                f"of a partition from 0 on and nodes from 0 to {len(self.parts.nodes) - 1}"
            )
            raise InvalidArgumentError("isr", requirement, given)
        key = TopicPartition(topic, partition)

        def holds() -> bool:
            partition = self.parts.controller.partition(key)
            return partition is not None and set(partition.isr) == set(nodes)

        def describe() -> str:
            partition = self.parts.controller.partition(key)
            state = "there is no such partition"
            if partition is not None:
                leader = f"leader {partition.leader}, leader epoch {partition.leader_epoch}"
                state = f"got {partition.isr} ({leader})"
            return f"expected the in-sync replicas {sorted(nodes)} of {key}, {state}"

        return Condition(("topic", topic), holds, describe)

    def group_stable(self, group_id: str) -> Condition:
        def find() -> AnyGroup | None:
            for _, group in coordinated_groups(self.parts.controller, self.parts.nodes):
                if group.group_id == group_id:
                    return group
            return None

        def holds() -> bool:
            group = find()
            return group is not None and group.state_name == _STABLE

        def describe() -> str:
            group = find()
            state = (
                "there is no such group"
                if group is None
                else f"it is {group.state_name}, in generation {group.generation}, with "
                f"{len(group.members)} members"
            )
            return f"expected group {group_id!r} to be Stable, {state}"

        return Condition(("group", group_id), holds, describe)

    def committed(self, given: tuple[str, str, int, int]) -> Condition:
        group_id, topic, partition, offset = given
        _require_count("committed", given)

        def found() -> int | None:
            group = self._group(group_id)
            return None if group is None else group.offsets.get(topic, {}).get(partition)

        def holds() -> bool:
            committed = found()
            return committed is not None and committed >= offset

        def describe() -> str:
            return (
                f"expected group {group_id!r} to have committed offset {offset} of "
                f"{topic}-{partition}, got {found()}"
            )

        return Condition(_OFFSETS, holds, describe, (("group", group_id),))

    def lag(self, given: tuple[str, str, int]) -> Condition:
        group_id, topic, most = given
        _require_count("lag", given)

        def found() -> dict[int, int] | None:
            group = self._group(group_id)
            if group is None or topic not in self.parts.controller.topics:
                return None
            return _lags(self.parts, group, topic)

        def holds() -> bool:
            by_partition = found()
            return by_partition is not None and sum(by_partition.values()) <= most

        def describe() -> str:
            by_partition = found()
            if by_partition is None:
                missing = "topic" if topic not in self.parts.controller.topics else "group"
                state = f"there is no such {missing}"
            else:
                state = f"got {sum(by_partition.values())} (by partition: {by_partition})"
            return (
                f"expected group {group_id!r} to be at most {most} records behind in {topic}, "
                f"{state}"
            )

        return Condition(_OFFSETS, holds, describe, (("group", group_id), ("topic", topic)))

    def assignment(self, given: tuple[str, str, str, list[int]]) -> Condition:
        group_id, client_id, topic, partitions = given

        def holds() -> bool:
            group = self._group(group_id)
            if group is None or group.state != _STABLE:
                return False
            assigned = (
                partition
                for member in group.members
                if member.client_id == client_id
                for partition in member.assignment.get(topic, ())
            )
            return set(assigned) == set(partitions)

        def describe() -> str:
            group = self._group(group_id)
            state = "there is no such group"
            if group is not None:
                members = [f"{member.client_id}: {member.assignment}" for member in group.members]
                state = f"the group is {group.state}, and has {', '.join(members) or 'no members'}"
            return (
                f"expected client {client_id!r} of group {group_id!r} to have the partitions "
                f"{sorted(partitions)} of {topic}, {state}"
            )

        return Condition(("group", group_id), holds, describe)

    def _group(self, group_id: str) -> GroupSnapshot | None:
        for node, group in coordinated_groups(self.parts.controller, self.parts.nodes):
            if group.group_id == group_id:
                return snapshot(node.groups, group)
        return None

    def request(self, given: tuple[str, int]) -> Condition:
        name, times = find_api(given[0]).name, given[1]
        _require_count("request", given)
        counts = self.parts.request_log.counts

        def describe() -> str:
            return f"expected {times} {name} requests, got {counts[name]} (all: {dict(counts)})"

        return Condition(("request", name), lambda: counts[name] >= times, describe)

    def fault(self, given: tuple[int, int]) -> Condition:
        number, hits = given
        _require_count("fault", given)

        def find() -> FaultDescription | None:
            faults = [*self.parts.faults.describe(), *self.parts.interceptions.describe()]
            return next((fault for fault in faults if fault["id"] == number), None)

        if find() is None:
            raise InvalidArgumentError("fault", "the id of a fault that `faults` has", number)

        def holds() -> bool:
            fault = find()
            return fault is not None and fault["hits"] >= hits

        def describe() -> str:
            fault = find()
            if fault is None:
                return f"expected {hits} hits of fault {number}, which was cleared"
            set_values = {
                name: value
                for name, value in fault.items()
                if value is not None and name not in ("id", "hits")
            }
            return f"expected {hits} hits of fault {number}, got {fault['hits']} ({set_values})"

        return Condition(("fault", number), holds, describe)


#: What is notified of every committed offset.
_OFFSETS = ("topic", OFFSETS_TOPIC)


def _lags(parts: ClusterParts, group: GroupSnapshot, topic: str) -> dict[int, int]:
    """Return by partition how many records a group has not committed: all if it has no offset."""
    committed = group.offsets.get(topic, {})
    behind = {
        partition.index: records_behind(parts.nodes, partition, committed.get(partition.index, 0))
        for partition in parts.controller.topics[topic].partitions
    }
    return {partition: count for partition, count in behind.items() if count is not None}


def _require_count(name: str, given: tuple[Any, ...]) -> None:
    if given[-1] < 0:
        raise InvalidArgumentError(name, "of a number from 0 on", given)
