"""Any table with a row a request: a mapping says which columns hold what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.pipeline.traces.importers.delimited import malformed, read_rows
from request_purgatory.pipeline.traces.importers.imported import (
    CORRUPT,
    LAST_US,
    RAW,
    SOURCE,
    Imported,
    TraceFormatError,
    good_rows,
    later_us,
    mark_repeats,
    parse_us,
    quoted,
    rejected_rows,
    set_aside,
    time_checks,
)

#: What a mapping may name. `arrived_at` is required, and one of `ended_at` and `service_ms`.
FIELDS = (
    "host",
    "request_id",
    "request_type",
    "arrived_at",
    "ended_at",
    "service_ms",
    "timeout_ms",
)


def import_columns(
    spark: SparkSession,
    files: list[Path],
    *,
    columns: Mapping[str, str],
    time_unit: str = "iso",
    timeout_ms: int = 1000,
) -> Imported:
    """Requests and events of a table whose rows say when a request came and when it was answered.

    Each request waits for one event of its own, its answer. A row without `ended_at` (or
    `service_ms`) was never answered: it has no event, and expires.

    Args:
        columns: for fields of `FIELDS`, the columns that hold them. Without `host` all are one
            host's; without `request_id` rows are numbered in order of arrival; without `timeout_ms`
            all have the one given here.
        time_unit: of numeric times, one of `TIME_UNITS`.
        timeout_ms: every request's timeout, unless a column has it.

    Raises:
        TraceFormatError: the mapping lacks what is required or names an unknown field; a file lacks
            a column or can't be read.
    """
    unknown = sorted(set(columns) - set(FIELDS))
    if unknown:
        raise TraceFormatError(
            f"the mapping names {unknown[0]!r}, which is none of {', '.join(FIELDS)}"
        )
    if "arrived_at" not in columns:
        raise TraceFormatError(
            "the mapping needs arrived_at=COLUMN, the column that says when a request came"
        )
    if ("ended_at" in columns) == ("service_ms" in columns):
        raise TraceFormatError(
            "the mapping needs one of ended_at=COLUMN and service_ms=COLUMN, and not both"
        )
    rows = read_rows(spark, files, columns.values())

    def text(field: str) -> Column:
        return F.nullif(F.trim(F.col(quoted(columns[field])).cast("string")), F.lit(""))

    arrived_us = parse_us(rows, columns["arrived_at"], time_unit)
    end_field = "ended_at" if "ended_at" in columns else "service_ms"
    if end_field == "ended_at":
        ended_us = parse_us(rows, columns["ended_at"], time_unit)
        end_checks = time_checks(columns["ended_at"], F.col("ended_us"))
    else:
        ended_us = later_us(arrived_us, text("service_ms").try_cast("double"))
        end_checks = [
            (f"unparsable {columns['service_ms']}", F.col("ended_us").isNull()),
            (f"{columns['service_ms']} beyond the year 2199", F.col("ended_us") > LAST_US),
        ]
    timeout = text("timeout_ms").try_cast("int") if "timeout_ms" in columns else F.lit(timeout_ms)
    parsed = rows.select(
        SOURCE,
        RAW,
        CORRUPT,
        (text("host") if "host" in columns else F.lit("host-0")).alias("host"),
        (text("request_id") if "request_id" in columns else F.lit("")).alias("request_id"),
        (text("request_type") if "request_type" in columns else F.lit("request")).alias(
            "request_type"
        ),
        arrived_us.alias("arrived_us"),
        ended_us.alias("ended_us"),
        timeout.alias("timeout_ms"),
        text("arrived_at").isNull().alias("no_arrival"),
        text(end_field).isNull().alias("no_end"),
        (text("timeout_ms").isNull() if "timeout_ms" in columns else F.lit(False)).alias(
            "no_timeout"
        ),
    )
    checks: list[tuple[str, Column]] = [
        malformed(),
        *[
            (f"null {columns[field]}", F.col(field).isNull())
            for field in ("host", "request_id")
            if field in columns
        ],
        (f"null {columns['arrived_at']}", F.col("no_arrival")),
        *time_checks(columns["arrived_at"], F.col("arrived_us")),
        *[(reason, ~F.col("no_end") & holds) for reason, holds in end_checks],
        ("end before start", F.col("ended_us") < F.col("arrived_us")),
    ]
    if "timeout_ms" in columns:
        checks += [
            (f"null {columns['timeout_ms']}", F.col("no_timeout")),
            (f"unparsable {columns['timeout_ms']}", F.col("timeout_ms").isNull()),
            ("negative timeout", F.col("timeout_ms") < 0),
        ]
    flagged = set_aside(parsed, checks)
    order = [SOURCE, "arrived_us", "ended_us", RAW]
    if "request_id" in columns:
        flagged = mark_repeats(
            flagged, ["host", "request_id"], f"repeated {columns['request_id']}", order
        )
    flagged = flagged.persist()
    good = good_rows(flagged)
    if "request_id" not in columns:
        number = F.row_number().over(Window.partitionBy("host").orderBy("arrived_us", *order))
        good = good.withColumn("request_id", F.lpad(number.cast("string"), 12, "0"))
    requests = good.select(
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
    events = good.where(F.col("ended_us").isNotNull()).select(
        "host",
        F.col("request_id").alias("key"),
        F.timestamp_micros("ended_us").alias("occurred_at"),
        F.lit(1.0).alias("amount"),
    )
    return Imported(
        format="columns",
        requests=requests,
        events=events,
        rejects=rejected_rows(flagged),
        rows={"rows": flagged},
        notes=["A request waits for its own answer; a row without one expires."],
        cached=[flagged],
    )
