"""The values and reasons of columns are the same with Spark and without it."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from purgatory_spark import TableMapping
from purgatory_spark._rows.checks import REASON
from purgatory_spark._rows.mapped_columns import MappedColumns, map_request_columns
from purgatory_spark._rows.mapped_rows import flagged_rows, request_values, with_row_columns
from purgatory_spark._rows.times import TIME_UNITS

# These take 20 s; the importers' tests compare the two on files.
pytestmark = pytest.mark.slow

TIMES = """
2022-08-22T05:26:22.558265999Z 2022-08-22T07:26:22+02:00 2022-08-22T07:26:22+0200 2022-08-22
2022-8-2 2022-08 2022-08-22T05 2022-08-22T05:26 2022-08-22T5:6:7 2022-08-22T05:26:22.
2022-08-22T05:26:22.5 2022-08-22T05:26:22.55826599Z 2022-08-22T05:26:22UTC 2022-13-01
2022-02-30 2022-08-22T24:00:00 2022-08-22T05:60:00 2022-08-22T05:26:22+25:00 2022 soon 12:30
2022-08-22T05:26:22Europe/Berlin 2022-08-22T05:26:22+01 2022-08-22T05:26:22-1:30 0001-01-01
9999-12-31T23:59:59.999999Z 2022-08-22T05:26:22GMT+1 2022-08-22T05:26:22Z5 2022-08-22T
02/Mar/2026:09:00:00__+0100 32/Mar/2026:09:00:00__+0100 2/Mar/2026:09:00:00__+0100
"""
NUMBERS = """
0 1 -1 +1 1. .5 1.5 -0.5 1e3 1E-3 1.5e+2 NaN Infinity -inf nan 1d 1f 0x10 1_000 1,5 -- . e5
1661169600000 1661169600000.5 1661169600.123456789 1661169600.1234567891 2.0000000009999
9223372036854775807 9223372036854775808 -9223372036854775808 99999999999999999999 1e400
1e300 9007199254740993 9007199254740992 90071992547409930
12345678901234567890123456789012345678901 1.9999999996 0.0000009 2147483647 2147483648 0.999
1000000000000000 6e12 -1e14
"""
TEXTS = [
    *[text.replace("__", " ") for text in TIMES.split()],
    *NUMBERS.split(),
    *[f" {text} " for text in (*TIMES.split()[:4], "1.5", "1e3", "7")],
    *["", " ", "  ", "\t5", "5\t", "a\ufffd", "\u00a0", None],
]
OTHERS: dict[str, list[Any]] = {
    "double": [
        0.0,
        -0.0,
        1.5,
        12345678.5,
        1e15,
        2.0**53,
        -1e300,
        float("nan"),
        float("inf"),
        0.0001,
        None,
    ],
    "float": [0.5, 16777216.0, 0.1, float("nan"), 1e20, None],
    "bigint": [0, -1, 1_661_169_600_000, 2**63 - 1, -(2**63), 2**53 + 1, None],
    "int": [5, 2**31 - 1, -5, None],
    "boolean": [True, False, None],
    "decimal(20,3)": [Decimal("1.500"), Decimal("-2"), Decimal("12345678901234567.125"), None],
}
#: Each mapping has one column, `v`, in all fields but one.
FIELDS = ("request_id", "ended_at", "service_ms", "service_s", "timeout_ms", "threshold", "none")
NAMES = ["host", "request_id", "arrived_us", "ended_us", "timeout_ms", "threshold", "watch_keys"]


def mapping(field: str, unit: str) -> TableMapping:
    columns: dict[str, str | tuple[str, ...]] = {"arrived_at": "at", "ended_at": "at"}
    if field in ("service_ms", "service_s"):
        del columns["ended_at"]
    if field == "none":
        columns = {"arrived_at": "v", "ended_at": "v", "watch_keys": ("v", "n")}
    return TableMapping(columns if field == "none" else columns | {field: "v"}, time_unit=unit)


def rows_without_spark(mapped: MappedColumns) -> list[tuple[Any, ...]]:
    """Return the fields of good rows, with the names that Spark's columns have; and the reasons."""
    fields = {name: mapped.fields.column(name) for name in mapped.fields.schema.names}
    fields |= {"arrived_us": fields["arrived_at"], "ended_us": fields["ended_at"]}
    columns = [fields[name].to_pylist() if name in fields else None for name in NAMES]
    count = mapped.fields.num_rows
    reasons = [None] * count if mapped.reasons is None else mapped.reasons.to_pylist()
    return [
        (reason,) if reason else (None, *[column and column[at] for column in columns])
        for at, reason in enumerate(reasons)
    ]


def assert_alike(spark: SparkSession, values: list[Any], kind: str, units: Iterable[str]) -> None:
    table = spark.createDataFrame(
        [(at, value) for at, value in enumerate(values)], f"n int, v {kind}"
    ).selectExpr("n", "v", "TIMESTAMP '2022-08-22 05:00:00Z' AS at")
    given = table.toArrow().sort_by("n")
    batch = given.combine_chunks().to_batches()[0]
    differing = []
    for field in FIELDS:
        for unit in units if field in ("none", "ended_at") else ("ms",):
            chosen = mapping(field, unit)
            flagged = flagged_rows(with_row_columns(table), request_values(table, chosen))
            names = [name for name in NAMES if name in flagged.columns]
            if field != "request_id":
                names.remove("request_id")
            # The rows have no other order than this one.
            found = flagged.coalesce(1).select(REASON, *names).toArrow().to_pylist()
            expected = [
                (reason,) if (reason := row[REASON]) else (None, *map(row.get, NAMES))
                for row in found
            ]
            mapped = rows_without_spark(map_request_columns(batch, chosen))
            differing += [
                (field, unit, value, ours, theirs)
                for value, ours, theirs in zip(values, mapped, expected, strict=True)
                if ours != theirs
            ]
    assert differing == []


def test_texts_are_alike(spark: SparkSession) -> None:
    assert_alike(spark, TEXTS, "string", TIME_UNITS)


@pytest.mark.parametrize("kind", OTHERS)
def test_numbers_are_alike(spark: SparkSession, kind: str) -> None:
    assert_alike(spark, OTHERS[kind], kind, ("s", "ns"))
