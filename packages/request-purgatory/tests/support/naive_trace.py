"""How a trace's requests end, computed request by request and event by event.

Slow, and plainly the definition.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TraceRequest:
    """A request of a trace; times in whole microseconds."""

    request_id: str
    arrived_us: int
    timeout_ms: int
    watch_keys: list[str]
    aggregate: str
    threshold: float
    quantifier: str


@dataclass(frozen=True)
class TraceEvent:
    """An event on the request's host."""

    key: str
    occurred_us: int
    amount: float


def aggregate_at(request: TraceRequest, key: str, events: list[TraceEvent], now_us: int) -> float:
    """Return the request's aggregate for one key at a given time."""
    seen = [event for event in events if event.key == key and event.occurred_us <= now_us]
    since = [event for event in seen if event.occurred_us >= request.arrived_us]
    if request.aggregate == "count":
        return len(since)
    if request.aggregate == "sum":
        return sum(event.amount for event in since)
    return max((event.amount for event in seen), default=0)


def outcome(request: TraceRequest, events: list[TraceEvent]) -> tuple[str, int]:
    """Return ("completed" or "expired", the microsecond at which the request ended)."""
    deadline_us = request.arrived_us + request.timeout_ms * 1000
    if request.quantifier == "all":
        needed = len(set(request.watch_keys))
    else:
        needed = 1 if request.quantifier == "any" else int(request.quantifier)
    moments = {request.arrived_us} | {event.occurred_us for event in events}
    for now_us in sorted(moments):
        if request.arrived_us <= now_us <= deadline_us:
            reached = {
                key
                for key in request.watch_keys
                if aggregate_at(request, key, events, now_us) >= request.threshold
            }
            if len(reached) >= needed:
                return "completed", now_us
    return "expired", deadline_us


def not_repeated(requests: list[TraceRequest]) -> list[TraceRequest]:
    """Return one host's requests whose id is not reserved when they arrive, in that order."""
    reserved_until_us: dict[str, int] = {}
    accepted = []
    for request in sorted(requests, key=lambda each: (each.arrived_us, each.timeout_ms)):
        if request.arrived_us > reserved_until_us.get(request.request_id, -1):
            reserved_until_us[request.request_id] = request.arrived_us + request.timeout_ms * 1000
            accepted.append(request)
    return accepted
