"""Rows of a table as JSON objects, one for each line of a file or message of a topic."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.pipeline.spark.session import require_setting
from request_purgatory.pipeline.traces.importers.row_checks import CORRUPT, RAW
from request_purgatory.pipeline.traces.schema import JSON_OPTIONS, JSON_ZONE

_REASON_PREFIX = "invalid JSON row: "

_VALUE = "_purgatory_value"
_PARSED = "_purgatory_parsed"
#: One object without nested objects, and nothing after it. Most rows match, and need no second
#: parse.
_ONE_FLAT_OBJECT = r"^\s*\{[^{}]*\}\s*$"


def read_json_rows(values: DataFrame, schema: T.StructType) -> DataFrame:
    """Parse the column `value` as rows of `schema`.

    A missing field is null. Further fields are ignored.

    Args:
        values: a DataFrame with a column `value`, text or bytes.
        schema: the table's columns.

    Returns:
        The columns of `schema`, and `row_checks.CORRUPT` and `row_checks.RAW`. These two are null
        for a valid row. Otherwise they are the reason and the text (base64 of bytes that are not
        UTF-8), and the other columns have no meaning.

    Raises:
        SessionSettingError: the session parses times in a way that loses microseconds.
    """
    text = F.col("value").cast("string")
    read = values.select(text.alias(_VALUE), F.col("value").cast("binary").alias("value"))
    require_setting(
        values.sparkSession,
        "spark.sql.legacy.timeParserPolicy",
        refused="LEGACY",  # It reads six digits of a second as milliseconds.
        needed="CORRECTED",
        what="reading JSON rows",
    )
    options = {"columnNameOfCorruptRecord": CORRUPT, **JSON_ZONE}
    parsed = read.withColumn(
        _PARSED, F.from_json(_VALUE, T.StructType([*schema.fields, _text_field(CORRUPT)]), options)
    )
    reason = _reason(schema)
    # Spark's base64 breaks lines after 76 characters.
    raw = F.when(F.is_valid_utf8(_VALUE), F.col(_VALUE)).otherwise(
        F.regexp_replace(F.base64("value"), r"\s", "")
    )
    return parsed.select(
        *[F.col(f"{_PARSED}.{name}").alias(name) for name in schema.names],
        reason.alias(CORRUPT),
        F.when(reason.isNotNull(), raw).alias(RAW),
    )


def to_json_row(columns: list[str]) -> Column:
    """Return columns as one JSON object, with times to the microsecond and without nulls."""
    return F.to_json(F.struct(*columns), JSON_OPTIONS)


def _reason(schema: T.StructType) -> Column:
    """Return why a value is not a valid row, or null."""
    value, parsed = F.col(_VALUE), F.col(_PARSED)
    # Spark parses the first object and ignores everything after it. Inside of an array it parses
    # all of it.
    objects = F.size(
        F.from_json(F.concat(F.lit("["), value, F.lit("]")), T.ArrayType(T.StringType()))
    )
    is_not_one = ~value.rlike(_ONE_FLAT_OBJECT) & (F.coalesce(objects, F.lit(0)) != 1)
    reason = (
        F
        .when(value.isNull(), F.lit("the value is null"))
        .when(~F.is_valid_utf8(value), F.lit("not UTF-8 (row is in base64)"))
        .when(parsed.isNull() | parsed[CORRUPT].isNotNull(), _parse_error(schema))
        .when(is_not_one, F.lit("more than one object"))
    )
    return F.concat(F.lit(_REASON_PREFIX), reason)


def _parse_error(schema: T.StructType) -> Column:
    """Return the first field of another type, found by parsing all fields as text."""
    as_text = F.from_json(_VALUE, T.StructType([_text_field(name) for name in schema.names]))
    wrong = [
        F.when(
            as_text[field.name].isNotNull() & F.col(_PARSED)[field.name].isNull(),
            F.lit(f"{field.name} is not of type {field.dataType.simpleString()}"),
        )
        for field in schema
    ]
    return F.coalesce(*wrong, F.lit("not an object"))


def _text_field(name: str) -> T.StructField:
    return T.StructField(name, T.StringType())
