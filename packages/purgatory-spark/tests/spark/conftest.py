"""Fixtures of the pipeline's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from purgatory_spark._spark.session import apply_stream_settings
from tests.spark.spark_session import CODE_GENERATION, small_session

# Else Arrow's CSV reader keeps a pipe open from its first use on in which SIGINT is handled.
pa.enable_signal_handlers(False)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start one local session for all tests of this process."""
    session = small_session()
    yield session
    session.stop()


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
