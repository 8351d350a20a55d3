"""The tables of the pipeline and their columns.

`host` is the process whose purgatory holds the request (a broker, a pod): requests and events of
one host meet.

A request is complete when, for all (or any) of its watch keys, the aggregate of the events' amounts
on that key and host reaches the threshold:

- `count`: the number of events from the request's arrival on;
- `sum`: the sum of their amounts, taken as the key's running total now, less that before the
  arrival (doubles, in order of time, equal times by amount; exact for whole amounts);
- `max`: the largest amount of all events so far, also those before the arrival (a high watermark; 0
  without events).

An event at the arrival instant counts; one at exactly the deadline completes; a later one does not.
A key that has reached its threshold has done so for good. With no keys, `all` holds at once and
`any` never does.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - as Spark's own documentation imports it

AGGREGATES = ("count", "sum", "max")
QUANTIFIERS = ("all", "any")
#: For Spark's JSON writers, which would cut times to milliseconds.
JSON_TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
#: `timeout_ms` is an INT.
LONGEST_TIMEOUT_MS = 2**31 - 1
COMPLETED = "completed"
EXPIRED = "expired"

REQUESTS = T.StructType(
    [
        T.StructField("host", T.StringType()),
        T.StructField("request_id", T.StringType()),
        T.StructField("request_type", T.StringType()),
        T.StructField("arrived_at", T.TimestampType()),
        T.StructField("timeout_ms", T.IntegerType()),
        T.StructField("watch_keys", T.ArrayType(T.StringType())),
        T.StructField("aggregate", T.StringType()),
        T.StructField("threshold", T.DoubleType()),
        T.StructField("quantifier", T.StringType()),
    ]
)

EVENTS = T.StructType(
    [
        T.StructField("host", T.StringType()),
        T.StructField("key", T.StringType()),
        T.StructField("occurred_at", T.TimestampType()),
        T.StructField("amount", T.DoubleType()),
    ]
)

OUTCOMES = T.StructType(
    [
        T.StructField("host", T.StringType()),
        T.StructField("request_id", T.StringType()),
        T.StructField("request_type", T.StringType()),
        T.StructField("arrived_at", T.TimestampType()),
        T.StructField("ended_at", T.TimestampType()),
        T.StructField("outcome", T.StringType()),
        T.StructField("waited_ms", T.DoubleType()),
    ]
)

#: What an import could not use: the input table, why, the file, and the row as JSON.
REJECTS = T.StructType(
    [
        T.StructField("reason", T.StringType()),
        T.StructField("source", T.StringType()),
        T.StructField("row", T.StringType()),
    ]
)


class SchemaError(ValueError):
    """A table's columns are not the ones that are needed."""


def require(table: DataFrame, schema: T.StructType, what: str) -> DataFrame:
    """`table` with exactly the columns of `schema`, in its order.

    Raises:
        SchemaError: a column is missing or of another type; names each, and what it should be.
            Further columns are dropped.
    """
    given = {field.name: field.dataType for field in table.schema}
    problems = []
    for field in schema:
        wanted = field.dataType.simpleString()
        if field.name not in given:
            problems.append(f"{field.name} ({wanted}) is missing")
        elif given[field.name].simpleString() != wanted:
            problems.append(f"{field.name} is {given[field.name].simpleString()}, not {wanted}")
    if problems:
        raise SchemaError(f"{what}: " + "; ".join(problems))
    return table.select(*schema.names)
