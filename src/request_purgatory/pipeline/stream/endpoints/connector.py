"""Spark's Kafka connector, which Spark does not come with.

Which one it is, and sessions that have it.
"""

from __future__ import annotations

import re
from pathlib import Path

from py4j.java_gateway import JavaPackage
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.spark.session import create_session

#: Instead of a connector: the cluster, or Spark's configuration, has it.
PROVIDED = "provided"

_SPARK_SQL = re.compile(r"spark-sql_(\d+(?:\.\d+)*)-(.+)\.jar")
_COORDINATES = re.compile(r"[^:\s]+:[^:\s]+:[^:\s]+")


class ConnectorError(RuntimeError):
    """Spark's Kafka connector is not there, and could not be had."""


def connector_of_spark() -> str:
    """The Maven coordinates of the connector for the Spark that is installed: of its version and its Scala's.

    Raises:
        ConnectorError: Spark's own jar, whose name tells both, is not where it should be.
    """
    jars = Path(_find_spark_home()) / "jars"
    found = [
        match for jar in jars.glob("spark-sql_*.jar") if (match := _SPARK_SQL.fullmatch(jar.name))
    ]
    if len(found) != 1:
        raise ConnectorError(
            f"{jars}: {len(found)} jars spark-sql_SCALA-VERSION.jar, where one tells which Kafka connector fits"
        )
    scala, version = found[0].groups()
    return f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}"


def connector_settings(connector: str | None) -> dict[str, str]:
    """Spark's settings for a session with the connector.

    Args:
        connector: Maven coordinates, or paths of jars, with commas between them; `PROVIDED`; None
            for that of Spark's version.

    Raises:
        InvalidArgumentError: something else, or a jar that is not there.
        ConnectorError: as `connector_of_spark`.
    """
    if connector == PROVIDED:
        return {}
    packages, jars = [], []
    for part in (connector or connector_of_spark()).split(","):
        if part.endswith(".jar"):
            if not Path(part).is_file():
                raise InvalidArgumentError("kafka_connector", "of jars that are there", part)
            jars.append(str(Path(part).resolve()))
        elif _COORDINATES.fullmatch(part):
            packages.append(part)
        else:
            raise InvalidArgumentError(
                "kafka_connector", f"GROUP:ARTIFACT:VERSION, jars, or {PROVIDED!r}", part
            )
    settings = {"spark.jars.packages": ",".join(packages), "spark.jars": ",".join(jars)}
    return {name: value for name, value in settings.items() if value}


def session_with_connector(connector: str | None = None) -> SparkSession:
    """A session as `create_session` makes it, with the connector, which Spark fetches from Maven Central and keeps.

    Raises:
        InvalidArgumentError: as `connector_settings`.
        ConnectorError: it could not be had; or Spark runs already, without it.
    """
    settings = connector_settings(connector)
    advice = "; name another one, or jars, with --kafka-connector"
    try:
        spark = create_session(settings=settings)
    except PySparkRuntimeError as error:
        if "spark.jars.packages" not in settings or error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise ConnectorError(
            f"Spark did not start with its Kafka connector {settings['spark.jars.packages']}: see above which file could not be "
            f"had, and from where{advice}"
        ) from error
    provider = spark.sparkContext._jvm.org.apache.spark.sql.kafka010.KafkaSourceProvider  # type: ignore[union-attr]
    if isinstance(provider, JavaPackage):
        spark.stop()
        raise ConnectorError(
            f"this Spark runs without its Kafka connector: start it with --packages {connector_of_spark()}, or the like{advice}"
        )
    return spark
