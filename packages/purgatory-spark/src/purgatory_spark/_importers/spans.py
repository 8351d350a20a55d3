"""Import span tables of distributed traces: a row per call, with its caller, start and end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._importers.imported_trace import CheckedTables, ImportedTrace
from purgatory_spark._importers.table_source import TableSource, read_source
from purgatory_spark._rows import checks
from purgatory_spark._rows.row_counts import RowCounts
from purgatory_spark._rows.schema import MAX_TIMEOUT_MS, QUANTIFIERS, REQUESTS
from purgatory_spark._spark.file_columns import with_row_text
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


_GIVEN_UP_US = "given_up_us"

_ENDS = {
    "children": "its child spans",
    "operations": "the (service, operation) pairs of its child spans, with one end of each",
}
_WAITS = {
    "children": "the end of each of its child spans",
    "operations": "one end of each (service, operation) that its child spans are of",
}


@dataclass(frozen=True)
class GivenUp:
    """Which spans were given up without an answer: those with a status of `unanswered`.

    `column`: that of the status, where it is not its name.
    """

    status: str
    unanswered: tuple[str, ...]
    column: str | None = None

    @property
    def note(self) -> str:
        return (
            f"A child span with {self.status} {', '.join(self.unanswered)} was given up and has no "
            "end; a request that needs it expires when it was given up."
        )


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
    status: str | None = None,
    unanswered: Sequence[str] = (),
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
    `status` and `unanswered`: the column, and its values of spans that were given up without an
    answer. The end of such a span is no event. A request expires when so many keys were given up
    that it can't be complete any more.
    """
    names = {**COLUMNS, **(columns or {})}
    required = list(names.values()) + ([] if status is None else [status])
    rows = with_row_text(read_source(spark, source, required))
    return spans_trace(
        rows,
        names,
        time_unit=time_unit,
        timeout_ms=timeout_ms,
        keys=keys,
        quantifier=quantifier,
        given_up=None if status is None else GivenUp(status, tuple(unanswered)),
    )


def spans_trace(
    rows: DataFrame,
    names: Mapping[str, str],
    *,
    time_unit: str = "ns",
    timeout_ms: int = 1000,
    keys: str = "children",
    quantifier: str = "all",
    given_up: GivenUp | None = None,
) -> ImportedTrace:
    """Return the trace of rows that are spans, with the columns `SOURCE`, `RAW` and `CORRUPT`."""
    flagged = _flagged_spans(rows, names, time_unit, given_up).persist()
    accepted = checks.accepted_rows(flagged).drop(checks.REASON)
    pairs = _children_with_parents(accepted, keys)
    request = ("request_id", "host", "request_type", "arrived_us", SOURCE)
    of_keys = pairs if given_up is None else _with_ends_of_keys(pairs, *request)
    with_keys = (
        of_keys.groupBy(*request)
        .agg(
            F.array_sort(F.collect_set("key")).alias("watch_keys"),
            F.array_sort(F.collect_list(_GIVEN_UP_US)).alias(_GIVEN_UP_US),
        )
        .select(
            SOURCE,
            "host",
            "request_id",
            "request_type",
            F.timestamp_micros("arrived_us").alias("arrived_at"),
            F.coalesce(_given_up_ms(quantifier), F.lit(timeout_ms)).cast("int").alias("timeout_ms"),
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
    events = pairs.where(F.col(_GIVEN_UP_US).isNull()).select(
        "host", "key", F.timestamp_micros("end_us").alias("occurred_at"), F.lit(1.0).alias("amount")
    )
    counts = RowCounts.of({"spans in": flagged, "spans kept": accepted}, rejects)
    return ImportedTrace(
        format="spans",
        tables=CheckedTables(requests, events, rejects, counts),
        notes=[
            f"A request is a span with children; it waits for {_wait(keys, quantifier)}.",
            *([] if given_up is None else [given_up.note]),
        ],
        cached=[flagged],
    )


def _given_up_ms(quantifier: str) -> Column:
    """Return after which time a request had lost one key too many; null if it had not."""
    keys = F.size("watch_keys")
    needed = {"all": keys, "any": F.lit(1)}.get(quantifier)
    if needed is None:
        needed = F.lit(int(quantifier))
    # Too few keys make a request a reject, whatever its timeout.
    at_us = F.when(keys >= needed, F.get(F.col(_GIVEN_UP_US), keys - needed))
    waited_ms = F.floor((at_us - F.col("arrived_us")) / 1000)
    return F.when(waited_ms.between(0, MAX_TIMEOUT_MS), waited_ms)


def _with_ends_of_keys(pairs: DataFrame, *request: str) -> DataFrame:
    """Return a row for each key of a request: given up if all spans of the key were."""
    is_given_up = F.bool_and(F.col(_GIVEN_UP_US).isNotNull())
    last_us = F.when(is_given_up, F.max(_GIVEN_UP_US))
    return pairs.groupBy(*request, "key").agg(last_us.alias(_GIVEN_UP_US))


def _flagged_spans(
    rows: DataFrame, names: Mapping[str, str], time_unit: str, given_up: GivenUp | None
) -> DataFrame:
    """Parse the fields of `COLUMNS`, times as `start_us` and `end_us`, and flag the bad rows.

    `_GIVEN_UP_US` is the end of a span that was given up, and null for others.
    """
    is_given_up = F.lit(False)
    if given_up is not None:
        status = checks.text_or_null(given_up.column or given_up.status)
        is_given_up = status.isin(*given_up.unanswered)
    ids = ("trace_id", "span_id", "parent_id", "service", "operation")
    spans = rows.select(
        SOURCE,
        RAW,
        CORRUPT,
        *[checks.name_or_null(names[field]).alias(field) for field in ids],
        checks.parse_us(names["start"], time_unit).alias("start_us"),
        checks.parse_us(names["end"], time_unit).alias("end_us"),
        checks.text_or_null(names["start"]).isNull().alias("no_start"),
        checks.text_or_null(names["end"]).isNull().alias("no_end"),
        is_given_up.alias("is_given_up"),
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
    given_up_us = F.when(F.col("is_given_up"), F.col("end_us"))
    return flagged.withColumn(_GIVEN_UP_US, given_up_us).drop(
        "no_start", "no_end", "is_given_up", CORRUPT
    )


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
        "parent_id", "end_us", _GIVEN_UP_US, key.alias("key")
    )
    return children.join(parents, children["parent_id"] == parents["request_id"]).drop("parent_id")
