"""Produce."""

from __future__ import annotations

import uuid
from typing import Any

from tests.broker.parity.batches import GZIP, TIMESTAMP, batch, changed
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness, produce_fields


@case
def produce_answers_at_each_version(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    return {
        version: harness.produce(client, topic, batch(b"1", b"2"), version=version)
        for version in range(3, 13)
    }


@case
def produce_acks_of_the_leader_and_of_all(harness: CaseHarness) -> Any:
    topic = harness.topic(replicas=3)
    client = harness.leader(topic)
    return {
        acks: harness.timed(5_000, harness.produce, client, topic, batch(b"1"), acks=acks)
        for acks in (1, -1)
    }


@case
def produce_with_invalid_acks(harness: CaseHarness) -> Any:
    topic = harness.topic()
    return {
        acks: harness.produce(harness.leader(topic), topic, batch(b"1"), acks=acks)
        for acks in (2, -2, 127)
    }


@case
def produce_to_an_unknown_topic(harness: CaseHarness) -> Any:
    return harness.produce(harness.node_0, harness.name(), batch(b"1"), version=9)


@case
def produce_to_an_unknown_partition(harness: CaseHarness) -> Any:
    topic = harness.topic()
    return harness.produce(harness.leader(topic), topic, batch(b"1"), batch(b"2"), version=9)


@case
def produce_to_a_follower(harness: CaseHarness) -> Any:
    topic, copied = harness.topic(), harness.topic("copied", replicas=3)
    return {
        "no replica": harness.produce(harness.non_leader(topic), topic, batch(b"1"), version=9),
        "follower": harness.produce(harness.non_leader(copied), copied, batch(b"1"), version=9),
        "follower, version 10": harness.produce(
            harness.non_leader(copied), copied, batch(b"1"), version=10
        ),
    }


@case
def produce_by_topic_id(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    ids = {"known": harness.topic_id(topic), "unknown": uuid.UUID(int=5), "zero": uuid.UUID(int=0)}
    return {
        name: harness.produce(client, topic, batch(b"1"), version=13, topic_id=topic_id)
        for name, topic_id in ids.items()
    }


@case
def produce_corrupt_batches(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    good = batch(b"1", b"2")
    bad = {
        "wrong checksum": changed(good, crc=1),
        "changed byte": good[:-1] + b"?",
        "cut short": good[:-5],
        "less than a header": good[:30],
        "less than a length": good[:10],
        "length too small": changed(good, length=10, keep_crc=True),
        "length negative": changed(good, length=-1, keep_crc=True),
        "length too large": changed(good, length=len(good), keep_crc=True),
    }
    return {
        name: harness.produce(harness.connect_like(client), topic, each)
        for name, each in bad.items()
    }


@case
def produce_old_and_unknown_magic(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    good = batch(b"1")
    bad = {
        "magic 0": batch(b"1", magic=0),
        "magic 1": batch(b"1", magic=1),
        "magic 3": changed(good, magic=3),
        "magic -1": changed(good, magic=-1),
    }
    return {
        name: harness.produce(harness.connect_like(client), topic, each)
        for name, each in bad.items()
    }


@case
def produce_two_batches_for_a_partition(harness: CaseHarness) -> Any:
    topic = harness.topic()
    return harness.produce(harness.leader(topic), topic, batch(b"1") + batch(b"2"))


@case
def produce_one_valid_and_one_invalid_partition(harness: CaseHarness) -> Any:
    topic = harness.topic()
    return harness.leader(topic).call(
        "Produce",
        9,
        transactional_id=None,
        acks=-1,
        timeout_ms=5_000,
        topic_data=[
            produce_fields(name, [records])["topic_data"][0]
            for name, records in ((topic, batch(b"1")), (harness.name("none"), batch(b"2")))
        ],
    )


@case
def produce_empty_records(harness: CaseHarness) -> Any:
    """Send empty records; there is no case with null: Kafka 4.1.1 fails and never answers."""
    topic = harness.topic()
    return harness.produce(harness.leader(topic), topic, b"")


@case
def produce_no_topics_and_no_partitions(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    common = {"transactional_id": None, "acks": -1, "timeout_ms": 1_000}
    without = client.call("Produce", 9, **common, topic_data=[])
    return {
        "no topics": without,
        "no partitions": client.call(
            "Produce", 9, **common, topic_data=[{"name": topic, "partition_data": []}]
        ),
    }


@case
def produce_batches_with_wrong_counts(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    good, zipped = batch(b"1", b"2"), batch(b"1" * 100, b"2" * 100, codec=GZIP)
    bad = {
        "no records": changed(good, record_count=0, last_offset_delta=-1),
        "negative count": changed(good, record_count=-1),
        "more than there are": changed(good, record_count=3, last_offset_delta=2),
        "fewer than there are": changed(good, record_count=1, last_offset_delta=0),
        "last offset beyond": changed(good, last_offset_delta=5),
        "last offset negative": changed(good, last_offset_delta=-2),
        "compressed, more": changed(zipped, record_count=3, last_offset_delta=2),
        "compressed, fewer": changed(zipped, record_count=1, last_offset_delta=0),
        "compressed, last offset beyond": changed(zipped, last_offset_delta=5),
    }
    seen = {
        name: harness.produce(harness.connect_like(client), topic, each)
        for name, each in bad.items()
    }
    return seen | {"fetched": harness.fetch(client, topic)}


@case
def produce_base_offset_and_epoch_of_the_producer(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    odd = {
        "offset": changed(batch(b"1"), base_offset=77),
        "negative offset": changed(batch(b"1"), base_offset=-7),
        "epoch": changed(batch(b"1"), leader_epoch=9),
    }
    return {name: harness.produce(client, topic, each) for name, each in odd.items()} | {
        "fetched": harness.fetch(client, topic)
    }


@case
def produce_too_large(harness: CaseHarness) -> Any:
    topic = harness.topic(configs={"max.message.bytes": "1000"})
    client = harness.leader(topic)
    least = len(batch(b""))
    sizes = {"at the limit": 1000, "above the limit": 1001}
    seen = {}
    for name, size in sizes.items():
        records = next(
            each
            for filler in range(size - least - 4, size)
            if len(each := batch(b"x" * filler)) == size
        )
        seen[name] = harness.produce(client, topic, records)
    return seen | {"compressed": harness.produce(client, topic, batch(b"x" * 5_000, codec=GZIP))}


@case
def produce_above_the_default_size(harness: CaseHarness) -> Any:
    topic = harness.topic()
    return harness.produce(harness.leader(topic), topic, batch(b"x" * 1_048_588))


@case
def produce_keys_headers_and_nulls(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    headers = [("one", b"1"), ("one", b"again"), ("empty", b"")]
    harness.produce(client, topic, batch(b"value", None, b"", key=None, headers=headers))
    harness.produce(client, topic, batch(b"zipped", key=b"", codec=GZIP))
    return harness.fetch(client, topic)


@case
def produce_to_a_compacted_topic_without_key(harness: CaseHarness) -> Any:
    topic = harness.topic(configs={"cleanup.policy": "compact"})
    client = harness.leader(topic)
    return {
        "no key": harness.produce(client, topic, batch(b"1", b"2", key=None)),
        "key": harness.produce(client, topic, batch(b"1")),
    }


@case
def produce_many_invalid_records(harness: CaseHarness) -> Any:
    """Send batches without keys, with invalid timestamps, and with both."""
    topic = harness.topic(configs={"cleanup.policy": "compact"})
    client = harness.leader(topic)
    values = [b"%d" % number for number in range(6)]
    keyless = batch(*values, key=None)
    late = {"base_timestamp": 4_000_000_000_000, "max_timestamp": 4_000_000_005_000}
    return {
        "without keys": harness.produce(client, topic, keyless),
        "in the future": harness.produce(client, topic, changed(batch(*values), **late)),
        "both": harness.produce(client, topic, changed(keyless, **late)),
        "compressed": harness.produce(client, topic, batch(*values, key=None, codec=GZIP)),
        "log append time": harness.produce(
            client, topic, changed(batch(*values), attributes=8, max_timestamp=-1)
        ),
        "fetched": harness.fetch(client, topic),
    }


@case
def produce_with_log_append_time(harness: CaseHarness) -> Any:
    topic = harness.topic(configs={"message.timestamp.type": "LogAppendTime"})
    client = harness.leader(topic)
    produced = [
        harness.produce(client, topic, batch(b"1", b"2")),
        harness.produce(client, topic, batch(b"3" * 100, b"4" * 100, codec=GZIP)),
    ]
    return {"produced": produced, "fetched": harness.fetch(client, topic)}


@case
def produce_invalid_timestamps(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    times = {"none": -1, "negative": -2, "1970": 0, "far future": 4_000_000_000_000}
    return {
        name: harness.produce(
            client, topic, changed(batch(b"1"), base_timestamp=each, max_timestamp=each)
        )
        for name, each in times.items()
    }


@case
def produce_with_a_wrong_max_timestamp(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    produced = harness.produce(
        client, topic, changed(batch(b"1", b"2"), max_timestamp=TIMESTAMP + 999_000)
    )
    return {"produced": produced, "fetched": harness.fetch(client, topic)}
