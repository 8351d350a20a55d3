"""Check rows while they are imported: parse their values, and keep the bad ones as rejects.

An importer reads rows with the columns `SOURCE`, `RAW` and `CORRUPT` (`table_source.read_rows`).
`flag_rejects` and `flag_repeats` add `REASON`, which is null for good rows. `accepted_rows` and
`rejected_rows` then separate the two kinds.

A check is a pair: the reason for a rejection, and a boolean column that is true for rejected rows.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as in Spark's documentation
from pyspark.sql.pandas.functions import arrow_udf

from purgatory_spark._rows.column_checks import MALFORMED, NOT_UTF8
from purgatory_spark._rows.column_times import times_us
from purgatory_spark._rows.schema import AGGREGATES, NOT_NULL, QUANTIFIERS
from purgatory_spark._rows.times import MAX_DURATION_MS
from purgatory_spark._rows.times import MAX_TIME_US as MAX_TIME_US
from purgatory_spark._rows.times import MIN_TIME_US as MIN_TIME_US
from purgatory_spark._rows.times import TIME_UNITS as TIME_UNITS
from purgatory_spark._spark.files import CORRUPT, RAW, SOURCE, quote_column

Check = tuple[str, Column]

#: The reason for a rejection, null for good rows.
REASON = "_purgatory_reason"


def flag_rejects(table: DataFrame, checks: list[Check]) -> DataFrame:
    """Add the column `REASON`: the reason of the first check that is true, else null."""
    reason = F.coalesce(*[F.when(is_bad, F.lit(reason)) for reason, is_bad in checks])
    return table.withColumn(REASON, reason)


def flag_repeats(table: DataFrame, keys: list[str], reason: str, order: list[str]) -> DataFrame:
    """Set `REASON` of good rows whose `keys` occurred in an earlier good row, by `order`."""
    # One window over all rows reads the files once.
    number = F.row_number().over(Window.partitionBy(*keys, reject_hash(F.col(RAW))).orderBy(*order))
    return table.withColumn(REASON, F.coalesce(REASON, F.when(number > 1, F.lit(reason))))


def reject_hash(text: Column) -> Column:
    """Return what partitions of rows are by, beside keys; null for good rows.

    It is the hash of a reject's text. Without it, those with null keys would be in one partition.
    """
    return F.when(F.col(REASON).isNotNull(), F.xxhash64(text))


def accepted_rows(table: DataFrame) -> DataFrame:
    return table.where(F.col(REASON).isNull())


def rejected_rows(table: DataFrame) -> DataFrame:
    """Return the rows with a `REASON`, as rows of `schema.REJECTS`."""
    return table.where(F.col(REASON).isNotNull()).select(
        F.col(REASON).alias("reason"), F.col(SOURCE).alias("source"), F.col(RAW).alias("row")
    )


def name_or_null(column: str) -> Column:
    """Return a column as text, as it is; null where it is empty but for blanks."""
    text = F.col(quote_column(column)).cast("string")
    return F.when(F.trim(text) != "", text)


def not_utf8_check(name: str, text: Column) -> Check:
    """Return the check that bytes of a name or an id are text.

    Spark's readers of files put U+FFFD in the place of others, which makes different ids equal.
    """
    replaced = F.contains(text, F.lit("\ufffd"))
    return f"{name} {NOT_UTF8}", replaced | ~F.is_valid_utf8(text)


def text_or_null(column: str) -> Column:
    """Return a column as text without surrounding blanks, null where it is empty."""
    return F.trim(name_or_null(column))


def parse_us(column: str, unit: str) -> Column:
    """Return a column of times as whole microseconds, as `column_times.times_us` does."""

    def convert(given: pa.Array) -> pa.Array:
        return times_us(given, unit, column)

    # Its stubs ask for a type of function that it warns of, where there are type hints.
    parsed = arrow_udf(convert, "bigint")  # type: ignore[call-overload]
    # Spark may compute a deterministic function again for each use.
    return parsed.asNondeterministic()(F.col(quote_column(column)))  # type: ignore[no-any-return]


def add_ms(time_us: Column, duration_ms: Column) -> Column:
    """Add a duration to a time, without the overflow that would fail Spark's whole query.

    Returns microseconds, rounded up; null for a duration that is null, no number or too long.
    """
    duration_us = F.when(F.abs(duration_ms) < MAX_DURATION_MS, F.ceil(duration_ms * 1000))
    return F.try_add(time_us, duration_us)


def time_checks(name: str, time_us: Column) -> list[Check]:
    """Return the checks that a time of `parse_us` was parsed, and is in the accepted years."""
    return [
        (f"unparsable {name}", time_us.isNull()),
        (f"{name} not of the years 1900 to 2199", ~time_us.between(MIN_TIME_US, MAX_TIME_US)),
    ]


def malformed_check() -> Check:
    """Return the check that a row has as many fields as its file has columns."""
    return MALFORMED, F.col(CORRUPT).isNotNull()


def request_checks() -> list[Check]:
    return [
        *[(f"null {name}", F.col(name).isNull()) for name in NOT_NULL["requests"]],
        *time_checks("arrived_at", F.unix_micros("arrived_at")),
        ("null watch key", F.exists("watch_keys", lambda key: key.isNull())),
        ("negative timeout", F.col("timeout_ms") < 0),
        ("unknown aggregate", ~F.col("aggregate").isin(*AGGREGATES)),
        *quantifier_checks(),
        ("threshold is not a number", F.isnan("threshold")),
    ]


def is_quorum() -> Column:
    return F.col("quantifier").rlike(r"^-?[0-9]+\z")


def quorum() -> Column:
    """Return the quantifier of a request as a number; null for `all`, `any` and too large ones."""
    return F.when(is_quorum(), F.col("quantifier").try_cast("int"))


def quantifier_checks(num_keys: Column | None = None) -> list[Check]:
    """Return the checks of a quantifier; `num_keys` is counted in `watch_keys` unless given."""
    if num_keys is None:
        num_keys = F.size(F.array_distinct("watch_keys"))
    return [
        ("unknown quantifier", ~F.col("quantifier").isin(*QUANTIFIERS) & ~is_quorum()),
        ("quorum below 1", is_quorum() & F.col("quantifier").rlike("^(-.*|0+)$")),
        (
            "quorum of more keys than the request has",
            is_quorum() & F.coalesce(quorum() > num_keys, F.lit(True)),
        ),
    ]


def event_checks() -> list[Check]:
    return [
        *[(f"null {name}", F.col(name).isNull()) for name in NOT_NULL["events"]],
        *time_checks("occurred_at", F.unix_micros("occurred_at")),
        *amount_checks(),
    ]


def amount_checks() -> list[Check]:
    return [
        ("amount is not a finite number", F.isnan("amount") | (F.abs("amount") == float("inf"))),
        ("negative amount", F.col("amount") < 0),
    ]
