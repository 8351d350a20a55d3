"""DescribeQuorum."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeQuorumRequest

from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import message

_METADATA = "__cluster_metadata"


def _describe(harness: CaseHarness, wanted: dict[str, list[int]], version: int = 2) -> Any:
    topics = [
        {"topic_name": name, "partitions": [{"partition_index": each} for each in indexes]}
        for name, indexes in wanted.items()
    ]
    return harness.node_0.send(message(DescribeQuorumRequest, {"topics": topics}), version)


@case
def describe_the_quorum(harness: CaseHarness) -> Any:
    """Describe all nodes: they are voters here, and in Kafka mostly observers."""
    seen: dict[str, Any] = {}
    for version in range(3):
        response = _describe(harness, {_METADATA: [0]}, version)
        quorum = response.topics[0].partitions[0]
        replicas = [*quorum.current_voters, *quorum.observers]
        ends = [each.log_end_offset for each in replicas]
        seen[f"v{version}"] = {
            "errors": [response.error_code, quorum.error_code],
            "leads": quorum.leader_id in {each.replica_id for each in quorum.current_voters},
            "replicas": sorted(str(each.replica_id) for each in replicas),
            "epoch": quorum.leader_epoch > 0,
            "high watermark": 0 < quorum.high_watermark <= max(ends),
            "fetched": all((each.last_fetch_timestamp or -1) > 0 for each in replicas),
        }
    return seen


@case
def describe_other_quorums(harness: CaseHarness) -> Any:
    topic = harness.topic()
    return {
        "a topic": _describe(harness, {topic: [0]}),
        "unknown topic": _describe(harness, {harness.name("none"): [0]}),
        "another partition": _describe(harness, {_METADATA: [1]}),
        "two partitions": _describe(harness, {_METADATA: [0, 1]}),
        "two topics": _describe(harness, {_METADATA: [0], topic: [0]}),
        "no partitions": _describe(harness, {_METADATA: []}),
        "no topics": _describe(harness, {}),
    }
