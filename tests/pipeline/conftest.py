"""Fixtures of the pipeline's tests: one Spark session for all of them, made when the first one asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.session import create_session, stream_settings


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session, as users get it."""
    session = create_session("request-purgatory tests", master="local[2]")
    # What the tests shuffle is tiny: every task more is only time.
    session.conf.set("spark.sql.shuffle.partitions", "3")
    yield session
    session.stop()


@pytest.fixture
def streaming(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with what streams set, taken back afterwards."""
    names = ("spark.sql.shuffle.partitions", "spark.sql.execution.arrow.maxRecordsPerBatch")
    before = {name: spark.conf.get(name) for name in names}
    stream_settings(spark)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, str(value))
