"""Import any tables of requests and events; a mapping names the columns."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.imported_trace import ImportedTrace
from purgatory_spark._rows import mapped_rows
from purgatory_spark._rows.chains import IS_FIRST, flag_repeated, mark_chains
from purgatory_spark._rows.checks import REASON, accepted_rows, rejected_rows
from purgatory_spark._rows.mapped_columns import IS_REPEATED_HOUR
from purgatory_spark._rows.mapped_rows import (
    MappedTables,
    event_columns,
    request_columns,
    with_row_columns,
)
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.request_numbers import ID_DIGITS, NUMBERED_BY
from purgatory_spark._rows.schema import with_passed
from purgatory_spark._spark.file_columns import with_nested, with_row_text
from purgatory_spark._spark.files import require_columns


def map_tables(
    requests: DataFrame,
    mapping: TableMapping,
    *,
    events: DataFrame | None = None,
    cache: bool = False,
) -> ImportedTrace:
    """Convert tables of any columns to the pipeline's schema.

    The result is lazy: nothing is read or set in the session, nor cached unless asked for.

    For example, with columns {"arrived_at": "start", "watch_keys": "replicas"} and event_columns
    {"key": "replica", "occurred_at": "acked"}, and the unit "ms":

        start  replicas       request_id    arrived_at  watch_keys
        1000   [a, b]    ->   000000000001  1.0 s       [a, b]

        replica  acked        key  occurred_at  amount
        a        1002    ->   a    1.002 s      1.0

    Args:
        requests: A table with a row for each request.
        mapping: The columns of the fields.
        events: A table with a row for each event. Without it, events are the ends of requests.
        cache: Whether Spark caches the parsed rows, so that several tables read the input once.

    Returns:
        The trace. Unusable rows of both tables are in `rejects`, with `source` "requests" or
        "events" and the row as JSON.

    Raises:
        TraceFormatError: A table lacks a column, or a column has a type that can't hold its field;
            there are events and no mapping of them, or the reverse; or a table is a stream.
    """
    if requests.isStreaming or (events is not None and events.isStreaming):
        raise TraceFormatError(
            "map_tables takes tables; streaming DataFrames are mapped by map_streams of "
            "purgatory_spark.stream"
        )
    rows = with_nested(with_row_columns(requests, "requests"), mapping.input_columns)
    require_columns("requests", rows.columns, mapping.input_columns, "table")
    event_rows = None
    if events is not None:
        event_rows = with_nested(with_row_columns(events, "events"), mapping.event_columns.values())
        require_columns("events", event_rows.columns, mapping.event_columns.values(), "table")
    return map_rows(rows, mapping, event_rows, cache=cache)


def map_rows(
    rows: DataFrame,
    mapping: TableMapping,
    event_rows: DataFrame | None = None,
    *,
    cache: bool = False,
) -> ImportedTrace:
    """Convert rows with the columns `SOURCE`, `RAW` and `CORRUPT`, as `map_tables` does.

    Without events, a request watches a key of its own, its id (with its arrival, where an earlier
    request had the same id), and waits for one event on that key, its answer. A row without
    `ended_at` (or `service_ms`) was never answered: it has no event, and expires. So does one whose
    status is that of a request that was given up, when it was. For example, with
    columns {"arrived_at": "start", "service_ms": "took"} and the unit "ms":

        start  took        request_id    arrived_at  watch_keys        event  occurred_at
        1000   2.5    ->   000000000001  1.0 s       [000000000001]           1.0025 s
        2000          ->   000000000002  2.0 s       [000000000002]           (none)
    """
    mapping.require_events(event_rows is not None)
    flagged = mapped_rows.request_rows(rows, mapping)
    if "request_id" in mapping.columns:
        timeout_us = F.col("timeout_ms").cast("bigint") * 1000
        # Arrivals that are rejects may be any number.
        deadline_us = F.try_add("arrived_us", timeout_us)
        cached = mark_chains(flagged, F.col("arrived_us"), deadline_us)
        cached = cached.persist() if cache else cached
        flagged = flag_repeated(cached)
        accepted = accepted_rows(flagged)
    else:
        flagged = with_row_text(flagged, F.col(REASON).isNotNull())
        flagged = cached = flagged.persist() if cache else flagged
        accepted = _with_request_ids(accepted_rows(flagged))
    if not mapping.key_columns:
        key = F.col("request_id")
        if "request_id" in mapping.columns and event_rows is None:
            # An answer that comes after the deadline must not complete the next request of that
            # id. No other key begins with a blank.
            reused_key = F.concat(F.lit(" "), "arrived_us", F.lit(" "), "request_id")
            is_plain = F.col(IS_FIRST) & ~F.startswith(key, F.lit(" "))
            key = F.when(is_plain, key).otherwise(reused_key)
        accepted = accepted.withColumn("watch_keys", F.array(key))
    trace = ImportedTrace(
        format="columns",
        requests=with_passed(accepted).select(request_columns()),
        events=_ends(accepted),
        rejects=rejected_rows(flagged),
        rows={"rows": flagged},
        notes=[_note(mapping), *_zone_notes(mapping)],
        cached=[cached] if cache else [],
        mapped=MappedTables(rows, mapping, event_rows),
    )
    if event_rows is not None:
        flagged = mapped_rows.event_rows(event_rows, mapping)
        flagged = with_row_text(flagged, F.col(REASON).isNotNull())
        if cache:
            trace.cached.append(flagged.persist())
        trace.events = accepted_rows(flagged).select(event_columns())
        trace.rejects = trace.rejects.unionByName(rejected_rows(flagged))
        trace.rows["events"] = flagged
    trace.rows |= {
        f"{name} of a repeated hour": table.where(IS_REPEATED_HOUR)
        for name, table in trace.rows.items()
        if mapping.time_zone != "UTC"
    }
    return trace


def _ends(accepted: DataFrame) -> DataFrame:
    return accepted.where(F.col("ended_us").isNotNull()).select(
        "host",
        F.explode(F.array_distinct("watch_keys")).alias("key"),
        F.timestamp_micros("ended_us").alias("occurred_at"),
        F.lit(1.0).alias("amount"),
    )


def _zone_notes(mapping: TableMapping) -> list[str]:
    if mapping.time_zone == "UTC":
        return []
    return [f"Times without a zone are of {mapping.time_zone}; the report's times are UTC."]


def _note(mapping: TableMapping) -> str:
    if mapping.event_columns:
        return "A request waits for events of a table of their own."
    if mapping.key_columns:
        return "A request waits for its keys; the end of a request is an event on each of its keys."
    if mapping.status is not None:
        note = (
            "A request waits for its own answer. One that was given up without an answer "
            f"({mapping.status} {', '.join(mapping.unanswered)}) expires at that time."
        )
        if "timeout_ms" in mapping.columns:
            return note
        return (
            f"{note} Others, and those without a duration, have a timeout of "
            f"{mapping.timeout_ms:,} ms (--timeout-ms)."
        )
    return "A request waits for its own answer; a row without one expires."


def _with_request_ids(rows: DataFrame) -> DataFrame:
    order = [mapped_rows.MICROS.get(name, name) for name in NUMBERED_BY]
    order = [name for name in order if name in rows.columns]
    number = F.row_number().over(Window.partitionBy("host").orderBy(*order))
    return rows.withColumn("request_id", F.lpad(number.cast("string"), ID_DIGITS, "0"))
