"""A broker's process that is killed, again and again, in the middle of transactions."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from purgatory_broker import ClusterProcess
from tests.broker.clients.waiting import TIME_LIMIT, until
from tests.support.ports import free_ports

ROUNDS = 50
PARTITIONS = 3
TOPIC = "orders"


class Outcomes:
    """What the producer knows of its transactions, by their numbers."""

    def __init__(self) -> None:
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        #: Whose commit was under way when the broker died.
        self.unknown: set[int] = set()


def _run_transactions(
    port: int, outcomes: Outcomes, first: int, count: int, choose: random.Random
) -> None:
    """Make transactions of a record in each partition until the broker is gone."""
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "transactional.id": "writer",
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIME_LIMIT)
    for number in range(first, first + count):
        commits = choose.random() < 0.7
        # Until the end is begun nothing of the transaction can be committed.
        outcomes.aborted.add(number)
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, str(number).encode(), partition=partition)
        try:
            producer.flush(0.2 if choose.random() < 0.5 else 0)
            if not commits:
                producer.abort_transaction(2.0)
                continue
            outcomes.aborted.remove(number)
            outcomes.unknown.add(number)
            producer.commit_transaction(2.0)
        except KafkaException:
            return
        outcomes.unknown.remove(number)
        outcomes.committed.add(number)


def _has(outcomes: Outcomes, count: int) -> bool:
    return len(outcomes.committed) >= count


def _read(port: int) -> dict[int, list[int]]:
    """Return the partitions that each committed number is in."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([TOPIC])
    found: dict[int, list[int]] = defaultdict(list)
    at_end: set[int] = set()
    while len(at_end) < PARTITIONS:
        message = consumer.poll(TIME_LIMIT)
        assert message is not None, "the reader waits for an open transaction"
        error = message.error()
        if error is None:
            found[int(message.value() or b"")].append(message.partition() or 0)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            at_end.add(message.partition() or 0)
    consumer.close()
    return found


@pytest.mark.slow
def test_transactions_are_whole_or_absent_however_often_the_broker_is_killed(
    tmp_path: Path,
) -> None:
    (port,) = free_ports(1)
    choose = random.Random(7)
    outcomes = Outcomes()

    def start() -> ClusterProcess:
        return ClusterProcess(
            1, port=port, data_dir=str(tmp_path), transaction_state_log_min_isr=1
        ).start()

    cluster = start()
    try:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        for round_number in range(ROUNDS):
            writer = threading.Thread(
                target=_run_transactions,
                args=(port, outcomes, round_number * 1_000, 1_000, random.Random(round_number)),
            )
            writer.start()
            goal = len(outcomes.committed) + choose.randrange(1, 6)
            until(partial(_has, outcomes, goal))
            cluster.kill_process()
            writer.join(TIME_LIMIT)
            assert not writer.is_alive()
            cluster = start()
        # A last producer ends what the killed broker has left open.
        _run_transactions(port, outcomes, ROUNDS * 1_000, 3, choose)
        found = _read(port)
    finally:
        cluster.close()
    every = list(range(PARTITIONS))
    assert all(sorted(partitions) == every for partitions in found.values())
    assert outcomes.committed <= found.keys()
    assert not outcomes.aborted & found.keys()
    assert found.keys() <= outcomes.committed | outcomes.unknown
    assert outcomes.committed
    assert outcomes.aborted
