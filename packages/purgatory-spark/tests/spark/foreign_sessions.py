"""Sessions that the package did not make, with other settings than its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

#: What a session has that nobody has configured, where `create_session` chooses otherwise.
SPARK_DEFAULTS: Mapping[str, str] = {
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.csv.parser.columnPruning.enabled": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
}

#: Zones in pairs with ANSI mode. At 2024-11-03 06:00 UTC, New York turned the clock back. The first
#: differs from `create_session` in both; the fast tier has no time for the others.
ZONES = [
    pytest.param(("America/New_York", "true"), id="America/New_York ANSI"),
    pytest.param(("UTC", "false"), id="UTC", marks=pytest.mark.slow),
    pytest.param(("America/New_York", "false"), id="America/New_York", marks=pytest.mark.slow),
    pytest.param(("Asia/Kolkata", "true"), id="Asia/Kolkata ANSI", marks=pytest.mark.slow),
]


@contextmanager
def foreign_session(spark: SparkSession, **settings: str) -> Iterator[SparkSession]:
    """Yield a session beside `spark`, in the same JVM, with Spark's defaults and `settings`.

    In the names of settings `__` stands for a dot. The session's settings, and those of `spark`,
    must be the same after the block as before.
    """
    session = spark.newSession()
    chosen = {f"spark.sql.{name.replace('__', '.')}": value for name, value in settings.items()}
    for name, value in {**SPARK_DEFAULTS, **chosen}.items():
        session.conf.set(name, value)
    before = [dict(each.conf.getAll) for each in (session, spark)]
    yield session
    assert [dict(each.conf.getAll) for each in (session, spark)] == before
