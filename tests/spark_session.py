"""The Spark session of the tests: one in a process, made when the first test asks."""

from __future__ import annotations

from pyspark.sql import SparkSession

from request_purgatory.pipeline.session import create_session

#: Code that runs once is not worth the second compiler, nor a small heap a collector with threads of
#: its own.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: What differs from a user's session: the tests' tables have a few rows, and their plans run once or
#: twice. `test_session.py` has a test with the settings that users get.
SMALL_AND_QUICK = {
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # Each further task, and each plan that is made again while it runs, costs more than the rows.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}


def small_session() -> SparkSession:
    """Return the session that runs in this process, or a new one with `SMALL_AND_QUICK`."""
    return create_session("request-purgatory tests", master="local[2]", settings=SMALL_AND_QUICK)
