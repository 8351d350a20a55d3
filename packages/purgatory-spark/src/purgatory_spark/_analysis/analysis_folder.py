"""Analysis folders, the output of `purgatory analyze`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
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
        """Read rows of a table into memory, without Spark.

        `summary`, `marks` and `hosts` have rows for each host, so select rows with `where`.

        Args:
            name: A small table.
            where: Columns, and the value that each must have.

        Returns:
            The rows in the order in which they were written. Times are in UTC.

        Raises:
            TraceFormatError: The table is missing, or damaged.
        """
        return [row for batch in self.batches(name, **where) for row in batch.to_pylist()]

    def batches(self, name: str, **where: str) -> Iterator[pa.RecordBatch]:
        """Read the `rows` of a table piece by piece, as it may have one for each of many hosts."""
        folder = self.path / name
        chosen = pc.scalar(True)
        for column, value in where.items():
            chosen &= ds.field(column) == value
        try:
            yield from ds.dataset(folder, format="parquet").to_batches(filter=chosen)
        except (OSError, ValueError) as error:
            raise TraceFormatError(f"{folder}: can't be read as Parquet ({error})") from error

    def first_rows(
        self, name: str, order: Sequence[tuple[str, str]], most: int, **where: str
    ) -> tuple[list[dict[str, Any]], int]:
        """Return the first rows in an order of columns, and the number of all chosen rows.

        `order`: columns, each with `ascending` or `descending`; null is after all others.
        """
        total, first = 0, None
        for batch in self.batches(name, **where):
            total += batch.num_rows
            rows = pa.Table.from_batches([batch])
            rows = rows if first is None else pa.concat_tables([first, rows])
            first = rows.sort_by(list(order)).slice(0, most)
        return ([] if first is None else first.to_pylist()), total
