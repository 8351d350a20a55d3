"""Fixtures of the pipeline's tests: one Spark session for all of them, made when the first one asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.session import create_session, stream_settings


#: What differs from a user's session: the tests' tables have a few rows, and their plans run once or twice. `test_session.py` has
#: a test with the settings that users get.
SMALL_AND_QUICK = {
    # Code that runs once is not worth the second compiler, or collectors with threads of their own.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # Each further task, and each plan that is made again while it runs, costs more than the rows.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Make one local session for all tests of this process."""
    session = create_session("request-purgatory tests", master="local[2]", settings=SMALL_AND_QUICK)
    yield session
    session.stop()


@pytest.fixture
def streaming(spark: SparkSession) -> Iterator[SparkSession]:
    """Give the session the settings of streams, and take them back afterwards."""
    names = ("spark.sql.shuffle.partitions", "spark.sql.execution.arrow.maxRecordsPerBatch")
    before = {name: spark.conf.get(name) for name in names}
    stream_settings(spark)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, str(value))
