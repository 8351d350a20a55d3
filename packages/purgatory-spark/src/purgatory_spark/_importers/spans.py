"""Import span tables of distributed traces: a row per call, with its caller, start and end."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._importers.imported_trace import ImportedTrace
from purgatory_spark._importers.table_source import TableSource, read_source
from purgatory_spark._rows import checks
from purgatory_spark._rows.schema import QUANTIFIERS, REQUESTS
from purgatory_spark._spark.files import CORRUPT, JSON_OPTIONS, RAW, SOURCE

#: The fields of a span, and the columns that hold them unless a mapping names others.
COLUMNS: Mapping[str, str] = {
    "trace_id": "TraceID",
    "span_id": "SpanID",
    "parent_id": "ParentID",
    "service": "PodName",
    "operation": "OperationName",
    "start": "StartTimeUnixNano",
    "end": "EndTimeUnixNano",
}

#: `parent_id` of spans without a parent.
ROOT = "root"


_ENDS = {
    "children": "its child spans",
    "operations": "the (service, operation) pairs of its child spans, with one end of each",
}
_WAITS = {
    "children": "the end of each of its child spans",
    "operations": "one end of each (service, operation) that its child spans are of",
}


def _wait(keys: str, quantifier: str) -> str:
    if quantifier == "all":
        return _WAITS[keys]
    return f"the ends of {quantifier} of {_ENDS[keys]}"


def import_spans(
    spark: SparkSession,
    source: TableSource,
    *,
    columns: Mapping[str, str] | None = None,
    time_unit: str = "ns",
    timeout_ms: int = 1000,
    keys: str = "children",
    quantifier: str = "all",
) -> ImportedTrace:
    """Import a span table.

    A request is a span with children. It arrives when the span starts, on the host that is the
    span's service, and is complete once all its children have ended, or as many as the quantifier
    says. The end of each child is an event on that host. For example:

        span  parent  service  start  end        request  host   arrived_at  watch_keys
        s1    root    front    0      90    ->   s1       front  0           [s2, s3]
        s2    s1      cart     2      20         event           occurred_at
        s3    s1      ads      3      95         s2       front  20
                                                 s3       front  95

    `columns`: the columns of fields in `COLUMNS`, where they differ from it. `time_unit`: unit of
    `start` and `end`, one of `checks.TIME_UNITS`. `keys`: "children" watches the child spans
    themselves. "operations" watches the distinct (service, operation) pairs of the children, for
    contention on few keys; the first end of each pair satisfies its key. `quantifier`: the keys
    that must be satisfied: all, any, or a number of them. A span that has fewer is a reject.
    """
    names = {**COLUMNS, **(columns or {})}
    rows = read_source(spark, source, names.values())
    return spans_trace(
        rows, names, time_unit=time_unit, timeout_ms=timeout_ms, keys=keys, quantifier=quantifier
    )


def spans_trace(
    rows: DataFrame,
    names: Mapping[str, str],
    *,
    time_unit: str = "ns",
    timeout_ms: int = 1000,
    keys: str = "children",
    quantifier: str = "all",
) -> ImportedTrace:
    """Return the trace of rows that are spans, with the columns `SOURCE`, `RAW` and `CORRUPT`."""
    flagged = _flagged_spans(rows, names, time_unit).persist()
    accepted = checks.accepted_rows(flagged).drop(checks.REASON)
    pairs = _children_with_parents(accepted, keys)
    with_keys = (
        pairs.groupBy("request_id", "host", "request_type", "arrived_us", SOURCE)
        .agg(F.array_sort(F.collect_set("key")).alias("watch_keys"))
        .select(
            SOURCE,
            "host",
            "request_id",
            "request_type",
            F.timestamp_micros("arrived_us").alias("arrived_at"),
            F.lit(timeout_ms).cast("int").alias("timeout_ms"),
            "watch_keys",
            F.lit("count").alias("aggregate"),
            F.lit(1.0).alias("threshold"),
            F.lit(quantifier).alias("quantifier"),
        )
    )
    rejects, requests = checks.rejected_rows(flagged), with_keys.drop(SOURCE)
    if quantifier not in QUANTIFIERS:
        checked = checks.flag_rejects(
            with_keys.withColumn(RAW, F.to_json(F.struct(*REQUESTS.names), JSON_OPTIONS)),
            checks.quantifier_checks(),
        )
        rejects = rejects.unionByName(checks.rejected_rows(checked))
        requests = checks.accepted_rows(checked).select(*REQUESTS.names)
    events = pairs.select(
        "host", "key", F.timestamp_micros("end_us").alias("occurred_at"), F.lit(1.0).alias("amount")
    )
    return ImportedTrace(
        format="spans",
        requests=requests,
        events=events,
        rejects=rejects,
        rows={"spans": flagged, "spans kept": accepted},
        notes=[f"A request is a span with children; it waits for {_wait(keys, quantifier)}."],
        cached=[flagged],
    )


def _flagged_spans(rows: DataFrame, names: Mapping[str, str], time_unit: str) -> DataFrame:
    """Parse the fields of `COLUMNS`, times as `start_us` and `end_us`, and flag the bad rows."""
    ids = ("trace_id", "span_id", "parent_id", "service", "operation")
    spans = rows.select(
        SOURCE,
        RAW,
        CORRUPT,
        *[checks.name_or_null(names[field]).alias(field) for field in ids],
        checks.parse_us(rows, names["start"], time_unit).alias("start_us"),
        checks.parse_us(rows, names["end"], time_unit).alias("end_us"),
        checks.text_or_null(names["start"]).isNull().alias("no_start"),
        checks.text_or_null(names["end"]).isNull().alias("no_end"),
    )
    flagged = checks.flag_rejects(
        spans,
        [
            checks.malformed_check(),
            *[
                (f"null {names[field]}", F.col(field).isNull())
                for field in ("span_id", "parent_id", "service", "operation")
            ],
            *[checks.not_utf8_check(names[field], F.col(field)) for field in ids],
            (f"null {names['start']}", F.col("no_start")),
            (f"null {names['end']}", F.col("no_end")),
            *checks.time_checks(names["start"], F.col("start_us")),
            *checks.time_checks(names["end"], F.col("end_us")),
            ("end before start", F.col("end_us") < F.col("start_us")),
        ],
    )
    flagged = checks.flag_repeats(
        flagged, ["span_id"], f"repeated {names['span_id']}", [SOURCE, "start_us", "end_us", RAW]
    )
    return flagged.drop("no_start", "no_end", CORRUPT)


def _children_with_parents(spans: DataFrame, keys: str) -> DataFrame:
    parents = spans.select(
        SOURCE,
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
