"""aiokafka."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.broker.clients.waiting import TIME_LIMIT

pytest.importorskip("aiokafka")
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    for_code,
)
from aiokafka.structs import OffsetAndMetadata, OffsetAndTimestamp

_TIME = 1_700_000_000_000


def asynchronous(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs the test on a loop of its own, with a limit."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        async def limited() -> None:
            await asyncio.wait_for(test(**fixtures), 2 * TIME_LIMIT)

        asyncio.run(limited())

    return run


async def _until(condition: Callable[[], Any]) -> None:
    """Until a condition holds that clients bring about in the background."""
    end = time.monotonic() + TIME_LIMIT
    while not condition():
        assert time.monotonic() < end, condition
        await asyncio.sleep(0.01)


@asynccontextmanager
async def _admin(bootstrap: str) -> AsyncIterator[Any]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def _create(
    bootstrap: str, topic: str, *, partitions: int = 1, replicas: int = 3, **config: str
) -> None:
    configs = {name.replace("_", "."): value for name, value in config.items()}
    async with _admin(bootstrap) as admin:
        answer = await admin.create_topics(
            [NewTopic(topic, partitions, replicas, topic_configs=configs)]
        )
        _raise(answer.topic_errors)
        # Kafka's nodes hear of a topic one after the other.
        while (await admin.describe_topics([topic]))[0]["error_code"]:
            await asyncio.sleep(0.01)


def _raise(errors: Any) -> None:
    for each in errors:
        if each[1]:
            raise for_code(each[1])


async def _produce(bootstrap: str, topic: str, *values: bytes | None, **config: Any) -> list[Any]:
    """What is told of each message; what all replicas have can be read at once."""
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, **{"acks": "all"} | config
    ) as producer:
        futures = [
            await producer.send(
                topic, value, b"key %d" % number, 0, _TIME + number, [("number", b"%d" % number)]
            )
            for number, value in enumerate(values)
        ]
        return list(await asyncio.gather(*futures))


@asynccontextmanager
async def _consumer(
    bootstrap: str, *topics: str, group: str | None = None, **config: Any
) -> AsyncIterator[Any]:
    common: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": 6_000,
    }
    common |= {"heartbeat_interval_ms": 200, "fetch_max_wait_ms": 200, "metadata_max_age_ms": 500}
    async with AIOKafkaConsumer(
        *topics, bootstrap_servers=bootstrap, group_id=group, **common | config
    ) as consumer:
        yield consumer


async def _messages(consumer: Any, count: int) -> list[Any]:
    return [await consumer.getone() for _ in range(count)]


async def _values(consumer: Any, count: int) -> list[Any]:
    return [message.value for message in await _messages(consumer, count)]


@pytest.mark.parametrize(
    ("acks", "idempotent"), [(0, False), (1, False), ("all", False), ("all", True)]
)
@asynchronous
async def test_messages_are_produced_with_these_acks(
    bootstrap: str, topic: str, acks: int | str, idempotent: bool
) -> None:
    """And come back with their keys, times and headers."""
    await _create(bootstrap, topic)
    told = await _produce(bootstrap, topic, b"a", None, acks=acks, enable_idempotence=idempotent)
    if acks != 0:
        assert [each.offset for each in told] == [0, 1]
    async with _consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = await _messages(consumer, 2)
    assert [(each.key, each.value, each.timestamp, each.headers) for each in found] == [
        (b"key 0", b"a", _TIME, (("number", b"0"),)),
        (b"key 1", None, _TIME + 1, (("number", b"1"),)),
    ]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@asynchronous
async def test_messages_are_compressed_with_this_codec(
    bootstrap: str, topic: str, codec: str | None
) -> None:
    """And come back as they were."""
    await _create(bootstrap, topic)
    values = [b"%d " % number * 100 for number in range(20)]
    await _produce(bootstrap, topic, *values, compression_type=codec, linger_ms=20)
    async with _consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert await _values(consumer, 20) == values


@asynchronous
async def test_reading_starts_where_it_is_told_to(bootstrap: str, topic: str) -> None:
    """At the beginning, the end, an offset, or a time."""
    await _create(bootstrap, topic)
    await _produce(bootstrap, topic, b"a", b"b", b"c")
    partition = TopicPartition(topic, 0)
    async with _consumer(bootstrap) as consumer:
        consumer.assign([partition])
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 3}
        consumer.seek(partition, 2)
        assert await _values(consumer, 1) == [b"c"]
        at = await consumer.offsets_for_times({partition: _TIME + 1})
        assert at == {partition: OffsetAndTimestamp(1, _TIME + 1)}
        assert await consumer.offsets_for_times({partition: _TIME + 3}) == {partition: None}
        await consumer.seek_to_end(partition)
        assert await consumer.position(partition) == 3
        await consumer.seek_to_beginning(partition)
        assert await _values(consumer, 3) == [b"a", b"b", b"c"]


@asynchronous
async def test_an_offset_out_of_range_is_an_error(bootstrap: str, topic: str) -> None:
    """For one who does not want it reset."""
    await _create(bootstrap, topic)
    async with _consumer(bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 77)
        with pytest.raises(OffsetOutOfRangeError):
            await consumer.getone()


@asynchronous
async def test_a_long_poll_is_woken_by_a_later_message(bootstrap: str, topic: str) -> None:
    """Long before it would have ended."""
    await _create(bootstrap, topic)
    async with _consumer(
        bootstrap, fetch_max_wait_ms=50_000, request_timeout_ms=60_000
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        waiting = asyncio.ensure_future(consumer.getone())
        assert not (await asyncio.wait([waiting], timeout=0.5))[0]
        await _produce(bootstrap, topic, b"late")
        assert (await asyncio.wait_for(waiting, 20)).value == b"late"


@asynchronous
async def test_members_of_a_group_share_its_partitions(bootstrap: str, topic: str) -> None:
    """Two when one joins, one again when it leaves."""
    await _create(bootstrap, topic, partitions=4)
    async with _consumer(bootstrap, topic, group=topic) as first:
        await _until(lambda: len(first.assignment()) == 4)
        async with _consumer(bootstrap, topic, group=topic) as second:
            await _until(lambda: [len(each.assignment()) for each in (first, second)] == [2, 2])
            assert {
                each.partition for member in (first, second) for each in member.assignment()
            } == {0, 1, 2, 3}
        await _until(lambda: len(first.assignment()) == 4)


@asynchronous
async def test_reading_resumes_from_what_was_committed(bootstrap: str, topic: str) -> None:
    """By the next member of the group."""
    await _create(bootstrap, topic)
    await _produce(bootstrap, topic, b"a", b"b", b"c")
    partition = TopicPartition(topic, 0)
    async with _consumer(bootstrap, topic, group=topic) as consumer:
        assert len(await _messages(consumer, 3)) == 3
        await consumer.commit({partition: OffsetAndMetadata(2, "as far as b")})
        assert await consumer.committed(partition) == 2
    async with _consumer(bootstrap, topic, group=topic) as consumer:
        assert await _values(consumer, 1) == [b"c"]
    async with _admin(bootstrap) as admin:
        assert await admin.list_consumer_group_offsets(topic) == {
            partition: OffsetAndMetadata(2, "as far as b")
        }


@asynchronous
async def test_a_static_member_is_fenced_by_its_successor(bootstrap: str, topic: str) -> None:
    """Who has the partitions then."""
    await _create(bootstrap, topic)
    await _produce(bootstrap, topic, b"a")
    async with _consumer(bootstrap, topic, group=topic, group_instance_id="one") as first:
        await _until(first.assignment)
        async with _consumer(bootstrap, topic, group=topic, group_instance_id="one") as second:
            assert await _values(second, 1) == [b"a"]
            assert second.assignment() == {TopicPartition(topic, 0)}


@asynchronous
async def test_a_message_too_large_is_refused(bootstrap: str, topic: str) -> None:
    """By the broker, with its own error."""
    await _create(bootstrap, topic, max_message_bytes="1000")
    with pytest.raises(MessageSizeTooLargeError):
        await _produce(bootstrap, topic, b"x" * 2000)


@asynchronous
async def test_a_topic_is_made_by_producing_to_it(bootstrap: str, topic: str) -> None:
    """Where the cluster allows it."""
    assert [each.offset for each in await _produce(bootstrap, topic, b"first")] == [0]


@asynchronous
async def test_topics_are_made_widened_and_removed(bootstrap: str, topic: str) -> None:
    """With what there is to know of them in between."""
    await _create(bootstrap, topic, partitions=2)
    with pytest.raises(TopicAlreadyExistsError):
        await _create(bootstrap, topic)
    async with _admin(bootstrap) as admin:
        _raise((await admin.create_partitions({topic: NewPartitions(3)})).topic_errors)
        while len((await admin.describe_topics([topic]))[0]["partitions"]) != 3:
            await asyncio.sleep(0.01)
        _raise((await admin.delete_topics([topic])).topic_error_codes)
        while topic in await admin.list_topics():
            await asyncio.sleep(0.01)


@asynchronous
async def test_settings_of_a_topic_are_told_and_changed(bootstrap: str, topic: str) -> None:
    """By the older of the two requests for that."""
    await _create(bootstrap, topic, retention_ms="5000")
    async with _admin(bootstrap) as admin:

        async def retention() -> str:
            answers = await admin.describe_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": None})]
            )
            error_code, _, _, _, entries = answers[0].resources[0][:5]
            return str(entries[0][1]) if not error_code else ""

        while await retention() != "5000":
            await asyncio.sleep(0.01)
        await admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "6000"})]
        )
        while await retention() != "6000":
            await asyncio.sleep(0.01)


@asynchronous
async def test_the_cluster_is_described(bootstrap: str) -> None:
    """With all of its nodes."""
    async with _admin(bootstrap) as admin:
        described = await admin.describe_cluster()
    assert sorted(f"{node['host']}:{node['port']}" for node in described["brokers"]) == sorted(
        bootstrap.split(",")
    )


@asynchronous
async def test_records_are_deleted(bootstrap: str, topic: str) -> None:
    """Up to an offset; reading from the beginning starts there."""
    await _create(bootstrap, topic)
    await _produce(bootstrap, topic, b"a", b"b", b"c")
    partition = TopicPartition(topic, 0)
    async with _admin(bootstrap) as admin:
        assert await admin.delete_records({partition: RecordsToDelete(2)}) == {partition: 2}
    async with _consumer(bootstrap) as consumer:
        consumer.assign([partition])
        assert await _values(consumer, 1) == [b"c"]


@asynchronous
async def test_groups_are_listed_and_described(bootstrap: str, topic: str) -> None:
    """With their members."""
    await _create(bootstrap, topic)
    async with (
        _consumer(bootstrap, topic, group=topic, client_id="the-client") as consumer,
        _admin(bootstrap) as admin,
    ):
        await _until(consumer.assignment)
        assert (topic, "consumer") in [
            tuple(each)[:2] for each in await admin.list_consumer_groups()
        ]
        group = (await admin.describe_consumer_groups([topic]))[0].groups[0]
        assert group[1:3] == (topic, "Stable")
        assert "the-client" in str(group)


@asynchronous
async def test_a_member_whose_heartbeats_stop_is_put_out(bootstrap: str, topic: str) -> None:
    """Its partitions go to the other one when its session has ended."""
    await _create(bootstrap, topic, partitions=2)
    gone = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        session_timeout_ms=1_500,
        heartbeat_interval_ms=100,
    )
    await gone.start()
    try:
        await _until(lambda: len(gone.assignment()) == 2)
        # As if the network were gone: nothing is sent any more, not even that it leaves.
        for connection in list(gone._client._conns.values()):
            connection.close()
        gone._coordinator._coordination_task.cancel()
        gone._coordinator._heartbeat_task.cancel()
        async with _consumer(bootstrap, topic, group=topic) as other:
            await _until(lambda: len(other.assignment()) == 2)
    finally:
        try:
            await gone.stop()
        except (KafkaError, asyncio.CancelledError):
            pass
