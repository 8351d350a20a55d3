"""Tests of parsing times."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from purgatory_spark._importers.table_source import read_rows
from purgatory_spark._rows.checks import TIME_UNITS, parse_us
from tests.spark.trace_folders import NOON_US, rows_of

#: Texts and their values in microseconds since the epoch, by unit; other units give null.
NUMBERS: dict[str, dict[str, int]] = {
    "1.5": {"s": 1_500_000, "ms": 1500, "us": 1, "ns": 0},
    "1500": {"s": 1_500_000_000, "ms": 1_500_000, "us": 1500, "ns": 1},
    "1999": {"s": 1_999_000_000, "ms": 1_999_000, "us": 1999, "ns": 1},
    "-0.5": {"s": -500_000, "ms": -500, "us": -1, "ns": -1},
    # A double has fewer digits, and larger units exceed 64 bits.
    "1661145982558265576": {"us": 1_661_145_982_558_265_576, "ns": 1_661_145_982_558_265},
}
#: ISO 8601 texts, which are parsed with every unit.
MOMENTS = {
    "2022-08-22T05:26:22.558265999Z": 1_661_145_982_558_265,
    "2022-08-22 07:26:22.558265+02:00": 1_661_145_982_558_265,
    "2022-08-22 05:26:22.558265": 1_661_145_982_558_265,
    "2022-08-22": 1_661_126_400_000_000,
}
NO_TIMES = ("", "soon", "12:30", "NaN", "2022-13-01")


def test_times_are_parsed_to_the_microsecond(spark: SparkSession) -> None:
    expected = {text: dict(numbers) for text, numbers in NUMBERS.items()}
    expected |= {text: dict.fromkeys(TIME_UNITS, us) for text, us in MOMENTS.items()}
    expected |= {text: {} for text in NO_TIMES}
    table = spark.createDataFrame(pa.table({"text": list(expected)}))
    read = table.select("text", *[parse_us("text", unit).alias(unit) for unit in TIME_UNITS])
    found = {row.pop("text"): row for row in read.toArrow().to_pylist()}
    for text, row in found.items():
        assert {unit: us for unit, us in row.items() if us is not None} == expected.pop(text), text
    assert expected == {}


def test_typed_times_of_parquet_need_no_unit(spark: SparkSession, tmp_path: Path) -> None:
    us = pa.array([NOON_US, None], pa.timestamp("us", tz="UTC"))
    ns = pa.array([NOON_US * 1000 + 1_234_567, -1], pa.timestamp("ns", tz="UTC"))
    pq.write_table(pa.table({"at": us, "end": ns}), tmp_path / "calls.parquet")
    table = read_rows(spark, [tmp_path / "calls.parquet"], ["at", "end"])
    found = table.select(parse_us("at", "iso").alias("at"), parse_us("end", "s").alias("end"))
    assert rows_of(found) == [{"at": NOON_US, "end": NOON_US + 1234}, {"at": None, "end": -1}]
