"""Ticks: rows with a time before which no further input is expected.

Spark's watermark follows the rows of an input, and does not advance while the input is quiet. Ticks
are added to both inputs to advance it.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._spark.files import spark_read_path


def clock_ticks(spark: SparkSession, idle_timeout: float) -> DataFrame:
    """Return ticks that follow the clock, one each second.

    They let requests expire on a quiet stream. They are for inputs whose times are the present.

    Args:
        spark: the session.
        idle_timeout: how many seconds a tick is behind the clock.

    Returns:
        A streaming DataFrame with the column `at TIMESTAMP`.
    """
    seconds = (
        spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    )
    return seconds.select(
        (F.col("timestamp") - F.expr(f"interval {idle_timeout} seconds")).alias("at")
    )


def folder_ticks(spark: SparkSession, folder: Path) -> DataFrame:
    """Return ticks from a folder of JSON files with rows `{"at": ...}`."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = T.StructType([T.StructField("at", T.TimestampType())])
    return spark.readStream.schema(schema).json(spark_read_path(folder))
