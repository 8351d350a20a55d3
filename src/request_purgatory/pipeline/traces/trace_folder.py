"""Traces on disk.

Requests and events in Parquet, what was set aside, and where it all came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.spark.workers import require_workers
from request_purgatory.pipeline.traces.importers import azure_llm, spans
from request_purgatory.pipeline.traces.importers.azure_llm import import_azure_llm
from request_purgatory.pipeline.traces.importers.columns import import_columns
from request_purgatory.pipeline.traces.importers.delimited import (
    PARQUET_ENDING,
    header,
    parquet_schema,
    read_written,
    trace_files,
    written_path,
)
from request_purgatory.pipeline.traces.importers.imported import (
    TIME_UNITS,
    Imported,
    TraceFormatError,
)
from request_purgatory.pipeline.traces.importers.recorded import import_recorded, is_recorded
from request_purgatory.pipeline.traces.importers.spans import KEY_KINDS, import_spans
from request_purgatory.pipeline.traces.output_folder import read_json, write_json
from request_purgatory.pipeline.traces.schema import (
    EVENTS,
    LONGEST_TIMEOUT_MS,
    REQUESTS,
    require,
)
from request_purgatory.pipeline.traces.workload import Workload, workload_trace

FORMATS = ("spans", "azure-llm", "columns", "recorded")
_MANIFEST = "trace.json"


@dataclass(frozen=True)
class Mark:
    """A moment that reports compare before and after: a deployment, an injected fault.

    Attributes:
        at: when, with a time zone.
        label: what happened.
    """

    at: datetime
    label: str

    @classmethod
    def parse(cls, text: str) -> Mark:
        """`TIME` or `TIME=LABEL`, the time as ISO 8601, UTC unless it names a zone.

        InvalidArgumentError otherwise.
        """
        moment, _, label = text.partition("=")
        try:
            at = datetime.fromisoformat(moment.strip())
        except ValueError:
            raise InvalidArgumentError(
                "mark", "TIME or TIME=LABEL with an ISO 8601 time", text
            ) from None
        return cls(at if at.tzinfo else at.replace(tzinfo=UTC), label.strip() or "mark")


#: Published traces whose documentation tells of an incident, by a word of the folder's name and the
#: day of the trace.
_KNOWN_INCIDENTS = (
    (
        "nezha",
        Mark(
            datetime(2022, 8, 22, 5, 27, 6, tzinfo=UTC),
            "network delay injected (Nezha, 2022-08-22)",
        ),
    ),
)


@dataclass(frozen=True)
class ImportSettings:
    """How to read a trace.

    Attributes:
        format: one of `FORMATS`; found out from the files' columns unless given.
        columns: our field names to the input's columns.
        time_unit: of numeric times; the format's usual one unless given.
        timeout_ms: every request's timeout; the format's default unless given.
        keys: for spans, what requests watch, one of `KEY_KINDS`.
        ms_per_context_token, ms_per_generated_token: for inference traces, the costs that service
            times are derived from.
    """

    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    time_unit: str | None = None
    timeout_ms: int | None = None
    keys: str = "children"
    ms_per_context_token: float | None = None
    ms_per_generated_token: float | None = None
    marks: tuple[Mark, ...] = ()

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise InvalidArgumentError("format", f"one of {', '.join(FORMATS)}", self.format)
        if self.time_unit is not None and self.time_unit not in TIME_UNITS:
            raise InvalidArgumentError(
                "time_unit", f"one of {', '.join(TIME_UNITS)}", self.time_unit
            )
        if self.keys not in KEY_KINDS:
            raise InvalidArgumentError("keys", f"one of {', '.join(KEY_KINDS)}", self.keys)
        if self.timeout_ms is not None and not 0 <= self.timeout_ms <= LONGEST_TIMEOUT_MS:
            raise InvalidArgumentError(
                "timeout_ms", f"from 0 to {LONGEST_TIMEOUT_MS:,}", self.timeout_ms
            )
        for name in ("ms_per_context_token", "ms_per_generated_token"):
            cost = getattr(self, name)
            if cost is not None and not 0 <= cost < float("inf"):
                raise InvalidArgumentError(
                    name, "a finite number of milliseconds, not negative", cost
                )

    def chosen(self, *names: str) -> dict[str, Any]:
        """Those of the named settings that were given."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def read_manifest(folder: Path, what: str, file: str, hint: str) -> dict[str, Any]:
    """What the folder says of itself in `file`.

    TraceFormatError, with what to do instead, if it is none of ours.
    """
    try:
        content: dict[str, Any] = read_json(folder / file)
    except (FileNotFoundError, NotADirectoryError):
        raise TraceFormatError(
            f"{folder}: no {what}, as there is no {file} in it; {hint}"
        ) from None
    except ValueError as error:
        raise TraceFormatError(
            f"{folder / file}: damaged, not the JSON that was written ({error})"
        ) from error
    return content


class Trace:
    """A trace folder: `requests/`, `events/` and `rejects/` in Parquet, and `trace.json`.

    Attributes:
        path: the folder.
        manifest: what `trace.json` says: name, source, format, parameters, rows, rejects by reason,
            notes, marks.
    """

    def __init__(self, path: Path) -> None:
        """Open the folder; TraceFormatError if it is none."""
        self.path = path
        self.manifest = read_manifest(
            path,
            "trace folder",
            _MANIFEST,
            "make one with `purgatory import` or `purgatory workload`",
        )

    @property
    def name(self) -> str:
        """Shown in reports."""
        return str(self.manifest["name"])

    @property
    def marks(self) -> list[Mark]:
        """The moments to compare before and after."""
        return [
            Mark(datetime.fromisoformat(mark["at"]), mark["label"])
            for mark in self.manifest["marks"]
        ]

    def requests(self, spark: SparkSession) -> DataFrame:
        """The requests (`schema.REQUESTS`)."""
        return require(
            read_written(spark, self.path / "requests"), REQUESTS, f"{self.path}/requests"
        )

    def events(self, spark: SparkSession) -> DataFrame:
        """The events (`schema.EVENTS`)."""
        return require(read_written(spark, self.path / "events"), EVENTS, f"{self.path}/events")

    def rejects(self, spark: SparkSession) -> DataFrame:
        """What the import could not use (`schema.REJECTS`)."""
        return read_written(spark, self.path / "rejects")

    def require_requests(self) -> None:
        """TraceFormatError if there is nothing to replay."""
        if not self.manifest["rows"]["requests out"]:
            rejected = ", ".join(
                f"{count} {reason}" for reason, count in self.manifest["rejected"].items()
            )
            raise TraceFormatError(
                f"{self.path}: the trace has no requests"
                + (f"; rejected: {rejected}" if rejected else "")
            )


def read_trace(
    spark: SparkSession,
    source: Path,
    settings: ImportSettings | None = None,
) -> Imported:
    """Read a trace of any known format, without writing it anywhere.

    The columns are checked now; the rows are read when Spark computes one of the data frames. Use
    the result as a context manager, or call its `unpersist`, to drop what Spark caches of it.

    Args:
        spark: The session to read with.
        source: A file, or a folder of files.
        settings: How to read it; the defaults unless given.

    Returns:
        Requests, events and rejects as data frames, and the format that was found. Rows that can't
        be used are in `rejects` with the reason; none is dropped silently.

    Raises:
        TraceFormatError: The input is not of the format, or of none that is known; names the file.
        SchemaError: A recorded trace lacks a column.
    """
    settings = settings or ImportSettings()
    found = settings.format or detect_format(source, settings.columns)
    timeout = settings.chosen("timeout_ms")
    if found in ("azure-llm", "recorded") and (settings.columns or settings.time_unit):
        raise TraceFormatError(
            f"{source}: the columns of the format {found} are fixed: it takes no --map and no --time-unit"
        )
    if found == "recorded":
        if not is_recorded(source):
            raise TraceFormatError(
                f"{source}: a recorded trace is a folder with the folders requests and events in it"
            )
        return import_recorded(spark, source)
    files = trace_files(source)
    if found == "azure-llm":
        costs = settings.chosen("ms_per_context_token", "ms_per_generated_token")
        return import_azure_llm(spark, files, **timeout, **costs)
    unit = settings.chosen("time_unit")
    if found == "spans":
        unknown = sorted(set(settings.columns) - set(spans.COLUMNS))
        if unknown:
            raise TraceFormatError(
                f"the mapping names {unknown[0]!r}, which is none of {', '.join(spans.COLUMNS)}"
            )
        return import_spans(
            spark, files, columns=settings.columns, keys=settings.keys, **timeout, **unit
        )
    return import_columns(spark, files, columns=settings.columns, **timeout, **unit)


def import_trace(
    spark: SparkSession,
    source: Path,
    target: Path,
    settings: ImportSettings | None = None,
) -> Trace:
    """Write what `read_trace` reads into the trace folder `target`, which exists and is empty.

    Rows that can't be used go to `rejects/` with the reason and are counted. None is dropped
    silently.

    Args:
        spark: The session to read and write with.
        source: A file, or a folder of files.
        target: The folder to write into.
        settings: How to read the source; the defaults unless given.

    Returns:
        The trace folder.

    Raises:
        TraceFormatError: The input is not of the format, or of none that is known; names the file.
        SchemaError: A recorded trace lacks a column.
    """
    settings = settings or ImportSettings()
    with read_trace(spark, source, settings) as imported:
        marks = [*settings.marks, *known_incidents(source, imported)]
        return _write(
            target,
            imported,
            {
                "name": source.resolve().name,
                "source": source.name,
                "format": imported.format,
                "parameters": settings.chosen("columns", "time_unit", "timeout_ms", "keys"),
                "marks": [{"at": mark.at.isoformat(), "label": mark.label} for mark in marks],
            },
        )


def known_incidents(source: Path, trace: Imported) -> list[Mark]:
    """Return the incidents that a published trace's documentation tells of.

    Args:
        source: What `trace` was read from; published traces are known by its name.
        trace: A trace that was read.

    Returns:
        The incidents that fall into the time of the trace: on other days, there were others.
    """
    if trace.format != "spans":
        return []
    name = source.resolve().name.lower()
    marks = [mark for word, mark in _KNOWN_INCIDENTS if word in name]
    if not marks:
        return []
    arrived_us = F.unix_micros("arrived_at")
    span = trace.requests.agg(F.min(arrived_us), F.max(arrived_us)).first()
    if span is None or span[0] is None:
        return []
    return [mark for mark in marks if span[0] <= mark.at.timestamp() * 1_000_000 <= span[1]]


def make_workload_trace(spark: SparkSession, workload: Workload, target: Path) -> Trace:
    """Write a synthetic workload as a trace folder; `target` exists and is empty."""
    requests, events = workload_trace(spark, workload)
    rejects = spark.createDataFrame([], "reason string, source string, row string")
    return _write(
        target,
        Imported("workload", requests, events, rejects, {}),
        {
            "name": f"workload {workload.name}",
            "source": "synthetic",
            "format": "workload",
            "parameters": workload.parameters()
            | {"expected_expired_share": workload.expected_expired_share},
            "marks": [],
        },
    )


def detect_format(source: Path, columns: Mapping[str, str]) -> str:
    """Which of `FORMATS` the files' columns are of.

    TraceFormatError, which lists the columns, if of none.
    """
    if is_recorded(source):
        return "recorded"
    if columns:
        return "spans" if "span_id" in columns else "columns"
    file = trace_files(source)[0]
    names = parquet_schema(file).names if file.name.endswith(PARQUET_ENDING) else header(file)
    if set(spans.COLUMNS.values()) <= set(names):
        return "spans"
    if set(azure_llm.COLUMNS) <= set(names):
        return "azure-llm"
    raise TraceFormatError(
        f"{file}: no known format has the columns {', '.join(names)}; say which is which, for example "
        f"--map arrived_at={names[0]} --map ended_at=..."
    )


def _write(target: Path, imported: Imported, manifest: dict[str, Any]) -> Trace:
    require_workers(imported.requests.sparkSession, target)
    imported.requests.write.parquet(written_path(target / "requests"))
    imported.events.write.parquet(written_path(target / "events"))
    imported.rejects.write.parquet(written_path(target / "rejects"))
    rows, rejected = _count(imported, target)
    manifest |= {"rows": rows, "rejected": rejected, "notes": imported.notes}
    write_json(target / _MANIFEST, manifest)
    return Trace(target)


def _count(imported: Imported, target: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Count what came in and what was written, all in one job.

    Returns:
        The rows of each table, and those that were rejected, by reason.
    """
    spark = imported.requests.sparkSession
    requests, events, rejects = (
        read_written(spark, target / name) for name in ("requests", "events", "rejects")
    )
    tables = {
        f"{name} in" if "kept" not in name else name: table for name, table in imported.rows.items()
    }
    names = [*tables, "rejected", "requests out", "events out"]
    tables |= {"requests out": requests, "events out": events}
    named = [
        table.select(F.lit(name).alias("table"), F.lit(None).alias("reason"))
        for name, table in tables.items()
    ]
    named.append(rejects.select(F.lit("rejected").alias("table"), "reason"))
    # One row a table and a reason: as many as there are checks.
    counts = (
        reduce(DataFrame.unionByName, named)
        .groupBy("table", "reason")
        .agg(F.count("*").alias("rows"))
        .collect()
    )
    rows = dict.fromkeys(names, 0)
    for row in counts:
        rows[row["table"]] += row["rows"]
    rejected = {row["reason"]: row["rows"] for row in counts if row["table"] == "rejected"}
    return rows, dict(sorted(rejected.items()))
