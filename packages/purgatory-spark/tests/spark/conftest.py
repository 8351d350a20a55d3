"""Fixtures of the pipeline's tests. The fixture `spark` is in the conftest.py of all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.spark.session import apply_stream_settings
from tests.support.spark_session import CODE_GENERATION


@pytest.fixture
def streaming(spark: SparkSession) -> Iterator[SparkSession]:
    """Apply the settings of streams to the session, and restore them afterwards."""
    names = (
        "spark.sql.shuffle.partitions",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.sql.execution.arrow.maxBytesPerBatch",
        *CODE_GENERATION,
    )
    before = {name: spark.conf.get(name) for name in names}
    # Without code generation Spark uses another Parquet reader, with other errors.
    for name, value in CODE_GENERATION.items():
        spark.conf.set(name, value)
    apply_stream_settings(spark)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, str(value))
