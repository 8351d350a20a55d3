"""Exactly-once programs of Kafka's Java clients: its own copier, and a Streams application."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.clients.waiting import TIME_LIMIT, until
from tests.broker.kafka_server import run_tool, start_source, streams_libraries

pytestmark = pytest.mark.jvm


def _create_topics(bootstrap_servers: str, *names: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    wanted = [NewTopic(name, partitions, 3) for name in names]
    for created in admin.create_topics(wanted).values():
        created.result(TIME_LIMIT)


def _produce(bootstrap_servers: str, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5})
    for value in values:
        producer.produce(topic, value.encode())
    assert producer.flush(TIME_LIMIT) == 0


@contextmanager
def _committed(bootstrap_servers: str, topic: str) -> Iterator[Callable[[], list[tuple[str, str]]]]:
    """Return a function that returns the committed records that it has not returned yet."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"{topic}-reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])

    def read() -> list[tuple[str, str]]:
        messages = consumer.consume(1_000, timeout=0.5)
        assert all(message.error() is None for message in messages)
        return [
            ((message.key() or b"").decode(), (message.value() or b"").decode())
            for message in messages
        ]

    yield read
    consumer.close()


def test_copier_with_random_aborts_copies_each_record_once(
    tools: Path, bootstrap_servers: str, topic: str
) -> None:
    copy = f"{topic}.copy"
    _create_topics(bootstrap_servers, topic, copy, partitions=1)
    values = [str(number) for number in range(2_000)]
    _produce(bootstrap_servers, topic, values)
    ran = run_tool(
        tools,
        "TransactionalMessageCopier",
        *("--broker-list", bootstrap_servers),
        *("--input-topic", topic),
        *("--input-partition", "0"),
        *("--output-topic", copy),
        *("--max-messages", "2000"),
        *("--consumer-group", f"{topic}-copier"),
        *("--transaction-size", "100"),
        *("--transactional-id", f"{topic}-copier"),
        "--enable-random-aborts",
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-3000:]
    copied: list[str] = []
    with _committed(bootstrap_servers, copy) as read:

        def has_all() -> bool:
            copied.extend(value for _, value in read())
            return len(copied) >= len(values)

        until(has_all)
        copied.extend(value for _, value in read())
    assert copied == values


def test_streams_application_that_is_killed_counts_each_word_once(
    bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    output = f"{topic}.counts"
    _create_topics(bootstrap_servers, topic, output, partitions=3)
    command = start_source(
        streams_libraries(),
        Path(__file__).parent / "java/WordCount.java",
        bootstrap_servers,
        topic,
        output,
        str(tmp_path),
    )
    expected: Counter[str] = Counter()
    counts: dict[str, int] = {}
    kills = 3
    with _committed(bootstrap_servers, output) as read, (tmp_path / "log").open("wb") as log:

        def saw(words: int) -> bool:
            for word, count in read():
                # A word that was counted again would be counted too often in the end. Within a
                # partition the counts of a word are written in order.
                assert int(count) == counts.get(word, 0) + 1, word
                counts[word] = int(count)
            return sum(counts.values()) >= words

        for round_number in range(kills + 1):
            application = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                lines = [f"w{number % 17} w{number % 5} {round_number}" for number in range(2_000)]
                before = expected.total()
                expected.update(word for line in lines for word in line.split())
                _produce(bootstrap_servers, topic, lines)
                goal = before + 500 if round_number < kills else expected.total()
                until(partial(saw, goal), limit=4 * TIME_LIMIT)
            finally:
                application.kill()
                application.wait(TIME_LIMIT)
        saw(0)
    assert counts == expected
