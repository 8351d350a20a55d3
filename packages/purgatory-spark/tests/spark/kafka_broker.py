"""A Kafka broker for tests, from Maven Central; needs Java and PySpark."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from purgatory_spark._spark.java import require_java
from tests.spark.job import QUICK_JAVA
from tests.support.maven import jars
from tests.support.ports import free_ports

if TYPE_CHECKING:
    from tests.spark.kafka_client import Broker

__all__ = ["jars"]

TIME_LIMIT = 120.0

#: The broker, and a logger for its error messages.
BROKER = ("org.apache.kafka:kafka_2.13:4.1.1", "org.slf4j:slf4j-simple:1.7.36")

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


@contextmanager
def running_broker(libraries: Path, folder: Path) -> Iterator[Broker]:
    """Run a cluster of one broker, with its data in `folder`."""
    # Imported here, because tests that only need the jars run without librdkafka.
    from tests.spark.kafka_client import Broker

    port, controller = free_ports(2)
    properties = folder / "server.properties"
    properties.write_text(
        _PROPERTIES.format(port=port, controller=controller, data=folder / "data")
    )
    java = [require_java(), "-Xmx256m", *QUICK_JAVA.split(), "-cp", f"{libraries}/*"]
    formatting = [
        *java,
        "kafka.tools.StorageTool",
        "format",
        "-t",
        "cHVyZ2F0b3J5LXRlc3RzMQ",
        "-c",
        str(properties),
    ]
    subprocess.run(formatting, capture_output=True, timeout=TIME_LIMIT, check=True)
    log = folder / "broker.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)], stdout=output, stderr=output
        )
    try:
        broker = Broker(f"127.0.0.1:{port}")
        deadline = time.monotonic() + TIME_LIMIT
        while not broker.is_ready():
            assert process.poll() is None, log.read_text()[-5000:]
            assert time.monotonic() < deadline, log.read_text()[-5000:]
        yield broker
    finally:
        process.kill()
        process.wait(TIME_LIMIT)


@contextmanager
def kafka_jvm(libraries: Path) -> Iterator[Any]:
    """Run a JVM with Kafka's clients, like the driver of a stream has."""
    port, process = launch_gateway(
        classpath=f"{libraries}/*",
        java_path=require_java(),
        javaopts=["-Xmx128m", *QUICK_JAVA.split()],
        die_on_exit=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(TIME_LIMIT)
