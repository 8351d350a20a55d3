"""Span tables: who called whom, from when to when."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.pipeline.traces.importers.delimited import malformed, read_rows
from request_purgatory.pipeline.traces.importers.imported import (
    CORRUPT,
    RAW,
    REASON,
    SOURCE,
    Imported,
    good_rows,
    mark_repeats,
    parse_us,
    quoted,
    rejected_rows,
    set_aside,
    time_checks,
)

#: Our names for what a span table has to tell, and the columns that hold it unless a mapping says
#: otherwise.
COLUMNS: Mapping[str, str] = {
    "trace_id": "TraceID",
    "span_id": "SpanID",
    "parent_id": "ParentID",
    "service": "PodName",
    "operation": "OperationName",
    "start": "StartTimeUnixNano",
    "end": "EndTimeUnixNano",
}

#: The parent of spans that have none.
ROOT = "root"

KEY_KINDS = ("children", "operations")


def import_spans(
    spark: SparkSession,
    files: list[Path],
    *,
    columns: Mapping[str, str] | None = None,
    time_unit: str = "ns",
    timeout_ms: int = 1000,
    keys: str = "children",
) -> Imported:
    """Requests and events of a span table.

    A request is a span with children: it arrives when the span starts, on the service that it ran
    in, and is complete once all its children have ended. Each child's end is an event on that host.

    Args:
        columns: column names for the keys of `COLUMNS`, where they differ.
        time_unit: of `start` and `end`, one of `TIME_UNITS`.
        timeout_ms: every request's timeout.
        keys: "children" watches the child spans themselves; "operations" the distinct (service,
            operation) pairs of the children, for contention on few keys: then the first end of each
            pair completes its part.

    Raises:
        TraceFormatError: a file lacks a column or can't be read.
    """
    names = {**COLUMNS, **(columns or {})}
    rows = read_rows(spark, files, names.values())
    text = {
        ours: F.nullif(F.trim(F.col(quoted(theirs)).cast("string")), F.lit(""))
        for ours, theirs in names.items()
    }
    spans = rows.select(
        SOURCE,
        RAW,
        CORRUPT,
        *[
            text[name].alias(name)
            for name in ("trace_id", "span_id", "parent_id", "service", "operation")
        ],
        parse_us(rows, names["start"], time_unit).alias("start_us"),
        parse_us(rows, names["end"], time_unit).alias("end_us"),
        text["start"].isNull().alias("no_start"),
        text["end"].isNull().alias("no_end"),
    )
    flagged = set_aside(
        spans,
        [
            malformed(),
            *[
                (f"null {names[name]}", F.col(name).isNull())
                for name in ("span_id", "parent_id", "service", "operation")
            ],
            (f"null {names['start']}", F.col("no_start")),
            (f"null {names['end']}", F.col("no_end")),
            *time_checks(names["start"], F.col("start_us")),
            *time_checks(names["end"], F.col("end_us")),
            ("end before start", F.col("end_us") < F.col("start_us")),
        ],
    )
    flagged = mark_repeats(
        flagged, ["span_id"], f"repeated {names['span_id']}", [SOURCE, "start_us", "end_us", RAW]
    )
    flagged = flagged.drop("no_start", "no_end", CORRUPT).persist()
    good = good_rows(flagged).drop(REASON)
    pairs = _children_with_parents(good, keys)
    requests = (
        pairs.groupBy("request_id", "host", "request_type", "arrived_us")
        .agg(F.array_sort(F.collect_set("key")).alias("watch_keys"))
        .select(
            "host",
            "request_id",
            "request_type",
            F.timestamp_micros("arrived_us").alias("arrived_at"),
            F.lit(timeout_ms).cast("int").alias("timeout_ms"),
            "watch_keys",
            F.lit("count").alias("aggregate"),
            F.lit(1.0).alias("threshold"),
            F.lit("all").alias("quantifier"),
        )
    )
    events = pairs.select(
        "host", "key", F.timestamp_micros("end_us").alias("occurred_at"), F.lit(1.0).alias("amount")
    )
    return Imported(
        format="spans",
        requests=requests,
        events=events,
        rejects=rejected_rows(flagged),
        rows={"spans": flagged, "spans kept": good},
        notes=[f"A request is a span with children; it waits for {_WAITS[keys]}."],
        cached=[flagged],
    )


_WAITS = {
    "children": "the end of each of its child spans",
    "operations": "one end of each (service, operation) that its child spans are of",
}


def _children_with_parents(spans: DataFrame, keys: str) -> DataFrame:
    parents = spans.select(
        F.col("span_id").alias("request_id"),
        F.col("service").alias("host"),
        F.col("operation").alias("request_type"),
        F.col("start_us").alias("arrived_us"),
    )
    key = F.col("span_id") if keys == "children" else F.concat_ws("/", "service", "operation")
    children = spans.where(F.col("parent_id") != ROOT).select(
        "parent_id", "end_us", key.alias("key")
    )
    return children.join(parents, children["parent_id"] == parents["request_id"]).drop("parent_id")
