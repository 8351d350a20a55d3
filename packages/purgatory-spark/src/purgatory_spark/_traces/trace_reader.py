"""Read a trace of any supported format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from itertools import islice, zip_longest
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers import azure_llm, hash_ids, spans
from purgatory_spark._importers.azure_llm import import_azure_llm
from purgatory_spark._importers.columns import map_rows
from purgatory_spark._importers.hash_ids import import_hash_ids
from purgatory_spark._importers.imported_trace import ImportedTrace
from purgatory_spark._importers.likely_columns import likely_options
from purgatory_spark._importers.log_formats import log_columns
from purgatory_spark._importers.log_lines import read_log
from purgatory_spark._importers.otlp import import_otlp
from purgatory_spark._importers.recorded import import_recorded, is_recorded
from purgatory_spark._importers.spans import import_spans
from purgatory_spark._importers.table_source import TableSource, read_source, rows_where
from purgatory_spark._rows.mapping import Columns, require_fields
from purgatory_spark._spark.csv_files import csv_header, csv_rows
from purgatory_spark._spark.files import (
    CORRUPT,
    OPENERS,
    POSITION,
    RAW,
    SOURCE,
    quote_column,
    require_columns,
    trace_files,
)
from purgatory_spark._spark.parquet_files import parquet_schema
from purgatory_spark._traces.import_settings import ImportSettings as ImportSettings

#: Columns of Locust's `--csv`, of rows that are of many requests.
_LOCUST_STATISTICS = {"Request Count", "Failure Count", "Median Response Time"}


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
    table = _table_source(source, settings)
    timeout = settings.non_default("timeout_ms")
    if kind == "azure-llm":
        costs = settings.non_default("ms_per_context_token", "ms_per_generated_token")
        return import_azure_llm(spark, table, **timeout, **costs)
    if kind == "hash-ids":
        costs = settings.non_default("ms_per_context_token")
        return import_hash_ids(spark, table, **timeout, **costs)
    of_spans = settings.non_default("quantifier", "status")
    if kind == "otlp":
        return import_otlp(
            spark,
            table,
            keys=settings.keys,
            unanswered=settings.unanswered,
            **of_spans,
            **timeout,
        )
    if kind == "spans":
        return import_spans(
            spark,
            table,
            columns={name: str(column) for name, column in settings.columns.items()},
            keys=settings.keys,
            unanswered=settings.unanswered,
            **settings.non_default("time_unit"),
            **of_spans,
            **timeout,
        )
    mapping = settings.mapping()
    rows = _read_rows(spark, table, mapping.input_columns, settings)
    events = None
    if settings.events is not None:
        events = read_source(
            spark, TableSource.parse(settings.events), mapping.event_columns.values()
        )
    trace = map_rows(rows, mapping, events, cache=True)
    if settings.where is not None:
        trace.notes.append(f"Only the rows where {settings.where}; others were left out.")
    return trace


def _table_source(source: Path | str, settings: ImportSettings) -> TableSource:
    return TableSource.parse(source) if settings.log_format is None else TableSource.of_log(source)


def _read_rows(
    spark: SparkSession, table: TableSource, required: list[str], settings: ImportSettings
) -> DataFrame:
    if settings.log_format is None:
        return read_source(spark, table, required, where=settings.where)
    names = log_columns(settings.log_format)
    require_columns("the log format", names, required, "format")
    if settings.where is None:
        return read_log(spark, table, settings.log_format, required)
    rows = rows_where(read_log(spark, table, settings.log_format, names), table, settings.where)
    return rows.select(*map(quote_column, required), SOURCE, POSITION, RAW, CORRUPT)


def check_source(source: Path | str, settings: ImportSettings) -> str:
    """Check what can be checked without Spark: files and settings. Return the trace's format."""
    is_log = settings.log_format is not None
    kind = settings.format or ("columns" if is_log else detect_format(source, settings.columns))
    if kind not in ("columns", "spans") and (settings.columns or settings.time_unit):
        raise TraceFormatError(
            f"{source}: the format {kind} has fixed columns; leave out --map and --time-unit"
        )
    if kind != "columns":
        of_status = () if kind in ("spans", "otlp") else ("status", "unanswered")
        for name in (
            "events",
            "event_columns",
            *of_status,
            "log_format",
            "where",
            "time_zone",
            "aggregate",
            "threshold",
        ):
            if getattr(settings, name) not in (None, {}, ()):
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
    table = _table_source(source, settings)
    if kind == "otlp" and table.format != "json":
        raise TraceFormatError(f"{source}: the format otlp is JSON, not {table.format}")
    if kind == "spans":
        require_fields(settings.columns, tuple(spans.COLUMNS), "the mapping")
    if kind == "columns":
        mapping = settings.mapping()
        if settings.log_format is not None:
            names = log_columns(settings.log_format)
            require_columns("the log format", names, mapping.input_columns, "format")
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
    if set(names) >= _LOCUST_STATISTICS:
        raise TraceFormatError(
            f"{source}: these are Locust's statistics, which have no row for each request; write "
            "one with a listener of its event `request`"
        )
    raise TraceFormatError(
        f"{source}: no known format has the columns {', '.join(names)}; map fields to them, for "
        f"example {likely_options(names)}"
    )


def _first_columns(table: TableSource) -> Mapping[str, object]:
    """Return the columns of a source's first file, with their first values, where there are any.

    There are no columns if only Spark can find them.
    """
    if table.path is None or table.format not in ("csv", "parquet", "json"):
        return {}
    path = table.path
    file = path if path.is_file() else trace_files(path, (table.format,))[0]
    if table.format == "parquet":
        return _first_of_parquet(file)
    if table.format == "csv":
        names = csv_header(file)
        with closing(csv_rows(file)) as rows:
            values = next(islice(rows, 1, None), [])
        return dict(zip_longest(names, values[: len(names)]))
    try:
        with OPENERS.get(file.suffix, open)(file, "rt", encoding="utf-8", errors="replace") as text:
            row = json.loads(next((line for line in text if line.strip()), "{}"))
    except (OSError, EOFError, ValueError) as error:
        raise TraceFormatError(
            f"{file}: the first line can't be read as a JSON object ({error})"
        ) from error
    return row if isinstance(row, dict) else {}


def _first_of_parquet(file: Path) -> Mapping[str, object]:
    names = parquet_schema(file).names
    batch = next(pq.ParquetFile(file).iter_batches(1), None)
    if batch is None:
        return dict.fromkeys(names)
    # Nanoseconds are times, too, but Python has none.
    return {
        name: datetime.min if pa.types.is_timestamp(column.type) else column[0].as_py()
        for name, column in zip(names, batch.columns, strict=True)
    }
