"""Apache Kafka on loopback: a KRaft cluster of processes, and Kafka's console tools.

Needs Java, and Maven Central for the first download.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.support.downloads import download_folder
from tests.support.java import java_command
from tests.support.maven import jars
from tests.support.ports import free_ports

TIME_LIMIT = 120.0

VERSION = "4.1.1"
_BROKER = (f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")
#: The release after it, for what this broker has of it.
NEXT_VERSION = "4.2.0"
_NEXT_BROKER = (f"org.apache.kafka:kafka_2.13:{NEXT_VERSION}", "org.slf4j:slf4j-simple:1.7.36")
_TOOLS = (f"org.apache.kafka:kafka-tools:{VERSION}",)
_STREAMS = (f"org.apache.kafka:kafka-streams:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")

#: Settings of Apache Kafka and of this broker in tests, by Kafka's names. With underscores for dots
#: they are fields of ClusterSettings.
SHARED_SETTINGS = {
    "offsets.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "min.insync.replicas": 1,
    "auto.create.topics.enable": True,
    "num.partitions": 1,
}

# Settings of Apache Kafka only. Three processes share a small machine, so they have few threads and
# no cleaner. Leaders are not rebalanced in the background.
_PROPERTIES = """
process.roles={roles}
node.id={node}
listeners={listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_plaintext.plain.sasl.jaas.config={plain}
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={scram}
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config={scram}
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
#: Who can log in by PLAIN on the SASL_PLAINTEXT listener.
PLAIN_USER, PLAIN_PASSWORD = "plain-user", "plain-secret"
_LOGIN_MODULES = "org.apache.kafka.common.security"
_PLAIN = f'{_LOGIN_MODULES}.plain.PlainLoginModule required user_{PLAIN_USER}="{PLAIN_PASSWORD}";'
_SCRAM = f"{_LOGIN_MODULES}.scram.ScramLoginModule required;"
_CLUSTER_ID = "cHVyZ2F0b3J5LXRlc3RzMQ"
#: For JVMs that run for seconds: only the C1 compiler, and the serial collector. Benchmarks use
#: other options.
_JAVA_OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class KafkaCluster:
    """A running cluster. Node 0 is also the controller, and must not be stopped."""

    def __init__(
        self,
        libraries: Path,
        folder: Path,
        ports: Mapping[str, Sequence[int]],
        java_options: Sequence[str],
    ) -> None:
        self._libraries = libraries
        self._java_options = java_options
        self._folder = folder
        self._ports = ports
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, "host:port,host:port"."""
        return self.bootstrap_servers_of("PLAINTEXT")

    def bootstrap_servers_of(self, listener: str) -> str:
        """Return the addresses of all nodes of a listener."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports[listener])

    @property
    def pids(self) -> list[int]:
        """The ids of the running processes."""
        return [process.pid for process in self._processes.values()]

    def start(self, node: int) -> None:
        """Start a node; `wait` waits until it is ready."""
        with (self._folder / f"node-{node}.log").open("ab") as log:
            properties = str(self._folder / f"node-{node}.properties")
            command = _java(self._libraries, "kafka.Kafka", properties, options=self._java_options)
            self._processes[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def restart(self, node: int) -> None:
        """Start a stopped node, and wait until the cluster knows it."""
        self.start(node)
        self.wait()

    def stop(self, node: int) -> None:
        """Stop a node in an orderly way; it hands its leaderships over first."""
        process = self._processes.pop(node)
        process.terminate()
        process.wait(TIME_LIMIT)

    def wait(self) -> None:
        """Wait until each running node knows all running nodes."""
        until = time.monotonic() + TIME_LIMIT
        for node, process in self._processes.items():
            while not self._is_ready(node):
                log = self._folder / f"node-{node}.log"
                assert process.poll() is None, log.read_text()[-5000:]
                assert time.monotonic() < until, log.read_text()[-5000:]
                time.sleep(0.05)

    def kill(self) -> None:
        """Kill all nodes."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait(TIME_LIMIT)

    def _is_ready(self, node: int) -> bool:
        try:
            client = RawClient(self.bootstrap_servers.split(",")[node])
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
    """Run Apache Kafka with its data and logs in `folder`; `settings` extend SHARED_SETTINGS."""
    controller, *free = free_ports(2 * nodes + 1)
    ports, sasl_ports = free[:nodes], free[nodes:]
    common = SHARED_SETTINGS | dict(settings or {})
    formatting = []
    for node, (port, sasl_port) in enumerate(zip(ports, sasl_ports, strict=True)):
        listeners = f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}" + (
            f",CONTROLLER://127.0.0.1:{controller}" if node == 0 else ""
        )
        own = _PROPERTIES.format(
            roles="broker,controller" if node == 0 else "broker",
            node=node,
            listeners=listeners,
            port=port,
            sasl_port=sasl_port,
            plain=_PLAIN,
            scram=_SCRAM,
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
    by_listener = {"PLAINTEXT": ports, "SASL_PLAINTEXT": sasl_ports}
    cluster = KafkaCluster(libraries, folder, by_listener, java_options)
    try:
        for node in range(nodes):
            cluster.start(node)
        cluster.wait()
        yield cluster
    finally:
        cluster.kill()


def broker_libraries() -> Path:
    """Return the folder with Kafka's jars. Skip the test without PySpark, Java or Maven Central."""
    return _libraries(_BROKER)


def next_broker_libraries() -> Path:
    """Return the folder with the jars of the next release, as `broker_libraries`."""
    return _libraries(_NEXT_BROKER)


def tools_libraries() -> Path:
    """Return the folder with the jars of Kafka's console tools, as `broker_libraries`."""
    return _libraries(_TOOLS)


def streams_libraries() -> Path:
    """Return the folder with the jars of Kafka Streams, as `broker_libraries`."""
    return _libraries(_STREAMS)


def _libraries(modules: tuple[str, ...]) -> Path:
    with download_folder("kafka-jars") as folder:
        found = jars(folder, *modules)
    assert found is not None, f"Maven Central has no {modules}"
    return found


def run_tool(
    tools: Path, name: str, *arguments: str, stdin: bytes = b"", timeout: float = TIME_LIMIT
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's console tools, such as `ConsoleProducer`, until it ends."""
    command = start_command(tools, name, *arguments)
    ran = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout, check=False)
    return subprocess.CompletedProcess(
        command, ran.returncode, ran.stdout.decode(), ran.stderr.decode()
    )


def run_class(libraries: Path, main: str) -> str:
    """Run a class of Kafka's jars that prints something, and return what it prints."""
    command = _java(libraries, main)
    return subprocess.run(
        command, capture_output=True, text=True, timeout=TIME_LIMIT, check=True
    ).stdout


def start_command(tools: Path, name: str, *arguments: str) -> list[str]:
    """Return the command line of one of Kafka's console tools; a full name starts with `kafka.`."""
    if name.startswith("kafka."):
        return _java(tools, name, *arguments)
    package = "org.apache.kafka.tools" + (
        ".consumer.group"
        if name == "ConsumerGroupCommand"
        else ".consumer"
        if name == "ConsoleConsumer"
        else ""
    )
    return _java(tools, f"{package}.{name}", *arguments)


def start_source(libraries: Path, source: Path, *arguments: str) -> list[str]:
    """Return the command line that compiles a source file in memory and runs it."""
    return _java(libraries, str(source), *arguments)


def _java(
    libraries: Path, main: str, *arguments: str, options: Sequence[str] = _JAVA_OPTIONS
) -> list[str]:
    return [java_command(), *options, "-cp", f"{libraries}/*", main, *arguments]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
