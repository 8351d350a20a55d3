"""Read a trace of any supported format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.traces.importers import azure_llm, spans
from request_purgatory.pipeline.traces.importers.azure_llm import import_azure_llm
from request_purgatory.pipeline.traces.importers.columns import import_columns
from request_purgatory.pipeline.traces.importers.imported_trace import (
    ImportedTrace,
    TraceFormatError,
)
from request_purgatory.pipeline.traces.importers.recorded import import_recorded, is_recorded
from request_purgatory.pipeline.traces.importers.row_checks import TIME_UNITS
from request_purgatory.pipeline.traces.importers.spans import KEY_KINDS, import_spans
from request_purgatory.pipeline.traces.importers.table_files import (
    PARQUET_SUFFIX,
    csv_header,
    parquet_schema,
    trace_files,
)
from request_purgatory.pipeline.traces.marks import Mark
from request_purgatory.pipeline.traces.schema import MAX_TIMEOUT_MS

FORMATS = ("spans", "azure-llm", "columns", "recorded")


@dataclass(frozen=True)
class ImportSettings:
    """Settings for reading a trace.

    Attributes:
        format: The trace's format, or None to detect it from the files' columns.
        columns: The input's column for each field, for spans and columns.
        time_unit: Unit of numeric times, or None for the format's default.
        timeout_ms: Timeout of every request, or None for the format's default.
        keys: The watch keys of requests from spans: their child spans or their operations.
        ms_per_context_token: Cost of a token of the prompt, for inference traces, or None for the
            default.
        ms_per_generated_token: Cost of a generated token, for inference traces, or None for the
            default.
        marks: Moments that reports compare before and after.
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
        if self.timeout_ms is not None and not 0 <= self.timeout_ms <= MAX_TIMEOUT_MS:
            raise InvalidArgumentError(
                "timeout_ms", f"from 0 to {MAX_TIMEOUT_MS:,}", self.timeout_ms
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


def read_trace(
    spark: SparkSession,
    source: Path,
    settings: ImportSettings | None = None,
) -> ImportedTrace:
    """Read a trace of any supported format, without writing it.

    The columns are checked now; the rows are read when Spark computes one of the data frames. Use
    the result as a context manager, or call its `unpersist`, to drop the rows that Spark caches.

    Args:
        spark: The session to read with.
        source: A file, or a folder of files.
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
    found = check_source(source, settings)
    if found == "recorded":
        return import_recorded(spark, source)
    files = trace_files(source)
    timeout = settings.non_default("timeout_ms")
    if found == "azure-llm":
        costs = settings.non_default("ms_per_context_token", "ms_per_generated_token")
        return import_azure_llm(spark, files, **timeout, **costs)
    unit = settings.non_default("time_unit")
    if found == "spans":
        return import_spans(
            spark, files, columns=settings.columns, keys=settings.keys, **timeout, **unit
        )
    return import_columns(spark, files, columns=settings.columns, **timeout, **unit)


def check_source(source: Path, settings: ImportSettings) -> str:
    """Check what can be checked of a trace without Spark: its files, and settings for its format.

    Args:
        source: A file, or a folder of files.
        settings: How to read it.

    Returns:
        The trace's format, one of `FORMATS`.

    Raises:
        TraceFormatError: There is no such trace, it is of no known format, or settings do not apply
            to the format.
    """
    found = settings.format or detect_format(source, settings.columns)
    if found in ("azure-llm", "recorded") and (settings.columns or settings.time_unit):
        raise TraceFormatError(
            f"{source}: the format {found} has fixed columns; leave out --map and --time-unit"
        )
    if found == "recorded":
        if not is_recorded(source):
            raise TraceFormatError(
                f"{source} is not a recorded trace (a folder with the subfolders requests and "
                "events)"
            )
        return found
    trace_files(source)
    if found == "spans":
        unknown = sorted(set(settings.columns) - set(spans.COLUMNS))
        if unknown:
            raise TraceFormatError(
                f"unknown field {unknown[0]!r} in the mapping; known: {', '.join(spans.COLUMNS)}"
            )
    return found


def detect_format(source: Path, columns: Mapping[str, str]) -> str:
    """Detect the format of a trace from its folders, the mapping, or the columns of the first file.

    Args:
        source: A file, or a folder of files.
        columns: The mapping of fields to columns, if there is one.

    Returns:
        One of `FORMATS`.

    Raises:
        TraceFormatError: No known format has these columns; the message lists them.
    """
    if is_recorded(source):
        return "recorded"
    if columns:
        return "spans" if "span_id" in columns else "columns"
    file = trace_files(source)[0]
    is_parquet = file.name.endswith(PARQUET_SUFFIX)
    names = parquet_schema(file).names if is_parquet else csv_header(file)
    if set(spans.COLUMNS.values()) <= set(names):
        return "spans"
    if set(azure_llm.COLUMNS) <= set(names):
        return "azure-llm"
    raise TraceFormatError(
        f"{file}: no known format has the columns {', '.join(names)}; map fields to them, for "
        f"example --map arrived_at={names[0]} --map ended_at=..."
    )
