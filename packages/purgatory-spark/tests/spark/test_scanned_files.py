"""Which DataFrames are nothing but the files that they are read from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._spark.scanned_files import scanned_files
from purgatory_spark._spark.schemas import utc_schema

TIMES = pa.array([0, 1_000], pa.timestamp("ms", tz="Europe/Berlin"))
CALLS = pa.table({"id": ["a", "b"], "at": TIMES, "took": [1, None], "other": [7, 8]})
USED = ["id", "at", "took"]


def files_of(rows: DataFrame) -> list[str] | None:
    found = scanned_files(rows, utc_schema(rows.select(*USED).schema))
    return None if found is None else [Path(path).name for path in found.sizes]


@pytest.fixture
def calls(spark: SparkSession, tmp_path: Path) -> DataFrame:
    for name in ("a b.parquet", "c+%.parquet"):
        pq.write_table(CALLS, tmp_path / name)
    return spark.read.parquet(str(tmp_path))


def test_columns_of_files(calls: DataFrame) -> None:
    for rows in (
        calls,
        calls.select(*reversed(USED), F.struct("*").alias("row")),
        calls.alias("calls").withColumn("other", F.lit(1)).drop("row"),
    ):
        assert files_of(rows) == ["a b.parquet", "c+%.parquet"]


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.where("took IS NULL"),
        lambda rows: rows.limit(1),
        lambda rows: rows.union(rows),
        lambda rows: rows.distinct(),
        lambda rows: rows.withColumn("took", F.col("took") + 1),
        lambda rows: rows.select("id", "at", F.col("other").alias("took")),
        lambda rows: rows.select("*", F.explode(F.array(F.lit(1), F.lit(2)))),
    ],
)
def test_rows_or_columns_that_files_lack(
    calls: DataFrame, change: Callable[[DataFrame], DataFrame]
) -> None:
    assert files_of(change(calls)) is None


def test_cached_rows(calls: DataFrame) -> None:
    cached = calls.cache()
    try:
        assert files_of(cached.select("*", F.lit(1))) is None
    finally:
        cached.unpersist()


def test_files_of_other_types(spark: SparkSession, tmp_path: Path) -> None:
    small = CALLS.set_column(2, "took", CALLS["took"].cast(pa.int32()))
    late = CALLS.set_column(1, "at", TIMES.cast(pa.timestamp("ns", tz="UTC")))
    for number, other in enumerate((small, late, CALLS.drop_columns(["took"]))):
        folder = tmp_path / str(number)
        folder.mkdir()
        pq.write_table(CALLS, folder / "0.parquet")
        pq.write_table(other, folder / "1.parquet")
        schema = "id STRING, at TIMESTAMP, took BIGINT, other BIGINT"
        assert files_of(spark.read.schema(schema).parquet(str(folder))) is None


def test_partitions_are_not_in_the_files(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_to_dataset(CALLS, tmp_path, partition_cols=["took"])
    assert files_of(spark.read.parquet(str(tmp_path))) is None


def test_damaged_files_are_left_to_spark(calls: DataFrame, tmp_path: Path) -> None:
    (tmp_path / "a b.parquet").write_bytes(b"PAR1")
    assert files_of(calls) is None
