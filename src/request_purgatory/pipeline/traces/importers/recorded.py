"""Tables that are in the pipeline's own schema already: checked, not translated."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.pipeline.traces.importers.delimited import spark_path
from request_purgatory.pipeline.traces.importers.imported import (
    RAW,
    REASON,
    SOURCE,
    Imported,
    TraceFormatError,
    event_checks,
    good_rows,
    mark_repeats,
    rejected_rows,
    request_checks,
    set_aside,
)
from request_purgatory.pipeline.traces.schema import EVENTS, REQUESTS, require


def is_recorded(path: Path) -> bool:
    """True for a folder with the folders `requests` and `events` in it."""
    return (path / "requests").is_dir() and (path / "events").is_dir()


def import_recorded(spark: SparkSession, path: Path) -> Imported:
    """Requests and events of a folder with `requests/` and `events/` in Parquet, without the rows that break the rules.

    Raises:
        SchemaError: a column is missing or of another type; names the folder and the difference.
        TraceFormatError: a folder has no Parquet file.
    """
    requests = _read(spark, path / "requests", REQUESTS)
    events = _read(spark, path / "events", EVENTS)
    requests = requests.withColumn("request_type", F.coalesce("request_type", F.lit("request")))
    flagged_requests = mark_repeats(
        set_aside(requests, request_checks()),
        ["host", "request_id"],
        "repeated request_id",
        ["arrived_at", RAW],
    ).persist()
    flagged_events = set_aside(events, event_checks()).persist()
    return Imported(
        format="recorded",
        requests=good_rows(flagged_requests).select(*REQUESTS.names),
        events=good_rows(flagged_events).select(*EVENTS.names),
        rejects=rejected_rows(flagged_requests).unionByName(rejected_rows(flagged_events)),
        rows={"requests": flagged_requests.drop(REASON), "events": flagged_events.drop(REASON)},
        cached=[flagged_requests, flagged_events],
    )


def _read(spark: SparkSession, folder: Path, schema: T.StructType) -> DataFrame:
    if not any(folder.rglob("*.parquet")):
        raise TraceFormatError(f"{folder}: no Parquet file in it")
    table = spark.read.parquet(spark_path(folder))
    with_source = require(table, schema, str(folder)).withColumn(SOURCE, F.lit(folder.name))
    return with_source.withColumn(RAW, F.to_json(F.struct(*schema.names)))
