"""Import any tables of requests and events; a mapping names the columns."""

from __future__ import annotations

from pyspark.sql import DataFrame

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.imported_trace import ImportedTrace
from purgatory_spark._rows.accepted_tables import AcceptedTables
from purgatory_spark._rows.mapped_rows import MappedTables, with_row_columns
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._spark.file_columns import with_nested
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
    cached: list[DataFrame] = []
    tables = AcceptedTables(MappedTables(rows, mapping, event_rows), cached if cache else None)
    notes = [_note(mapping), *_zone_notes(mapping)]
    return ImportedTrace("columns", tables, notes, cached)


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
