"""Units of numeric times, and which times and durations a trace may have."""

from __future__ import annotations

#: The microseconds of each unit.
US_PER_UNIT = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0, "ns": 0.001}
TIME_UNITS = ("iso", *US_PER_UNIT)

#: Accepted times, in microseconds since the epoch: the years 1900 to 2199. Others are mistakes,
#: most often of the unit. Their deadlines may exceed the range of timestamps in Python or Spark.
MIN_TIME_US = -2_208_988_800_000_000
MAX_TIME_US = 7_258_118_400_000_000 - 1

#: Longer durations, in ms, would overflow 64-bit microseconds.
MAX_DURATION_MS = 1e15
