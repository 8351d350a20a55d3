"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.batches import TIMESTAMP, batch, changed
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import RawClient

_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _TIERED = -1, -2, -3, -4, -5


def _listed(
    client: RawClient,
    topic: str,
    timestamp: int,
    *,
    version: int = 7,
    partition: int = 0,
    epoch: int = -1,
) -> Any:
    wanted = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}
    fields = {"replica_id": -1, "isolation_level": 0, "timeout_ms": 5_000}
    return (
        client.call(
            "ListOffsets", version, **fields, topics=[{"name": topic, "partitions": [wanted]}]
        )
        .topics[0]
        .partitions[0]
    )


@case
def list_offsets_at_each_version(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    harness.produce(client, topic, batch(b"1", b"2", b"3"))
    return {
        version: [
            _listed(client, topic, each, version=version)
            for each in (_LATEST, _EARLIEST, TIMESTAMP)
        ]
        for version in range(1, 11)
    }


@case
def list_offsets_by_timestamp(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    harness.produce(client, topic, batch(b"1", b"2", b"3"))
    harness.produce(client, topic, batch(b"4", b"5", timestamp=TIMESTAMP + 10_000))
    harness.produce(client, topic, batch(b"6", timestamp=TIMESTAMP + 5_000))
    times = {
        "0": 0,
        "the first": 0,
        "1 ms later": 1,
        "the third": 2_000,
        "between": 2_001,
        "the fourth": 10_000,
        "the last": 11_000,
        "after": 11_001,
    }
    seen = {
        name: _listed(client, topic, TIMESTAMP + after)
        for name, after in times.items()
        if name != "0"
    }
    seen["time 0"] = _listed(client, topic, 0)
    return seen | {
        "special": [
            _listed(client, topic, each, version=9)
            for each in (_MAX_TIMESTAMP, _EARLIEST_LOCAL, _TIERED)
        ]
    }


@case
def list_offsets_by_timestamp_in_compressed_batches(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    harness.produce(client, topic, batch(b"1", b"2", b"3", codec=1))
    return {
        after: _listed(client, topic, TIMESTAMP + after) for after in (0, 500, 1_500, 2_000, 2_001)
    } | {"most": _listed(client, topic, _MAX_TIMESTAMP)}


@case
def list_offsets_of_records_with_equal_or_decreasing_timestamps(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    for number, after in enumerate((3_000, 3_000, 1_000, 3_000, 2_000)):
        harness.produce(client, topic, batch(b"%d" % number, timestamp=TIMESTAMP + after))
    seen: dict[Any, Any] = {
        after: _listed(client, topic, TIMESTAMP + after)
        for after in (0, 1_000, 2_000, 3_000, 3_001)
    }
    return seen | {"most": _listed(client, topic, _MAX_TIMESTAMP)}


@case
def list_offsets_of_an_empty_log(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    return {
        each: _listed(client, topic, each, version=9)
        for each in (_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _TIERED, 0)
    }


@case
def list_offsets_after_records_were_deleted(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    for number in range(3):
        harness.produce(client, topic, batch(b"%d" % number, timestamp=TIMESTAMP + number))
    partition = {"partition_index": 0, "offset": 2}
    client.call(
        "DeleteRecords", 2, topics=[{"name": topic, "partitions": [partition]}], timeout_ms=5_000
    )
    return {
        each: _listed(client, topic, each)
        for each in (_LATEST, _EARLIEST, _MAX_TIMESTAMP, TIMESTAMP)
    }


@case
def list_offsets_of_records_without_timestamps(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    harness.produce(client, topic, changed(batch(b"1"), base_timestamp=-1, max_timestamp=-1))
    return {each: _listed(client, topic, each) for each in (_LATEST, _MAX_TIMESTAMP, 0)}


@case
def list_offsets_errors(harness: CaseHarness) -> Any:
    topic, copied = harness.topic(), harness.topic("copied", replicas=3)
    client = harness.leader(topic)
    return {
        "unknown topic": _listed(client, harness.name("none"), _LATEST),
        "unknown partition": _listed(client, topic, _LATEST, partition=7),
        "not the leader": _listed(harness.non_leader(topic), topic, _LATEST),
        "follower": _listed(harness.non_leader(copied), copied, _LATEST),
        "right epoch": _listed(client, topic, _LATEST, epoch=0),
        "epoch too new": _listed(client, topic, _LATEST, epoch=1),
        "unknown special time": _listed(client, topic, -9),
        "most, before version 7": _listed(client, topic, _MAX_TIMESTAMP, version=6),
    }


@case
def list_offsets_of_one_partition_twice(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    wanted = [
        {"partition_index": 0, "current_leader_epoch": -1, "timestamp": each}
        for each in (_LATEST, _EARLIEST)
    ]
    return client.call(
        "ListOffsets",
        7,
        replica_id=-1,
        isolation_level=0,
        topics=[{"name": topic, "partitions": wanted}],
    ).topics


@case
def offset_for_leader_epoch(harness: CaseHarness) -> Any:
    topic, empty = harness.topic(), harness.topic("empty")
    client = harness.leader(topic)
    harness.produce(client, topic, batch(b"1", b"2"))

    def ask(
        which: str, epoch: int, *, current: int = -1, partition: int = 0, where: RawClient = client
    ) -> Any:
        wanted = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        return (
            where.call(
                "OffsetForLeaderEpoch",
                4,
                replica_id=-1,
                topics=[{"topic": which, "partitions": [wanted]}],
            )
            .topics[0]
            .partitions[0]
        )

    return {
        "the present one": ask(topic, 0),
        "a later one": ask(topic, 1),
        "none": ask(topic, -1),
        "of an empty log": ask(empty, 0, where=harness.leader(empty)),
        "as of a later epoch": ask(topic, 0, current=1),
        "unknown topic": ask(harness.name("none"), 0),
        "unknown partition": ask(topic, 0, partition=7),
        "not the leader": ask(topic, 0, where=harness.non_leader(topic)),
    }
