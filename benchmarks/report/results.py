"""The results of benchmarks on disk: measured values, their summary, and the machine.

A results folder has `measurements.jsonl` with one JSON record for each value. A record says what
was measured (`question`, `side`, `case`, `metric`, `unit`), the number that a chart's axis shows
(`size`), the `round` and the `value`. `not_measured.jsonl` says which values are missing, and why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._output_folder import read_json
from request_purgatory.errors import InvalidArgumentError

Row = dict[str, Any]

#: The name of the published benchmark's records in `question`.
PUBLISHED = "published"

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

_GROUP = ("question", "case", "size", "metric", "unit", "side")


def require_measurements(folder: Path) -> None:
    """Check that a folder has measured values, without reading them.

    Raises:
        InvalidArgumentError: It has none.
    """
    if not (folder / MEASUREMENTS_FILE).is_file():
        raise InvalidArgumentError(
            "benchmark folder", f"a folder with {MEASUREMENTS_FILE}", str(folder)
        )


def read_measurements(spark: SparkSession, folder: Path) -> DataFrame:
    """Read the measured values.

    Args:
        spark: The session.
        folder: A results folder.

    Returns:
        Rows of `MEASUREMENTS`.

    Raises:
        InvalidArgumentError: The folder has no measurements, or a line is not a valid record.
    """
    require_measurements(folder)
    with_corrupt = T.StructType([*MEASUREMENTS.fields, T.StructField("_corrupt", T.StringType())])
    rows = (
        spark.read.schema(with_corrupt)
        .option("columnNameOfCorruptRecord", "_corrupt")
        .json(str(folder / MEASUREMENTS_FILE))
        .cache()
    )
    corrupt = (
        rows.where(F.col("_corrupt").isNotNull() | F.col("value").isNull())
        .select("_corrupt")
        .first()
    )
    if corrupt is not None:
        raise InvalidArgumentError(
            MEASUREMENTS_FILE, "one JSON record on each line, each with a value", corrupt[0]
        )
    return rows.drop("_corrupt")


def summarize(spark: SparkSession, folder: Path) -> DataFrame:
    """Summarize the rounds, and write the summary as Parquet to the folder's `summary`.

    Args:
        spark: The session.
        folder: A results folder.

    Returns:
        A row for each question, case, metric and side: `median`, `min`, `max` and number of
        `rounds`, and `position`, which orders rows as they were first measured.

    Raises:
        InvalidArgumentError: As `read_measurements`.
    """
    values = F.col("value")
    summary = (
        read_measurements(spark, folder)
        .withColumn("position", F.monotonically_increasing_id())
        .groupBy(*_GROUP)
        .agg(
            F.median(values).alias("median"),
            F.min(values).alias("min"),
            F.max(values).alias("max"),
            F.count(values).alias("rounds"),
            F.min("position").alias("position"),
        )
    )
    target = str(folder / SUMMARY_FOLDER)
    summary.coalesce(1).write.mode("overwrite").parquet(target)
    return spark.read.parquet(target)


def read_not_measured(folder: Path) -> list[Row]:
    """Return the records of missing values, each with its `reason`; none if there is no file."""
    path = folder / NOT_MEASURED_FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def read_machine(folder: Path) -> Row:
    """Return the machine and the software versions; empty if there is no file."""
    path = folder / MACHINE_FILE
    found: Row = read_json(path) if path.is_file() else {}
    return found


def read_targets(folder: Path) -> list[Row]:
    """Return the targets and whether they were met; none if there is no file."""
    path = folder / TARGETS_FILE
    found: list[Row] = read_json(path) if path.is_file() else []
    return found
