"""The tables of the pipeline and their columns.

`host` is the process whose purgatory holds the request, such as a broker or a pod. A request is
completed by events of its own host only.

A request is complete when `all` of its watch keys are satisfied, or `any` of them, or a number of
them: "2" is at least two. A key that is listed twice counts once. A watch key is satisfied when an
aggregate of the events on this key and host reaches the request's threshold:

- `count`: the number of events since the request's arrival;
- `sum`: the sum of their amounts since the arrival. It is the key's running total now, less the
  total before the arrival. Totals are doubles, added up in order of time and, at equal times, of
  amount. They are exact for whole amounts.
- `max`: the largest amount of all events so far, as of a high watermark. Events before the arrival
  count too; without events it is 0.

An event at the instant of the arrival counts. An event at exactly the deadline completes the
request; a later one does not. A key that has reached the threshold stays satisfied. Without watch
keys, `all` is satisfied at once and `any` never is; a number of keys that the request does not have
makes it unusable.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - as in Spark's documentation

from purgatory_spark.errors import SchemaError
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.replay.key_state import AGGREGATES as AGGREGATES

#: The quantifiers that are words; others are whole numbers, in decimal.
QUANTIFIERS = ("all", "any")
#: The largest `timeout_ms`, whose column is an INT.
MAX_TIMEOUT_MS = 2**31 - 1
COMPLETED = "completed"
EXPIRED = "expired"

REQUESTS = T.StructType([
    T.StructField("host", T.StringType()),
    T.StructField("request_id", T.StringType()),
    T.StructField("request_type", T.StringType()),
    T.StructField("arrived_at", T.TimestampType()),
    T.StructField("timeout_ms", T.IntegerType()),
    T.StructField("watch_keys", T.ArrayType(T.StringType())),
    T.StructField("aggregate", T.StringType()),
    T.StructField("threshold", T.DoubleType()),
    T.StructField("quantifier", T.StringType()),
])

EVENTS = T.StructType([
    T.StructField("host", T.StringType()),
    T.StructField("key", T.StringType()),
    T.StructField("occurred_at", T.TimestampType()),
    T.StructField("amount", T.DoubleType()),
])

OUTCOMES = T.StructType([
    T.StructField("host", T.StringType()),
    T.StructField("request_id", T.StringType()),
    T.StructField("request_type", T.StringType()),
    T.StructField("arrived_at", T.TimestampType()),
    T.StructField("ended_at", T.TimestampType()),
    T.StructField("outcome", T.StringType()),
    T.StructField("waited_ms", T.DoubleType()),
])

#: Rows that an import rejected: the reason, the file, and the row as JSON (malformed ones as text).
REJECTS = T.StructType([
    T.StructField("reason", T.StringType()),
    T.StructField("source", T.StringType()),
    T.StructField("row", T.StringType()),
])


def require(table: DataFrame, schema: T.StructType, what: str) -> DataFrame:
    """Select the columns of `schema` from `table`, in the schema's order.

    Args:
        table: A table that may have further columns.
        schema: The required columns and types.
        what: The table's name in error messages.

    Returns:
        The table with exactly these columns.

    Raises:
        SchemaError: A column is missing or of another type; the message lists every difference.
        InvalidArgumentError: `table` is no DataFrame.
    """
    if not isinstance(getattr(table, "schema", None), T.StructType):
        raise InvalidArgumentError(what, "a DataFrame", table)
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
