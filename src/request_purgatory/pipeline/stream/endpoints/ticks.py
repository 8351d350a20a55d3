"""Ticks.

Rows that say up to which time all has come, so that the watermark moves on a quiet stream.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.pipeline.traces.importers.delimited import spark_path


def quiet_ticks(spark: SparkSession, idle_s: float) -> DataFrame:
    """Ticks for inputs whose times are the present: what happened `idle_s` seconds ago has come by now.

    So the watermark follows the clock while nothing comes, and requests expire on a quiet stream.
    """
    seconds = (
        spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    )
    return seconds.select((F.col("timestamp") - F.expr(f"interval {idle_s} seconds")).alias("at"))


def told_ticks(spark: SparkSession, folder: Path) -> DataFrame:
    """Ticks from a folder of JSON files with rows `{"at": ...}`."""
    folder.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema("at TIMESTAMP").json(spark_path(folder))
