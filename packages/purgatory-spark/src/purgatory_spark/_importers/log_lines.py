"""Read text logs by Spark."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._importers.log_formats import compiled
from purgatory_spark._importers.table_source import TableSource
from purgatory_spark._spark.file_columns import file_name, file_position
from purgatory_spark._spark.files import CORRUPT, RAW, spark_read_path


def read_log(
    spark: SparkSession, source: TableSource, log_format: str, required: Iterable[str]
) -> DataFrame:
    """Read the `required` columns of a log, with `SOURCE`, `RAW` and `CORRUPT`.

    All columns are text. A line of another format is in `CORRUPT`; empty ones are left out.
    """
    pattern, names = compiled(log_format)
    location = source.location if source.path is None else spark_read_path(source.path)
    line = F.col("value")
    matches = line.rlike(pattern)
    columns = [
        F.when(matches, F.regexp_extract(line, pattern, names.index(name) + 1)).alias(name)
        for name in dict.fromkeys(required)
    ]
    lines = spark.read.text(location).where(F.trim(line) != "")
    corrupt = F.when(~matches, line).alias(CORRUPT)
    return lines.select(*columns, file_name(), file_position(), line.alias(RAW), corrupt)
