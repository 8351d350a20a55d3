"""Rows of a table as JSON objects, one for each line of a file or message of a topic."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._spark.files import CORRUPT, JSON_OPTIONS, JSON_ZONE, RAW, quote_column
from purgatory_spark._spark.schemas import text_schema
from purgatory_spark._spark.session import SessionSettingError
from request_purgatory.errors import InvalidArgumentError

_REASON_PREFIX = "invalid JSON row: "

_TIME_PARSER = "spark.sql.legacy.timeParserPolicy"
_VALUE = "_purgatory_value"
_PARSED = "_purgatory_parsed"
#: One object without nested objects, and nothing after it. Most rows match, and need no second
#: parse.
_ONE_FLAT_OBJECT = r"^\s*\{[^{}]*\}\s*$"


def read_json_rows(values: DataFrame, schema: T.StructType) -> DataFrame:
    """Parse the column `value` as rows of `schema`.

    A missing field is null. Further fields are ignored.

    `values`: a DataFrame with a column `value`, text or bytes. Returns the columns of `schema`, and
    `files.CORRUPT` and `files.RAW`. These two are null for a valid row. Otherwise they are the
    reason and the text (base64 of bytes that are not UTF-8), and the other columns have no meaning.
    """
    text = F.col("value").cast("string")
    read = values.select(text.alias(_VALUE), F.col("value").cast("binary").alias("value"))
    policy = values.sparkSession.conf.get(_TIME_PARSER) or ""
    if policy.upper() == "LEGACY":  # It reads six digits of a second as milliseconds.
        raise SessionSettingError(
            f"{_TIME_PARSER} is {policy!r} in this Spark session, and reading JSON rows needs "
            "'CORRECTED'"
        )
    options = {"columnNameOfCorruptRecord": CORRUPT, **JSON_ZONE}
    parsed = read.withColumn(
        _PARSED,
        F.from_json(_VALUE, T.StructType([*schema, *text_schema(CORRUPT)]), options),
    )
    reason = _reason(
        F.col(_PARSED).isNull() | F.col(_PARSED)[CORRUPT].isNotNull(), _parse_error(schema)
    )
    return parsed.select(
        *[F.col(f"{_PARSED}.{name}").alias(name) for name in schema.names],
        reason.alias(CORRUPT),
        F.when(reason.isNotNull(), text_or_base64("value")).alias(RAW),
    )


def read_json_fields(values: DataFrame, fields: Iterable[str], lists: Collection[str]) -> DataFrame:
    """Parse the column `value` as objects with any fields.

    The fields' types need not be known. A number is written as text like the same number in another
    table: 7.0 as "7".

    `values`: a DataFrame with a column `value`, text or bytes, and others, which are kept.
    `fields`: the names of fields. A missing one is null. `lists`: those that may be arrays; another
    value becomes the only element. Returns the columns of `values`; the fields, as text or arrays
    of text; `files.RAW`, the text of the value (base64 of bytes that are not UTF-8); and
    `files.CORRUPT`, the reason if that is not an object, or a field is an object or an unexpected
    array.
    """
    read = values.withColumn(_VALUE, F.col("value").cast("string"))
    # A variant keeps numbers and text apart, as `from_json` with text as the type does not.
    parsed = read.withColumn(_PARSED, F.try_parse_json(_VALUE))
    fields = list(fields)
    nested = [_nested(name, is_list=name in lists) for name in fields]
    is_no_object = F.col(_PARSED).isNull() | ~F.col(_VALUE).rlike(r"^\s*\{")
    not_object = _reason(is_no_object, F.lit("not an object"))
    return parsed.select(
        *[quote_column(name) for name in values.columns],
        *[_field(name, is_list=name in lists).alias(name) for name in fields],
        F.coalesce(not_object, *nested).alias(CORRUPT),
        text_or_base64("value").alias(RAW),
    )


def text_or_base64(column: str) -> Column:
    """Return text, or bytes as text; base64 of bytes that are not UTF-8."""
    value = F.col(column).cast("binary")
    text = value.cast("string")
    # Spark's base64 breaks lines after 76 characters.
    return F.when(F.is_valid_utf8(text), text).otherwise(
        F.regexp_replace(F.base64(value), r"\s", "")
    )


def to_json_row(columns: list[str]) -> Column:
    """Return columns as one JSON object, with times to the microsecond and without nulls."""
    return F.to_json(F.struct(*columns), JSON_OPTIONS)


def _field(name: str, *, is_list: bool) -> Column:
    """Return a field of the parsed variant as text, or as an array of text."""
    text = F.try_variant_get(_PARSED, _path(name), "string")
    if not is_list:
        return text
    items = F.try_variant_get(_PARSED, _path(name), "array<string>")
    return F.coalesce(items, F.when(text.isNotNull(), F.array(text)))


def _nested(name: str, *, is_list: bool) -> Column:
    """Return the reason if a field is an object or an array, which text can't hold; or null."""
    text = F.try_variant_get(_PARSED, _path(name), "string")
    kind = F.schema_of_variant(F.try_variant_get(_PARSED, _path(name), "variant"))
    # The kind is found by a pass over the value, so only where its text may be nested.
    unexpected = "^(OBJECT|ARRAY<(OBJECT|ARRAY))" if is_list else "^(OBJECT|ARRAY)"
    is_nested = F.when(text.rlike(r"^[\[{]"), kind.rlike(unexpected))
    wanted = "an array of text or numbers" if is_list else "text or a number"
    return F.when(is_nested, F.lit(f"{_REASON_PREFIX}{name} is not {wanted}"))


def _path(name: str) -> str:
    if "'" in name and '"' in name:
        raise InvalidArgumentError("a field of JSON", "a name with one kind of quotes", name)
    quote = "'" if '"' in name else '"'
    return f"$[{quote}{name}{quote}]"


def _reason(is_no_row: Column, parse_error: Column) -> Column:
    """Return why a value is not a valid row, or null."""
    value = F.col(_VALUE)
    # Spark parses the first object and ignores everything after it. Inside of an array it parses
    # all of it.
    objects = F.size(
        F.from_json(F.concat(F.lit("["), value, F.lit("]")), T.ArrayType(T.StringType()))
    )
    is_not_one = ~value.rlike(_ONE_FLAT_OBJECT) & (F.coalesce(objects, F.lit(0)) != 1)
    reason = (
        F.when(value.isNull(), F.lit("the value is null"))
        .when(~F.is_valid_utf8(value), F.lit("not UTF-8 (row is in base64)"))
        .when(is_no_row, parse_error)
        .when(is_not_one, F.lit("more than one object"))
    )
    return F.concat(F.lit(_REASON_PREFIX), reason)


def _parse_error(schema: T.StructType) -> Column:
    """Return the first field of another type, found by parsing all fields as text."""
    as_text = F.from_json(_VALUE, text_schema(*schema.names))
    wrong = [
        F.when(
            as_text[field.name].isNotNull() & F.col(_PARSED)[field.name].isNull(),
            F.lit(f"{field.name} is not of type {field.dataType.simpleString()}"),
        )
        for field in schema
    ]
    return F.coalesce(*wrong, F.lit("not an object"))
