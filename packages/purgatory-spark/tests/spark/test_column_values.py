"""What values of every type become, or why their rows are rejected.

`column_values.json` has what Spark's casts made of them, which the functions replaced: a type, the
field that has the value, the unit of times, and for each value the reason or the field.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from purgatory_spark import TableMapping
from purgatory_spark._rows.mapped_columns import map_request_columns

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
VALUES: dict[str, list[Any]] = {
    "string": TEXTS,
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
ARROW_TYPES = {
    "string": pa.string(),
    "double": pa.float64(),
    "float": pa.float32(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "decimal(20,3)": pa.decimal128(20, 3),
}
EXPECTED = json.loads(Path(__file__).with_name("column_values.json").read_text(encoding="utf-8"))
#: The columns that a field is computed to, where they have other names.
COLUMNS = {
    "service_ms": ["ended_at"],
    "service_s": ["ended_at"],
    "none": ["arrived_at", "watch_keys"],
}
AT_US = 1_661_144_400_000_000


def mapping(field: str, unit: str) -> TableMapping:
    columns: dict[str, str | tuple[str, ...]] = {"arrived_at": "at", "ended_at": "at"}
    if field in ("service_ms", "service_s"):
        del columns["ended_at"]
    if field == "none":
        columns = {"arrived_at": "v", "ended_at": "v", "watch_keys": ("v", "n")}
    return TableMapping(columns if field == "none" else columns | {field: "v"}, time_unit=unit)


@pytest.mark.parametrize(("kind", "field", "unit", "expected"), EXPECTED)
def test_values_become_fields_or_reasons(
    kind: str, field: str, unit: str, expected: list[str | list[Any]]
) -> None:
    values = pa.array(VALUES[kind], ARROW_TYPES[kind])
    at = pa.array([AT_US] * len(values), pa.timestamp("us", tz="UTC"))
    numbers = pa.array(range(len(values)), pa.int32())
    batch = pa.RecordBatch.from_pydict({"n": numbers, "v": values, "at": at})
    mapped = map_request_columns(batch, mapping(field, unit))
    assert mapped.reasons is not None
    columns = [mapped.fields.column(name).to_pylist() for name in COLUMNS.get(field, [field])]
    found = [
        reason or [column[row] for column in columns]
        for row, reason in enumerate(mapped.reasons.to_pylist())
    ]
    # A NaN is not equal to itself.
    differing = [
        (value, ours, theirs)
        for value, ours, theirs in zip(VALUES[kind], found, expected, strict=True)
        if ours != theirs and repr(ours) != repr(theirs)
    ]
    assert differing == []


def test_milliseconds_with_microseconds_are_not_rounded() -> None:
    took_us = [*range(1, 5_000), *range(10**12, 10**12 + 5_000), 86_400_000_001]
    at = pa.array([AT_US] * len(took_us), pa.timestamp("us", tz="UTC"))
    took_ms = pa.array([us / 1000 for us in took_us])
    batch = pa.RecordBatch.from_pydict({"v": took_ms, "at": at})
    mapped = map_request_columns(batch, mapping("service_ms", "us"))
    assert mapped.reasons is None
    assert mapped.fields.column("ended_at").to_pylist() == [AT_US + us for us in took_us]


def test_milliseconds_below_a_microsecond_are_rounded_up() -> None:
    at = pa.array([AT_US] * 3, pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_pydict({"v": [0.0001, 2.0070001, 2.00701], "at": at})
    mapped = map_request_columns(batch, mapping("service_ms", "us"))
    ended = mapped.fields.column("ended_at").to_pylist()
    assert ended == [AT_US + 1, AT_US + 2_008, AT_US + 2_008]
