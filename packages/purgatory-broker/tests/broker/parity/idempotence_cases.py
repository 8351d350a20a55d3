"""InitProducerId, and idempotent producers."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.batches import CONTROL, GZIP, TRANSACTIONAL, batch, changed
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness, produce_fields
from tests.broker.parity.raw import RawClient

_LOADING = 14


def _idempotent(harness: CaseHarness, client: RawClient) -> int:
    return int(_new_producer(harness, client).producer_id)


def _new_producer(harness: CaseHarness, client: RawClient, version: int = 4, **fields: Any) -> Any:
    """Return a new producer id; retry until the node has reserved its first ids."""
    wanted = {
        "transactional_id": None,
        "transaction_timeout_ms": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    } | fields

    def given() -> Any:
        answer = client.call("InitProducerId", version, **wanted)
        return None if answer.error_code == _LOADING else answer

    return harness.until(given)


@case
def produce_batches_reserved_for_brokers(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    good = batch(b"1", producer=(_idempotent(harness, client), 0, 0))
    bad = {
        "control": changed(good, attributes=CONTROL),
        "transactional": changed(good, attributes=TRANSACTIONAL),
        "transactional control": changed(good, attributes=TRANSACTIONAL | CONTROL),
        "log append time": changed(batch(b"1"), attributes=8),
        "unused attribute": changed(batch(b"1"), attributes=0x100),
        "unknown codec": changed(batch(b"1"), attributes=7),
        "not what the codec says": changed(batch(b"1"), attributes=GZIP),
    }
    return {
        name: harness.produce(harness.connect_like(client), topic, each)
        for name, each in bad.items()
    }


@case
def produce_twice_is_a_duplicate(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    producer = _idempotent(harness, client)
    batches = [
        batch(b"1", b"2", producer=(producer, 0, sequence)) for sequence in (0, 2, 4, 6, 8, 10)
    ]
    seen = {"first": [harness.produce(client, topic, each) for each in batches]}
    seen["last five again"] = [harness.produce(client, topic, each) for each in batches[1:]]
    seen["sixth last again"] = [harness.produce(client, topic, batches[0])]
    return seen | {"fetched": harness.fetch(client, topic)}


@case
def produce_a_duplicate_to_a_log_append_time_topic(harness: CaseHarness) -> Any:
    topic = harness.topic(configs={"message.timestamp.type": "LogAppendTime"})
    client = harness.leader(topic)
    same = batch(b"1", producer=(_idempotent(harness, client), 0, 0))
    return [harness.produce(client, topic, same), harness.produce(client, topic, same)]


@case
def produce_out_of_order_sequences(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    producer = _idempotent(harness, client)
    order = {"first": 0, "gap": 5, "overlap": 1, "next": 2}
    return {
        name: harness.produce(client, topic, batch(b"1", b"2", producer=(producer, 0, sequence)))
        for name, sequence in order.items()
    }


@case
def produce_first_with_a_later_sequence(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    producer = _idempotent(harness, client)
    return [
        harness.produce(client, topic, batch(b"1", producer=(producer, 0, sequence)))
        for sequence in (7, 8, 7, 10)
    ]


@case
def produce_with_other_epochs(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    producer = _idempotent(harness, client)
    order = {
        "epoch 1": (1, 0),
        "older epoch": (0, 0),
        "older epoch, next sequence": (0, 1),
        "newer epoch, not from 0": (2, 1),
        "newer epoch": (2, 0),
        "same epoch goes on": (2, 1),
    }
    return {
        name: harness.produce(client, topic, batch(b"1", producer=(producer, *each)))
        for name, each in order.items()
    }


@case
def produce_with_unassigned_producer_ids(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    good = batch(b"1", producer=(1_000_000_007, 0, 0))
    bad = {
        "unknown id": good,
        "no epoch": changed(good, producer_epoch=-1, producer_id=1_000_000_008),
        "no sequence": changed(good, base_sequence=-1, producer_id=1_000_000_009),
        "negative id": changed(good, producer_id=-7),
    }
    return {
        name: harness.produce(harness.connect_like(client), topic, each)
        for name, each in bad.items()
    }


@case
def produce_sequences_wrap(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    producer = _idempotent(harness, client)
    last = (1 << 31) - 1
    order = {"up to the last": last - 1, "from 0 on": 0, "wraps inside": 2}
    seen = {
        name: harness.produce(client, topic, batch(b"1", b"2", producer=(producer, 0, sequence)))
        for name, sequence in order.items()
    }
    across = harness.topic("across")
    client = harness.leader(across)
    seen["across"] = harness.produce(
        client, across, batch(b"1", b"2", b"3", producer=(producer, 0, last))
    )
    return seen | {"after": harness.produce(client, across, batch(b"4", producer=(producer, 0, 2)))}


@case
def produce_with_a_transactional_id(harness: CaseHarness) -> Any:
    topic = harness.topic()
    fields = produce_fields(topic, [batch(b"1")]) | {
        "transactional_id": harness.name("transaction")
    }
    return harness.leader(topic).call("Produce", 9, **fields).responses


@case
def init_producer_id(harness: CaseHarness) -> Any:
    def ask(version: int = 4, **fields: Any) -> Any:
        return _new_producer(harness, harness.node_0, version, **fields)

    first, second = ask(), ask()
    return {
        "first": first,
        "ids differ": first.producer_id != second.producer_id,
        "version 0": ask(0),
        "given id and epoch": (given := ask(producer_id=first.producer_id, producer_epoch=0)),
        "given id is kept": given.producer_id == first.producer_id,
        "unknown id and epoch": ask(producer_id=123_456_789, producer_epoch=3),
        "id without epoch": ask(producer_id=first.producer_id),
        "epoch without id": ask(producer_epoch=0),
        "no timeout": ask(transaction_timeout_ms=0),
        "empty transactional id": ask(transactional_id=""),
    }
