"""aiokafka against the broker."""

from __future__ import annotations

import asyncio
import functools
import inspect
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
    """Run a test on its own event loop, with a time limit."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        async def limited() -> None:
            await asyncio.wait_for(test(**fixtures), 2 * TIME_LIMIT)

        asyncio.run(limited())

    return run


async def _until(condition: Callable[[], Any]) -> None:
    """Poll a condition, which may be a coroutine function, until its result is true.

    The clients, and the nodes of a real Kafka, act in the background and announce nothing.
    """
    end = time.monotonic() + TIME_LIMIT
    while True:
        result = condition()
        if await result if inspect.isawaitable(result) else result:
            return
        assert time.monotonic() < end, condition
        await asyncio.sleep(0.01)


@asynccontextmanager
async def _admin(bootstrap_servers: str) -> AsyncIterator[Any]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def _create(
    bootstrap_servers: str, topic: str, *, partitions: int = 1, replicas: int = 3, **config: str
) -> None:
    configs = {name.replace("_", "."): value for name, value in config.items()}
    async with _admin(bootstrap_servers) as admin:
        answer = await admin.create_topics(
            [NewTopic(topic, partitions, replicas, topic_configs=configs)]
        )
        _raise(answer.topic_errors)

        async def is_known() -> bool:
            return not (await admin.describe_topics([topic]))[0]["error_code"]

        await _until(is_known)  # Kafka notifies its nodes one after the other.


def _raise(errors: Any) -> None:
    for each in errors:
        if each[1]:
            raise for_code(each[1])


async def _produce(
    bootstrap_servers: str, topic: str, *values: bytes | None, **config: Any
) -> list[Any]:
    """Return the metadata of each message, once all are delivered."""
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, **{"acks": "all"} | config
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
    bootstrap_servers: str, *topics: str, group: str | None = None, **config: Any
) -> AsyncIterator[Any]:
    common: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": 6_000,
    }
    common |= {"heartbeat_interval_ms": 200, "fetch_max_wait_ms": 200, "metadata_max_age_ms": 500}
    async with AIOKafkaConsumer(
        *topics, bootstrap_servers=bootstrap_servers, group_id=group, **common | config
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
async def test_messages_are_produced_with_each_acks(
    bootstrap_servers: str, topic: str, acks: int | str, idempotent: bool
) -> None:
    await _create(bootstrap_servers, topic)
    delivered = await _produce(
        bootstrap_servers, topic, b"a", None, acks=acks, enable_idempotence=idempotent
    )
    if acks != 0:
        assert [each.offset for each in delivered] == [0, 1]
    async with _consumer(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = await _messages(consumer, 2)
    assert [(each.key, each.value, each.timestamp, each.headers) for each in found] == [
        (b"key 0", b"a", _TIME, (("number", b"0"),)),
        (b"key 1", None, _TIME + 1, (("number", b"1"),)),
    ]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@asynchronous
async def test_messages_are_compressed_with_each_codec(
    bootstrap_servers: str, topic: str, codec: str | None
) -> None:
    await _create(bootstrap_servers, topic)
    values = [b"%d " % number * 100 for number in range(20)]
    await _produce(bootstrap_servers, topic, *values, compression_type=codec, linger_ms=20)
    async with _consumer(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert await _values(consumer, 20) == values


@asynchronous
async def test_consumer_seeks_to_an_offset_or_a_time(bootstrap_servers: str, topic: str) -> None:
    await _create(bootstrap_servers, topic)
    await _produce(bootstrap_servers, topic, b"a", b"b", b"c")
    partition = TopicPartition(topic, 0)
    async with _consumer(bootstrap_servers) as consumer:
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
async def test_offset_out_of_range_is_an_error(bootstrap_servers: str, topic: str) -> None:
    await _create(bootstrap_servers, topic)
    async with _consumer(bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 77)
        with pytest.raises(OffsetOutOfRangeError):
            await consumer.getone()


@asynchronous
async def test_long_poll_is_completed_by_a_later_message(
    bootstrap_servers: str, topic: str
) -> None:
    await _create(bootstrap_servers, topic)
    async with _consumer(
        bootstrap_servers, fetch_max_wait_ms=50_000, request_timeout_ms=60_000
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        waiting = asyncio.ensure_future(consumer.getone())
        assert not (await asyncio.wait([waiting], timeout=0.5))[0]
        await _produce(bootstrap_servers, topic, b"late")
        assert (await asyncio.wait_for(waiting, 20)).value == b"late"


@asynchronous
async def test_group_members_share_the_partitions(bootstrap_servers: str, topic: str) -> None:
    await _create(bootstrap_servers, topic, partitions=4)
    async with _consumer(bootstrap_servers, topic, group=topic) as first:
        await _until(lambda: len(first.assignment()) == 4)
        async with _consumer(bootstrap_servers, topic, group=topic) as second:
            await _until(lambda: [len(each.assignment()) for each in (first, second)] == [2, 2])
            assert {
                each.partition for member in (first, second) for each in member.assignment()
            } == {0, 1, 2, 3}
        await _until(lambda: len(first.assignment()) == 4)


@asynchronous
async def test_consumer_resumes_from_the_committed_offset(
    bootstrap_servers: str, topic: str
) -> None:
    await _create(bootstrap_servers, topic)
    await _produce(bootstrap_servers, topic, b"a", b"b", b"c")
    partition = TopicPartition(topic, 0)
    async with _consumer(bootstrap_servers, topic, group=topic) as consumer:
        assert len(await _messages(consumer, 3)) == 3
        await consumer.commit({partition: OffsetAndMetadata(2, "as far as b")})
        assert await consumer.committed(partition) == 2
    async with _consumer(bootstrap_servers, topic, group=topic) as consumer:
        assert await _values(consumer, 1) == [b"c"]
    async with _admin(bootstrap_servers) as admin:
        assert await admin.list_consumer_group_offsets(topic) == {
            partition: OffsetAndMetadata(2, "as far as b")
        }


@asynchronous
async def test_static_member_is_fenced_by_its_successor(bootstrap_servers: str, topic: str) -> None:
    await _create(bootstrap_servers, topic)
    await _produce(bootstrap_servers, topic, b"a")
    async with _consumer(bootstrap_servers, topic, group=topic, group_instance_id="one") as first:
        await _until(first.assignment)
        async with _consumer(
            bootstrap_servers, topic, group=topic, group_instance_id="one"
        ) as second:
            assert await _values(second, 1) == [b"a"]
            assert second.assignment() == {TopicPartition(topic, 0)}


@asynchronous
async def test_too_large_message_is_refused(bootstrap_servers: str, topic: str) -> None:
    await _create(bootstrap_servers, topic, max_message_bytes="1000")
    with pytest.raises(MessageSizeTooLargeError):
        await _produce(bootstrap_servers, topic, b"x" * 2000)


@asynchronous
async def test_producing_creates_the_topic(bootstrap_servers: str, topic: str) -> None:
    assert [each.offset for each in await _produce(bootstrap_servers, topic, b"first")] == [0]


@asynchronous
async def test_topics_are_created_extended_and_deleted(bootstrap_servers: str, topic: str) -> None:
    await _create(bootstrap_servers, topic, partitions=2)
    with pytest.raises(TopicAlreadyExistsError):
        await _create(bootstrap_servers, topic)
    async with _admin(bootstrap_servers) as admin:
        _raise((await admin.create_partitions({topic: NewPartitions(3)})).topic_errors)

        async def has_three_partitions() -> bool:
            return len((await admin.describe_topics([topic]))[0]["partitions"]) == 3

        async def is_gone() -> bool:
            return topic not in await admin.list_topics()

        await _until(has_three_partitions)
        _raise((await admin.delete_topics([topic])).topic_error_codes)
        await _until(is_gone)


@asynchronous
async def test_topic_settings_are_described_and_changed(bootstrap_servers: str, topic: str) -> None:
    await _create(bootstrap_servers, topic, retention_ms="5000")
    async with _admin(bootstrap_servers) as admin:

        async def retention_is(expected: str) -> bool:
            answers = await admin.describe_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": None})]
            )
            error_code, _, _, _, entries = answers[0].resources[0][:5]
            return not error_code and entries[0][1] == expected

        await _until(lambda: retention_is("5000"))
        await admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "6000"})]
        )
        await _until(lambda: retention_is("6000"))


@asynchronous
async def test_cluster_is_described(bootstrap_servers: str) -> None:
    async with _admin(bootstrap_servers) as admin:
        described = await admin.describe_cluster()
    assert sorted(f"{node['host']}:{node['port']}" for node in described["brokers"]) == sorted(
        bootstrap_servers.split(",")
    )


@asynchronous
async def test_records_are_deleted(bootstrap_servers: str, topic: str) -> None:
    await _create(bootstrap_servers, topic)
    await _produce(bootstrap_servers, topic, b"a", b"b", b"c")
    partition = TopicPartition(topic, 0)
    async with _admin(bootstrap_servers) as admin:
        assert await admin.delete_records({partition: RecordsToDelete(2)}) == {partition: 2}
    async with _consumer(bootstrap_servers) as consumer:
        consumer.assign([partition])
        assert await _values(consumer, 1) == [b"c"]


@asynchronous
async def test_groups_are_listed_and_described(bootstrap_servers: str, topic: str) -> None:
    await _create(bootstrap_servers, topic)
    async with (
        _consumer(bootstrap_servers, topic, group=topic, client_id="the-client") as consumer,
        _admin(bootstrap_servers) as admin,
    ):
        await _until(consumer.assignment)
        assert (topic, "consumer") in [
            tuple(each)[:2] for each in await admin.list_consumer_groups()
        ]
        group = (await admin.describe_consumer_groups([topic]))[0].groups[0]
        assert group[1:3] == (topic, "Stable")
        assert "the-client" in str(group)


@asynchronous
async def test_member_without_heartbeats_is_removed(bootstrap_servers: str, topic: str) -> None:
    await _create(bootstrap_servers, topic, partitions=2)
    gone = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        group_id=topic,
        session_timeout_ms=1_500,
        heartbeat_interval_ms=100,
    )
    await gone.start()
    try:
        await _until(lambda: len(gone.assignment()) == 2)
        # As after a network failure, nothing is sent any more, not even LeaveGroup.
        for connection in list(gone._client._conns.values()):
            connection.close()
        gone._coordinator._coordination_task.cancel()
        gone._coordinator._heartbeat_task.cancel()
        async with _consumer(bootstrap_servers, topic, group=topic) as other:
            await _until(lambda: len(other.assignment()) == 2)
    finally:
        try:
            await gone.stop()
        except (KafkaError, asyncio.CancelledError):
            pass
