"""Read a trace of any supported format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from purgatory_spark._errors import TraceFormatError, require_one_of
from purgatory_spark._importers import azure_llm, hash_ids, spans
from purgatory_spark._importers.azure_llm import import_azure_llm
from purgatory_spark._importers.columns import map_rows
from purgatory_spark._importers.hash_ids import import_hash_ids
from purgatory_spark._importers.imported_trace import ImportedTrace
from purgatory_spark._importers.otlp import import_otlp
from purgatory_spark._importers.recorded import import_recorded, is_recorded
from purgatory_spark._importers.spans import KEY_KINDS, import_spans
from purgatory_spark._importers.table_source import TableSource, read_source
from purgatory_spark._rows.mapping import Columns, TableMapping, require_fields, require_values
from purgatory_spark._spark.files import OPENERS, csv_header, parquet_schema, trace_files
from purgatory_spark._traces.marks import Mark
from request_purgatory.errors import InvalidArgumentError

FORMATS = ("spans", "otlp", "azure-llm", "hash-ids", "columns", "recorded")


@dataclass(frozen=True)
class ImportSettings:
    """Settings for reading a trace.

    Attributes:
        format: The trace's format, or None to detect it from the files' columns.
        columns: The input's column for each field, for spans and columns. `watch_keys` may be given
            several times.
        events: For columns: the table of the events, if they are a table of their own.
        event_columns: The column for each field of events: host, key, occurred_at, amount.
        time_unit: Unit of numeric times, or None for the format's default.
        time_zone: For columns: the zone of timestamps without one, or None for UTC.
        timeout_ms: Timeout of every request, or None for the format's default.
        aggregate: For columns: the aggregate of every request, or None for count.
        threshold: For columns: the threshold of every request, or None for 1.
        keys: The watch keys of requests from spans: their child spans or their operations.
        quantifier: The number of its keys that a request needs: all, any or a whole number; None
            means all.
        ms_per_context_token: Cost of a token of the prompt, for inference traces, or None for the
            default.
        ms_per_generated_token: Cost of a generated token, for inference traces, or None for the
            default.
        marks: Moments that reports compare before and after.
    """

    format: str | None = None
    columns: Columns = field(default_factory=dict)
    events: str | None = None
    event_columns: Mapping[str, str] = field(default_factory=dict)
    time_unit: str | None = None
    time_zone: str | None = None
    timeout_ms: int | None = None
    aggregate: str | None = None
    threshold: float | None = None
    keys: str = "children"
    quantifier: str | None = None
    ms_per_context_token: float | None = None
    ms_per_generated_token: float | None = None
    marks: tuple[Mark, ...] = ()

    def __post_init__(self) -> None:
        if self.format is not None:
            require_one_of(FORMATS, format=self.format)
        require_one_of(KEY_KINDS, keys=self.keys)
        require_values(
            **self.non_default("time_unit", "timeout_ms", "time_zone", "aggregate", "quantifier")
        )
        for name in ("ms_per_context_token", "ms_per_generated_token"):
            cost = getattr(self, name)
            if cost is not None and not 0 <= cost < float("inf"):
                raise InvalidArgumentError(
                    name, "a finite number of milliseconds, not negative", cost
                )

    def non_default(self, *names: str) -> dict[str, Any]:
        """Return those of the named settings that are not None."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def parameters(self) -> dict[str, Any]:
        """Return the given settings by name, for manifests."""
        given = self.non_default(
            "columns",
            "time_unit",
            "timeout_ms",
            "keys",
            "quantifier",
            "events",
            "time_zone",
            "aggregate",
            "threshold",
        )
        return given | ({"event_columns": self.event_columns} if self.event_columns else {})

    def mapping(self) -> TableMapping:
        """Return the settings of the format columns.

        Raises:
            TraceFormatError: The mapping lacks a required field or has an unknown one.
        """
        if self.event_columns and self.events is None:
            raise TraceFormatError("there is a mapping of events, but no --events")
        if self.events is not None and not self.event_columns:
            raise TraceFormatError("there is a table of events, but no mapping of it: --map-events")
        return TableMapping(
            self.columns,
            self.event_columns,
            **self.non_default(
                "time_unit", "time_zone", "timeout_ms", "aggregate", "threshold", "quantifier"
            ),
        )


def read_trace(
    spark: SparkSession,
    source: Path | str,
    settings: ImportSettings | None = None,
) -> ImportedTrace:
    """Read a trace of any supported format, without writing it.

    The columns are checked now; the rows are read when Spark computes one of the data frames. Use
    the result as a context manager, or call its `unpersist`, to drop the rows that Spark caches.

    Args:
        spark: The session to read with.
        source: A file, or a folder of files. As text also a URI, or `FORMAT:NAME_OR_PATH`
            (`TableSource.parse`).
        settings: How to read it; None means the defaults.

    Returns:
        Requests, events and rejects as data frames, and the detected format. Unusable rows are in
        `rejects` with the reason; no row is dropped silently.

    Raises:
        TraceFormatError: The input is not of the format, or of no known format; the message names
            the file.
        SchemaError: A recorded trace lacks a column.
    """
    settings = settings or ImportSettings()
    kind = check_source(source, settings)
    if kind == "recorded":
        return import_recorded(spark, Path(source))
    table = TableSource.parse(source)
    timeout = settings.non_default("timeout_ms")
    if kind == "azure-llm":
        costs = settings.non_default("ms_per_context_token", "ms_per_generated_token")
        return import_azure_llm(spark, table, **timeout, **costs)
    if kind == "hash-ids":
        costs = settings.non_default("ms_per_context_token")
        return import_hash_ids(spark, table, **timeout, **costs)
    if kind == "otlp":
        quantifier = settings.non_default("quantifier")
        return import_otlp(spark, table, keys=settings.keys, **quantifier, **timeout)
    if kind == "spans":
        return import_spans(
            spark,
            table,
            columns={name: str(column) for name, column in settings.columns.items()},
            keys=settings.keys,
            **settings.non_default("quantifier", "time_unit"),
            **timeout,
        )
    mapping = settings.mapping()
    rows = read_source(spark, table, mapping.input_columns)
    events = None
    if settings.events is not None:
        events = read_source(
            spark, TableSource.parse(settings.events), mapping.event_columns.values()
        )
    return map_rows(rows, mapping, events, cache=True)


def check_source(source: Path | str, settings: ImportSettings) -> str:
    """Check what can be checked without Spark: files and settings. Return the trace's format."""
    kind = settings.format or detect_format(source, settings.columns)
    if kind not in ("columns", "spans") and (settings.columns or settings.time_unit):
        raise TraceFormatError(
            f"{source}: the format {kind} has fixed columns; leave out --map and --time-unit"
        )
    if kind != "columns":
        for name in ("events", "event_columns", "time_zone", "aggregate", "threshold"):
            if getattr(settings, name) not in (None, {}):
                option = {"event_columns": "map-events"}.get(name, name.replace("_", "-"))
                raise TraceFormatError(f"{source}: the format {kind} takes no --{option}")
    has_keys = kind in ("spans", "otlp") or "watch_keys" in settings.columns
    if settings.quantifier is not None and not has_keys:
        raise TraceFormatError(
            f"{source}: the format {kind} takes no --quantifier; only requests from spans, or "
            "with watch_keys, have several keys"
        )
    if kind == "recorded":
        if not is_recorded(Path(source)):
            raise TraceFormatError(
                f"{source} is not a recorded trace (a folder with the subfolders requests and "
                "events)"
            )
        return kind
    table = TableSource.parse(source)
    if kind == "otlp" and table.format != "json":
        raise TraceFormatError(f"{source}: the format otlp is JSON, not {table.format}")
    if kind == "spans":
        require_fields(settings.columns, tuple(spans.COLUMNS), "the mapping")
    if kind == "columns":
        settings.mapping()
        if settings.events is not None:
            TableSource.parse(settings.events)
    return kind


def detect_format(source: Path | str, columns: Columns) -> str:
    """Return the format of a trace, by its folders, the mapping, or the first file's columns."""
    if is_recorded(Path(source)):
        return "recorded"
    if columns:
        return "spans" if "span_id" in columns else "columns"
    table = TableSource.parse(source)
    names = _first_columns(table)
    if "resourceSpans" in names:
        return "otlp"
    if set(spans.COLUMNS.values()) <= set(names):
        return "spans"
    if set(azure_llm.COLUMNS) <= set(names):
        return "azure-llm"
    if set(hash_ids.COLUMNS) <= set(names):
        return "hash-ids"
    if not names:
        raise TraceFormatError(
            f"{source}: the columns are not known before Spark runs; name the --format, or map "
            "fields to columns, for example --map arrived_at=COLUMN --map ended_at=COLUMN"
        )
    raise TraceFormatError(
        f"{source}: no known format has the columns {', '.join(names)}; map fields to them, for "
        f"example --map arrived_at={names[0]} --map ended_at=..."
    )


def _first_columns(table: TableSource) -> list[str]:
    """Return the columns of a source's first file; none if only Spark can find them."""
    if table.path is None or table.format not in ("csv", "parquet", "json"):
        return []
    path = table.path
    file = path if path.is_file() else trace_files(path, (table.format,))[0]
    if table.format == "parquet":
        return list(parquet_schema(file).names)
    if table.format == "csv":
        return csv_header(file)
    try:
        with OPENERS.get(file.suffix, open)(file, "rt", encoding="utf-8", errors="replace") as text:
            row = json.loads(next((line for line in text if line.strip()), "{}"))
    except (OSError, EOFError, ValueError) as error:
        raise TraceFormatError(
            f"{file}: the first line can't be read as a JSON object ({error})"
        ) from error
    return list(row) if isinstance(row, dict) else []
