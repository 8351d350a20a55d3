"""What the columns of a user's tables mean: the fields of requests and events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from purgatory_spark._errors import TraceFormatError, require_one_of
from purgatory_spark._rows.checks import TIME_UNITS
from purgatory_spark._rows.schema import AGGREGATES, EVENTS, IDENTITY, MAX_TIMEOUT_MS, REQUESTS
from request_purgatory.errors import InvalidArgumentError

#: Fields of a request that a mapping may name. `arrived_at` is required.
REQUEST_FIELDS = (
    *IDENTITY,
    "arrived_at",
    "ended_at",
    "service_ms",
    *[name for name in REQUESTS.names if name not in (*IDENTITY, "arrived_at")],
)
#: Fields of an event, in a table of its own. `key` and `occurred_at` are required.
EVENT_FIELDS = tuple(EVENTS.names)

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
            `watch_keys`, a request watches its id.
        event_columns: The column of each of `EVENT_FIELDS`, where events are a table of their own.
            Without `amount`, it is 1. If empty, the end of a request, `ended_at` or `service_ms`
            after its arrival, is an event on each of its keys.
        time_unit: Unit of numeric times, one of `checks.TIME_UNITS`.
        time_zone: The zone of timestamps without one.
        timeout_ms: Timeout of every request, unless a column has it.
        aggregate: The aggregate of every request, unless a column has it.
        threshold: The threshold of every request, unless a column has it.
        quantifier: The quantifier of every request, unless a column has it. None means all; of a
            request that watches its id, any.
    """

    columns: Columns
    event_columns: Mapping[str, str] = field(default_factory=dict)
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

    def _require_columns(self) -> None:
        columns, events = self.columns, self.event_columns
        require_fields(columns, REQUEST_FIELDS, "the mapping")
        require_fields(events, EVENT_FIELDS, "the mapping of events")
        for name, column in (*columns.items(), *events.items()):
            if name != "watch_keys" and not isinstance(column, str):
                raise TraceFormatError(f"only watch_keys may have several columns, not {name}")
        if "arrived_at" not in columns:
            raise TraceFormatError(
                "the mapping lacks arrived_at=COLUMN, the column with the time of a request's "
                "arrival"
            )
        ends = [name for name in ("ended_at", "service_ms") if name in columns]
        if len(ends) == 2:
            raise TraceFormatError(
                "the mapping has both ended_at and service_ms; leave one of them out"
            )
        if not events:
            if not ends:
                raise TraceFormatError(
                    "the mapping lacks ended_at=COLUMN or service_ms=COLUMN, and there is no table "
                    "of events"
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
        return list(dict.fromkeys([*names, *self.key_columns]))

    @property
    def list_columns(self) -> tuple[str, ...]:
        """The column of `watch_keys` if it may be an array: the only one, of no other field."""
        others = [column for name, column in self.columns.items() if name != "watch_keys"]
        keys = self.key_columns
        return keys if len(keys) == 1 and keys[0] not in others else ()

    @property
    def constant_quantifier(self) -> str:
        """The quantifier of requests, unless a column has it."""
        return self.quantifier or ("all" if self.key_columns else "any")

    def column(self, field: str) -> str:
        """Return the column of a request's field, which is not `watch_keys`."""
        return str(self.columns[field])


def require_fields(columns: Mapping[str, object], known: tuple[str, ...], what: str) -> None:
    unknown = sorted(set(columns) - set(known))
    if unknown:
        raise TraceFormatError(f"unknown field {unknown[0]!r} in {what}; known: {', '.join(known)}")


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
