"""Times of an hour that a zone has twice, at the end of summer time: which of the two is meant.

Logs are written in order. So within a file, the second of the two hours begins where times fall
back by most of their overlap. For example, with the zone Europe/Berlin:

    02:10  02:59  02:00  02:59  02:01  02:30    rows of a file, in order
    1st    1st    2nd    1st    2nd    2nd      a request that began before 03:00 was logged later

Where a file has times of only one of the hours, they do not fall back, and the first is meant.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf

from purgatory_spark._rows.column_times import is_local, times_us, zoned_us
from purgatory_spark._spark.files import POSITION, quote_column

#: Whether the second of two times is meant; false for times that are not of such an hour.
IS_SECOND = "_purgatory_is_second"

#: A zone repeats an hour once in about half a year at most, and not at the turn of these.
_HALF_YEAR_US = 365.25 / 2 * 86_400e6

_TIMES, _HIGHEST = "_purgatory_times", "_purgatory_highest_so_far"
_HAS_FALLEN, _LEAST_LATER = "_purgatory_has_fallen", "_purgatory_least_later"


def with_second_hours(rows: DataFrame, column: str, unit: str, zone: str) -> DataFrame:
    """Add `IS_SECOND`, which the order of the rows says; they have a `POSITION`."""
    fields = [pa.field("first", pa.int64()), pa.field("second", pa.int64())]

    def both_times(given: pa.Array) -> pa.Array:
        times = zoned_us(times_us(given, unit, column), is_local(given, column), zone)
        return pa.StructArray.from_arrays(list(times), fields=fields)

    # Spark may compute a deterministic function again for each of its uses.
    # Its stubs ask for a type of function that it warns of, where there are type hints.
    both = arrow_udf(both_times, "first bigint, second bigint")  # type: ignore[call-overload]
    parse = both.asNondeterministic()
    rows = rows.withColumn(_TIMES, parse(F.col(quote_column(column))))
    first, second = F.col(_TIMES)["first"], F.col(_TIMES)["second"]
    ordered = _with_order(rows, first, second)
    is_second = F.col(_HAS_FALLEN) & (first - F.col(_LEAST_LATER) < _fall(first, second))
    return ordered.withColumn(
        IS_SECOND, F.coalesce(second.isNotNull() & is_second, F.lit(False))
    ).drop(_TIMES, _HIGHEST, _HAS_FALLEN, _LEAST_LATER)


def _fall(first: Column, second: Column) -> Column:
    """Return by how much times fall back at least where the second hour begins: half of it."""
    return (second - first) / 2


def _with_order(rows: DataFrame, first: Column, second: Column) -> DataFrame:
    """Add whether times have fallen back up to a row, and the least time from the row on."""
    of_hour = Window.partitionBy(
        F.floor(first / _HALF_YEAR_US),
        F.col(POSITION)["file_path"],
        # All other rows are not to be in one partition.
        F.when(second.isNull(), F.xxhash64(POSITION)),
    ).orderBy(POSITION)
    so_far = of_hour.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    from_here = of_hour.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    rows = rows.withColumns(
        {_HIGHEST: F.max(first).over(so_far), _LEAST_LATER: F.min(first).over(from_here)}
    )
    falls = F.col(_HIGHEST) - first >= _fall(first, second)
    return rows.withColumn(_HAS_FALLEN, F.coalesce(F.max(falls).over(so_far), F.lit(False)))
