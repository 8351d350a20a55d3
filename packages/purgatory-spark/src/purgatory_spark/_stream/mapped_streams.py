"""Streams of any columns as the requests and events of a streaming job.

The mapping, and the rules by which values are widened, are those of imports. What a stream can't do
is to look at other rows: it can't number requests, so they need ids of their own. Repeated requests
are found by the streaming job.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._rows.checks import REASON, flag_rejects
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.schema import with_passed
from purgatory_spark._rows.values import (
    Values,
    event_columns,
    event_values,
    request_columns,
    request_values,
    require_table_columns,
)
from purgatory_spark._spark.files import CORRUPT, JSON_OPTIONS, RAW, SOURCE


def map_streams(
    requests: DataFrame, mapping: TableMapping, *, events: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """Convert streaming DataFrames of any columns to those that `delayed_operations` takes.

    Args:
        requests: a streaming DataFrame with a row for each request.
        mapping: the columns of the fields. It needs `request_id`, and columns of events.
        events: a streaming DataFrame with a row for each event.

    Returns:
        Requests and events. A row that breaks the rules has the reason in `files.CORRUPT` and
        itself, as JSON, in `files.RAW`; `delayed_operations` returns it as a late row.

    Raises:
        TraceFormatError: the mapping lacks a field, an input lacks a column, or a column has a type
            that can't hold its field.
    """
    require_stream_mapping(mapping)
    require_table_columns(requests, mapping.input_columns, "requests")
    require_table_columns(events, mapping.event_columns.values(), "events")
    return _map_requests(_with_row_columns(requests), mapping), _map_events(
        _with_row_columns(events), mapping
    )


def require_stream_mapping(mapping: TableMapping) -> None:
    if not mapping.event_columns:
        raise TraceFormatError(
            "the events of a stream are an input of their own: map their columns, at least key and "
            "occurred_at, instead of ended_at or service_ms"
        )
    if "request_id" not in mapping.columns:
        raise TraceFormatError(
            "the mapping lacks request_id=COLUMN; a stream can't number requests, as it never sees "
            "all of them"
        )


def _map_requests(rows: DataFrame, mapping: TableMapping) -> DataFrame:
    flagged = _flagged(rows, request_values(rows, mapping))
    watch_keys = F.col("watch_keys") if mapping.key_columns else F.array("request_id")
    return with_passed(flagged).select(*request_columns(watch_keys), *_row_columns())


def _map_events(rows: DataFrame, mapping: TableMapping) -> DataFrame:
    flagged = _flagged(rows, event_values(rows, mapping))
    return flagged.select(*event_columns(), *_row_columns())


def _with_row_columns(table: DataFrame) -> DataFrame:
    """Return a table with the columns that describe a row's source, unless it has them."""
    described = {
        CORRUPT: F.lit(None).cast("string"),
        RAW: F.to_json(F.struct("*"), JSON_OPTIONS),
        SOURCE: F.lit(None).cast("string"),
    }
    missing = [
        column.alias(name) for name, column in described.items() if name not in table.columns
    ]
    return table.select("*", *missing)


def _flagged(rows: DataFrame, values: Values) -> DataFrame:
    columns = [column.alias(name) for name, column in values.columns.items()]
    return flag_rejects(rows.select(CORRUPT, RAW, SOURCE, *columns), values.checks)


def _row_columns() -> list[Column]:
    reason = F.coalesce(CORRUPT, REASON)
    return [
        reason.alias(CORRUPT),
        F.when(reason.isNotNull(), F.col(RAW)).alias(RAW),
        F.col(SOURCE),
    ]
