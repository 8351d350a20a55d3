"""Fixtures of the pipeline's tests; the Spark session itself is one of all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.spark.session import stream_settings
from tests.support.spark_session import CODE_GENERATION


@pytest.fixture
def streaming(spark: SparkSession) -> Iterator[SparkSession]:
    """Give the session the settings of streams, and take them back afterwards."""
    names = (
        "spark.sql.shuffle.partitions",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        *CODE_GENERATION,
    )
    before = {name: spark.conf.get(name) for name in names}
    # Without such classes Spark reads Parquet by another reader, whose errors are others.
    for name, value in CODE_GENERATION.items():
        spark.conf.set(name, value)
    stream_settings(spark)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, str(value))
