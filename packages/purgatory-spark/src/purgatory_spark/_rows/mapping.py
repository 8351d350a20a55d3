"""What the columns of a user's tables mean: the fields of requests and events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from purgatory_spark._errors import TraceFormatError, require_one_of
from purgatory_spark._rows.times import TIME_UNITS
from purgatory_spark._rows.trace_columns import (
    AGGREGATES,
    EVENT_COLUMNS,
    IDENTITY,
    MAX_TIMEOUT_MS,
    REQUEST_COLUMNS,
)
from request_purgatory.errors import InvalidArgumentError

#: Fields of a request that a mapping may name. `arrived_at` is required.
REQUEST_FIELDS = (
    *IDENTITY,
    "arrived_at",
    "ended_at",
    "service_ms",
    "service_s",
    *[each.name for each in REQUEST_COLUMNS if each.name not in (*IDENTITY, "arrived_at")],
)
#: Fields with the time from a request's arrival to its end.
SERVICE_FIELDS = ("service_ms", "service_s")
#: Fields of an event, in a table of its own. `key` and `occurred_at` are required.
EVENT_FIELDS = tuple(column.name for column in EVENT_COLUMNS)

KEY_KINDS = ("children", "operations")

#: The host of all requests where no column has it.
HOST = "host-0"

_QUANTIFIER = re.compile("all|any|[1-9][0-9]*")

#: A field's column; `watch_keys` may have several.
Columns = Mapping[str, str | tuple[str, ...]]


@dataclass(frozen=True)
class TableMapping:
    """Which columns of a table of requests, and of one of events, hold which field.

    Attributes:
        columns: The column of each of `REQUEST_FIELDS`. `watch_keys` is an array, or one or several
            columns with a key each. Without `host`, all requests are of "host-0". Without
            `request_id`, the requests of a host are numbered in order of arrival. Without
            `watch_keys`, a request watches its id. Without `arrived_at`, a request arrives at
            `ended_at` less `service_ms` or `service_s`.
        event_columns: The column of each of `EVENT_FIELDS`, where events are a table of their own.
            Without `amount`, it is 1. If empty, the end of a request (`ended_at`, or `service_ms`
            or `service_s` after its arrival) is an event on each of its keys.
        status: The column that says how a request ended, such as an HTTP status.
        unanswered: The values of that column of requests that were given up without an answer. The
            end of such a request is its timeout and no event; a duration that is null or negative
            is not known.
        time_unit: Unit of numeric times, one of `times.TIME_UNITS`.
        time_zone: The zone of timestamps without one.
        timeout_ms: Timeout of every request, unless a column has it.
        aggregate: The aggregate of every request, unless a column has it.
        threshold: The threshold of every request, unless a column has it.
        quantifier: The quantifier of every request, unless a column has it. Unless given, all; of
            a request that watches its id, any.
    """

    columns: Columns
    event_columns: Mapping[str, str] = field(default_factory=dict)
    status: str | None = None
    unanswered: tuple[str, ...] = ()
    time_unit: str = "iso"
    time_zone: str = "UTC"
    timeout_ms: int = 1000
    aggregate: str = "count"
    threshold: float = 1.0
    quantifier: str | None = None

    def __post_init__(self) -> None:
        require_values(
            time_unit=self.time_unit,
            time_zone=self.time_zone,
            timeout_ms=self.timeout_ms,
            aggregate=self.aggregate,
        )
        if self.threshold != self.threshold:
            raise InvalidArgumentError("threshold", "a number", self.threshold)
        if self.quantifier is not None:
            require_values(quantifier=self.quantifier)
        self._require_columns()
        require_status(self.status, self.unanswered)
        if self.status is not None and self.event_columns:
            raise TraceFormatError(
                "status and unanswered are of requests with an end, but events have a table of "
                "their own; leave one of them out"
            )

    def _require_columns(self) -> None:
        columns, events = self.columns, self.event_columns
        require_fields(columns, REQUEST_FIELDS, "the mapping")
        require_fields(events, EVENT_FIELDS, "the mapping of events")
        for name, column in (*columns.items(), *events.items()):
            if name != "watch_keys" and not isinstance(column, str):
                raise TraceFormatError(f"only watch_keys may have several columns, not {name}")
        ends = [name for name in ("ended_at", *SERVICE_FIELDS) if name in columns]
        if len(ends) > 1 and ("arrived_at" in columns or "ended_at" not in ends):
            raise TraceFormatError(f"the mapping has {' and '.join(ends)}; leave one of them out")
        if "arrived_at" not in columns and (len(ends) != 2 or events):
            raise TraceFormatError(
                "the mapping lacks arrived_at=COLUMN, the column with the time of a request's "
                "arrival; a log with the time of the end and a duration has ended_at=COLUMN and "
                "service_ms=COLUMN or service_s=COLUMN"
            )
        if not events:
            if not ends:
                raise TraceFormatError(
                    "the mapping lacks ended_at=COLUMN, service_ms=COLUMN or service_s=COLUMN, and "
                    "there is no table of events"
                )
            return
        if ends:
            raise TraceFormatError(
                f"the mapping has {ends[0]}, but events have a table of their own; leave one of "
                "them out"
            )
        for name in ("key", "occurred_at"):
            if name not in events:
                raise TraceFormatError(f"the mapping of events lacks {name}=COLUMN")
        if "watch_keys" not in columns and "request_id" not in columns:
            raise TraceFormatError(
                "the mapping lacks watch_keys=COLUMN, or request_id=COLUMN where the events' keys "
                "are ids of requests"
            )
        if ("host" in columns) != ("host" in events):
            lacking = "the mapping of events" if "host" in columns else "the mapping"
            raise TraceFormatError(
                f"{lacking} lacks host=COLUMN; only events of a request's host affect it"
            )

    def require_events(self, given: bool) -> None:
        """Check that there is a table of events exactly if the mapping has columns of it.

        Raises:
            TraceFormatError: Only one of them is given.
        """
        if given and not self.event_columns:
            raise TraceFormatError(
                "there is a table of events, but no mapping of it with key and occurred_at"
            )
        if self.event_columns and not given:
            raise TraceFormatError("there is a mapping of events, but no table of events")

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of `watch_keys`; none if requests watch their ids."""
        columns = self.columns.get("watch_keys", ())
        return (columns,) if isinstance(columns, str) else tuple(columns)

    @property
    def input_columns(self) -> list[str]:
        """The columns that the table of requests must have."""
        names = [column for column in self.columns.values() if isinstance(column, str)]
        names += [] if self.status is None else [self.status]
        return list(dict.fromkeys([*names, *self.key_columns]))

    @property
    def list_columns(self) -> tuple[str, ...]:
        """The column of `watch_keys` if it may be an array: the only one, of no other field."""
        others = [column for name, column in self.columns.items() if name != "watch_keys"]
        keys = self.key_columns
        return keys if len(keys) == 1 and keys[0] not in others else ()

    @property
    def few_valued_columns(self) -> list[str]:
        """The columns with few distinct values in most tables, which serve no other field."""
        used = Counter([*self.columns.values(), *self.key_columns, self.status])
        names = [column.name for column in REQUEST_COLUMNS if column.few_values]
        given = [self.column(name) for name in names if name in self.columns]
        return [column for column in given if used[column] == 1]

    @property
    def constant_quantifier(self) -> str:
        """The quantifier of requests, unless a column has it."""
        return self.quantifier or ("all" if self.key_columns else "any")

    @property
    def service_field(self) -> str | None:
        """The field of `SERVICE_FIELDS` that has a column."""
        return next((name for name in SERVICE_FIELDS if name in self.columns), None)

    def column(self, field: str) -> str:
        """Return the column of a request's field, which is not `watch_keys`."""
        return str(self.columns[field])


def require_fields(columns: Mapping[str, object], known: tuple[str, ...], what: str) -> None:
    unknown = sorted(set(columns) - set(known))
    if unknown:
        raise TraceFormatError(f"unknown field {unknown[0]!r} in {what}; known: {', '.join(known)}")


def require_status(status: str | None, unanswered: Sequence[str]) -> None:
    if status is not None and not unanswered:
        raise InvalidArgumentError(
            "unanswered", f"one or more values of {status}, such as 504", unanswered
        )
    if status is None and unanswered:
        raise InvalidArgumentError("status", f"the column that has {', '.join(unanswered)}", status)


def require_values(**values: Any) -> None:
    """Check values for all requests, by the names of their fields."""
    words = {"time_unit": TIME_UNITS, "aggregate": AGGREGATES}
    for name, value in values.items():
        if name in words:
            require_one_of(words[name], **{name: value})
        elif name == "timeout_ms" and not 0 <= value <= MAX_TIMEOUT_MS:
            raise InvalidArgumentError(name, f"from 0 to {MAX_TIMEOUT_MS:,}", value)
        elif name == "time_zone":
            try:
                ZoneInfo(value)
            except (ValueError, OSError, LookupError):
                raise InvalidArgumentError(
                    name, "the name of a time zone, such as Europe/Berlin", value
                ) from None
        elif name == "quantifier" and not _QUANTIFIER.fullmatch(value):
            raise InvalidArgumentError(name, "all, any or a whole number of at least 1", value)
