"""Rows of a table as JSON text.

One object a row, as in the lines of JSON files and in Kafka's values.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.pipeline.traces.importers.imported import CORRUPT, RAW
from request_purgatory.pipeline.traces.schema import JSON_TIMES

NOT_OF_THE_TABLE = "not JSON of the table"

_VALUE = "_purgatory_value"
_PARSED = "_purgatory_parsed"
#: An object without another one in it, and nothing behind it. Most rows are such, and need no
#: second look.
_ONE_FLAT_OBJECT = r"^\s*\{[^{}]*\}\s*$"


def read_json_rows(values: DataFrame, schema: T.StructType) -> DataFrame:
    """The column `value`, text or bytes, as rows of `schema`.

    What is not one JSON object whose fields have the table's types has its reason in
    `imported.CORRUPT` and its text in `imported.RAW`, which are null otherwise; its other columns
    mean nothing then. A field that is missing is null. Bytes that are no UTF-8 are told in base64.
    """
    text = F.col("value").cast("string")
    read = values.select(text.alias(_VALUE), F.col("value").cast("binary").alias("value"))
    options = {"columnNameOfCorruptRecord": CORRUPT}
    parsed = read.withColumn(
        _PARSED, F.from_json(_VALUE, T.StructType([*schema.fields, _text_field(CORRUPT)]), options)
    )
    reason = _reason(schema)
    # Spark's base64 has lines of 76 characters.
    raw = F.when(F.is_valid_utf8(_VALUE), F.col(_VALUE)).otherwise(
        F.regexp_replace(F.base64("value"), r"\s", "")
    )
    return parsed.select(
        *[F.col(f"{_PARSED}.{name}").alias(name) for name in schema.names],
        reason.alias(CORRUPT),
        F.when(reason.isNotNull(), raw).alias(RAW),
    )


def to_json_row(columns: list[str]) -> Column:
    """Columns as one JSON object, times to the microsecond; a null has no field."""
    return F.to_json(F.struct(*columns), JSON_TIMES)


def _reason(schema: T.StructType) -> Column:
    """Why a value is no row, or null."""
    value, parsed = F.col(_VALUE), F.col(_PARSED)
    # Spark reads the first object and takes no notice of what comes behind it; inside of an array
    # it would have to.
    objects = F.size(
        F.from_json(F.concat(F.lit("["), value, F.lit("]")), T.ArrayType(T.StringType()))
    )
    several = ~value.rlike(_ONE_FLAT_OBJECT) & (F.coalesce(objects, F.lit(0)) != 1)
    why = (
        F.when(value.isNull(), F.lit("no value"))
        .when(~F.is_valid_utf8(value), F.lit("no UTF-8; the row is its base64"))
        .when(parsed.isNull() | parsed[CORRUPT].isNotNull(), _what_is_wrong(schema))
        .when(several, F.lit("more than one object"))
    )
    return F.concat(F.lit(f"{NOT_OF_THE_TABLE}: "), why)


def _what_is_wrong(schema: T.StructType) -> Column:
    """The first field that has another type, by the same text read as text only."""
    as_text = F.from_json(_VALUE, T.StructType([_text_field(name) for name in schema.names]))
    wrong = [
        F.when(
            as_text[field.name].isNotNull() & F.col(_PARSED)[field.name].isNull(),
            F.lit(f"{field.name} is no {field.dataType.simpleString()}"),
        )
        for field in schema
    ]
    return F.coalesce(*wrong, F.lit("no JSON object"))


def _text_field(name: str) -> T.StructField:
    return T.StructField(name, T.StringType())
