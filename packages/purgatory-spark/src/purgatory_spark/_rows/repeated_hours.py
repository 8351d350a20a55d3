"""Times of an hour that a zone has twice, at the end of summer time: which of the two is meant.

Logs are written in order. So within a file, the second of the two hours begins where times fall
back by most of their overlap. For example, with the zone Europe/Berlin:

    02:10  02:59  02:00  02:59  02:01  02:30    rows of a file, in order
    1st    1st    2nd    1st    2nd    2nd      a request that began before 03:00 was logged later

Where a file has times of only one of the hours, they do not fall back, and the first is meant.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._spark.files import POSITION, RAW

#: A zone repeats an hour once in about half a year at most, and not at the turn of these.
_HALF_YEAR_US = 365.25 / 2 * 86_400e6

_HIGHEST, _HAS_FALLEN, _LEAST_LATER = "highest_so_far", "has_fallen", "least_later"
_TIMES = ("arrived_us", "ended_us", "occurred_us")


def second_of(time: str) -> str:
    """Return the name of the column with the second time that a local time may be; else null."""
    return f"second_{time}"


def is_of_repeated_hour(rows: DataFrame) -> Column:
    seconds = [second_of(time) for time in _TIMES if second_of(time) in rows.columns]
    return reduce(Column.__or__, [F.col(name).isNotNull() for name in seconds], F.lit(False))


def with_repeated_hours(rows: DataFrame) -> DataFrame:
    """Choose the second of two times where the order of the rows says so.

    Rows without a `POSITION` have no order, as those of a table.
    """
    for time in _TIMES:
        if second_of(time) not in rows.columns:
            continue
        first, second = F.col(time), F.col(second_of(time))
        if time == "ended_us" and "arrived_us" in rows.columns:
            # Of two ends, the first one that is after the arrival.
            is_second = first < F.col("arrived_us")
        elif POSITION in rows.columns:
            rows = _with_order(rows, first, second)
            is_second = F.col(_HAS_FALLEN) & (first - F.col(_LEAST_LATER) < _fall(first, second))
        else:
            continue
        chosen = F.when(second.isNotNull() & is_second, second).otherwise(first)
        rows = rows.withColumn(time, chosen)
    return rows.drop(POSITION, _HIGHEST, _HAS_FALLEN, _LEAST_LATER)


def _fall(first: Column, second: Column) -> Column:
    """Return by how much times fall back at least where the second hour begins: half of it."""
    return (second - first) / 2


def _with_order(rows: DataFrame, first: Column, second: Column) -> DataFrame:
    """Add whether times have fallen back up to a row, and the least time from the row on."""
    of_hour = Window.partitionBy(
        F.floor(first / _HALF_YEAR_US),
        F.col(POSITION)["file_path"],
        # All other rows are not to be in one partition.
        F.when(second.isNull(), F.xxhash64(RAW)),
    ).orderBy(POSITION)
    so_far = of_hour.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    from_here = of_hour.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    rows = rows.withColumns(
        {_HIGHEST: F.max(first).over(so_far), _LEAST_LATER: F.min(first).over(from_here)}
    )
    falls = F.col(_HIGHEST) - first >= _fall(first, second)
    return rows.withColumn(_HAS_FALLEN, F.coalesce(F.max(falls).over(so_far), F.lit(False)))
