"""Read the requests and events of a trace folder without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_spark._rows.packing import ENCODED
from purgatory_spark._rows.trace_columns import ARROW_SCHEMAS
from purgatory_spark._spark.files import trace_files
from purgatory_spark._spark.parquet_batches import parquet_batches


def read_trace_table(folder: Path, kind: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a trace's table, in `ARROW_SCHEMAS[kind]`."""
    for file in trace_files(folder / kind, ("parquet",)):
        yield from parquet_batches(file, str(file), ARROW_SCHEMAS[kind], ENCODED[kind])


def count_rows(folder: Path, kind: str) -> int:
    files = trace_files(folder / kind, ("parquet",))
    return sum(pq.read_metadata(file).num_rows for file in files)
