"""Records of Kafka as rows: columns of the key, the headers and the value."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._spark.files import CORRUPT, RAW, quote_column
from purgatory_spark._stream.endpoints.avro_rows import AvroMessages, read_avro_fields
from purgatory_spark._stream.endpoints.json_rows import read_json_fields, text_or_base64

_KEY = "kafka_key"
_HEADERS = "kafka_headers."
#: Columns of a record beside its value, by the names of Spark's source. Headers are `_HEADERS` and
#: a name.
_OTHERS = {
    "kafka_timestamp": "timestamp",
    "kafka_partition": "partition",
    "kafka_offset": "offset",
}
_NOT_TEXT = "_purgatory_not_text"


def needs_headers(columns: Iterable[str]) -> bool:
    return any(name.startswith(_HEADERS) for name in columns)


def read_records(
    records: DataFrame,
    columns: Iterable[str],
    lists: Collection[str],
    avro: AvroMessages | None,
) -> DataFrame:
    """Return columns of records.

    `columns`: fields of the value, and of the record: `kafka_key`, `kafka_timestamp`,
    `kafka_partition`, `kafka_offset`, and `kafka_headers.NAME`, the last header of that name. Key
    and headers are text. Without fields of the value, any value is valid. `avro`: how values are
    written in Avro; None for JSON. Returns the columns; `files.RAW`, the value as text, in an
    object with the columns of the record if there are any; and `files.CORRUPT`, the reason if the
    value is no row, or a key or header is not UTF-8.
    """
    columns = list(dict.fromkeys(columns))
    own = [name for name in columns if _is_of_record(name)]
    fields = [name for name in columns if name not in own]
    texts = [name for name in own if name not in _OTHERS]
    not_text = [
        F.when(~F.is_valid_utf8(_bytes(name).cast("string")), F.lit(f"{name} is not UTF-8"))
        for name in texts
    ]
    rows = records.select(
        "value",
        *[F.col(column).alias(name) for name, column in _OTHERS.items() if name in own],
        *[_bytes(name).alias(name) for name in texts],
        F.coalesce(*not_text, F.lit(None).cast("string")).alias(_NOT_TEXT),
    )
    for name in texts:
        rows = rows.withColumn(name, text_or_base64(quote_column(name)))
    if avro is not None and fields:
        rows = read_avro_fields(rows, fields, avro)
    elif fields:
        rows = read_json_fields(rows, fields, lists)
    else:
        rows = rows.select(
            "*",
            F.lit(None).cast("string").alias(CORRUPT),
            text_or_base64("value").alias(RAW),
        )
    raw = F.col(RAW)
    if own:
        parts = [F.col(quote_column(name)).alias(name) for name in own]
        raw = F.to_json(F.struct(*parts, raw.alias("value")))
    return rows.select(
        *[quote_column(name) for name in columns],
        F.coalesce(CORRUPT, _NOT_TEXT).alias(CORRUPT),
        raw.alias(RAW),
    )


def _is_of_record(name: str) -> bool:
    return name == _KEY or name in _OTHERS or name.startswith(_HEADERS)


def _bytes(name: str) -> Column:
    """Return the key, or the last header of a name."""
    if name == _KEY:
        return F.col("key")
    header = name.removeprefix(_HEADERS)
    found = F.filter("headers", lambda each: each["key"] == header)
    return F.try_element_at(found, F.lit(-1))["value"]
