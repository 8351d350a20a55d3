"""Read CSV files by Spark, as text."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._spark.csv_files import CSV_OPTIONS, csv_header, has_quoted_newline
from purgatory_spark._spark.file_columns import file_name, file_position, united
from purgatory_spark._spark.files import CORRUPT, RAW, require_columns, spark_read_path
from purgatory_spark._spark.schemas import text_schema


def read_csv_rows(spark: SparkSession, files: list[Path], required: list[str]) -> DataFrame:
    """Read the `required` columns of CSV files, as `table_source.read_rows` does."""
    # Files of one folder may have their columns in different orders. Spark would use the order of
    # the first file for all.
    by_header: dict[tuple[tuple[str, ...], bool], list[Path]] = defaultdict(list)
    for file in files:
        names = csv_header(file)
        require_columns(file, names, required)
        by_header[tuple(names), has_quoted_newline(file)].append(file)
    return united(
        [
            _read_csv(spark, group, names, required, multi_line=multi_line)
            for (names, multi_line), group in by_header.items()
        ]
    )


def _read_csv(
    spark: SparkSession,
    files: list[Path],
    names: tuple[str, ...],
    required: list[str],
    *,
    multi_line: bool,
) -> DataFrame:
    # The columns are read under generated names. The file's own may differ by case only, which
    # Spark can't distinguish, or have characters that it can't parse.
    plain = [f"c{number}" for number in range(len(names))]
    options = {**CSV_OPTIONS, "multiLine": multi_line}
    reader = spark.read.schema(text_schema(*plain, CORRUPT)).options(**options)
    rows = reader.csv([spark_read_path(file) for file in files])
    whole = [F.col(ours).alias(theirs) for ours, theirs in zip(plain, names, strict=True)]
    wanted = [F.col(plain[names.index(name)]).alias(name) for name in required]
    return rows.select(*wanted, file_name(), file_position(), F.struct(*whole).alias(RAW), CORRUPT)
