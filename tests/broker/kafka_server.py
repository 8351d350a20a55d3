"""Real Apache Kafka on loopback: a KRaft cluster of plain processes, and Kafka's console clients.

Needs Java, Maven Central.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from request_purgatory.pipeline.spark.java import JavaNotFoundError, require_java
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.support.downloads import download_folder
from tests.support.ports import free_ports

TIME_LIMIT = 120.0

VERSION = "4.1.1"
_BROKER = (f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")
_TOOLS = (f"org.apache.kafka:kafka-tools:{VERSION}",)

#: What both Kafka and our broker are started with for tests, by Kafka's names: with underscores,
#: those of ClusterSettings.
SHARED_SETTINGS = {
    "offsets.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "min.insync.replicas": 1,
    "auto.create.topics.enable": True,
    "num.partitions": 1,
}

# What is Kafka's alone. Three processes share a small machine: few threads, no cleaner, no leaders
# moved behind a test's back. A stopped broker is missed after its session has ended, or at once
# when it says good-bye.
_PROPERTIES = """
process.roles={roles}
node.id={node}
listeners={listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.voters=0@127.0.0.1:{controller}
log.dirs={data}
default.replication.factor={replicas}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr=1
log.retention.ms=-1
log.cleaner.enable=false
auto.leader.rebalance.enable=false
num.network.threads=2
num.io.threads=4
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
"""
_CLUSTER_ID = "cHVyZ2F0b3J5LXRlc3RzMQ"
# The C1 compiler alone and the serial collector: these processes live for seconds.
#: For JVMs that live for seconds; who measures Kafka gives it its own.
_JAVA_OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class KafkaCluster:
    """A cluster that runs.

    Node 0 is the controller besides and must stay; the others may be stopped and started.
    """

    def __init__(
        self, libraries: Path, folder: Path, ports: Sequence[int], java_options: Sequence[str]
    ) -> None:
        self._libraries = libraries
        self._java_options = java_options
        self._folder = folder
        self._ports = ports
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, "host:port,host:port"."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    @property
    def pids(self) -> list[int]:
        """The processes that run."""
        return [process.pid for process in self._processes.values()]

    def start(self, node: int) -> None:
        """Start a node; `wait` waits for it."""
        with (self._folder / f"node-{node}.log").open("ab") as told:
            properties = str(self._folder / f"node-{node}.properties")
            command = _java(self._libraries, "kafka.Kafka", properties, options=self._java_options)
            self._processes[node] = subprocess.Popen(command, stdout=told, stderr=told)

    def restart(self, node: int) -> None:
        """Start a node again that was stopped, to where the cluster has it."""
        self.start(node)
        self.wait()

    def stop(self, node: int) -> None:
        """End a node as an operator does; it hands its leaderships over before."""
        process = self._processes.pop(node)
        process.terminate()
        process.wait(TIME_LIMIT)

    def wait(self) -> None:
        """Until each node that runs knows of all that run."""
        until = time.monotonic() + TIME_LIMIT
        for node, process in self._processes.items():
            while not self._is_ready(node):
                log = self._folder / f"node-{node}.log"
                assert process.poll() is None, log.read_text()[-5000:]
                assert time.monotonic() < until, log.read_text()[-5000:]
                time.sleep(0.05)

    def kill(self) -> None:
        """End all nodes, at once."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait(TIME_LIMIT)

    def _is_ready(self, node: int) -> bool:
        try:
            client = RawClient(f"127.0.0.1:{self._ports[node]}")
        except OSError:
            return False
        try:
            return {
                broker.node_id for broker in client.call("Metadata", 9, topics=[]).brokers
            } == set(self._processes)
        except (ConnectionClosedError, TimeoutError):
            return False
        finally:
            client.close()


@contextmanager
def real_kafka(
    libraries: Path,
    folder: Path,
    *,
    nodes: int = 1,
    settings: Mapping[str, Any] | None = None,
    java_options: Sequence[str] = _JAVA_OPTIONS,
) -> Iterator[KafkaCluster]:
    """A cluster of Kafka whose data and logs are in `folder`.

    `settings` are over and above SHARED_SETTINGS.
    """
    *ports, controller = free_ports(nodes + 1)
    common = SHARED_SETTINGS | dict(settings or {})
    formatting = []
    for node, port in enumerate(ports):
        listeners = f"PLAINTEXT://127.0.0.1:{port}" + (
            f",CONTROLLER://127.0.0.1:{controller}" if node == 0 else ""
        )
        own = _PROPERTIES.format(
            roles="broker,controller" if node == 0 else "broker",
            node=node,
            listeners=listeners,
            port=port,
            controller=controller,
            data=folder / f"node-{node}",
            replicas=min(nodes, 3),
        )
        properties = folder / f"node-{node}.properties"
        properties.write_text(
            own + "".join(f"{name}={_text(value)}\n" for name, value in common.items())
        )
        command = _java(
            libraries, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties)
        )
        formatting.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        )
    for process in formatting:
        said, _ = process.communicate(timeout=TIME_LIMIT)
        assert process.returncode == 0, said.decode()
    cluster = KafkaCluster(libraries, folder, ports, java_options)
    try:
        for node in range(nodes):
            cluster.start(node)
        cluster.wait()
        yield cluster
    finally:
        cluster.kill()


def broker_libraries() -> Path:
    """Return the folder with the broker's jars, downloaded once and kept.

    The test is skipped if Maven Central can't be reached, or there is no Java.
    """
    return _libraries(_BROKER)


def tools_libraries() -> Path:
    """Return the folder with the jars of Kafka's console clients, as `broker_libraries`."""
    return _libraries(_TOOLS)


def _libraries(modules: tuple[str, ...]) -> Path:
    # Ivy comes with PySpark; without that, tests that need no Kafka go on.
    pytest.importorskip("pyspark")
    from tests.spark.kafka_broker import jars

    try:
        require_java()
    except JavaNotFoundError as missing:
        pytest.skip(str(missing))
    with download_folder("kafka-jars") as folder:
        found = jars(folder, *modules)
    assert found is not None, f"Maven Central has no {modules}"
    return found


def run_tool(
    tools: Path, name: str, *arguments: str, stdin: bytes = b"", timeout: float = TIME_LIMIT
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's console clients, `ConsoleProducer` for instance, to its end.

    `tools` are its jars.
    """
    command = start_command(tools, name, *arguments)
    ran = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout, check=False)
    return subprocess.CompletedProcess(
        command, ran.returncode, ran.stdout.decode(), ran.stderr.decode()
    )


def start_command(tools: Path, name: str, *arguments: str) -> list[str]:
    """The command that runs one of Kafka's console clients, for those who want to watch it."""
    package = "org.apache.kafka.tools" + (
        ".consumer.group"
        if name == "ConsumerGroupCommand"
        else ".consumer"
        if name == "ConsoleConsumer"
        else ""
    )
    return _java(tools, f"{package}.{name}", *arguments)


def _java(
    libraries: Path, main: str, *arguments: str, options: Sequence[str] = _JAVA_OPTIONS
) -> list[str]:
    return [require_java(), *options, "-cp", f"{libraries}/*", main, *arguments]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
