"""The files that a stream writes to a folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from purgatory_spark._stream.endpoints.folders import FolderSink
from tests.spark.stream_files import write_files


def test_outcomes_have_dictionaries_where_values_repeat(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With equal values Parquet keeps a dictionary, which it drops with ids that differ."""
    row = {"host": "a", "request_id": "r", "outcome": "completed", "kind": "outcomes"}
    table = pa.Table.from_pylist([row | {"arrived_at": 1, "ended_at": 2, "waited_ms": 3.0}] * 500)
    inputs = write_files(tmp_path / "in", [table])
    rows = spark.readStream.schema(spark.read.parquet(str(inputs)).schema).parquet(str(inputs))
    writer = FolderSink(tmp_path / "out").write(rows).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    (written,) = tmp_path.glob("out/kind=outcomes/*.parquet")
    group = pq.read_metadata(written).row_group(0)
    assert {
        column.path_in_schema: column.has_dictionary_page
        for column in map(group.column, range(group.num_columns))
    } == {
        "host": True,
        "request_id": False,
        "outcome": True,
        "arrived_at": False,
        "ended_at": False,
        "waited_ms": True,
    }
