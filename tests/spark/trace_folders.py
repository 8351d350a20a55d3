"""Makes trace files and folders for tests, and reads what the pipeline made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.pipeline.traces.trace_folder import (
    ImportSettings,
    Mark,
    Trace,
    import_trace,
    read_trace,
)
from tests.model.naive_trace import TraceEvent, TraceRequest
from tests.spark.trace_strategies import events_table, requests_table

Row = dict[str, Any]

#: Noon of a day in the traces that tests make, and the same in microseconds since the epoch.
NOON = datetime(2022, 8, 22, 12, tzinfo=UTC)
NOON_US = 1_661_169_600_000_000


def rows_of(table: DataFrame, *columns: str) -> list[Row]:
    """All rows in order, times in UTC.

    By Arrow, as `collect` would give the times of the machine's zone.
    """
    chosen = table.select(*columns) if columns else table
    rows: list[Row] = chosen.toArrow().to_pylist()
    return sorted(rows, key=repr)


@dataclass(frozen=True)
class ImportedRows:
    """What an import gives, collected.

    Attributes:
        format: The format that was found.
        notes: What a reader of the report has to know.
        requests: The requests, in order.
        events: The events, in order.
        rejects: Reason, file and raw row of what was set aside, in order.
        came_in: Numbers of rows that were read, by the name of their table.
    """

    format: str
    notes: list[str]
    requests: list[Row]
    events: list[Row]
    rejects: list[tuple[str, str, str]]
    came_in: dict[str, int]

    @property
    def rejected(self) -> dict[str, int]:
        """Return how many rows were set aside for each reason."""
        return dict(Counter(reason for reason, _, _ in self.rejects))


def _beside(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)


def collected(tables: Mapping[str, DataFrame]) -> dict[str, list[Row]]:
    """Collect the rows of several tables in one job.

    Args:
        tables: Data frames by name.

    Returns:
        The rows of each in order, times in UTC.
    """
    parts = [
        table.select(
            F.lit(name).alias("table"),
            *[F.col(f"`{n}`").alias(f"{name}/{n}") for n in table.columns],
        )
        for name, table in tables.items()
    ]
    found = reduce(_beside, parts).toArrow().to_pylist()
    rows = {
        name: [
            {n: row[f"{name}/{n}"] for n in table.columns} for row in found if row["table"] == name
        ]
        for name, table in tables.items()
    }
    return {name: sorted(of_table, key=repr) for name, of_table in rows.items()}


def imported_rows(spark: SparkSession, source: Path, **settings: Any) -> ImportedRows:
    """Import `source` without writing it, and collect all its tables in one job.

    Args:
        spark: The session to read with.
        source: A file, or a folder of files.
        settings: What `ImportSettings` takes.

    Returns:
        The rows, times in UTC.
    """
    with read_trace(spark, source, ImportSettings(**settings)) as trace:
        # Of the rows that were read, only the number.
        read = {f"{name} in": table.select() for name, table in trace.rows.items()}
        tables = {"requests": trace.requests, "events": trace.events, "rejects": trace.rejects}
        rows = collected({**tables, **read})
    came_in = {name: len(rows[f"{name} in"]) for name in trace.rows}
    assert len(rows["rejects"]) <= sum(came_in.values())
    return ImportedRows(
        format=trace.format,
        notes=trace.notes,
        requests=rows["requests"],
        events=rows["events"],
        rejects=sorted((row["reason"], row["source"], row["row"]) for row in rows["rejects"]),
        came_in=came_in,
    )


def cached_tables(spark: SparkSession) -> set[int]:
    """Return the ids of the tables that Spark keeps in memory."""
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())


def assert_written_as_read(
    spark: SparkSession,
    source: Path,
    target: Path,
    read: ImportedRows,
    *,
    known: tuple[Mark, ...] = (),
    **settings: Any,
) -> None:
    """Write `source` as the trace folder `target`, read it back, and compare it with what was read.

    Args:
        spark: The session to write with.
        source: The trace.
        target: The folder to make.
        read: What `imported_rows` found in `source` with the same settings.
        known: The incidents that are known of this trace.
        settings: What `ImportSettings` takes.
    """
    marks = (Mark(NOON, "a fault"), Mark(NOON + timedelta(days=1, microseconds=125), "mended"))
    cached = cached_tables(spark)
    trace = imported(spark, source, target, marks=marks, **settings)
    assert cached_tables(spark) == cached
    tables = {
        "requests": trace.requests(spark),
        "events": trace.events(spark),
        "rejects": trace.rejects(spark),
    }
    back = collected(tables)
    assert (back["requests"], back["events"]) == (read.requests, read.events)
    assert (
        sorted((row["reason"], row["source"], row["row"]) for row in back["rejects"])
        == read.rejects
    )
    rows = {name if "kept" in name else f"{name} in": count for name, count in read.came_in.items()}
    rows |= {
        "rejected": len(read.rejects),
        "requests out": len(read.requests),
        "events out": len(read.events),
    }
    given = {name: value for name, value in settings.items() if name in ("time_unit", "timeout_ms")}
    parameters = {
        "columns": settings.get("columns", {}),
        "keys": settings.get("keys", "children"),
        **given,
    }
    assert trace.manifest == {
        "name": source.name,
        "source": source.name,
        "format": read.format,
        "parameters": parameters,
        "marks": [{"at": mark.at.isoformat(), "label": mark.label} for mark in (*marks, *known)],
        "rows": rows,
        "rejected": read.rejected,
        "notes": read.notes,
    }
    # The order in which users are told of them.
    assert list(trace.manifest["rows"]) == list(rows)
    assert list(trace.manifest["rejected"]) == sorted(read.rejected)
    assert (trace.name, trace.marks) == (source.name, [*marks, *known])


def imported(spark: SparkSession, source: Path, target: Path, **settings: Any) -> Trace:
    """`source` as the trace folder `target`."""
    target.mkdir()
    return import_trace(spark, source, target, ImportSettings(**settings))


def rejects(spark: SparkSession, trace: Trace) -> list[tuple[str, str, str]]:
    """Reason, file and raw row of what was set aside.

    Counted in the manifest as it stands in the table.
    """
    found = sorted(
        (row["reason"], row["source"], row["row"]) for row in rows_of(trace.rejects(spark))
    )
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


def request(
    number: int, *, after_us: int = 0, timeout_ms: int = 100, keys: list[str] | None = None
) -> TraceRequest:
    """A request that arrives some time after noon, and waits for one event on a key of its own unless others are given."""
    watched = [f"k{number}"] if keys is None else keys
    return TraceRequest(
        f"r{number:04d}", NOON_US + after_us, timeout_ms, watched, "count", 1.0, "all"
    )


def event(number: int, *, after_us: int) -> TraceEvent:
    """The event that request `number` waits for."""
    return TraceEvent(f"k{number}", NOON_US + after_us, 1.0)
