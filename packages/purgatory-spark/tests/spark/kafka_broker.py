"""A Kafka broker for tests, from Maven Central; needs Java and PySpark."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from tests.spark.job import QUICK_JAVA
from tests.support.ports import free_ports

from purgatory_spark._spark.java import require_java

if TYPE_CHECKING:
    from tests.spark.kafka_client import Broker

TIME_LIMIT = 120.0

#: The broker, and a logger for its error messages.
BROKER = ("org.apache.kafka:kafka_2.13:4.1.1", "org.slf4j:slf4j-simple:1.7.36")

#: Seconds after which Maven Central is asked again for a module that it did not have.
_RETRY_INTERVAL = 86_400

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
_UNREACHABLE = re.compile(
    r"Server access error|SERVER ERROR|UnknownHostException|ConnectException|timed out",
    re.IGNORECASE,
)

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
    """Return a folder with the jars of Maven modules; None if Maven Central lacks a module.

    They are downloaded by the Ivy in PySpark. Without access to Maven Central the test is skipped.
    """
    target = cache / "+".join(module.replace(":", "-") for module in modules)
    if (target / "complete").exists():
        return target
    absent = cache / f"{target.name}.absent"
    if absent.exists() and time.time() - absent.stat().st_mtime < _RETRY_INTERVAL:
        return None
    settings, module_file = cache / "settings.xml", cache / "ivy.xml"
    settings.write_text(_SETTINGS.format(cache=cache / "ivy"))
    scope = ",runtime" if dependencies else ""
    lines = "".join(_DEPENDENCY.format(*module.split(":"), scope) for module in modules)
    module_file.write_text(_MODULE.format(dependencies=lines))
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    command = [
        require_java(),
        "-cp",
        str(ivy),
        "org.apache.ivy.Main",
        "-settings",
        str(settings),
        "-ivy",
        str(module_file),
    ]
    retrieve = ["-retrieve", f"{target}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
    result = subprocess.run(
        [*command, *retrieve], capture_output=True, text=True, timeout=10 * TIME_LIMIT, check=False
    )
    if result.returncode == 0 and target.is_dir():
        (target / "complete").touch()
        return target
    output = result.stdout + result.stderr
    if _UNREACHABLE.search(output):
        pytest.skip(
            "needs Maven Central for the Kafka broker and Spark's connector; it can't be reached"
        )
    assert "not found" in output, output[-5000:]
    absent.touch()
    return None


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
