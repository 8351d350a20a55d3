"""What an importer gives, and how it sets rows aside."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation imports it

from request_purgatory.pipeline.traces.schema import AGGREGATES, QUANTIFIERS

#: The columns that `set_aside` and the readers work with, beside the input's own; so no names that
#: an input may well have.
SOURCE = "_purgatory_source"
RAW = "_purgatory_raw"
CORRUPT = "_purgatory_corrupt"
REASON = "_purgatory_reason"

US_PER_UNIT = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0, "ns": 0.001}
TIME_UNITS = ("iso", *US_PER_UNIT)

#: Times that are taken for those of a trace, in microseconds since the epoch: the years 1900 to
#: 2199. Others are mistakes, most often of the unit, and deadlines and calendars beyond them do not
#: fit everywhere.
FIRST_US = -2_208_988_800_000_000
LAST_US = 7_258_118_400_000_000 - 1

#: No wait is this long, in ms; more would not fit the whole numbers of microseconds that times are.
_LONGEST_MS = 1e15


class TraceFormatError(ValueError):
    """The input is not a trace of the format it was taken for.

    The message names the file and what is wrong.
    """


@dataclass
class Imported:
    """A trace in the pipeline's schema, before it is written.

    Its data frames are lazy, and Spark caches what several of them are made from. Used as a context
    manager, an `Imported` drops that cache at the end of the block.

    Attributes:
        format: One of `traces.FORMATS`, or `workload`.
        requests: Of the schema `schema.REQUESTS`.
        events: Of the schema `schema.EVENTS`.
        rejects: Of the schema `schema.REJECTS`.
        rows: Data frames whose rows were read, by name, for the row counts.
        notes: What a reader of the report has to know.
        cached: The data frames that `unpersist` drops from Spark's cache.
    """

    format: str
    requests: DataFrame
    events: DataFrame
    rejects: DataFrame
    rows: dict[str, DataFrame]
    notes: list[str] = field(default_factory=list)
    cached: list[DataFrame] = field(default_factory=list)

    def unpersist(self) -> None:
        """Drop what Spark cached; the data frames stay usable, and read the files again."""
        for table in self.cached:
            table.unpersist()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.unpersist()


def set_aside(table: DataFrame, checks: list[tuple[str, Column]]) -> DataFrame:
    """`table` with `REASON`: the first check that holds, or null for a good row.

    A check that is null does not hold.
    """
    reason = F.coalesce(*[F.when(holds, F.lit(name)) for name, holds in checks])
    return table.withColumn(REASON, reason)


def mark_repeats(table: DataFrame, keys: list[str], reason: str, order: list[str]) -> DataFrame:
    """Set `REASON` where the `keys` of a good row stood in an earlier good row.

    Args:
        table: Rows with `RAW` and `REASON`.
        keys: The columns that no two good rows may share.
        reason: What to set `REASON` to.
        order: The columns that decide which of several rows is the first.

    Returns:
        `table` with `REASON` set in the second and further rows.
    """
    # In one pass, so that the files are read once. Rows that were set aside before take no part.
    # Their keys are often null, so their text spreads them over the tasks.
    apart = F.when(F.col(REASON).isNotNull(), F.xxhash64(RAW))
    number = F.row_number().over(Window.partitionBy(*keys, apart).orderBy(*order))
    return table.withColumn(REASON, F.coalesce(REASON, F.when(number > 1, F.lit(reason))))


def good_rows(table: DataFrame) -> DataFrame:
    """The rows that no check held for."""
    return table.where(F.col(REASON).isNull())


def rejected_rows(table: DataFrame) -> DataFrame:
    """The other rows, of the schema `schema.REJECTS`."""
    return table.where(F.col(REASON).isNotNull()).select(
        F.col(REASON).alias("reason"), F.col(SOURCE).alias("source"), F.col(RAW).alias("row")
    )


def parse_us(table: DataFrame, column: str, unit: str) -> Column:
    """A column of times as whole microseconds since the epoch, rounded down; null where it can't be read as one.

    Args:
        unit: of numbers; with "iso" numbers are not times. Timestamps, and text that reads as one,
            need no unit (UTC unless they name a zone).
    """
    kind = dict(table.dtypes)[column]
    value = F.col(quoted(column))
    if kind.startswith(("timestamp", "date")):
        return F.unix_micros(value.cast("timestamp"))
    text = value.cast("string")
    # Spark also reads a year alone ("2022" may be a number of ms), and a time of day, which it
    # takes for one of today.
    moment = F.when(text.rlike(r"^\s*\d{4}-\d"), F.unix_micros(F.try_to_timestamp(text)))
    if unit == "iso":
        return moment
    if unit == "ns":
        # Whole numbers of nanoseconds have more digits than a double holds.
        number = F.floor(
            text.try_cast("decimal(38,6)") / F.lit(1000).cast("decimal(10,0)")
        ).try_cast("bigint")
    else:
        scale = F.lit(int(US_PER_UNIT[unit])).cast("decimal(10,0)")
        number = F.floor(text.try_cast("decimal(28,9)") * scale).try_cast("bigint")
    return F.coalesce(number, moment)


def later_us(from_us: Column, ms: Column) -> Column:
    """The time `ms` (a double) after a time, both times in whole microseconds, rounded up; null where it is no number or too far.

    Spark's own arithmetic fails the whole query where a number does not fit.
    """
    return from_us + F.when(F.abs(ms) < _LONGEST_MS, F.ceil(ms * 1000))


def time_checks(name: str, us: Column) -> list[tuple[str, Column]]:
    """What no time may be: unreadable, or far from the times that requests are made in.

    `us` as from `parse_us`.
    """
    return [
        (f"unparsable {name}", us.isNull()),
        (f"{name} not of the years 1900 to 2199", ~us.between(FIRST_US, LAST_US)),
    ]


def quoted(column: str) -> str:
    """A column's name as it stands in an expression, whatever characters are in it."""
    return "`" + column.replace("`", "``") + "`"


def request_checks() -> list[tuple[str, Column]]:
    """What no row of `schema.REQUESTS` may be."""
    required = (
        "host",
        "request_id",
        "arrived_at",
        "timeout_ms",
        "watch_keys",
        "aggregate",
        "threshold",
        "quantifier",
    )
    return [
        *[(f"null {name}", F.col(name).isNull()) for name in required],
        *time_checks("arrived_at", F.unix_micros("arrived_at")),
        ("null watch key", F.exists("watch_keys", lambda key: key.isNull())),
        ("negative timeout", F.col("timeout_ms") < 0),
        ("unknown aggregate", ~F.col("aggregate").isin(*AGGREGATES)),
        ("unknown quantifier", ~F.col("quantifier").isin(*QUANTIFIERS)),
        ("threshold is not a number", F.isnan("threshold")),
    ]


def event_checks() -> list[tuple[str, Column]]:
    """What no row of `schema.EVENTS` may be."""
    return [
        *[
            (f"null {name}", F.col(name).isNull())
            for name in ("host", "key", "occurred_at", "amount")
        ],
        *time_checks("occurred_at", F.unix_micros("occurred_at")),
        ("amount is not a finite number", F.isnan("amount") | (F.abs("amount") == float("inf"))),
        ("negative amount", F.col("amount") < 0),
    ]


def describe(parameters: dict[str, Any]) -> str:
    """Parameters as they are shown: `name=value, ...`."""
    return ", ".join(f"{name}={value}" for name, value in parameters.items())
