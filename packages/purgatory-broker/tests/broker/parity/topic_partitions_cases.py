"""DescribeTopicPartitions."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeTopicPartitionsRequest

from tests.broker.parity.case import case, case_that_stops_nodes
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.metadata_cases import ODD_NAMES, named
from tests.broker.parity.raw import message


def _describe(
    harness: CaseHarness,
    *names: str,
    limit: int = 2_000,
    cursor: tuple[str, int] | None = None,
) -> Any:
    fields: dict[str, Any] = {
        "topics": [{"name": name} for name in names],
        "response_partition_limit": limit,
    }
    if cursor is not None:
        topic, partition = cursor
        fields["cursor"] = {"topic_name": topic, "partition_index": partition}
    return harness.node_0.send(message(DescribeTopicPartitionsRequest, fields), 0)


def _page(response: Any) -> dict[str, Any]:
    """Return which partitions a response has, and its cursor."""
    cursor = response.next_cursor
    return {
        "topics": [
            [topic.name, topic.error_code, [each.partition_index for each in topic.partitions]]
            for topic in response.topics
        ],
        "next": cursor and [cursor.topic_name, cursor.partition_index],
    }


@case
def topic_partitions_are_described(harness: CaseHarness) -> Any:
    topic = harness.topic(partitions=3, replicas=3)
    return _describe(harness, topic)


@case
def topic_partitions_of_topics_that_there_are_not(harness: CaseHarness) -> Any:
    topic, none = harness.topic(), harness.name("none")
    return {
        "unknown": _describe(harness, none),
        "with a known one": _describe(harness, none, topic, none),
        **{
            name: [named(each, name) for each in _describe(harness, odd).topics]
            for name, odd in ODD_NAMES.items()
            # At which Kafka fails as a whole, with UNKNOWN_SERVER_ERROR.
            if odd
        },
    }


@case
def topic_partitions_of_all_topics(harness: CaseHarness) -> Any:
    topics = [harness.topic("all-a"), harness.topic("all-b")]

    def described(**options: Any) -> list[str]:
        return [each.name for each in _describe(harness, **options).topics if each.name in topics]

    return {
        "all": described(),
        "from a cursor": described(cursor=(topics[1], 0)),
        "from a topic that there is not": described(cursor=(topics[0] + ".", 0)),
        "sorted": [each.name for each in _describe(harness).topics]
        == sorted(each.name for each in _describe(harness).topics),
        "negative": _describe(harness, cursor=(topics[0], -1)),
    }


@case
def topic_partitions_in_pages(harness: CaseHarness) -> Any:
    first, second = harness.topic("page-a", partitions=3), harness.topic("page-c", partitions=2)
    unknown = harness.name("page-b")
    seen: dict[str, Any] = {}
    for limit in (1, 2, 3, 4, 5, 6):
        pages = [_page(_describe(harness, second, unknown, first, limit=limit))]
        while (cursor := pages[-1]["next"]) is not None and len(pages) < 8:
            pages.append(
                _page(_describe(harness, second, unknown, first, limit=limit, cursor=tuple(cursor)))
            )
        seen[f"limit {limit}"] = pages
    for limit in (0, -1, -(2**31)):
        seen[f"limit {limit}"] = _page(_describe(harness, first, limit=limit))
    return seen


@case
def topic_partitions_from_odd_cursors(harness: CaseHarness) -> Any:
    first, second = harness.topic("odd-a", partitions=2), harness.topic("odd-b", partitions=2)
    return {
        "the last partition": _page(_describe(harness, first, second, cursor=(first, 1))),
        "behind the last": _page(_describe(harness, first, second, cursor=(first, 2))),
        "far behind": _page(_describe(harness, first, second, cursor=(first, 2**30))),
        "another topic": _page(_describe(harness, first, cursor=(second, 0))),
        "an earlier topic": _page(_describe(harness, second, cursor=(first, 0))),
        "negative": _page(_describe(harness, first, cursor=(first, -1))),
        "no name": _page(_describe(harness, first, cursor=("", 0))),
        "of an unknown topic": _page(
            _describe(harness, harness.name("odd-c"), cursor=(harness.name("odd-c"), 1))
        ),
    }


@case_that_stops_nodes
def topic_partitions_while_a_node_is_away(harness: CaseHarness) -> Any:
    topic = harness.topic(nodes=[[0, 2]])
    alone = harness.topic("alone", nodes=[[2]])
    harness.cluster.stop(2)
    try:

        def described() -> Any:
            shared, lost = _describe(harness, topic, alone).topics[::-1]
            if lost.partitions[0].leader_id != -1 or list(shared.partitions[0].isr_nodes) != [0]:
                return None
            # Without the in-sync and the eligible replicas of the other: see the docs.
            partition = lost.partitions[0]
            return [shared, partition.leader_id, partition.error_code, partition.offline_replicas]

        return harness.until(described)
    finally:
        harness.cluster.restart(2)
