"""ElectLeaders."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case import case, case_that_stops_nodes
from tests.broker.parity.case_harness import CaseHarness

_PREFERRED, _UNCLEAN = 0, 1
_UNKNOWN_TYPE = 7


def _elect(
    client: Any,
    topics: dict[str, list[int]] | None,
    election_type: int = _PREFERRED,
    *,
    version: int = 2,
) -> Any:
    wanted = None
    if topics is not None:
        wanted = [{"topic": name, "partitions": each} for name, each in topics.items()]
    fields: dict[str, Any] = {"topic_partitions": wanted, "timeout_ms": 10_000}
    if version > 0:
        fields["election_type"] = election_type
    return client.call("ElectLeaders", version, **fields)


@case
def elect_leaders_that_lead(harness: CaseHarness) -> Any:
    topic = harness.topic(partitions=2, replicas=3)
    client = harness.node_0
    both = {topic: [0, 1]}
    return {f"v{version}": _elect(client, both, version=version) for version in range(3)} | {
        "unclean": _elect(client, both, _UNCLEAN),
        "unknown type": _elect(client, both, _UNKNOWN_TYPE),
        "unknown type for all": _elect(client, None, _UNKNOWN_TYPE),
        "unknown topic": _elect(client, {harness.name("none"): [0]}),
        "unknown partitions": _elect(client, {topic: [7, -1]}),
        "one partition twice": _elect(client, {topic: [0, 0]}),
        "no partitions": _elect(client, {topic: []}),
        "no topics": _elect(client, {}),
    }


def _leader(harness: CaseHarness, topic: str) -> int:
    return int(harness.metadata(9, [{"name": topic}]).topics[0].partitions[0].leader_id)


def _in_sync(harness: CaseHarness, topic: str) -> int:
    return len(harness.metadata(9, [{"name": topic}]).topics[0].partitions[0].isr_nodes)


@case_that_stops_nodes
def elect_preferred_leaders(harness: CaseHarness) -> Any:
    topic = harness.topic("one", nodes=[[1, 0], [0, 1]])
    other = harness.topic("other", nodes=[[1, 0]])
    client = harness.node_0
    harness.cluster.stop(1)
    harness.until(lambda: _leader(harness, topic) == 0 and _leader(harness, other) == 0)
    seen = {"preferred is gone": _elect(client, {topic: [0, 1]})}
    harness.cluster.restart(1)
    for name in (topic, other):
        harness.await_leader(name)
        harness.until(lambda name=name: _in_sync(harness, name) == 2)
    seen["preferred is back"] = _elect(client, {topic: [0, 1]})
    # A node of Kafka learns of its controller's answer a moment later.
    harness.until(lambda: _leader(harness, topic) == 1)
    everything = _elect(client, None)
    seen["all"] = {
        each.topic: each.partition_result
        for each in everything.replica_election_results
        if each.topic in (topic, other)
    }
    return seen


@case_that_stops_nodes
def elect_unclean_leaders(harness: CaseHarness) -> Any:
    topic = harness.topic("one", nodes=[[2, 1]])
    client = harness.node_0
    harness.cluster.stop(1)
    harness.until(lambda: _in_sync(harness, topic) == 1)
    harness.cluster.stop(2)
    harness.until(lambda: _leader(harness, topic) == -1)
    seen = {
        "nobody is there": _elect(client, {topic: [0]}, _UNCLEAN),
        "preferred is gone": _elect(client, {topic: [0]}),
    }
    harness.cluster.restart(1)
    seen["an old replica is there"] = _elect(client, {topic: [0]}, _UNCLEAN)
    harness.until(lambda: _leader(harness, topic) == 1)
    seen["again"] = _elect(client, {topic: [0]}, _UNCLEAN)
    harness.cluster.restart(2)
    return seen
