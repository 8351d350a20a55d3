"""Transactions of real clients: what is committed is read, all of it and once, and nothing else."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonPartition

from tests.broker.clients.waiting import TIME_LIMIT
from tests.broker.kafka_server import run_tool


def create(bootstrap_servers: str, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(TIME_LIMIT)


def transactional(bootstrap_servers: str, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": transactional_id,
            "linger.ms": 1,
        }
    )
    producer.init_transactions(TIME_LIMIT)
    return producer


def read(
    bootstrap_servers: str, topic: str, partitions: int = 1, isolation: str = "read_committed"
) -> list[bytes]:
    """Return the values of a topic, to the end of its partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    values: list[bytes] = []
    ended: set[int] = set()
    limit = time.monotonic() + TIME_LIMIT
    while len(ended) < partitions and time.monotonic() < limit:
        message = consumer.poll(0.1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            values.append(message.value())
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    assert len(ended) == partitions
    return sorted(values)


def test_confluent_commits_and_aborts(bootstrap_servers: str, topic: str) -> None:
    create(bootstrap_servers, topic, 3)
    producer = transactional(bootstrap_servers, topic)
    for number in range(6):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, f"{number}-{partition}", partition=partition)
        if number % 2:
            producer.flush(TIME_LIMIT)
            producer.abort_transaction(TIME_LIMIT)
        else:
            producer.commit_transaction(TIME_LIMIT)
    expected = [f"{number}-{partition}".encode() for number in (0, 2, 4) for partition in range(3)]
    assert read(bootstrap_servers, topic, 3) == expected
    assert len(read(bootstrap_servers, topic, 3, "read_uncommitted")) == 18


def test_confluent_is_fenced_by_the_next_producer(bootstrap_servers: str, topic: str) -> None:
    create(bootstrap_servers, topic)
    old = transactional(bootstrap_servers, topic)
    old.begin_transaction()
    old.produce(topic, "old")
    old.flush(TIME_LIMIT)
    new = transactional(bootstrap_servers, topic)
    with pytest.raises(KafkaException) as caught:
        old.commit_transaction(TIME_LIMIT)
    assert caught.value.args[0].fatal()
    new.begin_transaction()
    new.produce(topic, "new")
    new.commit_transaction(TIME_LIMIT)
    assert read(bootstrap_servers, topic) == [b"new"]


@pytest.mark.parametrize("fails", [False, True])
def test_confluent_consumes_processes_and_produces(
    bootstrap_servers: str, topic: str, fails: bool
) -> None:
    """The offsets are committed with the results, or neither is."""
    source, target = f"{topic}.{fails}.in", f"{topic}.{fails}.out"
    create(bootstrap_servers, source, 2)
    create(bootstrap_servers, target)
    first = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(20):
        first.produce(source, str(number), partition=number % 2)
    first.flush(TIME_LIMIT)

    def process(transactional_id: str, *, crashes: bool) -> None:
        producer = transactional(bootstrap_servers, transactional_id)
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": target,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([source])
        handled = 0
        limit = time.monotonic() + TIME_LIMIT
        while time.monotonic() < limit:
            messages = [each for each in consumer.consume(7, 1.0) if each.error() is None]
            if not messages:
                if handled or len(read(bootstrap_servers, target)) == 20:
                    break
                continue
            handled += len(messages)
            producer.begin_transaction()
            for message in messages:
                producer.produce(target, message.value())
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(
                positions, consumer.consumer_group_metadata(), TIME_LIMIT
            )
            if crashes:
                producer.flush(TIME_LIMIT)
                producer.abort_transaction(TIME_LIMIT)
                break
            producer.commit_transaction(TIME_LIMIT)
        consumer.close()

    if fails:
        process(topic, crashes=True)
        assert read(bootstrap_servers, target) == []
    process(topic, crashes=False)
    expected = sorted(str(number).encode() for number in range(20))
    assert read(bootstrap_servers, target) == expected


def test_kafka_python_commits_and_aborts(bootstrap_servers: str, topic: str) -> None:
    create(bootstrap_servers, topic)
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=topic)
    try:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            producer.send(topic, str(number).encode()).get(TIME_LIMIT)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.send_offsets_to_transaction(
                    {PythonPartition(topic, 0): OffsetAndMetadata(number, "", -1)}, topic
                )
                producer.commit_transaction()
    finally:
        producer.close(timeout=TIME_LIMIT)
    assert read(bootstrap_servers, topic) == [b"0", b"2"]
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        group_id=topic,
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    assert consumer.committed(PythonPartition(topic, 0)) == 2
    consumer.close()


def test_aiokafka_commits_and_aborts(bootstrap_servers: str, topic: str) -> None:
    create(bootstrap_servers, topic)

    async def scenario() -> list[Any]:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap_servers, transactional_id=topic
        ) as producer:
            for number in range(4):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, str(number).encode())
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.send_offsets_to_transaction(
                        {AiokafkaPartition(topic, 0): number + 1}, topic
                    )
                    await producer.commit_transaction()
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=topic,
            isolation_level="read_committed",
            enable_auto_commit=False,
        ) as consumer:
            return [await consumer.committed(AiokafkaPartition(topic, 0))]

    assert asyncio.run(scenario()) == [3]
    assert read(bootstrap_servers, topic) == [b"0", b"2"]


@pytest.mark.jvm
def test_java_copies_messages_in_transactions(
    bootstrap_servers: str, topic: str, tools: Path
) -> None:
    """Kafka's own system test's client: it aborts some of its transactions at random."""
    source, target = f"{topic}.in", f"{topic}.out"
    create(bootstrap_servers, source)
    create(bootstrap_servers, target)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(500):
        producer.produce(source, str(number), str(number))
    producer.flush(TIME_LIMIT)
    ran = run_tool(
        tools,
        "TransactionalMessageCopier",
        *("--broker-list", bootstrap_servers, "--transactional-id", topic),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--consumer-group", topic, "--max-messages", "500", "--transaction-size", "50"),
        "--enable-random-aborts",
    )
    assert ran.returncode == 0, ran.stderr
    expected = sorted(str(number).encode() for number in range(500))
    assert read(bootstrap_servers, target) == expected


def _run(tools: Path, name: str, servers: str, *arguments: str) -> str:
    """Return what a tool of Kafka's prints; raise an AssertionError with its output if it fails."""
    ran = run_tool(tools, name, "--bootstrap-server", servers, *arguments)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[:2000]
    return ran.stdout


@pytest.mark.jvm
def test_kafkas_tools_list_describe_and_abort(
    bootstrap_servers: str, topic: str, tools: Path
) -> None:
    create(bootstrap_servers, topic)
    producer = transactional(bootstrap_servers, topic)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(TIME_LIMIT)
    listed = _run(tools, "TransactionsCommand", bootstrap_servers, "list")
    assert re.search(rf"{re.escape(topic)}\s.*\bOngoing\b", listed), listed
    described = _run(
        tools, "TransactionsCommand", bootstrap_servers, "describe", "--transactional-id", topic
    )
    assert re.search(rf"\bOngoing\b.*\b{re.escape(topic)}-0\b", described), described
    open_here = ("--topic", topic, "--partition", "0")
    producers = _run(
        tools, "TransactionsCommand", bootstrap_servers, "describe-producers", *open_here
    )
    offset = producers.splitlines()[1].split()[-1]
    assert offset == "0", producers
    _run(
        tools,
        "TransactionsCommand",
        bootstrap_servers,
        *("abort", *open_here, "--start-offset", offset),
    )
    assert read(bootstrap_servers, topic) == []
    producer.abort_transaction(TIME_LIMIT)


@pytest.mark.jvm
def test_kafkas_formatter_reads_the_records_of_transactions(
    bootstrap_servers: str, topic: str, tools: Path
) -> None:
    create(bootstrap_servers, topic)
    producer = transactional(bootstrap_servers, topic)
    producer.begin_transaction()
    producer.produce(topic, "one")
    producer.commit_transaction(TIME_LIMIT)
    # The markers are written after the client has its answer.
    transactional(bootstrap_servers, topic)
    printed = _run(
        tools,
        "ConsoleConsumer",
        bootstrap_servers,
        *("--topic", "__transaction_state", "--from-beginning", "--timeout-ms", "5000"),
        *("--formatter", "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"),
    )
    # The formatter ends no line.
    lines = printed.replace("}{", "}\n{").splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    values = [
        record["value"]["data"]
        for record in records
        if record["key"]["data"]["transactionalId"] == topic
    ]
    # Empty, Ongoing, PrepareCommit, CompleteCommit and Empty.
    assert [value["transactionStatus"] for value in values] == [0, 1, 2, 4, 0]
    assert values[1]["transactionPartitions"] == [{"topic": topic, "partitionIds": [0]}]
