"""Analysis folders, the output of `purgatory analyze`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._spark.spark_tables import read_spark_table
from purgatory_spark._traces.manifest import read_manifest

MANIFEST = "analysis.json"


@dataclass(frozen=True)
class Analysis:
    """An analysis on disk.

    The folder has Parquet tables, and the analysis' parameters in `analysis.json`. `outcomes/` has
    a row for each request. The small tables are `summary`, `waits`, `answers`, `timeline`,
    `contributors` and `what_if`; with marks `marks`; and with replays `lateness`, `hosts` and
    `agreement`.

    Attributes:
        path: The folder.
    """

    path: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The trace's manifest, the replays' settings and the analysis' parameters.

        Raises:
            TraceFormatError: The folder is not an analysis folder.
        """
        return read_manifest(
            self.path, "an analysis folder", MANIFEST, "make one with `purgatory analyze`"
        )

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """Return a small table, or `outcomes`."""
        return read_spark_table(spark, self.path / name)

    def rows(self, name: str, **where: str) -> list[dict[str, Any]]:
        """Read rows of a table into memory, without a Spark job.

        `summary`, `marks` and `hosts` have rows for each host, so select rows with `where`.

        Args:
            name: A small table.
            where: Columns, and the value that each must have.

        Returns:
            The rows in the order in which they were written. Times are in UTC.

        Raises:
            TraceFormatError: The table is missing, or damaged.
        """
        folder = self.path / name
        filters = [(column, "=", value) for column, value in where.items()] or None
        try:
            table = pq.read_table(folder, filters=filters, partitioning=None)
        except (OSError, ValueError) as error:
            raise TraceFormatError(f"{folder}: can't be read as Parquet ({error})") from error
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows
