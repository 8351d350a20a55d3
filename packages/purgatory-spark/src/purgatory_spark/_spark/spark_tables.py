"""Write tables in Parquet, and read those that Spark wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._spark.files import PARQUET_SUFFIX, spark_read_path, spark_write_path

#: The key of the table's schema, as JSON, in the footers of Parquet files that Spark wrote.
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
#: Options of Spark's Parquet writers. The session's default, INT96, is deprecated, and few other
#: readers keep its microseconds.
PARQUET_OPTIONS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


def write_spark_table(table: DataFrame, folder: Path) -> None:
    """Write a table in Parquet, with times in the same type in every session."""
    table.write.options(**PARQUET_OPTIONS).parquet(spark_write_path(folder))


def spark_schema(footer: pq.FileMetaData) -> T.StructType | None:
    """Return the schema of a Parquet file that Spark wrote; None for one of another writer."""
    text = (footer.metadata or {}).get(SPARK_SCHEMA)
    return T.StructType.fromJson(json.loads(text)) if text else None


def read_spark_table(spark: SparkSession, folder: Path) -> DataFrame:
    """Read a table that Spark wrote in Parquet.

    Given a folder only, Spark would start a job to read the schema from a footer. So the driver
    reads the footer itself. Files of other writers have no such schema, and Spark infers it.
    """
    reader = spark.read
    file = min(folder.glob(f"*{PARQUET_SUFFIX}"), default=None)
    try:
        schema = spark_schema(pq.read_metadata(file)) if file else None
    except (OSError, ValueError):
        schema = None  # Spark's reader raises the error for a damaged file.
    if schema:
        reader = reader.schema(schema)
    return reader.parquet(spark_read_path(folder))


def rows_in(folder: Path) -> int:
    """Return the number of rows of a table in Parquet, by the footers of its files."""
    return sum(pq.read_metadata(file).num_rows for file in folder.glob(f"*{PARQUET_SUFFIX}"))
