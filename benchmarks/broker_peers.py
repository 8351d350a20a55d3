"""The brokers that are measured, each in a process of its own.

Ours, librdkafka's mock cluster, and Apache Kafka.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.question import NotApplicableError
from purgatory_broker import ClusterProcess

#: The options of Kafka's own scripts, with less memory.
_JAVA_OPTIONS = (
    "-Xmx1g",
    "-Xms1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
)

#: A mock cluster is part of a client. This client does nothing else, and ends when its standard
#: input is closed.
_MOCK = """
import json, sys
from confluent_kafka.admin import AdminClient
client = AdminClient({"test.mock.num.brokers": int(sys.argv[1])})
brokers = client.list_topics(timeout=10).brokers
print(json.dumps([f"{each.host}:{each.port}" for each in brokers.values()]), flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class RunningBroker:
    """A broker that runs.

    Attributes:
        addresses: The addresses of its nodes.
        pids: The ids of its processes.
    """

    addresses: list[str]
    pids: list[int]


@contextmanager
def running_broker(side: str, nodes: int) -> Iterator[RunningBroker]:
    """Run a side's broker while the block runs.

    Yields:
        The broker.

    Raises:
        NotApplicableError: The broker is not available.
    """
    start = {peers.OURS: _ours, peers.MOCK_CLUSTER: _mock, peers.KAFKA_BROKER: _kafka}[side]
    with start(nodes) as broker:
        yield broker


@contextmanager
def _ours(nodes: int) -> Iterator[RunningBroker]:
    with ClusterProcess(nodes=nodes, group_initial_rebalance_delay_ms=0) as cluster:
        yield RunningBroker(cluster.bootstrap_servers.split(","), [cluster.pid])


@contextmanager
def _mock(nodes: int) -> Iterator[RunningBroker]:
    process = subprocess.Popen(
        [sys.executable, "-c", _MOCK, str(nodes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield RunningBroker(json.loads(process.stdout.readline()), [process.pid])
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


@contextmanager
def _kafka(nodes: int) -> Iterator[RunningBroker]:
    kafka_server: Any = importlib.import_module("tests.broker.kafka_server")
    try:
        libraries = kafka_server.broker_libraries()
    except BaseException as error:  # pytest.skip raises a BaseException.
        raise NotApplicableError(f"Kafka's artifacts are not available: {error}") from error
    with (
        tempfile.TemporaryDirectory() as folder,
        kafka_server.real_kafka(
            libraries, Path(folder), nodes=nodes, java_options=_JAVA_OPTIONS
        ) as cluster,
    ):
        yield RunningBroker(cluster.bootstrap_servers.split(","), cluster.pids)


def cpu_seconds(pids: list[int]) -> float:
    """Return the processor time that processes have used so far (Linux)."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / 100
