"""Authorized operations, where no authorizer is configured."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness


@case
def authorized_operations_of_topics(harness: CaseHarness) -> Any:
    topic = harness.topic()
    topics = [{"name": topic}, {"name": harness.name("none")}, {"name": "a/b"}]

    def operations(version: int, *, of_topics: bool, of_cluster: bool) -> Any:
        fields: dict[str, Any] = {"topics": topics, "allow_auto_topic_creation": False}
        if version < 11:
            fields["include_cluster_authorized_operations"] = of_cluster
        fields["include_topic_authorized_operations"] = of_topics
        answer = harness.node_0.call("Metadata", version, **fields)
        return {
            "cluster": _sorted(answer.authorized_operations),
            "topics": {each.name: _sorted(each.authorized_operations) for each in answer.topics},
        }

    return {
        "both": operations(8, of_topics=True, of_cluster=True),
        "of topics": operations(9, of_topics=True, of_cluster=False),
        "of the cluster": operations(10, of_topics=False, of_cluster=True),
        "later": operations(12, of_topics=True, of_cluster=False),
    }


@case
def authorized_operations_of_the_cluster(harness: CaseHarness) -> Any:
    return {
        included: _sorted(
            harness.node_0.call(
                "DescribeCluster", 0, include_cluster_authorized_operations=included
            ).authorized_operations
        )
        for included in (True, False)
    }


@case
def authorized_operations_of_a_group(harness: CaseHarness) -> Any:
    group = harness.name("group")
    client = harness.coordinator(group)

    def operations(version: int, *, included: bool) -> Any:
        answer = client.call(
            "DescribeGroups", version, groups=[group], include_authorized_operations=included
        )
        return _sorted(answer.groups[0].authorized_operations)

    return {
        f"v{version}, {included}": operations(version, included=included)
        for version in (3, 5, 6)
        for included in (True, False)
    }


def _sorted(operations: Any) -> Any:
    return sorted(operations) if isinstance(operations, (set, frozenset)) else operations
