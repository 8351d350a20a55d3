"""DescribeLogDirs."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness


def _describe(client: Any, topics: dict[str, list[int]] | None, *, version: int = 4) -> Any:
    wanted = None
    if topics is not None:
        wanted = [{"topic": name, "partitions": each} for name, each in topics.items()]
    return client.call("DescribeLogDirs", version, topics=wanted)


def _topics(answer: Any) -> Any:
    # The path and the space are those of the machine.
    return [{"error": each.error_code, "topics": list(each.topics)} for each in answer.results]


@case
def describe_log_dirs(harness: CaseHarness) -> Any:
    topic = harness.topic(partitions=2)
    client = harness.leader(topic)
    harness.produce(client, topic, batch(b"1", b"2", b"3"))
    return {
        "named": _topics(_describe(client, {topic: [0]})),
        "without a replica": _topics(_describe(harness.non_leader(topic), {topic: [0]})),
        "named twice": _topics(_describe(client, {topic: [0, 0]})),
        "unknown topic": _topics(_describe(client, {harness.name("none"): [0]})),
        "unknown partition": _topics(_describe(client, {topic: [7, -1]})),
        "no topics": _topics(_describe(client, {})),
    }


@case
def describe_log_dirs_by_version(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records()
    return {
        f"v{version}": _topics(_describe(client, {topic: [0]}, version=version))
        for version in range(1, 5)
    }


@case
def describe_log_dirs_of_all_topics(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records()
    answer = _describe(client, None)
    return {
        "error": answer.error_code,
        "directories": len(answer.results),
        "topic": [each for each in answer.results[0].topics if each.name == topic],
    }


@case
def describe_log_dirs_of_a_follower(harness: CaseHarness) -> Any:
    topic = harness.topic(replicas=3)
    harness.produce(harness.leader(topic), topic, batch(b"1"))
    return _topics(_describe(harness.non_leader(topic), {topic: [0]}))
