"""Fetches that wait, and the events that complete them."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness, fetch_fields

#: Longer than any response that does not wait, even on a busy machine.
_WAIT_MS = 1_000
#: Longer than it takes until the event that completes the fetch.
_LONG_MS = 10_000


@case
def fetch_at_the_end_waits(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records()
    return harness.timed(_WAIT_MS, harness.fetch, client, topic, offsets=3, max_wait_ms=_WAIT_MS)


@case
def fetch_at_the_end_without_waiting(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records()
    return {
        "no wait": harness.timed(_WAIT_MS, harness.fetch, client, topic, offsets=3, max_wait_ms=0),
        "negative wait": harness.timed(
            _WAIT_MS, harness.fetch, client, topic, offsets=3, max_wait_ms=-5
        ),
        "no least bytes": harness.timed(
            _LONG_MS, harness.fetch, client, topic, offsets=3, max_wait_ms=_LONG_MS, min_bytes=0
        ),
    }


@case
def fetch_waits_for_min_bytes(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records()
    size = len(batch(b"value 0"))
    wanted = {"just enough": 3 * size, "a byte more": 3 * size + 1}
    return {
        name: harness.timed(
            _WAIT_MS, harness.fetch, client, topic, max_wait_ms=_WAIT_MS, min_bytes=least
        )
        for name, least in wanted.items()
    }


@case
def fetch_min_bytes_above_max_bytes(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records()
    return harness.timed(
        _WAIT_MS,
        harness.fetch,
        client,
        topic,
        max_wait_ms=_WAIT_MS,
        min_bytes=1 << 20,
        max_bytes=10,
    )


@case
def fetch_min_bytes_above_partition_max_bytes(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records()
    size = len(batch(b"value 0"))
    wanted = {"max_wait_ms": _WAIT_MS, "min_bytes": 2 * size, "partition_max_bytes": size}
    return harness.timed(_WAIT_MS, harness.fetch, client, topic, **wanted)


@case
def fetch_is_completed_by_an_append(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records()
    client.start("Fetch", 12, **fetch_fields(topic, 3, max_wait_ms=_LONG_MS))
    produced = harness.produce(harness.connect_like(client), topic, batch(b"new"))
    return {
        "produced": produced,
        "fetched": harness.timed(_LONG_MS, lambda: client.read().responses),
    }


@case
def fetch_is_completed_by_an_append_to_one_of_its_partitions(harness: CaseHarness) -> Any:
    topic = harness.topic(nodes=[[0], [0], [0]])
    client = harness.leader(topic)
    client.start("Fetch", 12, **fetch_fields(topic, {0: 0, 1: 0, 2: 0}, max_wait_ms=_LONG_MS))
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 5_000}
    data = {"name": topic, "partition_data": [{"index": 2, "records": batch(b"new")}]}
    harness.connect_like(client).call("Produce", 9, **fields, topic_data=[data])
    return harness.timed(_LONG_MS, lambda: client.read().responses)


@case
def fetch_is_completed_at_min_bytes(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(0)
    size = len(batch(b"value 0"))
    client.start("Fetch", 12, **fetch_fields(topic, max_wait_ms=_LONG_MS, min_bytes=3 * size))
    other = harness.connect_like(client)
    produced = [
        harness.produce(other, topic, batch(b"value %d" % number)).base_offset
        for number in range(3)
    ]
    return {
        "produced": produced,
        "fetched": harness.timed(_LONG_MS, lambda: client.read().responses),
    }


@case
def fetch_is_completed_in_a_replicated_topic(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(1, replicas=3)
    seen = {}
    for acks, offset in ((1, 1), (-1, 2)):
        client.start("Fetch", 12, **fetch_fields(topic, offset, max_wait_ms=_LONG_MS))
        harness.produce(harness.connect_like(client), topic, batch(b"new"), acks=acks)
        seen[acks] = harness.timed(
            _LONG_MS, lambda: client.read().responses[0].partitions[0].records
        )
        seen[acks]["answer"] = seen[acks]["answer"] is not None and len(
            seen[acks]["answer"]
        ) == len(batch(b"new"))
    return seen


@case
def fetch_while_a_topic_is_deleted(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(1)
    client.start("Fetch", 12, **fetch_fields(topic, 1, max_wait_ms=_LONG_MS))
    harness.node_0.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=5_000)
    return harness.timed(_LONG_MS, lambda: client.read().responses)


@case
def fetch_of_a_closed_connection(harness: CaseHarness) -> Any:
    """Close a connection whose fetch waits; the broker continues."""
    topic, client = harness.topic_with_records(1)
    client.start("Fetch", 12, **fetch_fields(topic, 1, max_wait_ms=_LONG_MS))
    client.close()
    return harness.produce(harness.connect_like(client), topic, batch(b"new"))
