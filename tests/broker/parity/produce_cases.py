"""Produce and InitProducerId."""

from __future__ import annotations

import uuid
from typing import Any

from tests.broker.parity.batches import CONTROL, GZIP, TIMESTAMP, TRANSACTIONAL, batch, changed
from tests.broker.parity.case import case, case_that_stops_nodes
from tests.broker.parity.raw import RawClient
from tests.broker.parity.scene import Scene, produce_fields

_LOADING = 14


def _idempotent(scene: Scene, client: RawClient) -> int:
    return int(_new_producer(scene, client).producer_id)


def _new_producer(scene: Scene, client: RawClient, version: int = 4, **fields: Any) -> Any:
    """A node's first ids are a while in coming."""
    wanted = {"transactional_id": None, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1} | fields

    def given() -> Any:
        answer = client.call("InitProducerId", version, **wanted)
        return None if answer.error_code == _LOADING else answer

    return scene.until(given)


@case
def produce_answers_at_each_version(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    return {version: scene.produce(client, topic, batch(b"1", b"2"), version=version) for version in range(3, 13)}


@case
def produce_acks_of_the_leader_and_of_all(scene: Scene) -> Any:
    topic = scene.topic(replicas=3)
    client = scene.leader(topic)
    return {acks: scene.timed(5_000, lambda: scene.produce(client, topic, batch(b"1"), acks=acks)) for acks in (1, -1)}  # noqa: B023


@case
def produce_with_invalid_acks(scene: Scene) -> Any:
    topic = scene.topic()
    return {acks: scene.produce(scene.leader(topic), topic, batch(b"1"), acks=acks) for acks in (2, -2, 127)}


@case
def produce_to_an_unknown_topic(scene: Scene) -> Any:
    return scene.produce(scene.any, scene.name(), batch(b"1"), version=9)


@case
def produce_to_an_unknown_partition(scene: Scene) -> Any:
    topic = scene.topic()
    return scene.produce(scene.leader(topic), topic, batch(b"1"), batch(b"2"), version=9)


@case
def produce_to_a_node_that_does_not_lead(scene: Scene) -> Any:
    topic, copied = scene.topic(), scene.topic("copied", replicas=3)
    return {
        "no replica": scene.produce(scene.other(topic), topic, batch(b"1"), version=9),
        "follower": scene.produce(scene.other(copied), copied, batch(b"1"), version=9),
        "follower, version 10": scene.produce(scene.other(copied), copied, batch(b"1"), version=10),
    }


@case
def produce_by_topic_id(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    ids = {"known": scene.topic_id(topic), "unknown": uuid.UUID(int=5), "zero": uuid.UUID(int=0)}
    return {name: scene.produce(client, topic, batch(b"1"), version=13, topic_id=topic_id) for name, topic_id in ids.items()}


@case
def produce_corrupt_batches(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
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
    return {name: scene.produce(scene.again(client), topic, each) for name, each in bad.items()}


@case
def produce_old_and_unknown_magic(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    good = batch(b"1")
    bad = {"magic 0": batch(b"1", magic=0), "magic 1": batch(b"1", magic=1), "magic 3": changed(good, magic=3), "magic -1": changed(good, magic=-1)}
    return {name: scene.produce(scene.again(client), topic, each) for name, each in bad.items()}


@case
def produce_two_batches_for_a_partition(scene: Scene) -> Any:
    topic = scene.topic()
    return scene.produce(scene.leader(topic), topic, batch(b"1") + batch(b"2"))


@case
def produce_one_good_and_one_bad_partition(scene: Scene) -> Any:
    topic = scene.topic()
    return scene.leader(topic).call(
        "Produce",
        9,
        transactional_id=None,
        acks=-1,
        timeout_ms=5_000,
        topic_data=[produce_fields(name, [records])["topic_data"][0] for name, records in ((topic, batch(b"1")), (scene.name("none"), batch(b"2")))],
    )


@case
def produce_empty_records(scene: Scene) -> Any:
    """Null for records is no case: Kafka 4.1.1 fails inside and never answers."""
    topic = scene.topic()
    return scene.produce(scene.leader(topic), topic, b"")


@case
def produce_no_topics_and_no_partitions(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    common = {"transactional_id": None, "acks": -1, "timeout_ms": 1_000}
    without = client.call("Produce", 9, **common, topic_data=[])
    return {"no topics": without, "no partitions": client.call("Produce", 9, **common, topic_data=[{"name": topic, "partition_data": []}])}


@case
def produce_batches_whose_counts_are_wrong(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
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
    seen = {name: scene.produce(scene.again(client), topic, each) for name, each in bad.items()}
    return seen | {"fetched": scene.fetch(client, topic)}


@case
def produce_batches_that_only_brokers_make(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    good = batch(b"1", producer=(_idempotent(scene, client), 0, 0))
    bad = {
        "control": changed(good, attributes=CONTROL),
        "transactional": changed(good, attributes=TRANSACTIONAL),
        "transactional control": changed(good, attributes=TRANSACTIONAL | CONTROL),
        "log append time": changed(batch(b"1"), attributes=8),
        "unused attribute": changed(batch(b"1"), attributes=0x100),
        "unknown codec": changed(batch(b"1"), attributes=7),
        "not what the codec says": changed(batch(b"1"), attributes=GZIP),
    }
    return {name: scene.produce(scene.again(client), topic, each) for name, each in bad.items()}


@case
def produce_base_offset_and_epoch_of_the_producer(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    odd = {"offset": changed(batch(b"1"), base_offset=77), "negative offset": changed(batch(b"1"), base_offset=-7), "epoch": changed(batch(b"1"), leader_epoch=9)}
    return {name: scene.produce(client, topic, each) for name, each in odd.items()} | {"fetched": scene.fetch(client, topic)}


@case
def produce_too_large(scene: Scene) -> Any:
    topic = scene.topic(configs={"max.message.bytes": "1000"})
    client = scene.leader(topic)
    least = len(batch(b""))
    sizes = {"at the limit": 1000, "above the limit": 1001}
    seen = {}
    for name, size in sizes.items():
        records = next(each for filler in range(size - least - 4, size) if len(each := batch(b"x" * filler)) == size)
        seen[name] = scene.produce(client, topic, records)
    return seen | {"compressed": scene.produce(client, topic, batch(b"x" * 5_000, codec=GZIP))}


@case
def produce_above_the_default_size(scene: Scene) -> Any:
    topic = scene.topic()
    return scene.produce(scene.leader(topic), topic, batch(b"x" * 1_048_588))


@case
def produce_keys_headers_and_nulls(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    headers = [("one", b"1"), ("one", b"again"), ("empty", b"")]
    scene.produce(client, topic, batch(b"value", None, b"", key=None, headers=headers))
    scene.produce(client, topic, batch(b"zipped", key=b"", codec=GZIP))
    return scene.fetch(client, topic)


@case
def produce_to_a_compacted_topic_without_key(scene: Scene) -> Any:
    topic = scene.topic(configs={"cleanup.policy": "compact"})
    client = scene.leader(topic)
    return {"no key": scene.produce(client, topic, batch(b"1", b"2", key=None)), "key": scene.produce(client, topic, batch(b"1"))}


@case
def produce_with_log_append_time(scene: Scene) -> Any:
    topic = scene.topic(configs={"message.timestamp.type": "LogAppendTime"})
    client = scene.leader(topic)
    produced = [scene.produce(client, topic, batch(b"1", b"2")), scene.produce(client, topic, batch(b"3" * 100, b"4" * 100, codec=GZIP))]
    return {"produced": produced, "fetched": scene.fetch(client, topic)}


@case
def produce_timestamps_of_odd_times(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    times = {"none": -1, "negative": -2, "1970": 0, "far future": 4_000_000_000_000}
    return {name: scene.produce(client, topic, changed(batch(b"1"), base_timestamp=each, max_timestamp=each)) for name, each in times.items()}


@case
def produce_whose_max_timestamp_is_wrong(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    produced = scene.produce(client, topic, changed(batch(b"1", b"2"), max_timestamp=TIMESTAMP + 999_000))
    return {"produced": produced, "fetched": scene.fetch(client, topic)}


@case
def produce_twice_is_a_duplicate(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    producer = _idempotent(scene, client)
    batches = [batch(b"1", b"2", producer=(producer, 0, sequence)) for sequence in (0, 2, 4, 6, 8, 10)]
    seen = {"first": [scene.produce(client, topic, each) for each in batches]}
    seen["last five again"] = [scene.produce(client, topic, each) for each in batches[1:]]
    seen["sixth last again"] = [scene.produce(client, topic, batches[0])]
    return seen | {"fetched": scene.fetch(client, topic)}


@case
def produce_a_duplicate_to_a_log_append_time_topic(scene: Scene) -> Any:
    topic = scene.topic(configs={"message.timestamp.type": "LogAppendTime"})
    client = scene.leader(topic)
    same = batch(b"1", producer=(_idempotent(scene, client), 0, 0))
    return [scene.produce(client, topic, same), scene.produce(client, topic, same)]


@case
def produce_out_of_order_sequences(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    producer = _idempotent(scene, client)
    order = {"first": 0, "gap": 5, "overlap": 1, "next": 2}
    return {name: scene.produce(client, topic, batch(b"1", b"2", producer=(producer, 0, sequence))) for name, sequence in order.items()}


@case
def produce_first_with_a_later_sequence(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    producer = _idempotent(scene, client)
    return [scene.produce(client, topic, batch(b"1", producer=(producer, 0, sequence))) for sequence in (7, 8, 7, 10)]


@case
def produce_with_other_epochs(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    producer = _idempotent(scene, client)
    order = {
        "epoch 1": (1, 0),
        "older epoch": (0, 0),
        "older epoch, next sequence": (0, 1),
        "newer epoch, not from 0": (2, 1),
        "newer epoch": (2, 0),
        "same epoch goes on": (2, 1),
    }
    return {name: scene.produce(client, topic, batch(b"1", producer=(producer, *each))) for name, each in order.items()}


@case
def produce_with_producers_nobody_gave_out(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    good = batch(b"1", producer=(1_000_000_007, 0, 0))
    bad = {
        "unknown id": good,
        "no epoch": changed(good, producer_epoch=-1, producer_id=1_000_000_008),
        "no sequence": changed(good, base_sequence=-1, producer_id=1_000_000_009),
        "negative id": changed(good, producer_id=-7),
    }
    return {name: scene.produce(scene.again(client), topic, each) for name, each in bad.items()}


@case
def produce_sequences_wrap(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    producer = _idempotent(scene, client)
    last = (1 << 31) - 1
    order = {"up to the last": last - 1, "from 0 on": 0, "wraps inside": 2}
    seen = {name: scene.produce(client, topic, batch(b"1", b"2", producer=(producer, 0, sequence))) for name, sequence in order.items()}
    across = scene.topic("across")
    client = scene.leader(across)
    seen["across"] = scene.produce(client, across, batch(b"1", b"2", b"3", producer=(producer, 0, last)))
    return seen | {"after": scene.produce(client, across, batch(b"4", producer=(producer, 0, 2)))}


@case
def produce_with_a_transactional_id(scene: Scene) -> Any:
    topic = scene.topic()
    fields = produce_fields(topic, [batch(b"1")]) | {"transactional_id": scene.name("transaction")}
    return scene.leader(topic).call("Produce", 9, **fields).responses


@case
def init_producer_id(scene: Scene) -> Any:
    def ask(version: int = 4, **fields: Any) -> Any:
        return _new_producer(scene, scene.any, version, **fields)

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


@case
def min_insync_replicas_above_the_replicas(scene: Scene) -> Any:
    topic = scene.topic(configs={"min.insync.replicas": "2"})
    client = scene.leader(topic)
    return {acks: scene.produce(client, topic, batch(b"1"), acks=acks) for acks in (1, -1)}


def _led_by_node_0(scene: Scene, configs: dict[str, str]) -> str:
    """A topic of replicas on all nodes that the one that stays leads."""
    name = scene.name()
    assignment = {"partition_index": 0, "broker_ids": [0, 1, 2]}
    topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": [assignment]}
    topic["configs"] = [{"name": key, "value": value} for key, value in configs.items()]
    answer = scene.any.call("CreateTopics", 5, topics=[topic], timeout_ms=10_000, validate_only=False)
    assert answer.topics[0].error_code == 0, answer
    scene.forget_later(name)
    scene.await_leader(name)
    return name


def _await_in_sync(scene: Scene, topic: str, count: int) -> None:
    def settled() -> bool:
        answer = scene.any.call("Metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=False)
        return len(answer.topics[0].partitions[0].isr_nodes) == count

    scene.until(settled)


@case_that_stops_nodes
def not_enough_replicas(scene: Scene) -> Any:
    topic = _led_by_node_0(scene, {"min.insync.replicas": "3"})
    client = scene.leader(topic)
    seen = {"three in sync": scene.produce(client, topic, batch(b"1"))}
    scene.cluster.stop(2)
    try:
        _await_in_sync(scene, topic, 2)
        seen["two in sync"] = {acks: scene.timed(5_000, lambda: scene.produce(client, topic, batch(b"2"), acks=acks)) for acks in (-1, 1)}  # noqa: B023
        seen["what acks 1 left is not to be read"] = scene.fetch(client, topic)
        seen["the topic"] = scene.any.call("Metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=False).topics
    finally:
        scene.cluster.restart(2)
    _await_in_sync(scene, topic, 3)
    seen["three again"] = scene.produce(client, topic, batch(b"3"))
    return seen | {"fetched": scene.fetch(client, topic)}


@case_that_stops_nodes
def leader_that_stops_hands_over(scene: Scene) -> Any:
    name = scene.name()
    assignment = {"partition_index": 0, "broker_ids": [1, 2, 0]}
    topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": [assignment], "configs": []}
    scene.any.call("CreateTopics", 5, topics=[topic], timeout_ms=10_000, validate_only=False)
    scene.forget_later(name)
    first = scene.await_leader(name)
    seen = {"before": scene.produce(scene.connect(first), name, batch(b"1"))}
    scene.cluster.stop(1)
    try:
        second = scene.until(lambda: (found := scene.await_leader(name)) != first and found)
        client = scene.connect(second)
        seen["after"] = scene.produce(client, name, batch(b"2"))
        seen["fetched"] = scene.fetch(client, name)
        seen["fetched as of the old epoch"] = scene.fetch(client, name, leader_epoch=0)
        epoch = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        asked = client.call("OffsetForLeaderEpoch", 4, replica_id=-1, topics=[{"topic": name, "partitions": [epoch]}])
        seen["end of the old epoch"] = asked.topics
    finally:
        scene.cluster.restart(1)
    return seen
