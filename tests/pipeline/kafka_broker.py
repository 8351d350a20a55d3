"""A real Kafka broker for tests, on this machine, and a client for it. All it needs are Java, PySpark and Maven Central."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from request_purgatory.pipeline.java import require_java
from tests.ports import free_ports

TIME_LIMIT = 120.0

#: The broker, and what lets it say why it does not start.
BROKER = ("org.apache.kafka:kafka_2.13:4.1.1", "org.slf4j:slf4j-simple:1.7.36")

_SETTINGS = """
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true" root="https://repo1.maven.org/maven2/"/></resolvers>
</ivysettings>
"""
_MODULE = """
<ivy-module version="2.0">
  <info organisation="tests" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
_DEPENDENCY = '<dependency org="{}" name="{}" rev="{}" conf="default->master{}"/>'
_UNREACHABLE = re.compile(r"Server access error|SERVER ERROR|UnknownHostException|ConnectException|timed out", re.IGNORECASE)

_PROPERTIES = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
"""


def jars(cache: Path, *modules: str, dependencies: bool = True) -> Path | None:
    """A folder with the jars of Maven modules, by the Ivy that PySpark comes with; None if Maven Central has no such module.

    The test is skipped if Maven Central can't be reached.
    """
    target = cache / "+".join(module.replace(":", "-") for module in modules)
    if (target / "complete").exists():
        return target
    settings, module_file = cache / "settings.xml", cache / "ivy.xml"
    settings.write_text(_SETTINGS.format(cache=cache / "ivy"))
    further = ",runtime" if dependencies else ""
    wanted = "".join(_DEPENDENCY.format(*module.split(":"), further) for module in modules)
    module_file.write_text(_MODULE.format(dependencies=wanted))
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    command = [require_java(), "-cp", str(ivy), "org.apache.ivy.Main", "-settings", str(settings), "-ivy", str(module_file)]
    retrieve = ["-retrieve", f"{target}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
    ran = subprocess.run([*command, *retrieve], capture_output=True, text=True, timeout=10 * TIME_LIMIT, check=False)
    if ran.returncode == 0 and target.is_dir():
        (target / "complete").touch()
        return target
    said = ran.stdout + ran.stderr
    if _UNREACHABLE.search(said):
        pytest.skip("Maven Central can't be reached, which has the Kafka broker and Spark's connector")
    assert "not found" in said, said[-5000:]
    return None


class Broker:
    """A broker that runs, by its address, and a client of it in a JVM of its own."""

    def __init__(self, address: str, gateway: JavaGateway) -> None:
        self.address = address
        self.jvm: Any = gateway.jvm
        self._bytes = self.jvm.org.apache.kafka.common.serialization
        self._config = {"bootstrap.servers": address}

    def cluster_id(self) -> str:
        """As the broker tells it."""
        with self._client(self.jvm.org.apache.kafka.clients.admin.AdminClient.create(self._config)) as admin:
            return str(admin.describeCluster().clusterId().get())

    def make_topics(self, *names: str, partitions: int = 2) -> None:
        """New topics."""
        kafka = self.jvm.org.apache.kafka.clients.admin
        with self._client(kafka.AdminClient.create(self._config)) as admin:
            admin.createTopics([kafka.NewTopic(name, partitions, 1) for name in names]).all().get()

    def send(self, topic: str, values: Iterable[bytes | None], *, partitions: int = 2) -> None:
        """Messages without keys, to the partitions in turn."""
        kafka = self.jvm.org.apache.kafka.clients.producer
        serializers = (self._bytes.ByteArraySerializer(), self._bytes.ByteArraySerializer())
        with self._client(kafka.KafkaProducer(self._config, *serializers)) as producer:
            for number, value in enumerate(values):
                producer.send(kafka.ProducerRecord(topic, number % partitions, None, value))

    def read(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """All keys and values of a topic, partition by partition."""
        common = self.jvm.org.apache.kafka.common
        kafka = self.jvm.org.apache.kafka.clients.consumer
        deserializers = (self._bytes.ByteArrayDeserializer(), self._bytes.ByteArrayDeserializer())
        found = []
        with self._client(kafka.KafkaConsumer(self._config, *deserializers)) as consumer:
            for information in consumer.partitionsFor(topic):
                partition = common.TopicPartition(topic, information.partition())
                consumer.assign([partition])
                consumer.seekToBeginning([partition])
                end = consumer.endOffsets([partition])[partition]
                until = time.monotonic() + TIME_LIMIT
                while consumer.position(partition) < end:
                    assert time.monotonic() < until, f"{topic} can't be read to its end"
                    records = consumer.poll(self.jvm.java.time.Duration.ofMillis(500))
                    found += [(record.key(), record.value()) for record in records.records(partition)]
        return found

    @contextmanager
    def _client(self, client: Any) -> Iterator[Any]:
        try:
            yield client
        finally:
            client.close()


@contextmanager
def running_broker(libraries: Path, folder: Path) -> Iterator[Broker]:
    """A broker of one node, whose data is in `folder`."""
    port, controller = free_ports(2)
    properties = folder / "server.properties"
    properties.write_text(_PROPERTIES.format(port=port, controller=controller, data=folder / "data"))
    java = [require_java(), "-Xmx256m", "-cp", f"{libraries}/*"]
    formatting = [*java, "kafka.tools.StorageTool", "format", "-t", "cHVyZ2F0b3J5LXRlc3RzMQ", "-c", str(properties)]
    subprocess.run(formatting, capture_output=True, timeout=TIME_LIMIT, check=True)
    log = folder / "broker.log"
    with log.open("w") as told:
        process = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=told, stderr=told)
    try:
        with client_of(libraries, f"127.0.0.1:{port}") as broker:
            _wait(broker, process, log)
            yield broker
    finally:
        process.kill()
        process.wait(TIME_LIMIT)


@contextmanager
def client_of(libraries: Path, address: str) -> Iterator[Broker]:
    """Whatever broker is at an address, by Kafka's own clients."""
    gateway_port, client = launch_gateway(
        classpath=f"{libraries}/*", java_path=require_java(), javaopts=["-Xmx128m"], die_on_exit=True, return_proc=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=gateway_port, auto_convert=True))
    try:
        yield Broker(address, gateway)
    finally:
        gateway.shutdown()
        client.stdin.close()
        client.wait(TIME_LIMIT)


def _wait(broker: Broker, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + TIME_LIMIT
    while True:
        try:
            broker.cluster_id()
        except Py4JJavaError:
            assert process.poll() is None, log.read_text()[-5000:]
            assert time.monotonic() < until, log.read_text()[-5000:]
        else:
            return
