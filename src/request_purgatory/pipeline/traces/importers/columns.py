"""Import any table with one row per request; a mapping names the columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.pipeline.traces.importers.imported_trace import (
    ImportedTrace,
    TraceFormatError,
)
from request_purgatory.pipeline.traces.importers.row_checks import (
    CORRUPT,
    MAX_TIME_US,
    RAW,
    SOURCE,
    Check,
    accepted_rows,
    add_ms,
    flag_rejects,
    flag_repeats,
    malformed_check,
    parse_us,
    rejected_rows,
    text_or_null,
    time_checks,
)
from request_purgatory.pipeline.traces.importers.table_files import read_rows

#: Fields that a mapping may name. `arrived_at` is required, and one of `ended_at` and `service_ms`.
FIELDS = (
    "host",
    "request_id",
    "request_type",
    "arrived_at",
    "ended_at",
    "service_ms",
    "timeout_ms",
)

_ORDER = [SOURCE, "arrived_us", "ended_us", RAW]


def import_columns(
    spark: SparkSession,
    files: list[Path],
    *,
    columns: Mapping[str, str],
    time_unit: str = "iso",
    timeout_ms: int = 1000,
) -> ImportedTrace:
    """Import a table whose rows have the arrival of a request and its end.

    Each request watches a key of its own, its id, and waits for one event on that key, its answer.
    A row without `ended_at` (or `service_ms`) was never answered: it has no event, and expires.

    For example, with columns {"arrived_at": "start", "service_ms": "took"} and the unit "ms":

        start  took        request_id    arrived_at  watch_keys        event  occurred_at
        1000   2.5    ->   000000000001  1.0 s       [000000000001]           1.0025 s
        2000          ->   000000000002  2.0 s       [000000000002]           (none)

    Args:
        spark: The session to read with.
        files: The files to read.
        columns: The columns that hold fields of `FIELDS`. Without `host`, all requests are of
            "host-0". Without `request_id`, the rows of a host are numbered in order of arrival.
        time_unit: Unit of numeric times, one of `row_checks.TIME_UNITS`.
        timeout_ms: Timeout of every request, unless a column has it.

    Returns:
        The trace.

    Raises:
        TraceFormatError: The mapping lacks a required field or has an unknown one, or a file lacks
            a column or can't be read.
    """
    _require_mapping(columns)
    rows = read_rows(spark, files, columns.values())
    parsed = _parse(rows, columns, time_unit, timeout_ms)
    flagged = flag_rejects(parsed, _checks(columns))
    if "request_id" in columns:
        flagged = flag_repeats(
            flagged, ["host", "request_id"], f"repeated {columns['request_id']}", _ORDER
        )
    flagged = flagged.persist()
    accepted = accepted_rows(flagged)
    if "request_id" not in columns:
        accepted = _with_request_ids(accepted)
    requests = accepted.select(
        "host",
        "request_id",
        F.coalesce("request_type", F.lit("request")).alias("request_type"),
        F.timestamp_micros("arrived_us").alias("arrived_at"),
        F.col("timeout_ms").cast("int").alias("timeout_ms"),
        F.array("request_id").alias("watch_keys"),
        F.lit("count").alias("aggregate"),
        F.lit(1.0).alias("threshold"),
        F.lit("any").alias("quantifier"),
    )
    events = accepted.where(F.col("ended_us").isNotNull()).select(
        "host",
        F.col("request_id").alias("key"),
        F.timestamp_micros("ended_us").alias("occurred_at"),
        F.lit(1.0).alias("amount"),
    )
    return ImportedTrace(
        format="columns",
        requests=requests,
        events=events,
        rejects=rejected_rows(flagged),
        rows={"rows": flagged},
        notes=["A request waits for its own answer; a row without one expires."],
        cached=[flagged],
    )


def _require_mapping(columns: Mapping[str, str]) -> None:
    unknown = sorted(set(columns) - set(FIELDS))
    if unknown:
        raise TraceFormatError(
            f"unknown field {unknown[0]!r} in the mapping; known: {', '.join(FIELDS)}"
        )
    if "arrived_at" not in columns:
        raise TraceFormatError(
            "the mapping lacks arrived_at=COLUMN, the column with the time of a request's arrival"
        )
    if "ended_at" not in columns and "service_ms" not in columns:
        raise TraceFormatError("the mapping lacks ended_at=COLUMN or service_ms=COLUMN")
    if "ended_at" in columns and "service_ms" in columns:
        raise TraceFormatError(
            "the mapping has both ended_at and service_ms; leave one of them out"
        )


def _end_field(columns: Mapping[str, str]) -> str:
    return "ended_at" if "ended_at" in columns else "service_ms"


def _parse(
    rows: DataFrame, columns: Mapping[str, str], time_unit: str, timeout_ms: int
) -> DataFrame:
    """Convert the input's columns to fields.

    Args:
        rows: The input's rows.
        columns: The input's column for each field.
        time_unit: Unit of numeric times.
        timeout_ms: Timeout of every request, unless a column has it.

    Returns:
        A table with the fields, with times as `arrived_us` and `ended_us`. Values that can't be
        parsed are null; `no_arrival`, `no_end` and `no_timeout` are true if the input was empty.
    """

    def text(field: str, default: str) -> Column:
        return text_or_null(columns[field]) if field in columns else F.lit(default)

    arrived_us = parse_us(rows, columns["arrived_at"], time_unit)
    if "ended_at" in columns:
        ended_us = parse_us(rows, columns["ended_at"], time_unit)
    else:
        ended_us = add_ms(arrived_us, text_or_null(columns["service_ms"]).try_cast("double"))
    timeout, no_timeout = F.lit(timeout_ms), F.lit(False)
    if "timeout_ms" in columns:
        timeout = text_or_null(columns["timeout_ms"]).try_cast("int")
        no_timeout = text_or_null(columns["timeout_ms"]).isNull()
    return rows.select(
        SOURCE,
        RAW,
        CORRUPT,
        text("host", "host-0").alias("host"),
        text("request_id", "").alias("request_id"),
        text("request_type", "request").alias("request_type"),
        arrived_us.alias("arrived_us"),
        ended_us.alias("ended_us"),
        timeout.alias("timeout_ms"),
        text_or_null(columns["arrived_at"]).isNull().alias("no_arrival"),
        text_or_null(columns[_end_field(columns)]).isNull().alias("no_end"),
        no_timeout.alias("no_timeout"),
    )


def _checks(columns: Mapping[str, str]) -> list[Check]:
    """Return the checks of the result of `_parse`; the reasons have the input's column names."""
    end = columns[_end_field(columns)]
    if "ended_at" in columns:
        end_checks = time_checks(end, F.col("ended_us"))
    else:
        end_checks = [
            (f"unparsable {end}", F.col("ended_us").isNull()),
            (f"{end} beyond the year 2199", F.col("ended_us") > MAX_TIME_US),
        ]
    checks: list[Check] = [
        malformed_check(),
        *[
            (f"null {columns[field]}", F.col(field).isNull())
            for field in ("host", "request_id")
            if field in columns
        ],
        (f"null {columns['arrived_at']}", F.col("no_arrival")),
        *time_checks(columns["arrived_at"], F.col("arrived_us")),
        *[(reason, ~F.col("no_end") & is_bad) for reason, is_bad in end_checks],
        ("end before start", F.col("ended_us") < F.col("arrived_us")),
    ]
    if "timeout_ms" in columns:
        checks += [
            (f"null {columns['timeout_ms']}", F.col("no_timeout")),
            (f"unparsable {columns['timeout_ms']}", F.col("timeout_ms").isNull()),
            ("negative timeout", F.col("timeout_ms") < 0),
        ]
    return checks


def _with_request_ids(rows: DataFrame) -> DataFrame:
    number = F.row_number().over(Window.partitionBy("host").orderBy("arrived_us", *_ORDER))
    return rows.withColumn("request_id", F.lpad(number.cast("string"), 12, "0"))
