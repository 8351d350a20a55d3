"""Spark's Kafka connector, which Spark does not include, and sessions that have it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaPackage
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from purgatory_spark._spark.session import create_session
from purgatory_spark._stream.endpoints.endpoint import EndpointError
from request_purgatory.errors import InvalidArgumentError

#: In place of a connector: the cluster or Spark's configuration provides it.
PROVIDED = "provided"
#: The name of Spark's package for Avro.
AVRO = "spark-avro"

_SPARK_SQL = re.compile(r"spark-sql_(\d+(?:\.\d+)*)-(.+)\.jar")
_COORDINATES = re.compile(r"[^:\s]+:[^:\s]+:[^:\s]+")


_NOT_WITH_CONNECT = (
    "kafka:// addresses do not work with Spark Connect, because topics are checked in the driver's "
    "JVM before the start; unset SPARK_REMOTE, or submit the command with spark-submit"
)


class ConnectorError(RuntimeError):
    """Spark's Kafka connector is missing, and could not be downloaded."""


def spark_jvm(spark: SparkSession) -> Any:
    """Return the driver's JVM as a Py4J view; PySpark has no public access to it."""
    if getattr(spark, "sparkContext", None) is None:
        raise EndpointError(_NOT_WITH_CONNECT)
    return spark.sparkContext._jvm  # noqa: SLF001


def default_connector() -> str:
    """Return the Maven coordinates of the connector for the installed Spark and its Scala."""
    return spark_package("spark-sql-kafka-0-10")


def spark_package(artifact: str) -> str:
    jars = Path(_find_spark_home()) / "jars"
    versions = [
        match for jar in jars.glob("spark-sql_*.jar") if (match := _SPARK_SQL.fullmatch(jar.name))
    ]
    if len(versions) != 1:
        raise ConnectorError(
            f"{jars}: expected one jar spark-sql_SCALA-VERSION.jar, found {len(versions)}; name "
            "the connector with --kafka-connector GROUP:ARTIFACT:VERSION"
        )
    scala, version = versions[0].groups()
    return f"org.apache.spark:{artifact}_{scala}:{version}"


def connector_settings(connector: str | None) -> dict[str, str]:
    """Return Spark's settings for a session with the connector.

    `connector`: Maven coordinates or paths of jars, with commas between them; `PROVIDED`; or None
    for `default_connector()`.
    """
    if connector == PROVIDED:
        return {}
    packages, jars = [], []
    for part in (connector or default_connector()).split(","):
        if part.endswith(".jar"):
            if not Path(part).is_file():
                raise InvalidArgumentError("kafka_connector", "an existing jar", part)
            jars.append(str(Path(part).resolve()))
        elif _COORDINATES.fullmatch(part):
            packages.append(part)
        else:
            raise InvalidArgumentError(
                "kafka_connector", f"GROUP:ARTIFACT:VERSION, jars, or {PROVIDED!r}", part
            )
    settings = {"spark.jars.packages": ",".join(packages), "spark.jars": ",".join(jars)}
    return {name: value for name, value in settings.items() if value}


def create_kafka_session(connector: str | None = None) -> SparkSession:
    """Return a session with Spark's Kafka connector, which Spark downloads from Maven Central."""
    settings = connector_settings(connector)
    if os.environ.get("SPARK_REMOTE", "").startswith("sc://"):
        raise EndpointError(_NOT_WITH_CONNECT)
    try:
        spark = create_session(settings=settings)
    except PySparkRuntimeError as error:
        if "spark.jars.packages" not in settings or error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise ConnectorError(
            "Spark did not start with its Kafka connector "
            f"{settings['spark.jars.packages']}: the lines above name the file that could not be "
            "downloaded, and from where; name another connector, or jars, with --kafka-connector"
        ) from error
    provider = spark_jvm(spark).org.apache.spark.sql.kafka010.KafkaSourceProvider
    if isinstance(provider, JavaPackage):
        spark.stop()
        raise ConnectorError(
            "this Spark runs without its Kafka connector: start it with --packages "
            f"{default_connector()}, or name another connector, or jars, with --kafka-connector"
        )
    return spark
