"""Messages in Avro, which a package of Spark's decodes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro

from purgatory_spark._spark.files import CORRUPT, JSON_OPTIONS, RAW, quote_column, require_columns
from purgatory_spark._stream.endpoints.connector import AVRO, spark_jvm, spark_package
from purgatory_spark._stream.endpoints.endpoint import EndpointError
from purgatory_spark._stream.endpoints.json_rows import text_or_base64

_REASON_PREFIX = "invalid Avro row: "
_PARSED = "_purgatory_parsed"
#: What a schema registry's clients write first: a zero byte, and the schema's id in four.
_HEADER_BYTES = 5


@dataclass(frozen=True)
class AvroMessages:
    """How messages are written in Avro.

    Attributes:
        schema_file: a file with the schema of a record, as JSON.
        has_header: whether each message begins with the five bytes of a schema registry's clients.
            Their schema id is not looked up: all messages have the one schema.
    """

    schema_file: Path
    has_header: bool = False

    def __post_init__(self) -> None:
        self.schema()

    def schema(self) -> str:
        try:
            text = self.schema_file.read_text(encoding="utf-8")
            schema = json.loads(text)
        except (OSError, ValueError) as error:
            raise EndpointError(f"{self.schema_file}: not an Avro schema ({error})") from error
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise EndpointError(f"{self.schema_file}: not the Avro schema of a record")
        return text


def require_avro(spark: SparkSession) -> None:
    # Spark itself has the functions, and the package what they run.
    decoder = spark_jvm(spark).org.apache.spark.sql.avro.AvroDataToCatalyst
    if isinstance(decoder, JavaPackage):
        raise EndpointError(
            f"Avro needs Spark's package {spark_package(AVRO)}, which this session lacks: add it "
            "to --kafka-connector after a comma, or to spark.jars.packages"
        )


def read_avro_fields(values: DataFrame, fields: Iterable[str], avro: AvroMessages) -> DataFrame:
    """Decode the column `value`.

    `values`: a DataFrame with a column `value`, bytes, and others, which are kept. Returns the
    columns of `values`; the fields; `files.RAW`, the record as JSON; and `files.CORRUPT`. That is
    null for a record, otherwise the reason, and RAW is base64.
    """
    require_avro(values.sparkSession)
    schema = avro.schema()
    value = F.col("value")
    body = F.substring(value, _HEADER_BYTES + 1, 2**31 - 1) if avro.has_header else value
    read = values.select("*", from_avro(body, schema, {"mode": "PERMISSIVE"}).alias(_PARSED))
    try:
        known = read.select(f"{_PARSED}.*").columns
    except (PySparkException, Py4JJavaError) as error:
        first = str(error).strip().splitlines()[0]
        raise EndpointError(f"{avro.schema_file}: not an Avro schema ({first})") from error
    require_columns(avro.schema_file, known, fields)
    parsed = {name: F.col(f"{_PARSED}.{quote_column(name)}") for name in known}
    # Of a value that is no such record, Spark returns nulls.
    is_no_record = reduce(Column.__and__, [column.isNull() for column in parsed.values()])
    header = F.lit(b"\0")
    has_no_header = (F.octet_length(value) < _HEADER_BYTES) | (F.substring(value, 1, 1) != header)
    reason = F.concat(
        F.lit(_REASON_PREFIX),
        F.when(value.isNull(), F.lit("the value is null"))
        .when(F.lit(avro.has_header) & has_no_header, F.lit("no header of a schema registry"))
        .when(is_no_record, F.lit("not a record of the schema")),
    )
    return read.select(
        *[quote_column(name) for name in values.columns],
        *[parsed[name].alias(name) for name in fields],
        reason.alias(CORRUPT),
        F.when(reason.isNotNull(), text_or_base64("value"))
        .otherwise(F.to_json(_PARSED, JSON_OPTIONS))
        .alias(RAW),
    )
