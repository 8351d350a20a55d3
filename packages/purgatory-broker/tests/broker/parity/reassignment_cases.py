"""AlterPartitionReassignments and ListPartitionReassignments."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)

from tests.broker.parity.case import case, case_that_stops_nodes
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import message
from tests.broker.raw_requests import records


def _alter(
    harness: CaseHarness, wanted: dict[str, dict[int, list[int] | None]], **fields: Any
) -> Any:
    version = 1 if fields else 0
    topics = [
        {
            "name": name,
            "partitions": [
                {"partition_index": index, "replicas": replicas}
                for index, replicas in partitions.items()
            ],
        }
        for name, partitions in wanted.items()
    ]
    fields = {"timeout_ms": 10_000, "topics": topics, **fields}
    return harness.node_0.send(message(AlterPartitionReassignmentsRequest, fields), version)


def _list(harness: CaseHarness, wanted: dict[str, list[int]] | None) -> Any:
    topics = None
    if wanted is not None:
        topics = [{"name": name, "partition_indexes": indexes} for name, indexes in wanted.items()]
    fields = {"timeout_ms": 10_000, "topics": topics}
    return harness.node_0.send(message(ListPartitionReassignmentsRequest, fields), 0)


def _partition(harness: CaseHarness, topic: str, index: int = 0) -> Any:
    partitions = harness.metadata(9, [{"name": topic}]).topics[0].partitions
    return next(each for each in partitions if each.partition_index == index)


def _state(harness: CaseHarness, topic: str) -> dict[str, Any]:
    partition = _partition(harness, topic)
    return {
        "replicas are": str(partition.replica_nodes),
        "in sync": str(sorted(partition.isr_nodes)),
        "led by": str(partition.leader_id),
    }


def _await_replicas(harness: CaseHarness, topic: str, replicas: list[int]) -> dict[str, Any]:
    """Wait until a partition has replicas that are all in sync, and return its state."""

    def is_there() -> bool:
        partition = _partition(harness, topic)
        return partition.replica_nodes == replicas and sorted(partition.isr_nodes) == sorted(
            replicas
        )

    harness.until(is_there)
    return _state(harness, topic)


@case
def reassignments_that_are_refused(harness: CaseHarness) -> Any:
    topic = harness.topic(nodes=[[0, 1]])
    wanted: dict[str, list[int] | None] = {
        "nothing to cancel": None,
        "no replicas": [],
        "a replica twice": [0, 0],
        "an unknown broker": [0, 9],
        "a negative broker": [-1],
    }
    seen = {name: _alter(harness, {topic: {0: each}}) for name, each in wanted.items()}
    return seen | {
        "unknown topic": _alter(harness, {harness.name("none"): {0: [0]}}),
        "unknown partitions": _alter(harness, {topic: {7: [0], -1: None}}),
        "another number of replicas": _alter(
            harness, {topic: {0: [1]}}, allow_replication_factor_change=False
        ),
        "the same": _alter(harness, {topic: {0: [0, 1]}}),
        "no topics": _alter(harness, {}),
        "no partitions": _alter(harness, {topic: {}}),
        "listed": _list(harness, {topic: [0, 7], harness.name("none"): [0]}),
        "state": _state(harness, topic),
    }


@case
def reassign_a_partition(harness: CaseHarness) -> Any:
    topic = harness.topic(nodes=[[0, 1]])
    leader = harness.leader(topic)
    produced = harness.produce(leader, topic, records(b"a", b"b"))
    seen = {"produced": produced, "moved": _alter(harness, {topic: {0: [2, 1]}})}
    seen["when it is moved"] = _await_replicas(harness, topic, [2, 1])
    seen["listed"] = _list(harness, {topic: [0]})
    seen["fewer"] = _alter(harness, {topic: {0: [1]}})
    seen["when there are fewer"] = _await_replicas(harness, topic, [1])
    seen["more"] = _alter(harness, {topic: {0: [1, 0, 2]}}, allow_replication_factor_change=True)
    seen["when there are more"] = _await_replicas(harness, topic, [1, 0, 2])
    return seen


@case_that_stops_nodes
def reassign_to_a_node_that_is_gone(harness: CaseHarness) -> Any:
    topic = harness.topic(nodes=[[0, 1]])
    harness.await_leader(topic)
    harness.cluster.stop(2)
    seen = {"begun": _alter(harness, {topic: {0: [2, 1]}})}
    harness.until(lambda: _partition(harness, topic).replica_nodes == [2, 1, 0])

    def listed() -> Any:
        return {
            str(each.partition_index): str(
                [
                    each.replicas,
                    each.adding_replicas,
                    each.removing_replicas,
                ]
            )
            for found in _list(harness, {topic: [0]}).topics
            for each in found.partitions
        }

    seen["in progress"] = listed()
    seen["state in progress"] = _state(harness, topic)
    seen["listed among all"] = topic in {each.name for each in _list(harness, None).topics}
    seen["another"] = _alter(harness, {topic: {0: [1, 2]}})
    harness.until(lambda: _partition(harness, topic).replica_nodes == [1, 2, 0])
    seen["cancelled"] = _alter(harness, {topic: {0: None}})
    seen["when it is cancelled"] = _await_replicas(harness, topic, [1, 0])
    seen["cancelled again"] = _alter(harness, {topic: {0: None}})
    seen["listed at the end"] = listed()
    seen["moved"] = _alter(harness, {topic: {0: [2]}})
    harness.cluster.restart(2)
    seen["when it is moved"] = _await_replicas(harness, topic, [2])
    return seen


@case_that_stops_nodes
def replace_a_reassignment(harness: CaseHarness) -> Any:
    """Name a replica again that was to be removed."""
    topic = harness.topic(nodes=[[0, 1]])
    harness.await_leader(topic)
    harness.cluster.stop(2)
    seen = {"begun": _alter(harness, {topic: {0: [2, 1]}})}
    harness.until(lambda: _partition(harness, topic).replica_nodes == [2, 1, 0])
    seen["replaced"] = _alter(harness, {topic: {0: [1, 0, 2]}})
    harness.until(lambda: _partition(harness, topic).replica_nodes == [1, 0, 2])
    (found,) = _list(harness, {topic: [0]}).topics[0].partitions
    seen["in progress"] = str([found.replicas, found.adding_replicas, found.removing_replicas])
    harness.cluster.restart(2)
    harness.until(lambda: not _list(harness, {topic: [0]}).topics)
    return seen
