"""Make trace files and folders for tests, and read the tables of imported traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._local.quick_trace import NeedsSparkError, QuickTrace
from purgatory_spark._rows.row_counts import REJECTED
from purgatory_spark._traces.marks import Mark
from purgatory_spark._traces.trace_folder import TraceFolder, import_trace
from purgatory_spark._traces.trace_reader import ImportSettings, read_trace
from tests.spark.naive_trace import TraceEvent, TraceRequest
from tests.spark.trace_strategies import events_table, requests_table

Row = dict[str, Any]

#: The usual time in the traces of tests, also in microseconds since the epoch.
NOON = datetime(2022, 8, 22, 12, tzinfo=UTC)
NOON_US = 1_661_169_600_000_000


def rows_of(table: DataFrame, *columns: str) -> list[Row]:
    """Return all rows in order, with times in UTC.

    They are collect_tables with Arrow, as `collect` would return times in the machine's zone.
    """
    chosen = table.select(*columns) if columns else table
    rows: list[Row] = chosen.toArrow().to_pylist()
    return sorted(rows, key=repr)


@dataclass(frozen=True)
class ImportedRows:
    """The collect_tables tables of an import.

    Attributes:
        format: The detected format.
        notes: Remarks for readers of a report.
        requests: The requests, in order.
        events: The events, in order.
        rejects: Reason, file and raw row of the rejected rows, in order.
        rows_read: Number of rows that were read, by the name of their table.
    """

    format: str
    notes: list[str]
    requests: list[Row]
    events: list[Row]
    rejects: list[tuple[str, str, str]]
    rows_read: dict[str, int]

    @property
    def rejected(self) -> dict[str, int]:
        """Number of rejected rows by reason."""
        return dict(Counter(reason for reason, _, _ in self.rejects))


def collect_tables(tables: Mapping[str, DataFrame]) -> dict[str, list[Row]]:
    """Collect the rows of several tables in one job, each in order and with times in UTC."""

    def union(one: DataFrame, other: DataFrame) -> DataFrame:
        return one.unionByName(other, allowMissingColumns=True)

    parts = [
        table.select(
            F.lit(name).alias("table"),
            *[F.col(f"`{n}`").alias(f"{name}/{n}") for n in table.columns],
        )
        for name, table in tables.items()
    ]
    found = reduce(union, parts).toArrow().to_pylist()
    rows = {
        name: [
            {n: row[f"{name}/{n}"] for n in table.columns} for row in found if row["table"] == name
        ]
        for name, table in tables.items()
    }
    return {name: sorted(of_table, key=repr) for name, of_table in rows.items()}


def imported_rows(spark: SparkSession, source: Path | str, **settings: Any) -> ImportedRows:
    """Import `source` with these `ImportSettings`, and collect all tables in one job."""
    with read_trace(spark, source, ImportSettings(**settings)) as trace:
        tables = {"requests": trace.requests, "events": trace.events, "rejects": trace.rejects}
        rows = collect_tables(tables | {"counts": trace.tables.counts.counts})
    counts = Counter[tuple[str, str | None]]()
    for row in rows["counts"]:
        counts[row["name"], row["reason"]] += row["rows"]
    rows_read = {name.removesuffix(" in"): counts[name, None] for name in trace.tables.counts.names}
    assert len(rows["rejects"]) <= sum(rows_read.values())
    assert Counter((REJECTED, row["reason"]) for row in rows["rejects"]) == {
        key: number for key, number in counts.items() if key[0] == REJECTED
    }
    found = ImportedRows(
        format=trace.format,
        notes=trace.notes,
        requests=rows["requests"],
        events=rows["events"],
        rejects=sorted((row["reason"], row["source"], row["row"]) for row in rows["rejects"]),
        rows_read=rows_read,
    )
    assert_read_without_spark(source, ImportSettings(**settings), found)
    return found


def assert_read_without_spark(
    source: Path | str, settings: ImportSettings, found: ImportedRows
) -> None:
    """Compare an import with that of `purgatory quick`, if it reads such a source."""
    try:
        trace = QuickTrace(str(source), settings)
    except NeedsSparkError:
        return
    mapped = trace.mapped
    assert mapped is not None
    assert dict(trace.rejected) == dict(sorted(found.rejected.items()))
    assert mapped.rows == sum(found.rows_read.values())
    requests = found.requests
    if mapped.events is None:
        # Each request waits for its own answer, which Spark has as an event on a key of its own.
        ends = {(event["host"], event["key"]): event["occurred_at"] for event in found.events}
        assert len(ends) == len(found.events)
        requests = [
            {name: row[name] for name in row if name in mapped.requests.schema.names}
            | {"ended_at": ends.pop((row["host"], row["watch_keys"][0]), None)}
            for row in found.requests
        ]
        assert not ends
    else:
        assert plain_rows(mapped.events, "occurred_at") == found.events
    # Rows are in order of their text, which has the columns in order.
    names = [name for row in requests[:1] for name in row if name in mapped.requests.schema.names]
    times = [name for name in names if name in ("arrived_at", "ended_at")]
    assert mapped.requests.num_rows == len(requests)
    if requests:
        found_rows = plain_rows(mapped.requests.select(names), *times)
        assert found_rows == sorted(requests, key=repr)


def plain_rows(table: pa.Table, *times: str) -> list[dict[str, Any]]:
    """Return the rows of a table of `purgatory quick`, with timestamps for microseconds."""
    for time in times:
        at = pc.cast(table.column(time), pa.timestamp("us", tz="UTC"))
        table = table.set_column(table.schema.get_field_index(time), time, at)
    rows = [dict(row) for row in table.to_pylist()]
    for row in rows:
        if "request_type" in row and row["request_type"] is None:
            row["request_type"] = "request"
    return sorted(rows, key=repr)


def cached_tables(spark: SparkSession) -> set[int]:
    """Return the ids of the tables in Spark's cache."""
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
    """Import `source` to the trace folder `target`, and compare it with `imported_rows`.

    `read` is the result of `imported_rows` with the same `settings`. `known` are the marks that
    the import adds for known incidents.
    """
    marks = (Mark(NOON, "a fault"), Mark(NOON + timedelta(days=1, microseconds=125), "mended"))
    cached = cached_tables(spark)
    trace = import_to_folder(spark, source, target, marks=marks, **settings)
    assert cached_tables(spark) == cached
    tables = {
        "requests": trace.requests(spark),
        "events": trace.events(spark),
        "rejects": trace.rejects(spark),
    }
    back = collect_tables(tables)
    assert (back["requests"], back["events"]) == (read.requests, read.events)
    assert (
        sorted((row["reason"], row["source"], row["row"]) for row in back["rejects"])
        == read.rejects
    )
    rows = {
        name if "kept" in name else f"{name} in": count for name, count in read.rows_read.items()
    }
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
    # Dictionaries are equal in any order, but users see this one.
    assert list(trace.manifest["rows"]) == list(rows)
    assert list(trace.manifest["rejected"]) == sorted(read.rejected)
    assert (trace.name, trace.marks) == (source.name, [*marks, *known])


def import_to_folder(
    spark: SparkSession, source: Path, target: Path, **settings: Any
) -> TraceFolder:
    """Import `source` to the new trace folder `target`."""
    target.mkdir()
    return import_trace(spark, source, target, ImportSettings(**settings))


def write_lines(file: Path, lines: Iterable[str]) -> Path:
    """Write a text file, and make its folder if it does not exist."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def write_recorded(folder: Path, requests: pa.Table, events: pa.Table) -> Path:
    """Write Parquet files in the pipeline's schema, which the format "recorded" reads."""
    for name, table in (("requests", requests), ("events", events)):
        (folder / name).mkdir(parents=True)
        pq.write_table(table, folder / name / "part.parquet")
    return folder


def make_trace(
    spark: SparkSession,
    folder: Path,
    requests: list[TraceRequest],
    events: list[TraceEvent],
    *,
    host: str = "h",
    types: list[str | None] | None = None,
    marks: tuple[Mark, ...] = (),
) -> TraceFolder:
    """Write a recorded trace to `folder`, and import it to the folder with ".trace" appended."""
    table = requests_table(requests, host)
    if types is not None:
        table = table.set_column(2, "request_type", pa.array(types, pa.string()))
    source = write_recorded(folder, table, events_table(events, host))
    return import_to_folder(spark, source, folder.with_name(f"{folder.name}.trace"), marks=marks)


def request(
    number: int, *, after_us: int = 0, timeout_ms: int = 100, keys: list[str] | None = None
) -> TraceRequest:
    """Make a request that arrives after noon and waits for one event, by default on its own key."""
    watched = [f"k{number}"] if keys is None else keys
    return TraceRequest(
        f"r{number:04d}", NOON_US + after_us, timeout_ms, watched, "count", 1.0, "all"
    )


def event(number: int, *, after_us: int) -> TraceEvent:
    """Make the event that request `number` waits for."""
    return TraceEvent(f"k{number}", NOON_US + after_us, 1.0)
