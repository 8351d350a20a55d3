"""DeleteRecords."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness


def _delete_records(
    harness: CaseHarness, client: Any, topic: str, offset: int, *, partition: int = 0
) -> Any:
    wanted = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
    return (
        client.call("DeleteRecords", 2, topics=[wanted], timeout_ms=5_000).topics[0].partitions[0]
    )


@case
def delete_records(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    for number in range(5):
        harness.produce(client, topic, batch(b"%d" % number))
    offsets = {
        "to 2": 2,
        "back to 1": 1,
        "beyond the end": 6,
        "below -1": -2,
        "to 2 again": 2,
        "to the end": -1,
        "to the end again": 5,
    }
    seen = {
        name: _delete_records(harness, client, topic, offset) for name, offset in offsets.items()
    }
    seen["unknown topic"] = _delete_records(harness, client, harness.name("none"), 0)
    seen["unknown partition"] = _delete_records(harness, client, topic, 0, partition=7)
    seen["not the leader"] = _delete_records(harness, harness.non_leader(topic), topic, 0)
    harness.produce(client, topic, batch(b"new"))
    return seen | {"fetched": harness.fetch(client, topic, offsets=5)}


@case
def delete_records_inside_a_batch(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    harness.produce(client, topic, batch(b"1", b"2", b"3"))
    return {
        "deleted": _delete_records(harness, client, topic, 1),
        "fetched": harness.fetch(client, topic, offsets=1),
    }


@case
def delete_records_of_a_replicated_topic(harness: CaseHarness) -> Any:
    topic = harness.topic(replicas=3)
    client = harness.leader(topic)
    harness.produce(client, topic, batch(b"1"))
    return harness.timed(5_000, lambda: _delete_records(harness, client, topic, -1))


@case
def delete_records_of_a_compacted_topic(harness: CaseHarness) -> Any:
    topic = harness.topic(configs={"cleanup.policy": "compact"})
    client = harness.leader(topic)
    harness.produce(client, topic, batch(b"1"))
    return _delete_records(harness, client, topic, -1)
