"""Trace folders: requests, events and rejects in Parquet, with a manifest in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.imported_trace import CheckedTables, ImportedTrace
from purgatory_spark._importers.table_source import TableSource
from purgatory_spark._output_folder import write_json
from purgatory_spark._rows.accepted_tables import AcceptedTables
from purgatory_spark._rows.host_sizes import (
    BATCH,
    MemoryModel,
    TraceSizes,
    fit_together,
    measure_trace,
    require_hosts_fit,
)
from purgatory_spark._rows.row_counts import REJECTED, RowCounts
from purgatory_spark._rows.schema import EVENTS, REJECTS, REQUESTS, require
from purgatory_spark._rows.stored_sizes import StoredSizes
from purgatory_spark._spark.damage import damage_described
from purgatory_spark._spark.job_names import named_jobs
from purgatory_spark._spark.spark_tables import read_spark_table, rows_in, write_spark_table
from purgatory_spark._spark.workers import require_workers
from purgatory_spark._spark.written_files import write_no_rows
from purgatory_spark._traces.manifest import MANIFEST, read_manifest
from purgatory_spark._traces.marks import Mark, known_incidents
from purgatory_spark._traces.trace_reader import ImportSettings, read_trace
from purgatory_spark._traces.workload import Workload
from purgatory_spark._traces.workload_blocks import workload_trace


class TraceFolder:
    """A trace folder: `requests/`, `events/` and `rejects/` in Parquet, and `trace.json`.

    Attributes:
        path: The folder.
        manifest: The content of `trace.json`: name, source, format, parameters, rows, rejected
            (number of rows by reason), notes and marks.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(
            path,
            "a trace folder",
            MANIFEST,
            "make one with `purgatory import` or `purgatory workload`",
        )

    @property
    def name(self) -> str:
        """Name of the trace in reports."""
        return str(self.manifest["name"])

    @property
    def marks(self) -> list[Mark]:
        """Moments that reports compare before and after."""
        return [
            Mark(datetime.fromisoformat(mark["at"]), mark["label"])
            for mark in self.manifest["marks"]
        ]

    @property
    def row_count(self) -> int:
        """The number of requests and events."""
        rows = self.manifest["rows"]
        return int(rows["requests out"] + rows["events out"])

    def requests(self, spark: SparkSession) -> DataFrame:
        """Return the requests (`schema.REQUESTS`)."""
        return require(
            read_spark_table(spark, self.path / "requests"), REQUESTS, f"{self.path}/requests"
        )

    def events(self, spark: SparkSession) -> DataFrame:
        """Return the events (`schema.EVENTS`)."""
        return require(read_spark_table(spark, self.path / "events"), EVENTS, f"{self.path}/events")

    def sizes(self, spark: SparkSession, max_worker_mb: int) -> TraceSizes:
        """Return the sizes of its hosts, by `measure_trace` if they could be too large."""
        stored = StoredSizes.of(self.path)
        if stored is not None and fit_together(stored, BATCH, max_worker_mb):
            return TraceSizes({}, stored.keys / stored.requests, stored.timeouts_ms)
        return measure_trace(self.requests(spark), self.events(spark), max_worker_mb)

    def require_hosts_fit(
        self, spark: SparkSession, model: MemoryModel, max_worker_mb: int
    ) -> None:
        """Check that a Python worker has memory enough for each host, as `require_hosts_fit`."""
        if not fit_together(StoredSizes.of(self.path), model, max_worker_mb):
            require_hosts_fit(self.requests(spark), self.events(spark), model, max_worker_mb)

    def rejects(self, spark: SparkSession) -> DataFrame:
        """Return the rows that the import rejected (`schema.REJECTS`)."""
        return read_spark_table(spark, self.path / "rejects")

    def require_requests(self) -> None:
        """Check that there is something to replay.

        Raises:
            TraceFormatError: The trace has no requests; the message has the reasons for rejections.
        """
        if not self.manifest["rows"]["requests out"]:
            rejected = ", ".join(
                f"{count} {reason}" for reason, count in self.manifest["rejected"].items()
            )
            raise TraceFormatError(
                f"{self.path}: the trace has no requests"
                + (f"; rejected: {rejected}" if rejected else "")
            )


def import_trace(
    spark: SparkSession,
    source: Path | str,
    target: Path,
    settings: ImportSettings | None = None,
) -> TraceFolder:
    """Read a trace with `read_trace` and write it as a trace folder, its rejects too."""
    settings = settings or ImportSettings()
    with read_trace(spark, source, settings) as imported:
        marks = [*settings.marks, *known_incidents(source, imported)]
        return write_trace(
            imported,
            target,
            name=source_name(source),
            source=Path(source).name,
            parameters=settings.parameters(),
            marks=marks,
        )


def source_name(source: Path | str) -> str:
    path = Path(source)
    return path.resolve().name if path.exists() else TableSource.parse(source).name


def make_workload_trace(spark: SparkSession, workload: Workload, target: Path) -> TraceFolder:
    requests, events = workload_trace(spark, workload)
    rejects = spark.createDataFrame([], REJECTS)
    tables = CheckedTables(requests, events, rejects, RowCounts.of({}, rejects))
    expected = {"expected_expired_share": workload.expected_expired_share}
    return write_trace(
        ImportedTrace("workload", tables),
        target,
        name=f"workload {workload.name}",
        source="synthetic",
        parameters=workload.parameters() | expected,
    )


def write_trace(
    imported: ImportedTrace,
    target: Path,
    *,
    name: str,
    source: str,
    parameters: Mapping[str, Any],
    marks: Iterable[Mark] = (),
) -> TraceFolder:
    """Write a trace, whose rows are read several times and should be cached, as a folder."""
    spark = imported.spark
    require_workers(spark, target)
    with damage_described(), named_jobs(spark, f"write the trace {name}"):
        if isinstance(imported.tables, AcceptedTables):
            rows, rejected = imported.tables.write(target)
        else:
            rows, rejected = imported.tables.counts.collect()
            for kind, table in (("requests", imported.requests), ("events", imported.events)):
                write_spark_table(table, target / kind)
                rows[f"{kind} out"] = rows_in(target / kind)
            if rejected:
                write_spark_table(imported.rejects, target / "rejects")
            else:
                write_no_rows(target / "rejects", REJECTS)
    found = rows_in(target / "rejects")
    if found != rows[REJECTED]:
        raise TraceFormatError(
            f"{source}: the table changed while it was read: it had {rows[REJECTED]:,} rows that "
            f"can't be used, and then {found:,}"
        )
    manifest = {
        "name": name,
        "source": source,
        "format": imported.format,
        "parameters": parameters,
        "marks": [{"at": mark.at.isoformat(), "label": mark.label} for mark in marks],
        "rows": rows,
        "rejected": rejected,
        "notes": imported.notes,
    }
    write_json(target / MANIFEST, manifest)
    return TraceFolder(target)
