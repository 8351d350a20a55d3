"""A broker's transactions: commits a second of producers that make one after another.

Each producer is a client of confluent-kafka with a transactional id. A transaction has some records
in each of some partitions, and ends with a commit, which is answered when it is stored. Brokers and
clients are separate processes, as in `broker_produce`. librdkafka's mock cluster writes no markers.
"""

from __future__ import annotations

import threading
from time import perf_counter

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks import peers
from benchmarks.broker_peers import cpu_seconds, running_broker
from benchmarks.question import Case

QUESTION = "broker_transactions"
METRICS = {"per_second": "1/s", "broker_cpu_us": "\N{MICRO SIGN}s"}
SIDES = (peers.OURS, peers.MOCK_CLUSTER, peers.KAFKA_BROKER)

_TOPIC = "benchmark"
_TIME_LIMIT = 60.0
#: A mock cluster creates topics of so many partitions when they are asked for.
_MOCK_PARTITIONS = 4


def cases(quick: bool) -> list[Case]:
    """Return cases with 1 and 3 nodes, one and ten partitions, one and 100 records in each."""
    return [
        Case(
            {
                "nodes": nodes,
                "producers": producers,
                "partitions": partitions,
                "records": records,
                "ms": 500 if quick else 4_000,
            },
            producers,
        )
        for nodes in (1, 3)
        for producers, partitions, records in (
            ((1, 1, 1), (1, 10, 1))
            if quick
            else ((1, 1, 1), (1, 1, 100), (1, 10, 1), (1, 10, 100), (10, 1, 1))
        )
    ]


def skip_reason(side: str, case: Case) -> str | None:
    """Return why the mock cluster has no topic of ten partitions."""
    partitions = case.params["partitions"]
    if side == peers.MOCK_CLUSTER and int(partitions) > _MOCK_PARTITIONS:
        return "its topics have four partitions"
    return None


def measure(
    side: str, nodes: int, producers: int, partitions: int, records: int, ms: int
) -> dict[str, float]:
    """Measure committed transactions a second, and the broker's processor time for each."""
    with running_broker(side, nodes) as broker:
        servers = ",".join(broker.addresses)
        _create_topic(side, servers, partitions, nodes)
        opened = [_producer(servers, number) for number in range(producers)]
        _commit_all(opened, partitions, records, ms / 4_000)
        began_cpu = cpu_seconds(broker.pids)
        committed, elapsed = _commit_all(opened, partitions, records, ms / 1_000)
        cpu = cpu_seconds(broker.pids) - began_cpu
    return {"per_second": committed / elapsed, "broker_cpu_us": cpu / committed * 1e6}


def _create_topic(side: str, servers: str, partitions: int, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    if side == peers.MOCK_CLUSTER:
        admin.list_topics(_TOPIC, _TIME_LIMIT)
        return
    created = admin.create_topics([NewTopic(_TOPIC, partitions, replicas)])
    created[_TOPIC].result(_TIME_LIMIT)


def _producer(servers: str, number: int) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": f"benchmark-{number}",
            # A commit sends what is queued: there is nothing to wait for.
            "linger.ms": 0,
        }
    )
    producer.init_transactions(_TIME_LIMIT)
    return producer


def _commit_all(
    producers: list[Producer], partitions: int, records: int, seconds: float
) -> tuple[int, float]:
    """Let each producer commit transactions for a time, on a thread of its own.

    Returns:
        The number of transactions that were committed, and the seconds that it took.
    """
    counts = [0] * len(producers)
    failures: list[BaseException] = []
    began = perf_counter()

    def commit(index: int) -> None:
        producer = producers[index]
        try:
            while perf_counter() < began + seconds:
                producer.begin_transaction()
                for partition in range(partitions):
                    for _ in range(records):
                        producer.produce(_TOPIC, bytes(100), partition=partition)
                producer.commit_transaction(_TIME_LIMIT)
                counts[index] += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=commit, args=(index,)) for index in range(len(producers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * _TIME_LIMIT + seconds)
    if failures:
        raise failures[0]
    return sum(counts), perf_counter() - began
