"""The Spark session of the tests: one in each process, created on first use."""

from __future__ import annotations

from pyspark.sql import SparkSession

from purgatory_spark._spark.session import create_session

#: Code that runs once does not need the optimizing compiler, nor a small heap parallel collection.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: Spark's defaults for generating classes from plans and expressions.
CODE_GENERATION = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}

#: Differences from a user's session: tables have a few rows, and plans run once or twice.
#: `test_session.py` has a test with the users' settings.
SMALL_AND_QUICK = {
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # Further tasks, and plans that are changed while they run, cost more than the rows.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Classes generated for plans of a few rows took a quarter of the JVM's time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def small_session() -> SparkSession:
    """Return the session that runs in this process, or a new one with `SMALL_AND_QUICK`."""
    return create_session("request-purgatory tests", master="local[2]", settings=SMALL_AND_QUICK)
