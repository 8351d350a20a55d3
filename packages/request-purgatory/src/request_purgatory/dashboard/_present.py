"""What waits at the moment, as the page gets it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from request_purgatory.dashboard._shown import Readable, Shown
from request_purgatory.purgatory._purgatory_snapshot import WaitingGroup, WaitingOperation
from request_purgatory.timer.timer import SystemTimer

#: The most rows of each table, and the most purgatories and timers.
MAX_ROWS = 100
MAX_PURGATORIES = 50
MAX_TIMERS = 24
#: A bucket of a wheel is counted up to here.
MAX_IN_BUCKET = 1000

Row = dict[str, Any]


def present(shown: Shown) -> dict[str, Any]:
    """Return what waits now, bounded in size.

    O(watched) for the purgatories, as `snapshot`; for each timer with tasks O(its buckets), and at
    most `MAX_IN_BUCKET` for each bucket.
    """
    open_ones = [purgatory for purgatory in shown.purgatories() if not purgatory.is_closed]
    by_type: list[Row] = []
    by_key: list[Row] = []
    longest: list[Row] = []
    totals: list[Row] = []
    for purgatory in open_ones:
        snapshot = purgatory.snapshot(MAX_ROWS)
        totals.append(_total(purgatory, snapshot.num_keys))
        by_type += _rows(purgatory.name, snapshot.by_type)
        by_key += _rows(purgatory.name, snapshot.by_key)
        longest += _rows(purgatory.name, snapshot.longest)
    totals.sort(key=lambda row: (-row["pending"], row["name"]))
    return {
        "purgatories": totals[:MAX_PURGATORIES],
        "others": max(0, len(totals) - MAX_PURGATORIES),
        "by_type": sorted(by_type, key=lambda row: -row["count"])[:MAX_ROWS],
        "by_key": sorted(by_key, key=lambda row: -row["count"])[:MAX_ROWS],
        "longest": sorted(longest, key=lambda row: -row["waited_ms"])[:MAX_ROWS],
        "timers": _timers(shown.timers()),
    }


def _total(purgatory: Readable, num_keys: int) -> Row:
    metrics = purgatory.metrics()
    return {
        "name": purgatory.name,
        "pending": metrics.num_delayed_operations,
        "watched": metrics.purgatory_size,
        "keys": num_keys,
        "completed": metrics.completions,
        "expired": metrics.expirations,
        "cancelled": metrics.cancellations,
        "purges": metrics.purges,
        "callback_errors": metrics.callback_errors,
        "max_late_ms": metrics.max_late_ms,
        "max_callback_ms": metrics.max_callback_ms,
    }


def _rows(purgatory: str, waiting: Iterable[WaitingGroup | WaitingOperation]) -> list[Row]:
    return [{"purgatory": purgatory, **asdict(group)} for group in waiting]


def _timers(timers: list[SystemTimer]) -> list[Row]:
    """Return the timers with the most pending tasks, and the tasks in their wheels."""
    sizes = [(timer.size, timer) for timer in timers]
    busiest = sorted(sizes, key=lambda sized: -sized[0])[:MAX_TIMERS]
    return [
        {"name": timer.name, "pending": size, "wheels": _wheels(timer) if size else []}
        for size, timer in busiest
    ]


def _wheels(timer: SystemTimer) -> list[Row]:
    return [
        {
            "tick_ms": wheel.tick_ms,
            "size": len(wheel.counts),
            "position": wheel.position,
            "buckets": [[index, count] for index, count in enumerate(wheel.counts) if count],
        }
        for wheel in timer.occupancy(MAX_IN_BUCKET)
    ]
