"""A part of one host's trace: the requests and events of a span of time, in columns."""

from __future__ import annotations

from dataclasses import dataclass

from purgatory_spark._spark.arrays import Ints


@dataclass(frozen=True, slots=True)
class RequestPart:
    """Requests of one host in columns, in any order; times are in microseconds since the epoch."""

    arrived_us: Ints
    timeouts_ms: list[int]
    watch_keys: list[list[str]] | list[list[str] | None]
    aggregates: list[str]
    thresholds: list[float]
    quantifiers: list[str]


@dataclass(frozen=True, slots=True)
class EventPart:
    """Events of one host in columns, in any order; times are in microseconds since the epoch."""

    occurred_us: Ints
    keys: list[str]
    amounts: list[float]
