"""The hour that a zone has twice: the order of a log's rows says which one is meant."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from purgatory_spark._importers.columns import map_tables
from purgatory_spark._output_folder import new_folder
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._traces.trace_folder import import_trace
from purgatory_spark._traces.trace_reader import ImportSettings
from tests.spark.trace_folders import imported_rows, rows_of, write_lines

ZONE = "Europe/Berlin"
#: 2026-10-25 00:00 UTC is 02:00 in summer time; an hour later it is 02:00 again.
_MIDNIGHT = datetime(2026, 10, 25, tzinfo=UTC)


def local(text: str, second: int = 0) -> str:
    return f"2026-10-25 {text}:{second:02}"


#: Local arrivals in the order of a log, and seconds after midnight in UTC.
ARRIVALS = [
    ("01:59", -60),
    ("02:10", 600),
    ("02:05", 300),  # one that took longer is logged later
    ("02:59", 3540),
    ("02:00", 3600),
    ("02:58", 3480),  # one of the first hour that took two minutes
    ("02:20", 4800),
    ("02:59", 7140),
    ("03:00", 7200),
    ("02:57", 7020),
]
MAPPING: dict[str, Any] = {
    "columns": {"request_id": "id", "arrived_at": "at", "service_ms": "took"},
    "time_zone": ZONE,
}


def lines_of(arrivals: list[tuple[str, int]]) -> list[str]:
    return ["id,at,took", *[f"{n},{local(at)},5" for n, (at, _) in enumerate(arrivals)]]


def arrivals_of(found: list[dict[str, Any]]) -> dict[int, int]:
    return {
        int(row["request_id"]): round((row["arrived_at"] - _MIDNIGHT).total_seconds())
        for row in found
    }


def test_second_hour_begins_where_times_fall_back(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    write_lines(folder / "a.csv", lines_of(ARRIVALS))
    # Files do not mix, and one with times of a single hour has no order to tell.
    header, *rows = lines_of([("02:01", 60), ("02:40", 2400)])
    text = "\n".join([header, *(f"2{row}" for row in rows)])
    (folder / "b.csv.gz").write_bytes(gzip.compress(text.encode()))
    found = imported_rows(spark, folder, **MAPPING)
    expected = {number: seconds for number, (_, seconds) in enumerate(ARRIVALS)}
    assert arrivals_of(found.requests) == expected | {20: 60, 21: 2400}
    assert all(
        event["occurred_at"] - request["arrived_at"] == timedelta(milliseconds=5)
        for event, request in zip(
            sorted(found.events, key=lambda row: int(row["key"])),
            sorted(found.requests, key=lambda row: int(row["request_id"])),
            strict=True,
        )
    )
    assert found.rows_read["rows of a repeated hour"] == 10
    assert found.notes[-1] == f"Times without a zone are of {ZONE}; the report's times are UTC."


@pytest.mark.slow
def test_end_is_after_its_arrival(spark: SparkSession, tmp_path: Path) -> None:
    pairs = [("01:59", "02:01"), ("02:58", "02:59"), ("02:59", "02:00"), ("02:01", "02:02")]
    rows = [f"{number},{local(at)},{local(end)}" for number, (at, end) in enumerate(pairs)]
    log = write_lines(tmp_path / "log.csv", ["id,at,end", *rows])
    columns = {"request_id": "id", "arrived_at": "at", "ended_at": "end"}
    found = imported_rows(spark, log, columns=columns, time_zone=ZONE)
    ends = {int(row["key"]): row["occurred_at"] - _MIDNIGHT for row in found.events}
    assert arrivals_of(found.requests) == {0: -60, 1: 3480, 2: 3540, 3: 3660}
    assert {key: end.total_seconds() for key, end in ends.items()} == {
        0: 60,
        1: 3540,
        2: 3600,
        3: 3720,
    }


@pytest.mark.slow
def test_arrival_of_a_log_with_ends_follows_the_end(spark: SparkSession, tmp_path: Path) -> None:
    rows = [f"{n},{local(end)},60" for n, end in enumerate(["02:30", "02:59", "02:01"])]
    log = write_lines(tmp_path / "log.csv", ["id,end,took", *rows])
    columns = {"request_id": "id", "ended_at": "end", "service_s": "took"}
    found = imported_rows(spark, log, columns=columns, time_zone=ZONE)
    assert arrivals_of(found.requests) == {0: 1740, 1: 3480, 2: 3600}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("zone", "times"),
    [
        # Half an hour, and a midnight.
        ("Australia/Lord_Howe", ["2026-04-05 01:40:00", "2026-04-05 01:59:00"]),
        ("America/Havana", ["2026-11-01 00:10:00", "2026-11-01 00:59:00"]),
    ],
)
def test_other_zones_repeat_at_other_times(
    spark: SparkSession, tmp_path: Path, zone: str, times: list[str]
) -> None:
    log = write_lines(
        tmp_path / "log.csv", ["id,at,took", *[f"{n},{at},5" for n, at in enumerate(times * 2)]]
    )
    found = imported_rows(spark, log, columns=MAPPING["columns"], time_zone=zone)
    seconds = arrivals_of(found.requests)
    overlap = 1800 if zone.endswith("Howe") else 3600
    assert [seconds[2] - seconds[0], seconds[3] - seconds[1]] == [overlap, overlap]
    assert found.rows_read["rows of a repeated hour"] == 4


@pytest.mark.slow
def test_rows_of_a_table_have_no_order(spark: SparkSession) -> None:
    rows = [(str(number), local(at), 5) for number, (at, _) in enumerate(ARRIVALS)]
    table = spark.createDataFrame(rows, "id string, at string, took int")
    trace = map_tables(table, TableMapping(MAPPING["columns"], time_zone=ZONE))
    assert set(arrivals_of(rows_of(trace.requests)).values()) <= {*range(-60, 3600), 7200}
    rows, _ = trace.tables.counts.collect()
    assert rows["rows of a repeated hour"] == 8


@pytest.mark.slow
def test_number_of_rows_is_in_the_manifest(spark: SparkSession, tmp_path: Path) -> None:
    log = write_lines(tmp_path / "log.csv", lines_of(ARRIVALS))
    trace = import_trace(spark, log, new_folder(tmp_path / "t"), ImportSettings(**MAPPING))
    assert trace.manifest["rows"]["rows of a repeated hour"] == 8
    assert trace.manifest["rows"]["rows in"] == 10
