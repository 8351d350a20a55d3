"""The sizes of traces by the footers of their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._output_folder import write_json
from purgatory_spark._rows.host_sizes import BATCH, REPLAY, TraceSizes, fit_together
from purgatory_spark._rows.schema import ARROW_SCHEMAS, EVENTS, REQUESTS
from purgatory_spark._rows.stored_sizes import StoredSizes
from purgatory_spark._spark.written_files import TableFile, keep_files, make_table_folder
from purgatory_spark._traces.manifest import MANIFEST
from purgatory_spark._traces.trace_folder import TraceFolder
from tests.spark.naive_trace import TraceEvent, TraceRequest
from tests.spark.trace_strategies import events_table, requests_table

NO_SPARK = cast(SparkSession, None)
FEW = [
    TraceRequest("r1", 0, 40, ["a", "é"], "count", 1.0, "all"),
    TraceRequest("r22", 5, 3_000, [], "sum", 1.0, "all"),
]
MORE = [TraceRequest("r3", 9, 5, ["long key"], "count", 2.0, "any")]


def rows_of(table: pa.Table, kind: str) -> pa.Table:
    """Return a table with the package's types, whose text is in dictionaries but for lists."""
    table = table.select(ARROW_SCHEMAS[kind].names)
    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(at, field.name, table.column(at).dictionary_encode())
    return table


def write(folder: Path, kind: str, schema: T.StructType, *tables: pa.Table) -> None:
    make_table_folder(folder / kind)
    names = []
    for table in tables:
        file = TableFile(str(folder / kind), schema)
        file.write(rows_of(table, kind))
        file.close()
        names.append(file.name)
    keep_files(folder / kind, names, schema)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "requests", REQUESTS, requests_table(FEW), requests_table(MORE))
    write(tmp_path, "events", EVENTS, events_table([TraceEvent("a", 7, 1.0)]))
    rows: Mapping[str, Any] = {"requests out": 3, "events out": 1}
    write_json(tmp_path / MANIFEST, {"name": "x", "marks": [], "rows": rows, "rejected": {}})
    return tmp_path


def test_footers_have_the_sizes(folder: Path) -> None:
    # The type of each request is its aggregate.
    texts = [
        f"h{one.request_id}{''.join(one.watch_keys)}{one.aggregate * 2}{one.quantifier}"
        for one in FEW + MORE
    ]
    of_requests = len("".join(texts).encode())
    sizes = StoredSizes(3, 1, keys=3, text_bytes=of_requests + len("ha"), timeouts_ms=(5, 3_000))
    assert StoredSizes.of(folder) == sizes


def test_files_of_others_do_not_tell(folder: Path) -> None:
    rows = requests_table(MORE).select(ARROW_SCHEMAS["requests"].names)
    pq.write_table(rows, folder / "requests" / "part-own.parquet")
    assert StoredSizes.of(folder) is None
    assert not fit_together(None, BATCH, 100_000)


def test_damaged_file_is_left_to_its_reader(folder: Path) -> None:
    file = next((folder / "events").glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-9])
    assert StoredSizes.of(folder) is None


def test_hosts_that_fit_together_take_no_job(folder: Path) -> None:
    trace = TraceFolder(folder)
    assert trace.sizes(NO_SPARK, 1_000) == TraceSizes({}, 1.0, (5, 3_000))
    trace.require_hosts_fit(NO_SPARK, REPLAY, 1_000)


@pytest.mark.parametrize("model", [BATCH, REPLAY], ids=lambda model: model.task)
def test_all_rows_count(folder: Path, model: Any) -> None:
    sizes = StoredSizes.of(folder)
    assert sizes is not None
    needed = model.bytes_of(sizes)
    rows = 3 * model.request + 3 * model.watch_key + model.event
    assert needed == rows + sizes.text_bytes * model.character
    # Exactly what an empty worker leaves of a limit.
    mb = model.worker // 2**20
    fitting = StoredSizes(2**20 // model.request, 0, 0, 0, (1, 1))
    assert fit_together(fitting, model, mb + 1)
    larger = StoredSizes(2**20 // model.request + 1, 0, 0, 0, (1, 1))
    assert not fit_together(larger, model, mb + 1)
