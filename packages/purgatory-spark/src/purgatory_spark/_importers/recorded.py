"""Import tables that are in the pipeline's schema already; rows are checked, not converted."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.imported_trace import CheckedTables, ImportedTrace
from purgatory_spark._rows.chains import flag_repeated, mark_chains
from purgatory_spark._rows.checks import (
    REASON,
    accepted_rows,
    event_checks,
    flag_rejects,
    rejected_rows,
    request_checks,
)
from purgatory_spark._rows.row_counts import RowCounts
from purgatory_spark._rows.schema import EVENTS, REQUESTS, require, with_passed
from purgatory_spark._spark.files import JSON_ZONE, RAW, SOURCE
from purgatory_spark._spark.parquet_files import read_parquet


def is_recorded(path: Path) -> bool:
    return (path / "requests").is_dir() and (path / "events").is_dir()


def import_recorded(spark: SparkSession, path: Path) -> ImportedTrace:
    """Import the Parquet files in `requests/` and `events/`, and reject rows that break a rule."""
    requests = _read(spark, path / "requests", REQUESTS)
    events = _read(spark, path / "events", EVENTS)
    return check_tables(requests, events)


def check_tables(requests: DataFrame, events: DataFrame) -> ImportedTrace:
    """Check tables that are in the pipeline's schema, lazily, and reject rows that break a rule."""
    requests = with_passed(_with_whole_row(requests, REQUESTS, "requests"))
    events = _with_whole_row(events, EVENTS, "events")
    flagged = flag_rejects(requests, request_checks())
    arrived_us = F.when(F.col(REASON).isNull(), F.unix_micros("arrived_at"))
    deadline_us = arrived_us + F.col("timeout_ms").cast("bigint") * 1000
    chains = mark_chains(flagged, arrived_us, deadline_us).persist()
    flagged_events = flag_rejects(events, event_checks()).persist()
    flagged_requests = flag_repeated(chains)
    rejects = rejected_rows(flagged_requests).unionByName(rejected_rows(flagged_events))
    return ImportedTrace(
        format="recorded",
        tables=CheckedTables(
            requests=accepted_rows(flagged_requests).select(*REQUESTS.names),
            events=accepted_rows(flagged_events).select(*EVENTS.names),
            rejects=rejects,
            counts=RowCounts.of({"requests in": chains, "events in": flagged_events}, rejects),
        ),
        cached=[chains, flagged_events],
    )


def _read(spark: SparkSession, folder: Path, schema: T.StructType) -> DataFrame:
    if not any(folder.rglob("*.parquet")):
        raise TraceFormatError(f"{folder}: the folder has no Parquet file")
    return require(read_parquet(spark, folder), schema, str(folder))


def _with_whole_row(table: DataFrame, schema: T.StructType, source: str) -> DataFrame:
    return require(table, schema, source).select(
        "*",
        F.lit(source).alias(SOURCE),
        F.to_json(F.struct(*schema.names), JSON_ZONE).alias(RAW),
    )
