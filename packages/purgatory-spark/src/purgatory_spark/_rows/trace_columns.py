"""The tables of the pipeline and their columns: all that knows a column is made from `TABLES`.

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

from dataclasses import dataclass
from typing import TypedDict

import pyarrow as pa

from request_purgatory.replay.trace_operation import AGGREGATES as AGGREGATES

#: The quantifiers that are words; others are whole numbers, in decimal.
QUANTIFIERS = ("all", "any")
#: The largest `timeout_ms`, whose column is an INT.
MAX_TIMEOUT_MS = 2**31 - 1
COMPLETED = "completed"
EXPIRED = "expired"


@dataclass(frozen=True)
class Column:
    """A column of a trace's table.

    Attributes:
        type: Its type in SQL, one of `_TYPES`.
        meaning: What it holds, for the page on tables.
        nullable: Whether a usable row may have null.
        passed: Whether it is a text of a request that its outcome has, unchanged. Nothing but the
            table below needs to know such a column.
        default: The value that takes the place of null, of a column that is passed.
        may_lack: Whether a table of requests may be without the column, which is null then.
        few_values: Whether most traces have few distinct values of it.
    """

    name: str
    type: str
    meaning: str
    nullable: bool = False
    passed: bool = False
    default: str | None = None
    may_lack: bool = False
    few_values: bool = False

    @property
    def arrow(self) -> pa.Field:
        """The column in Arrow; times are microseconds since the epoch."""
        return pa.field(self.name, _TYPES[self.type])


_TYPES: dict[str, pa.DataType] = {
    "STRING": pa.string(),
    "INT": pa.int32(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.int64(),
    "ARRAY<STRING>": pa.list_(pa.string()),
}

REQUEST_COLUMNS = (
    Column("host", "STRING", "the process whose purgatory holds the request", few_values=True),
    Column("request_id", "STRING", "unique among the host's requests at any time"),
    Column(
        "request_type",
        "STRING",
        "what kind of request it is",
        nullable=True,
        passed=True,
        default="request",
        few_values=True,
    ),
    Column("arrived_at", "TIMESTAMP", "when it arrived, in the years 1900 to 2199"),
    Column("timeout_ms", "INT", "its timeout in milliseconds, at least 0"),
    Column("watch_keys", "ARRAY<STRING>", "the keys whose events it waits for"),
    Column("aggregate", "STRING", "of a key's events: count, sum or max", few_values=True),
    Column("threshold", "DOUBLE", "the value that satisfies a key"),
    Column(
        "quantifier",
        "STRING",
        "how many keys must be satisfied: all, any or a whole number of at least 1",
        few_values=True,
    ),
)
EVENT_COLUMNS = (
    Column("host", "STRING", "the process; its own requests alone see the event", few_values=True),
    Column("key", "STRING", "the watch key on which it occurs"),
    Column("occurred_at", "TIMESTAMP", "when it occurred, in the years 1900 to 2199"),
    Column("amount", "DOUBLE", "finite, at least 0"),
)
#: The columns that are passed from a request to its outcome.
PASSED = tuple(column for column in REQUEST_COLUMNS if column.passed)
OUTCOME_COLUMNS = (
    *REQUEST_COLUMNS[:2],
    *PASSED,
    Column("arrived_at", "TIMESTAMP", "when the request arrived"),
    Column("ended_at", "TIMESTAMP", "when it completed, or its deadline"),
    Column("outcome", "STRING", f"{COMPLETED} or {EXPIRED}"),
    Column("waited_ms", "DOUBLE", "from the arrival to the end, in milliseconds"),
)
#: The columns of the two tables of a trace.
TABLES: dict[str, tuple[Column, ...]] = {"requests": REQUEST_COLUMNS, "events": EVENT_COLUMNS}

#: The two tables in Arrow, with microseconds since the epoch: Arrow's timestamps have a time zone,
#: which Spark would ask to be the session's.
ARROW_SCHEMAS = {
    kind: pa.schema([column.arrow for column in columns]) for kind, columns in TABLES.items()
}
#: What an outcome has of its request, but the arrival.
IDENTITY = ("host", "request_id", *[column.name for column in PASSED])
#: The columns that are not null in a usable row, by table.
NOT_NULL = {
    kind: tuple(column.name for column in columns if not column.nullable)
    for kind, columns in TABLES.items()
}
#: The columns that a table of requests may be without, by name.
OPTIONAL = {column.name: column for column in REQUEST_COLUMNS if column.may_lack}


class PassedFields(TypedDict, total=False):
    """The columns of `PASSED`, as keywords of a user's columns (`notebook.table_fields`)."""

    request_type: str
