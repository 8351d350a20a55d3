"""Parquet files of a stream, as its Python workers read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._rows.schema import ARROW_SCHEMAS
from purgatory_spark._stream.endpoints.folders import FolderSource
from purgatory_spark._stream.packing import Packer
from purgatory_spark._stream.parquet_rows import rows_of_files

AT_US = 1_700_000_000_123_000
EVENTS = pa.table(
    {
        "host": ["a", "b"],
        "key": ["x", None],
        "occurred_at": pa.array([AT_US, None], pa.timestamp("us", tz="UTC")),
        "amount": [1.5, 2.0],
    }
)


def read(path: Path) -> list[dict[str, Any]]:
    batches = list(rows_of_files([f"file:{path}"], "events"))
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("column", "kind", "options"),
    [
        ("occurred_at", pa.timestamp("us", tz="UTC"), {}),
        ("occurred_at", pa.timestamp("us"), {}),
        ("occurred_at", pa.timestamp("ms", tz="UTC"), {}),
        ("occurred_at", pa.timestamp("us"), {"use_deprecated_int96_timestamps": True}),
        ("host", pa.large_string(), {}),
        ("host", pa.dictionary(pa.int8(), pa.string()), {}),
        ("amount", pa.float32(), {}),
    ],
)
def test_types_that_spark_reads_are_read(
    tmp_path: Path, column: str, kind: pa.DataType, options: dict[str, Any]
) -> None:
    file = tmp_path / "an event.parquet"
    at = EVENTS.schema.get_field_index(column)
    pq.write_table(EVENTS.set_column(at, column, EVENTS.column(column).cast(kind)), file, **options)
    assert read(file) == [
        {"host": "a", "key": "x", "occurred_at": AT_US, "amount": 1.5},
        {"host": "b", "key": None, "occurred_at": None, "amount": 2.0},
    ]


@pytest.mark.parametrize("column", EVENTS.column_names)
def test_file_without_a_column_is_refused(tmp_path: Path, column: str) -> None:
    file = tmp_path / "events.parquet"
    pq.write_table(EVENTS.drop([column]), file)
    given = ", ".join(name for name in EVENTS.column_names if name != column)
    with pytest.raises(TraceFormatError, match=f"missing columns: {column}; the file has {given}"):
        read(file)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (
            "occurred_at",
            pa.array([1, 2], pa.timestamp("ns", tz="UTC")),
            r"timestamp\[ns.* not a tim",
        ),
        ("occurred_at", pa.array([AT_US, AT_US]), "int64, not a timestamp of milli"),
        ("host", pa.array([1, 2]), "int64, not string"),
        ("amount", pa.array(["1", "2"]), "string, not double"),
    ],
)
def test_other_types_are_refused(
    tmp_path: Path, column: str, values: pa.Array, message: str
) -> None:
    file = tmp_path / "0.parquet"
    pq.write_table(EVENTS.set_column(EVENTS.schema.get_field_index(column), column, values), file)
    with pytest.raises(TraceFormatError, match=f"0.parquet: column {column} is {message}"):
        read(file)


@pytest.mark.parametrize("name", ["a?", "[a]", "a*", "{a}", "a\\\\b"])
def test_path_that_spark_takes_for_a_pattern_is_refused(tmp_path: Path, name: str) -> None:
    """Spark's streaming readers would read other files of the batch twice."""
    (tmp_path / name).mkdir()
    with pytest.raises(TraceFormatError, match="Spark reads files twice if a path has"):
        FolderSource(tmp_path / name).require_folder()
    file = tmp_path / "files" / "more" / f"{name}.parquet"
    file.parent.mkdir(parents=True)
    file.touch()
    folder = tmp_path / "files"
    packer = Packer("events", (0,), by_key=False, file_columns=(), folder=str(folder))
    with pytest.raises(TraceFormatError, match="Spark reads files twice if a path has"):
        list(packer([]))
    with pytest.raises(TraceFormatError, match="Spark reads files twice if a path has"):
        FolderSource(folder).require_folder()
    file.rename(file.with_name(f".{file.name}"))  # Spark reads no hidden files.
    FolderSource(folder).require_folder()
    assert list(packer([])) == []


@pytest.mark.parametrize("watch_keys", [pa.list_(pa.string()), pa.large_list(pa.large_string())])
def test_requests_are_read(tmp_path: Path, watch_keys: pa.DataType) -> None:
    file = tmp_path / "0.parquet"
    row = {
        "host": "a",
        "request_id": "r",
        "request_type": "t",
        "arrived_at": AT_US,
        "timeout_ms": 5,
        "watch_keys": ["k", "l"],
        "aggregate": "count",
        "threshold": 1.0,
        "quantifier": "all",
    }
    narrow = {"timeout_ms": pa.int16(), "watch_keys": watch_keys}
    times = {"arrived_at": pa.timestamp("us", tz="UTC")}
    columns = {name: pa.array([value], (narrow | times).get(name)) for name, value in row.items()}
    pq.write_table(pa.table(columns), file)
    (batch,) = rows_of_files([str(file)], "requests")
    assert batch.schema.names == ARROW_SCHEMAS["requests"].names
    assert batch.to_pylist() == [row]
