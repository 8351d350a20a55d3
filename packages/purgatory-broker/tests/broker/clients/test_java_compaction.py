"""A Streams application whose changelog is compacted, and restored after each kill."""

from __future__ import annotations

import subprocess
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from purgatory_broker import Cluster
from tests.broker.clients.waiting import TIME_LIMIT, until
from tests.broker.kafka_server import start_source, streams_libraries

pytestmark = pytest.mark.jvm

WORDS = [f"w{number}" for number in range(20)]
LINES = 300


def _produce(cluster: Cluster, lines: list[str]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5})
    for line in lines:
        producer.produce("lines", line.encode())
    assert producer.flush(TIME_LIMIT) == 0


def test_streams_application_restores_its_state_from_a_compacted_changelog(
    tmp_path: Path,
) -> None:
    """A word that was counted before the kill goes on from its count."""
    counts: dict[str, int] = {}
    expected: Counter[str] = Counter()
    changelog = "lines-words-counts-changelog"
    with Cluster(nodes=3, group_min_session_timeout_ms=1_000) as cluster:
        for topic in ("lines", "counts"):
            cluster.create_topic(topic, partitions=2)
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "reader",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe(["counts"])

        def saw(words: int) -> bool:
            for message in consumer.consume(1_000, timeout=0.5):
                word, count = (part.decode() for part in (message.key(), message.value()))
                assert int(count) == counts.get(word, 0) + 1, word
                counts[word] = int(count)
            return sum(counts.values()) >= words

        command = start_source(
            streams_libraries(),
            Path(__file__).parent / "java/WordCount.java",
            cluster.bootstrap_servers,
            "lines",
            "counts",
            str(tmp_path),
        )
        with (tmp_path / "log").open("wb") as log:
            for _ in range(3):
                application = subprocess.Popen(command, stdout=log, stderr=log)
                try:
                    lines = [f"{WORDS[number % 20]} {WORDS[number % 7]}" for number in range(LINES)]
                    expected.update(word for line in lines for word in line.split())
                    _produce(cluster, lines)
                    until(partial(saw, expected.total()), limit=4 * TIME_LIMIT)
                finally:
                    application.kill()
                    application.wait(TIME_LIMIT)
                # Of each word one count is left, from which the next application goes on.
                cluster.compact(changelog)
                left = cluster.records(changelog, read_committed=True)
                assert sorted(record.key or b"" for record in left) == sorted(
                    word.encode() for word in WORDS
                )
                for topic in ("__consumer_offsets", "__transaction_state"):
                    cluster.compact(topic)
        consumer.close()
    assert counts == expected
