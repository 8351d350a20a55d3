"""Streams of any columns as the requests and events of a streaming job.

The mapping, and the rules by which values are widened, are those of imports. What a stream can't do
is to look at other rows: it can't number requests, so they need ids of their own. Repeated requests
are found by the streaming job.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._rows.checks import REASON
from purgatory_spark._rows.mapped_rows import (
    event_columns,
    event_rows,
    request_columns,
    request_rows,
    with_row_columns,
)
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.schema import with_passed
from purgatory_spark._spark.file_columns import row_text, with_nested
from purgatory_spark._spark.files import CORRUPT, RAW, SOURCE, require_columns


def map_streams(
    requests: DataFrame, mapping: TableMapping, *, events: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """Convert streaming DataFrames of any columns to those that `delayed_operations` takes.

    Args:
        requests: a streaming DataFrame with a row for each request.
        mapping: the columns of the fields. It needs `request_id`, and columns of events.
        events: a streaming DataFrame with a row for each event.

    Returns:
        Requests and events. A row has itself, as JSON, in `files.RAW`, and one that breaks the
        rules has the reason in `files.CORRUPT`. `delayed_operations` returns both of late rows.

    Raises:
        TraceFormatError: the mapping lacks a field, an input lacks a column, or a column has a type
            that can't hold its field.
    """
    require_stream_mapping(mapping)
    event_columns_given = mapping.event_columns.values()
    requests = with_nested(with_row_columns(requests), mapping.input_columns)
    events = with_nested(with_row_columns(events), event_columns_given)
    require_columns("requests", requests.columns, mapping.input_columns, "table")
    require_columns("events", events.columns, event_columns_given, "table")
    flagged = request_rows(requests, mapping)
    watch_keys = F.col("watch_keys") if mapping.key_columns else F.array("request_id")
    flagged_events = event_rows(events, mapping)
    return (
        with_passed(flagged).select(*request_columns(watch_keys), *_row_columns(flagged)),
        flagged_events.select(*event_columns(), *_row_columns(flagged_events)),
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


def _row_columns(rows: DataFrame) -> list[Column]:
    # A good row's text is needed too: a shard may find it to be late.
    return [F.coalesce(CORRUPT, REASON).alias(CORRUPT), row_text(rows).alias(RAW), F.col(SOURCE)]
