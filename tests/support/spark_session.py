"""The Spark session of the tests: one in a process, made when the first test asks."""

from __future__ import annotations

from pyspark.sql import SparkSession

from request_purgatory.pipeline.spark.session import create_session

#: Code that runs once is not worth the second compiler, nor a small heap a collector with threads
#: of its own.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: How Spark makes a class of each plan and expression, and its defaults.
CODE_GENERATION = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}

#: What differs from a user's session: the tests' tables have a few rows, and their plans run once
#: or twice. `test_session.py` has a test with the settings that users get.
SMALL_AND_QUICK = {
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # Each further task, and each plan that is made again while it runs, costs more than the rows.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Nor is a plan of a few rows worth classes of its own: they were a quarter of the JVM's time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def small_session() -> SparkSession:
    """Return the session that runs in this process, or a new one with `SMALL_AND_QUICK`."""
    return create_session("request-purgatory tests", master="local[2]", settings=SMALL_AND_QUICK)
