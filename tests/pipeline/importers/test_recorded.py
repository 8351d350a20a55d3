"""Tables in the pipeline's own schema: checked, not translated."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.importers.imported import TraceFormatError
from tests.model.naive_trace import TraceEvent, TraceRequest
from tests.pipeline.trace_folders import NOON_US, event, imported, rejects, request, rows_of, write_recorded
from tests.pipeline.trace_strategies import events_table, requests_table

FAR = 10**17


def test_rows_with_nulls_and_impossible_times_are_counted_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    """Of both tables, named by the table; what is good stays exactly as it is."""
    good = requests_table([request(0), request(1, keys=[]), request(2, timeout_ms=0)])
    required = ("host", "request_id", "arrived_at", "timeout_ms", "watch_keys", "aggregate", "threshold", "quantifier")
    bad = [requests_table([TraceRequest(f"null {name}", NOON_US, 1, ["k"], "count", 1.0, "all")]) for name in required]
    for number, name in enumerate(required):
        place = bad[number].column_names.index(name)
        bad[number] = bad[number].set_column(place, name, pa.nulls(1, bad[number].column(name).type))
    far = requests_table(
        [
            TraceRequest("late", FAR, 1, ["k"], "count", 1.0, "all"),
            TraceRequest("null key", NOON_US, 1, ["k", None], "count", 1.0, "all"),  # type: ignore[list-item]
        ]
    )
    events = events_table([event(0, after_us=5), TraceEvent("k", -FAR, 1.0), TraceEvent("k", NOON_US, float("-inf"))])
    nulls = events_table([TraceEvent("k", NOON_US, 1.0)]).set_column(1, "key", pa.nulls(1, pa.string()))
    source = write_recorded(tmp_path / "in", pa.concat_tables([good, *bad, far]), pa.concat_tables([events, nulls]))
    trace = imported(spark, source, tmp_path / "trace")
    assert trace.manifest["rejected"] == {
        "amount is not a finite number": 1,
        "arrived_at not of the years 1900 to 2199": 1,
        **{f"null {name}": 1 for name in sorted((*required, "key"))},
        "null watch key": 1,
        "occurred_at not of the years 1900 to 2199": 1,
    }
    assert trace.manifest["rows"] == {
        "requests in": 13,
        "events in": 4,
        "rejected": 13,
        "requests out": 3,
        "events out": 1,
    }
    assert {source for reason, source, _ in rejects(spark, trace) if reason != "null host"} == {"requests", "events"}
    assert rows_of(trace.requests(spark)) == good.to_pylist()
    assert rows_of(trace.events(spark)) == events.slice(0, 1).to_pylist()


def test_request_without_a_type_gets_the_usual_one(spark: SparkSession, tmp_path: Path) -> None:
    """A null would stand in every table by type."""
    table = requests_table([request(0), request(1)]).set_column(2, "request_type", pa.array([None, "fetch"]))
    trace = imported(spark, write_recorded(tmp_path / "in", table, events_table([])), tmp_path / "trace")
    assert [row["request_type"] for row in rows_of(trace.requests(spark))] == ["request", "fetch"]


def test_folder_without_parquet_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Rather than what Spark could not infer from it."""
    source = write_recorded(tmp_path / "in", requests_table([request(0)]), events_table([]))
    (source / "events" / "part.parquet").rename(source / "events" / "part.txt")
    with pytest.raises(TraceFormatError, match=r"in/events: no Parquet file in it"):
        imported(spark, source, tmp_path / "trace")


def test_format_asked_for_must_be_the_folders(spark: SparkSession, tmp_path: Path) -> None:
    """One folder of the two is not enough."""
    (tmp_path / "in" / "requests").mkdir(parents=True)
    with pytest.raises(TraceFormatError, match="a recorded trace is a folder with the folders requests and events in it"):
        imported(spark, tmp_path / "in", tmp_path / "trace", format="recorded")
