"""Makes trace files and folders for tests, and reads what the pipeline made of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from request_purgatory.pipeline.traces import ImportSettings, Mark, Trace, import_trace
from tests.model.naive_trace import TraceEvent, TraceRequest
from tests.pipeline.trace_strategies import events_table, requests_table

Row = dict[str, Any]

#: Noon of a day in the traces that tests make, and the same in microseconds since the epoch.
NOON = datetime(2022, 8, 22, 12, tzinfo=UTC)
NOON_US = 1_661_169_600_000_000


def rows_of(table: DataFrame, *columns: str) -> list[Row]:
    """All rows in order, times in UTC: by Arrow, as `collect` would give the times of the machine's zone."""
    chosen = table.select(*columns) if columns else table
    rows: list[Row] = chosen.toArrow().to_pylist()
    return sorted(rows, key=repr)


def imported(spark: SparkSession, source: Path, target: Path, **settings: Any) -> Trace:
    """`source` as the trace folder `target`."""
    target.mkdir()
    return import_trace(spark, source, target, ImportSettings(**settings))


def rejects(spark: SparkSession, trace: Trace) -> list[tuple[str, str, str]]:
    """Reason, file and raw row of what was set aside; counted in the manifest as it stands in the table."""
    found = sorted((row["reason"], row["source"], row["row"]) for row in rows_of(trace.rejects(spark)))
    counted: dict[str, int] = {}
    for reason, _, _ in found:
        counted[reason] = counted.get(reason, 0) + 1
    assert trace.manifest["rejected"] == counted
    assert trace.manifest["rows"]["rejected"] == len(found)
    return found


def write_lines(file: Path, lines: Iterable[str]) -> Path:
    """A text file, and its folder if there is none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def write_recorded(folder: Path, requests: pa.Table, events: pa.Table) -> Path:
    """A folder that is in the pipeline's own schema."""
    for name, table in (("requests", requests), ("events", events)):
        (folder / name).mkdir(parents=True)
        pq.write_table(table, folder / name / "part.parquet")
    return folder


def recorded(
    spark: SparkSession,
    folder: Path,
    requests: list[TraceRequest],
    events: list[TraceEvent],
    *,
    host: str = "h",
    types: list[str | None] | None = None,
    marks: tuple[Mark, ...] = (),
) -> Trace:
    """Requests and events as a trace folder, by way of a recorded trace called `folder.name`."""
    table = requests_table(requests, host)
    if types is not None:
        table = table.set_column(2, "request_type", pa.array(types, pa.string()))
    source = write_recorded(folder, table, events_table(events, host))
    return imported(spark, source, folder.with_name(f"{folder.name}.trace"), marks=marks)


def request(number: int, *, after_us: int = 0, timeout_ms: int = 100, keys: list[str] | None = None) -> TraceRequest:
    """A request that arrives some time after noon, and waits for one event on a key of its own unless others are given."""
    watched = [f"k{number}"] if keys is None else keys
    return TraceRequest(f"r{number:04d}", NOON_US + after_us, timeout_ms, watched, "count", 1.0, "all")


def event(number: int, *, after_us: int) -> TraceEvent:
    """The event that request `number` waits for."""
    return TraceEvent(f"k{number}", NOON_US + after_us, 1.0)
