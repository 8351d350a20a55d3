"""What benchmarks measured: one record per value, in `measurements.jsonl`, and its summary.

A record is of one process that measured one side at one case: `question`, `side`, `case` (its
parameters as text), `size` (the one that an axis shows), `metric`, `unit`, `round` and `value`.
What could not be measured, and why, is in `not_measured.jsonl`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.traces.output_folder import read_json

Row = dict[str, Any]

MEASUREMENTS_FILE = "measurements.jsonl"
NOT_MEASURED_FILE = "not_measured.jsonl"
MACHINE_FILE = "machine.json"
TARGETS_FILE = "targets.json"
SUMMARY_FOLDER = "summary"

MEASUREMENTS = T.StructType(
    [
        T.StructField("question", T.StringType()),
        T.StructField("side", T.StringType()),
        T.StructField("case", T.StringType()),
        T.StructField("size", T.DoubleType()),
        T.StructField("metric", T.StringType()),
        T.StructField("unit", T.StringType()),
        T.StructField("round", T.IntegerType()),
        T.StructField("value", T.DoubleType()),
    ]
)

_POINT = ("question", "case", "size", "metric", "unit", "side")


def read_measurements(spark: SparkSession, folder: Path) -> DataFrame:
    """The records of a benchmark's folder.

    InvalidArgumentError if there is no such file, or a line is no record.
    """
    path = folder / MEASUREMENTS_FILE
    if not path.is_file():
        raise InvalidArgumentError(
            "benchmark folder", f"a folder with {MEASUREMENTS_FILE}", str(folder)
        )
    with_corrupt = T.StructType([*MEASUREMENTS.fields, T.StructField("_corrupt", T.StringType())])
    rows = (
        spark.read.schema(with_corrupt)
        .option("columnNameOfCorruptRecord", "_corrupt")
        .json(str(path))
        .cache()
    )
    corrupt = (
        rows.where(F.col("_corrupt").isNotNull() | F.col("value").isNull())
        .select("_corrupt")
        .first()
    )
    if corrupt is not None:
        raise InvalidArgumentError(
            MEASUREMENTS_FILE, "one record a line, each with a value", corrupt[0]
        )
    return rows.drop("_corrupt")


def summarize(spark: SparkSession, folder: Path) -> DataFrame:
    """Median, least and most of each side's rounds at each case, also kept as Parquet in the folder's `summary`."""
    values = F.col("value")
    summary = (
        read_measurements(spark, folder)
        .withColumn("position", F.monotonically_increasing_id())
        .groupBy(*_POINT)
        .agg(
            F.median(values).alias("median"),
            F.min(values).alias("least"),
            F.max(values).alias("most"),
            F.count(values).alias("rounds"),
            # The order in which things were measured is the order in which tables show them.
            F.min("position").alias("position"),
        )
    )
    target = str(folder / SUMMARY_FOLDER)
    summary.coalesce(1).write.mode("overwrite").parquet(target)
    return spark.read.parquet(target)


def not_measured(folder: Path) -> list[Row]:
    """What has no value, and why."""
    path = folder / NOT_MEASURED_FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def machine(folder: Path) -> Row:
    """The machine and the versions; empty if nothing was written of it."""
    path = folder / MACHINE_FILE
    found: Row = read_json(path) if path.is_file() else {}
    return found


def targets(folder: Path) -> list[Row]:
    """The table of targets, if one was written."""
    path = folder / TARGETS_FILE
    found: list[Row] = read_json(path) if path.is_file() else []
    return found
