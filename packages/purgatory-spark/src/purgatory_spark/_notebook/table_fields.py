"""The fields of a user's tables, given as keywords: a shorter `TableMapping`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._rows.checks import TIME_UNITS
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.schema import AGGREGATES, QUANTIFIERS, PassedFields
from request_purgatory.errors import InvalidArgumentError

#: Fields that a column has, or that have one value for all requests.
_VALUES = ("timeout_ms", "aggregate", "threshold", "quantifier")
_WORDS = (*AGGREGATES, *QUANTIFIERS)
_SETTINGS = ("event_columns", "status", "time_unit", "time_zone")


class TableFields(PassedFields, total=False):
    """What the columns of a table of requests mean, by keyword.

    `host`, `request_id`, `request_type`, `arrived_at`, `ended_at`, `service_ms`, `service_s` and
    `status` are names of columns; `watch_keys` is one or several. `timeout_ms`, `aggregate`,
    `threshold` and `quantifier` are names of columns, or a value for all requests: a number, or one
    of the words that the field may have. The others are attributes of `TableMapping`.
    """

    host: str
    request_id: str
    arrived_at: str
    ended_at: str
    service_ms: str
    service_s: str
    status: str
    unanswered: Sequence[str | int]
    watch_keys: str | Sequence[str]
    timeout_ms: str | int
    aggregate: str
    threshold: str | float
    quantifier: str | int
    event_columns: Mapping[str, str]
    time_unit: str
    time_zone: str


def table_mapping(fields: Mapping[str, Any]) -> TableMapping:
    columns: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _SETTINGS:
            settings[name] = value
        elif name == "unanswered":
            values = (value,) if isinstance(value, str | int) else value
            settings[name] = tuple(str(each) for each in values)
        elif name in _VALUES and (not isinstance(value, str) or value in _WORDS):
            settings[name] = str(value) if name == "quantifier" else value
        else:
            columns[name] = value if isinstance(value, str) else tuple(value)
    return TableMapping(columns, **settings)


def require_time_unit(mapping: TableMapping, requests: DataFrame, events: DataFrame | None) -> None:
    """Check that numeric columns of times have a unit, without which all rows would be rejects."""
    if mapping.time_unit != "iso":
        return
    times = [(requests, mapping.columns.get(name)) for name in ("arrived_at", "ended_at")]
    if events is not None:
        times.append((events, mapping.event_columns.get("occurred_at")))
    for table, column in times:
        kinds = {field.name: field.dataType for field in table.schema}
        kind = kinds.get(str(column))
        if isinstance(kind, T.NumericType):
            units = ", ".join(unit for unit in TIME_UNITS if unit != "iso")
            raise InvalidArgumentError(
                "time_unit",
                f"one of {units}, as the column {column} is {kind.simpleString()}",
                mapping.time_unit,
            )
