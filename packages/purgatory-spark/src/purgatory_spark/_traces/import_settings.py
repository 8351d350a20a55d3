"""Settings for reading a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from purgatory_spark._errors import TraceFormatError, require_one_of
from purgatory_spark._importers.log_formats import log_settings
from purgatory_spark._rows.mapping import (
    KEY_KINDS,
    Columns,
    TableMapping,
    require_status,
    require_values,
)
from purgatory_spark._traces.marks import Mark
from request_purgatory.errors import InvalidArgumentError

FORMATS = ("spans", "otlp", "azure-llm", "hash-ids", "columns", "recorded")


@dataclass(frozen=True)
class ImportSettings:
    """Settings for reading a trace.

    Attributes:
        format: The trace's format; detected from the files' columns unless given.
        columns: The input's column for each field, for spans and columns. `watch_keys` may be given
            several times.
        events: For columns: the table of the events, if they are a table of their own.
        event_columns: The column for each field of events: host, key, occurred_at, amount.
        status: For columns and spans: the column that says how a request ended, such as an HTTP
            status. For otlp: status.code, or an attribute of spans.
        unanswered: The values of that column of requests that were given up without an answer, or
            of such spans.
        log_format: Of a text log: nginx's `log_format`, Envoy's format string, or one of envoy
            (Envoy's default) and alb (AWS). Its known variables are mapped unless `columns` are
            given.
        where: For columns: a condition in SQL on columns of the input; other rows are left out.
        time_unit: Unit of numeric times; the format's default unless given.
        time_zone: For columns: the zone of timestamps without one; UTC unless given.
        timeout_ms: Timeout of every request; the format's default unless given.
        aggregate: For columns: the aggregate of every request; count unless given.
        threshold: For columns: the threshold of every request; 1 unless given.
        keys: The watch keys of requests from spans: their child spans or their operations.
        quantifier: The number of its keys that a request needs: all, any or a whole number; all
            unless given.
        ms_per_context_token: For inference traces: the cost of a token of the prompt, unless it is
            the default.
        ms_per_generated_token: For inference traces: the cost of a generated token, unless it is
            the default.
        marks: Moments that reports compare before and after.
    """

    format: str | None = None
    columns: Columns = field(default_factory=dict)
    events: str | None = None
    event_columns: Mapping[str, str] = field(default_factory=dict)
    status: str | None = None
    unanswered: tuple[str, ...] = ()
    log_format: str | None = None
    where: str | None = None
    time_unit: str | None = None
    time_zone: str | None = None
    timeout_ms: int | None = None
    aggregate: str | None = None
    threshold: float | None = None
    keys: str = "children"
    quantifier: str | None = None
    ms_per_context_token: float | None = None
    ms_per_generated_token: float | None = None
    marks: tuple[Mark, ...] = ()

    def __post_init__(self) -> None:
        if self.log_format is not None:
            known = log_settings(self.log_format)
            taken = {"time_unit"} if self.columns else set(known)
            for name in taken & set(known):
                object.__setattr__(self, name, getattr(self, name) or known[name])
        require_status(self.status, self.unanswered)
        if self.format is not None:
            require_one_of(FORMATS, format=self.format)
        require_one_of(KEY_KINDS, keys=self.keys)
        require_values(
            **self.non_default("time_unit", "timeout_ms", "time_zone", "aggregate", "quantifier")
        )
        for name in ("ms_per_context_token", "ms_per_generated_token"):
            cost = getattr(self, name)
            if cost is not None and not 0 <= cost < float("inf"):
                raise InvalidArgumentError(
                    name, "a finite number of milliseconds, not negative", cost
                )

    def non_default(self, *names: str) -> dict[str, Any]:
        """Return those of the named settings that are not None."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def parameters(self) -> dict[str, Any]:
        """Return the given settings by name, for manifests."""
        given = self.non_default(
            "columns",
            "time_unit",
            "timeout_ms",
            "keys",
            "quantifier",
            "events",
            "time_zone",
            "aggregate",
            "threshold",
        )
        given |= self.non_default("status", "log_format", "where")
        given |= {"unanswered": self.unanswered} if self.unanswered else {}
        return given | ({"event_columns": self.event_columns} if self.event_columns else {})

    def mapping(self) -> TableMapping:
        """Return the settings of the format columns.

        Raises:
            TraceFormatError: The mapping lacks a required field or has an unknown one.
        """
        if self.event_columns and self.events is None:
            raise TraceFormatError("there is a mapping of events, but no --events")
        if self.events is not None and not self.event_columns:
            raise TraceFormatError("there is a table of events, but no mapping of it: --map-events")
        return TableMapping(
            self.columns,
            self.event_columns,
            **self.non_default(
                "time_unit", "time_zone", "timeout_ms", "aggregate", "threshold", "quantifier"
            ),
            status=self.status,
            unanswered=self.unanswered,
        )
