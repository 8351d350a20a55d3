"""Convert columns of any type to the types of the pipeline, where no value changes.

pandas writes whole numbers with nulls as floats, CSV has text only, and tables of databases have
bigints and decimals. A value that would change is a reason to reject its row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._rows.checks import (
    Check,
    is_number,
    not_utf8_check,
    parse_second_us,
    parse_us,
    time_checks,
)
from purgatory_spark._rows.repeated_hours import second_of
from purgatory_spark._rows.schema import MAX_TIMEOUT_MS
from purgatory_spark._spark.files import quote_column

#: Doubles below have all whole numbers.
_EXACT_DOUBLE = 2.0**53
_FLOATS = (T.FloatType, T.DoubleType)
_COMPLEX = (T.ArrayType, T.MapType, T.StructType)


@dataclass
class Values:
    """The columns that a field is computed to, by name, and their checks in order of precedence."""

    columns: dict[str, Column] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    def add(self, other: Values) -> None:
        self.columns |= other.columns
        self.checks += other.checks


def text_values(table: DataFrame, name: str, column: str, *, required: bool = True) -> Values:
    """Return a column as text, as it is: names and ids.

    A whole number that is a float is written without a fraction, like the same number in another
    table that has no nulls.
    """
    kind = _atomic_type(table, column)
    values = Values({name: _name(F.col(quote_column(column)), kind)})
    values.checks.append(not_utf8_check(column, F.col(name)))
    if required:
        values.checks.append((f"null {column}", F.col(name).isNull()))
        values.checks.append((f"empty {column}", _is_blank(F.col(name))))
    if isinstance(kind, _FLOATS):
        inexact = f"{name}_inexact"
        values.columns[inexact] = _is_inexact(F.col(quote_column(column)))
        values.checks.append((f"{column} is a float beyond 2^53", F.col(inexact)))
    return values


def key_values(table: DataFrame, columns: tuple[str, ...]) -> Values:
    """Return the field `watch_keys`: the elements of an array, or the values of several columns.

    A null or empty text in an array is a reason to reject the row. Of several columns some may be.
    """
    kinds = [table.schema[column].dataType for column in columns]
    inputs = [F.col(quote_column(column)) for column in columns]
    names = ", ".join(columns)
    if len(columns) == 1 and isinstance(kinds[0], T.ArrayType):
        element = kinds[0].elementType
        if isinstance(element, _COMPLEX):
            raise TraceFormatError(
                f"column {names} is {kinds[0].simpleString()}; expected an array of text or numbers"
            )
        values = Values(
            {"watch_keys": F.transform(inputs[0], lambda key: _name(key, element))},
            [
                (f"null {names}", F.col("watch_keys").isNull()),
                ("null watch key", F.exists("watch_keys", lambda key: key.isNull())),
                ("empty watch key", F.exists("watch_keys", _is_blank)),
            ],
        )
        if isinstance(element, _FLOATS):
            values.columns["inexact_key"] = F.exists(inputs[0], _is_inexact)
    else:
        kinds = [_atomic_type(table, column) for column in columns]
        given = [_name(each, kind) for each, kind in zip(inputs, kinds, strict=True)]
        keys = [F.when(~_is_blank(each), each) for each in given]
        values = Values(
            {"watch_keys": F.array_compact(F.array(*keys))},
            [(f"null {names}", F.size("watch_keys") == 0)],
        )
        floats = [
            _is_inexact(each)
            for each, kind in zip(inputs, kinds, strict=True)
            if isinstance(kind, _FLOATS)
        ]
        if floats:
            values.columns["inexact_key"] = F.greatest(*floats, F.lit(False))
    joined = F.concat_ws("", "watch_keys")
    values.checks.append(not_utf8_check(names, joined))
    if "inexact_key" in values.columns:
        values.checks.append((f"{names} is a float beyond 2^53", F.col("inexact_key")))
    return values


def time_values(
    table: DataFrame, name: str, column: str, unit: str, zone: str, *, required: bool = True
) -> Values:
    """Return a column of times as whole microseconds since the epoch."""
    kind = _atomic_type(table, column)
    is_null = f"no_{name}"
    values = Values(
        {
            name: parse_us(table, column, unit, zone),
            is_null: _plain_text(F.col(quote_column(column)), kind).isNull(),
        }
    )
    if required:
        values.checks.append((f"null {column}", F.col(is_null)))
    if zone != "UTC":
        values.columns[second_of(name)] = parse_second_us(table, column, zone)
    checks = time_checks(column, F.col(name))
    if unit == "iso":
        values.columns[f"{name}_is_number"] = is_number(column)
        reason = f"{column} is a number without a unit: give it with --time-unit"
        checks = [(reason, F.col(f"{name}_is_number")), *checks]
    values.checks += [(reason, ~F.col(is_null) & is_bad) for reason, is_bad in checks]
    return values


def timeout_values(table: DataFrame, column: str) -> Values:
    """Return the field `timeout_ms` as an INT."""
    text = _plain_text(F.col(quote_column(column)), _atomic_type(table, column))
    number = F.col("timeout_number")
    return Values(
        {
            "no_timeout": text.isNull(),
            "timeout_number": text.try_cast("double"),
            "timeout_ms": text.try_cast("double").try_cast("int"),
        },
        [
            (f"null {column}", F.col("no_timeout")),
            (f"unparsable {column}", _is_no_number(number)),
            ("negative timeout", number < 0),
            (f"{column} is more than {MAX_TIMEOUT_MS}", number > MAX_TIMEOUT_MS),
            (f"{column} is not a whole number", number % F.lit(1.0) != 0),
        ],
    )


def number_values(table: DataFrame, name: str, column: str, checks: list[Check]) -> Values:
    """Return a column as doubles; whole numbers that doubles lack are reasons to reject a row."""
    text = _plain_text(F.col(quote_column(column)), _atomic_type(table, column))
    number = text.try_cast("double")
    whole = "decimal(38,0)"
    is_kept = F.coalesce(text.try_cast(whole) == number.try_cast(whole), F.lit(False))
    changed = f"{name}_changed"
    return Values(
        {
            f"no_{name}": text.isNull(),
            name: number,
            changed: text.rlike(r"^[+-]?\d+(\.0*)?$") & ~is_kept,
        },
        [
            (f"null {column}", F.col(f"no_{name}")),
            (f"unparsable {column}", F.col(name).isNull()),
            *checks,
            (f"{column} has more digits than a double", F.col(changed)),
        ],
    )


def duration_values(table: DataFrame, column: str, *, in_seconds: bool = False) -> Values:
    """Return the field `service_ms` as doubles; null for null and for what is not a number."""
    text = _plain_text(F.col(quote_column(column)), _atomic_type(table, column))
    number = text.try_cast("double")
    if in_seconds:
        # 1.001 s is 1,001 ms, of which a product of doubles has more.
        exact = text.try_cast("decimal(28,9)") * F.lit(1000).cast("decimal(4,0)")
        number = F.coalesce(exact.try_cast("double"), number * 1000)
    return Values({"service_ms": number, "no_service_ms": text.isNull()})


def _atomic_type(table: DataFrame, column: str) -> T.DataType:
    kind = table.schema[column].dataType
    if isinstance(kind, _COMPLEX):
        raise TraceFormatError(
            f"column {column} is {kind.simpleString()}; expected text, a number or a time"
        )
    return kind


def _plain_text(value: Column, kind: T.DataType) -> Column:
    """Return a number or a time as text without surrounding blanks; null for empty text and NaN."""
    return F.nullif(F.trim(_name(value, kind)), F.lit(""))


def _name(value: Column, kind: T.DataType) -> Column:
    """Return a value as text, with all its blanks; null for NaN."""
    if isinstance(kind, _FLOATS):
        number = value.cast("double")
        is_whole = (F.abs(number) < _EXACT_DOUBLE) & (number % F.lit(1.0) == 0)
        # A NaN would fail a plain cast in ANSI mode.
        whole = F.when(is_whole, number).try_cast("bigint").cast("string")
        return F.when(~F.isnan(number), F.coalesce(whole, number.cast("string")))
    return value.cast("string")


def _is_blank(text: Column) -> Column:
    """Return whether text is empty but for blanks; null for null."""
    return F.trim(text) == ""


def _is_inexact(value: Column) -> Column:
    """Return whether a float may stand for several whole numbers."""
    number = value.cast("double")
    return F.coalesce(~F.isnan(number) & (F.abs(number) >= _EXACT_DOUBLE), F.lit(False))


def _is_no_number(number: Column) -> Column:
    return number.isNull() | F.isnan(number) | (F.abs(number) == float("inf"))
